/**
 * Admissions without a round trip: how many there may be, and what Redis has of them afterwards.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type AllowanceSubject, Allowances, type Counts } from "#access/allowances.ts";
import { allowanceMs, allowanceShare, batchedCallsMax, untoldMax } from "#access/bounds.ts";
import {
  LimitCounters,
  type LimitedSubject,
  type Limits,
  type Reservation,
  reservationOf,
  usageLimitsOf,
} from "#access/rate-limits.ts";
import { nanoOf } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectTestRedis } from "../../support/redis.ts";

const redis = await connectTestRedis("patient");

const time = { ms: 0 };
const clock = { now: () => time.ms, epoch: () => Date.now() };
const unused: Counts = { requests: 0, requestsResetMs: 0, tokens: 0, tokensResetMs: 0, running: 0, room: 0, now: 0 };

const named = (name: string, limits: Limits): AllowanceSubject[] => [{ name, limits }];

/** How many of 200 requests, each with 10 tokens and 10 nano-units, are admitted at once. */
function admittedAtOnce(limits: Limits, counts: Partial<Counts>, waitMs = 0): number {
  const allowances = new Allowances(clock);
  const subjects = named("a", limits);
  allowances.learn(allowances.ask(subjects), [{ ...unused, ...counts }]);
  time.ms += waitMs;
  let count = 0;
  while (count < 200 && allowances.take(subjects, 10, 10) !== undefined) count++;
  return count;
}

const share = allowanceShare;
const shares: [what: string, limits: Limits, counts: Partial<Counts>, expected: number][] = [
  ["nothing is limited", {}, {}, 200],
  ["requests", { requestsPerMinute: 5 * share }, {}, 5],
  ["requests, some made", { requestsPerMinute: 5 * share }, { requests: 2 * share }, 3],
  ["fewer requests than a share", { requestsPerMinute: share - 1 }, {}, 0],
  ["a limit that is exceeded", { requestsPerMinute: 5 }, { requests: 9 }, 0],
  ["tokens", { tokensPerMinute: 70 * share }, {}, 7],
  ["tokens, some used", { tokensPerMinute: 70 * share }, { tokens: 30 * share }, 4],
  ["too few tokens for one request", { tokensPerMinute: 9 * share }, {}, 0],
  ["running generations", { generationsMax: 5 * share }, { running: share }, 4],
  ["a budget", { budgetPerDay: 1 }, { room: 60 * share }, 6],
  ["a budget that was not read", { budgetPerDay: 1 }, {}, 0],
  [
    "the tightest of several",
    { requestsPerMinute: 9 * share, tokensPerMinute: 30 * share, budgetTotal: 1 },
    { room: 80 * share },
    3,
  ],
];
for (const [what, limits, counts, expected] of shares)
  test(`an allowance is a share of what is left: ${what}`, () => {
    assert.equal(admittedAtOnce(limits, counts), expected);
  });

test("an allowance ends", () => {
  assert.equal(admittedAtOnce({ requestsPerMinute: 9 * share }, {}, allowanceMs), 9);
  assert.equal(admittedAtOnce({ requestsPerMinute: 9 * share }, {}, allowanceMs + 1), 0);
});

test("an answer does not give again what was taken since its question", () => {
  const allowances = new Allowances(clock);
  const subjects = named("a", { requestsPerMinute: 5 * share });
  const take = () => allowances.take(subjects, 0, 0)?.[0]?.requests;
  allowances.learn(allowances.ask(subjects), [unused]);
  assert.equal(take(), 1);
  const second = allowances.ask(subjects);
  take();
  take();
  const third = allowances.ask(subjects);
  allowances.learn(second, [unused]);
  assert.deepEqual([take(), take(), take(), take()], [3, 4, 5, undefined], "two were taken since");
  allowances.learn(third, [unused]);
  assert.deepEqual([take(), take(), take()], [4, 5, undefined], "three were taken since");
});

