/** Where sessions go: shared by weights, the same in every worker, and moved only for a reason. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCatalogue } from "#catalogue/load.ts";
import { SessionRoute } from "../../../apps/worker/routing/affinity.ts";
import { Credentials } from "../../../apps/worker/routing/credentials.ts";
import { type Candidate, candidatesOf } from "../../../apps/worker/routing/route.ts";

const catalogueOf = (route: string, more = "") =>
  parseCatalogue(
    Buffer.from(`groups: { default: { models: ["*"] } }
upstreams:
  a: { dialect: openai-chat, baseUrl: "http://127.0.0.1:9/v1", credential: A1, credentials: [A2, A3]${more} }
  b: { dialect: openai-chat, baseUrl: "http://127.0.0.1:10/v1" }
  c: { dialect: openai-chat, baseUrl: "http://127.0.0.1:11/v1" }
models:
  - { id: m, fallbacks: [other], prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [${route}] }
  - { id: other, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: b, model: n }, { upstream: c, model: n }] }
`),
    "catalogue.yaml",
    {},
  );

/** Bindings as the workers of one gateway share them, with the changes that were announced. */
function bindingsOf() {
  const bindings = new Map<string, string>();
  const changes: (string | undefined)[] = [];
  return {
    changes,
    placeOf: (session: string) => bindings.get(session),
    bind(session: string, place: string | undefined) {
      if (bindings.get(session) === place) return;
      changes.push(place);
      if (place === undefined) bindings.delete(session);
      else bindings.set(session, place);
    },
  };
}

function routed(catalogue: ReturnType<typeof catalogueOf>, session: string, bindings = bindingsOf()) {
  const model = catalogue.modelFor("default", "m");
  assert.ok(model);
  const route = new SessionRoute(session, bindings);
  const candidates = candidatesOf(catalogue, { group: "default", model, allowed: ["other"] }, route);
  return { route, candidates, keys: candidates.map(({ key }) => key) };
}

const sessions = Array.from({ length: 1_000 }, (_, index) => `session-${index}`);
const share = (catalogue: ReturnType<typeof catalogueOf>, key: string) =>
  sessions.filter((session) => routed(catalogue, session).keys[0] === key).length / sessions.length;

test("weights hold over sessions, and a new target takes its share of them and moves no other", () => {
  const two = catalogueOf("{ upstream: b, model: m, weight: 3 }, { upstream: c, model: m, weight: 1 }");
  assert.ok(Math.abs(share(two, "b/m") - 0.75) < 0.05, `${share(two, "b/m")}`);
  const three = catalogueOf(
    "{ upstream: b, model: m, weight: 3 }, { upstream: c, model: m, weight: 1 }, { upstream: a, model: m, weight: 4 }",
  );
  assert.ok(Math.abs(share(three, "a/m") - 0.5) < 0.05, `${share(three, "a/m")}`);
  for (const session of sessions) {
    const [first] = routed(three, session).keys;
    if (first !== "a/m") assert.equal(first, routed(two, session).keys[0]);
  }
});

test("a canary has its share of the sessions, and one that grows keeps those that it has", () => {
  const sessionsOf = (share: number) => {
    const route = `{ upstream: b, model: m, weight: ${100 - share} }, { upstream: c, model: m, weight: ${share} }`;
    const catalogue = catalogueOf(route);
    const sessions = Array.from({ length: 4_000 }, (_, number) => `canary-${number}`);
    return new Set(sessions.filter((session) => routed(catalogue, session).keys[0] === "c/m"));
  };
  const [few, more] = [sessionsOf(5), sessionsOf(20)];
  assert.ok(few.size > 140 && few.size < 260, `${few.size} of 4000 for 5 %`);
  assert.ok(more.size > 700 && more.size < 900, `${more.size} of 4000 for 20 %`);
  for (const session of few) assert.ok(more.has(session));
});

test("targets without weights keep the order of the catalogue, fallbacks after them", () => {
  const catalogue = catalogueOf("{ upstream: c, model: m }, { upstream: b, model: m }");
  for (const session of sessions.slice(0, 20))
    assert.deepEqual(routed(catalogue, session).keys, ["c/m", "b/m", "b/n", "c/n"]);
});