test("a request takes from all of its subjects, or from none", () => {
  const allowances = new Allowances(clock);
  const [a = [], b = [], all = []] = [9, 9, 3].map((requests, index) =>
    named(`${index}`, { requestsPerMinute: requests * share }),
  );
  for (const subjects of [a, b, all]) allowances.learn(allowances.ask(subjects), [unused]);
  const outcomes = [a, b, a, b, a].map((key) => allowances.take([...key, ...all], 0, 0) !== undefined);
  assert.deepEqual(outcomes, [true, true, true, false, false]);
  assert.equal(allowances.take(b, 0, 0)?.[0]?.requests, 2, "the one that was refused took nothing");
  allowances.lose(a);
  assert.equal(allowances.take(a, 0, 0), undefined);
  assert.equal(allowances.take(named("other", {}), 0, 0), undefined, "Redis said nothing of it");
});

let spaces = 0;
let generations = 0;
const far: Limits = { requestsPerMinute: 1e6, tokensPerMinute: 1e9, generationsMax: 1e6, budgetPerDay: 1e5 };
const subjectsWith = (limits: Limits): LimitedSubject[] => [
  { scope: "key", name: "key_1", limits },
  { scope: "account", name: "acme", limits: far },
];
const next = (subjects: readonly LimitedSubject[], tokens = 30) =>
  reservationOf(
    `gen_${++generations}`,
    subjects,
    { inputTokens: 10, outputTokens: tokens - 10, nano: nanoOf(0.5) },
    Date.now(),
  );