test("credentials share the sessions, and those of one cache domain are one choice", () => {
  const apart = catalogueOf("{ upstream: a, model: m }");
  const firstOf = (catalogue: ReturnType<typeof catalogueOf>, session: string) => {
    const { route, candidates } = routed(catalogue, session);
    return route.credentialsAt(candidates[0] as Candidate);
  };
  const counts = Map.groupBy(sessions, (session) => String(firstOf(apart, session)[0]));
  assert.deepEqual([...counts.keys()].sort(), ["A1", "A2", "A3"]);
  for (const { length } of counts.values()) assert.ok(Math.abs(length / sessions.length - 1 / 3) < 0.05);
  const one = catalogueOf("{ upstream: a, model: m }", ", cacheDomain: acme");
  assert.deepEqual(firstOf(one, "session-1"), [["A1", "A2", "A3"]]);
  const two = catalogueOf("{ upstream: a, model: m }", ", cacheDomain: { A1: acme, A3: acme }");
  assert.deepEqual(firstOf(two, "session-1").toSorted(), [["A1", "A3"], ["A2"]]);
  const ofAcme = sessions.filter((session) => firstOf(two, session)[0]?.length === 2).length / sessions.length;
  assert.ok(Math.abs(ofAcme - 2 / 3) < 0.05, `${ofAcme}`);
});

test("credentials of a domain take turns, and a cooldown leads to the next domain", () => {
  const catalogue = catalogueOf("{ upstream: a, model: m }", ", cacheDomain: { A1: acme, A3: acme }");
  const credentials = new Credentials();
  const session = sessions.find((one) => {
    const { route, candidates } = routed(catalogue, one);
    return route.credentialsAt(candidates[0] as Candidate)[0]?.length === 2;
  });
  const { route, candidates } = routed(catalogue, String(session));
  const target = candidates[0] as Candidate;
  const next = () => {
    const chosen = credentials.choose(target, "key", 0, route.credentialsAt(target));
    return chosen.kind === "chosen" ? chosen.credential : chosen.by;
  };
  assert.deepEqual([next(), next(), next()], ["A1", "A3", "A1"]);
  credentials.rateLimited(target, "A1", 60_000, "key", 0);
  assert.deepEqual([next(), next()], ["A3", "A3"]);
  credentials.rateLimited(target, "A3", 60_000, "key", 0);
  assert.equal(next(), "A2");
  credentials.rateLimited(target, "A2", 60_000, "key", 0);
  assert.equal(next(), "rate-limit");
});

test("a session is bound where another target served it, and no longer when the first one does", () => {
  const catalogue = catalogueOf("{ upstream: c, model: m }, { upstream: b, model: m }");
  const bindings = bindingsOf();
  const first = routed(catalogue, "s", bindings);
  first.route.served(first.candidates[0] as Candidate, undefined);
  assert.deepEqual(bindings.changes, [], "nothing is stored of a session at its first place");
  first.route.failed(first.candidates[0] as Candidate, undefined);
  first.route.served(first.candidates[1] as Candidate, undefined);
  first.route.over();
  assert.equal(bindings.changes.length, 1);
  const second = routed(catalogue, "s", bindings);
  assert.deepEqual(second.keys, ["b/m", "c/m", "b/n", "c/n"]);
  assert.equal(second.route.expects(second.candidates[0] as Candidate, undefined), true);
  assert.equal(second.route.expects(second.candidates[1] as Candidate, undefined), false);
  second.route.served(second.candidates[1] as Candidate, undefined);
  assert.equal(bindings.placeOf("s"), undefined);
});

test("a session at a fallback stays there among the fallbacks, but tries its own model first", () => {
  const catalogue = catalogueOf("{ upstream: c, model: m }");
  const bindings = bindingsOf();
  const first = routed(catalogue, "s", bindings);
  first.route.served(first.candidates[2] as Candidate, undefined);
  assert.deepEqual(routed(catalogue, "s", bindings).keys, ["c/m", "c/n", "b/n"]);
});

test("a failure where it is bound ends the binding, and a caller who leaves does not", () => {
  const catalogue = catalogueOf("{ upstream: c, model: m }, { upstream: b, model: m }");
  const bindings = bindingsOf();
  const first = routed(catalogue, "s", bindings);
  first.route.served(first.candidates[1] as Candidate, undefined);
  routed(catalogue, "s", bindings).route.over();
  assert.notEqual(bindings.placeOf("s"), undefined);
  const failing = routed(catalogue, "s", bindings);
  failing.route.failed(failing.candidates[1] as Candidate, undefined);
  failing.route.over();
  assert.notEqual(bindings.placeOf("s"), undefined, "another target failed");
  const bound = routed(catalogue, "s", bindings);
  bound.route.failed(bound.candidates[0] as Candidate, undefined);
  bound.route.over();
  assert.equal(bindings.placeOf("s"), undefined);
  assert.equal(bindings.changes.length, 2, "one change each for the move and the failure");
});