/** An ingress: its counters, how many scripts they sent, and its link, which a test may cut. */
function ingressOf(keyspace: ReturnType<typeof keyspaceOf>) {
  let scripts = 0;
  const link = { isAway: false };
  const watched = new Proxy(redis, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (name === "evalsha" || name === "eval") {
        scripts++;
        if (link.isAway) return () => Promise.reject(new Error("away"));
      }
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const counters = new LimitCounters(watched, keyspace, new Allowances(clock));
  return { counters, scripts: () => scripts, link };
}
const newKeyspace = () => keyspaceOf(`allowances-${++spaces}`);

test("a busy caller far from its limits asks once; Redis then has the same as after a question for each", async () => {
  const subjects = subjectsWith(far);
  const uses = [];
  for (const isLate of [true, false]) {
    const keyspace = newKeyspace();
    const { counters, scripts } = ingressOf(keyspace);
    const reservations: Reservation[] = [];
    for (let i = 0; i < 40; i++) {
      const reservation = next(subjects, 20 + i);
      const decision = await counters.admit(reservation);
      assert.equal(decision.kind, "admitted");
      assert.equal(decision.standings.requests?.remaining, 1e6 - i - 1);
      reservations.push(reservation);
      if (!isLate) time.ms += allowanceMs + 1;
    }
    assert.equal(scripts(), isLate ? 1 : 40);
    const ends = reservations
      .slice(0, 30)
      .map((reservation, i) => counters.settle(reservation, { tokens: i, nano: i, neverBegan: i % 10 === 9 }));
    counters.flush();
    await Promise.all(ends);
    assert.equal((await counters.read(subjects))[0]?.running, 10);
    uses.push(
      (await counters.read(subjects)).map(({ requests, tokens, running, reserved }) => ({
        requests,
        tokens,
        running,
        reserved,
      })),
      Number(await redis.hget(keyspace.limit("key", "key_1", "budget"), "dayNano")),
    );
  }
  assert.deepEqual(uses.slice(0, 2), uses.slice(2));
  assert.equal((uses[0] as { requests: number }[])[0]?.requests, 37, "three never began");
});

test("what is taken reaches Redis by itself: after a moment, and when it is much", async () => {
  const keyspace = newKeyspace();
  const { counters, scripts } = ingressOf(keyspace);
  const subjects = subjectsWith(far);
  await counters.admit(next(subjects));
  for (let i = 0; i < untoldMax; i++) await counters.admit(next(subjects));
  assert.equal(scripts(), 1 + untoldMax / batchedCallsMax, "the first question, and full scripts");
  const [running, ended] = [next(subjects), next(subjects)];
  await counters.admit(running);
  await counters.admit(ended);
  const before = scripts();
  await counters.settle(ended, { tokens: 5, nano: 5 });
  assert.equal(scripts(), before + 2, "one end with its admission, and one admission");
  const [use] = await counters.read(subjects);
  assert.deepEqual([use?.requests, use?.running], [untoldMax + 3, untoldMax + 2]);
});

test("an end whose admission Redis does not know counts once, however often it is sent", async () => {
  const keyspace = newKeyspace();
  const { counters } = ingressOf(keyspace);
  const subjects = subjectsWith(far);
  await counters.admit(next(subjects));
  const [ended, neverBegan] = [next(subjects), next(subjects)];
  for (const reservation of [ended, neverBegan]) await counters.admit(reservation);
  for (const _ of [1, 2]) {
    await counters.settle(ended, { tokens: 7, nano: 9 });
    await counters.settle(neverBegan, { tokens: 0, nano: 0, neverBegan: true });
  }
  const [use] = await counters.read(subjects);
  assert.deepEqual([use?.requests, use?.running], [2, 1]);
  assert.equal(Number(await redis.hget(keyspace.limit("key", "key_1", "budget"), "dayNano")), 9);
});

test("decisions by Redis, and renewals, know what was taken before", async () => {
  const keyspace = newKeyspace();
  const { counters } = ingressOf(keyspace);
  const subjects = subjectsWith({ requestsPerMinute: 2 * share });
  await counters.admit(next(subjects));
  await counters.admit(next(subjects));
  const look = await counters.look(subjects, { inputTokens: 0, outputTokens: 0, nano: 0 });
  assert.equal(look.standings.requests?.remaining, 2 * share - 2);
  const third = next(subjects);
  await counters.admit(third);
  await counters.renew([third]);
  const [use] = await counters.read(subjects);
  assert.deepEqual([use?.requests, use?.running], [3, 3]);
});

test("other limits of the same subject, and questions about some of its limits, allow nothing", async () => {
  const keyspace = newKeyspace();
  const { counters } = ingressOf(keyspace);
  const wide: LimitedSubject[] = [{ scope: "account", name: "acme", limits: { requestsPerMinute: 1e6 } }];
  const narrow: LimitedSubject[] = [
    { scope: "account", name: "acme", limits: { requestsPerMinute: 3, tokensPerMinute: 1e9 } },
  ];
  const outcomes: string[] = [];
  for (const subjects of [wide, narrow, wide, narrow, narrow]) {
    outcomes.push((await counters.admit(next(subjects))).kind);
    await counters.look(usageLimitsOf(narrow), { inputTokens: 1, outputTokens: 0, nano: 1 });
  }
  assert.deepEqual(outcomes, ["admitted", "admitted", "admitted", "refused", "refused"]);
});

test("a Redis that lost its scripts never counts an admission after its end", async () => {
  const keyspace = newKeyspace();
  const { counters } = ingressOf(keyspace);
  const subjects = subjectsWith(far);
  await counters.admit(next(subjects));
  await redis.script("FLUSH");
  const reservation = next(subjects);
  await counters.admit(reservation);
  const end = counters.settle(reservation, { tokens: 3, nano: 3 });
  counters.flush();
  await end;
  const [use] = await counters.read(subjects);
  assert.deepEqual([use?.running, use?.reserved], [1, BigInt(nanoOf(0.5))], "the first one alone");
  assert.equal((await counters.admit(next(subjects))).kind, "admitted");
});

test("each ingress exceeds a limit that another one uses up by its share at most", async () => {
  const keyspace = newKeyspace();
  const subjects = subjectsWith({ requestsPerMinute: 10 * share });
  const ingresses = Array.from({ length: 5 }, () => ingressOf(keyspace).counters);
  const admitAll = async (counters: LimitCounters) => {
    let count = 0;
    while ((await counters.admit(next(subjects))).kind === "admitted") count++;
    return count;
  };
  for (const counters of ingresses) await counters.admit(next(subjects));
  const counts: number[] = [];
  for (const counters of ingresses.toReversed()) counts.push(await admitAll(counters));
  assert.equal(counts[0], 10 * share - ingresses.length);
  for (const count of counts.slice(1)) assert.ok(count <= 10, `${count} more`);
});

test("one ingress exceeds no limit of a group, while other keys of it ask Redis", async () => {
  const limits: [Limits, number][] = [130, 200, 320].flatMap((count): [Limits, number][] => [
    [{ requestsPerMinute: count }, count],
    [{ generationsMax: count }, count],
    [{ tokensPerMinute: 30 * count }, count],
    [{ budgetPerDay: 0.5 * count }, count],
  ]);
  for (const [limit, most] of limits) {
    const { counters } = ingressOf(newKeyspace());
    const group: LimitedSubject = { scope: "group", name: "many", limits: limit };
    const subjectsOf = (name: string): LimitedSubject[] => [{ scope: "key", name, limits: far }, group];
    let admitted = 0;
    const ask = async (subjects: LimitedSubject[]) => {
      if ((await counters.admit(next(subjects))).kind === "admitted") admitted++;
    };
    const first = subjectsOf("first");
    await ask(first);
    const others = Array.from({ length: most - 1 }, (_, index) => ask(subjectsOf(`key_${index}`)));
    // Their questions are on the way.
    await new Promise(setImmediate);
    await Promise.all([...others, ...Array.from({ length: 100 }, () => ask(first))]);
    assert.equal(admitted, most, JSON.stringify(limit));
  }
});

test("one ingress exceeds no limit of a key, while its requests that use nothing else ask Redis", async () => {
  const { counters } = ingressOf(newKeyspace());
  const subjects: LimitedSubject[] = [{ scope: "key", name: "mixed", limits: { requestsPerMinute: 320 } }];
  await counters.admit(next(subjects));
  const counts = Array.from({ length: 319 }, () => counters.countRequest(subjects));
  const others = await Promise.all(Array.from({ length: 50 }, () => counters.admit(next(subjects))));
  const decisions = [...(await Promise.all(counts)), ...others];
  assert.equal(decisions.filter(({ kind }) => kind === "admitted").length, 319);
});

test("near a limit, ends reach Redis before what follows them", async () => {
  const keyspace = newKeyspace();
  const { counters } = ingressOf(keyspace);
  const other = ingressOf(keyspace).counters;
  const subjects = subjectsWith({ generationsMax: 1 });
  for (let i = 0; i < 5; i++) {
    const reservation = next(subjects);
    assert.equal((await counters.admit(reservation)).kind, "admitted", String(i));
    assert.equal((await other.admit(next(subjects))).kind, "refused");
    void counters.settle(reservation, { tokens: 1, nano: 1 });
    await Promise.resolve();
  }
});

test("many ingresses at once do not exceed a limit", async () => {
  const limits: Limits[] = [
    { requestsPerMinute: 500 },
    { requestsPerMinute: 3_000 },
    { generationsMax: 500 },
    { tokensPerMinute: 30 * 700 },
    { budgetPerDay: 0.5 * 400 },
  ];
  for (const limit of limits) {
    const keyspace = newKeyspace();
    const subjects = subjectsWith(limit);
    const ingresses = Array.from({ length: 8 }, () => ingressOf(keyspace));
    let admitted = 0;
    await Promise.all(
      ingresses.map(async ({ counters }) => {
        for (let i = 0; i < 500; i++) if ((await counters.admit(next(subjects))).kind === "admitted") admitted++;
        counters.flush();
      }),
    );
    const expected = {
      requestsPerMinute: limit.requestsPerMinute,
      generationsMax: 500,
      tokensPerMinute: 700,
      budgetPerDay: 400,
    };
    const [name] = Object.keys(limit) as (keyof typeof expected)[];
    assert.equal(admitted, expected[name as keyof typeof expected], JSON.stringify(limit));
    const scripts = ingresses.reduce((sum, ingress) => sum + ingress.scripts(), 0);
    assert.ok(scripts < 4_000, `${scripts} scripts`);
  }
});

test("when Redis does not answer, the next admission asks it", async () => {
  const keyspace = newKeyspace();
  const { counters, scripts, link } = ingressOf(keyspace);
  const subjects = subjectsWith(far);
  await counters.admit(next(subjects));
  link.isAway = true;
  const reservation = next(subjects);
  assert.equal((await counters.admit(reservation)).kind, "admitted");
  counters.flush();
  await assert.rejects(counters.settle(reservation, { tokens: 3, nano: 3 }));
  await assert.rejects(counters.admit(next(subjects)), /away/);
  link.isAway = false;
  const before = scripts();
  await counters.admit(next(subjects));
  assert.equal(scripts(), before + 1);
  await counters.settle(reservation, { tokens: 3, nano: 3 });
  assert.equal(await redis.hget(keyspace.limit("key", "key_1", "budget"), "dayNano"), "3");
});
