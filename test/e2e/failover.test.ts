/** What callers get, and what each target sees, when upstreams misbehave: routes, retries, circuits, credentials, concurrency. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { type Gateway, startGateway, until } from "../support/gateway.ts";
import { chatCompletion } from "../support/upstream.ts";

/** An upstream whose every target does what a test tells it to, and remembers who asked. */
interface Target {
  seen: { at: number; authorization: string | undefined; closed: boolean; messages: { role: string; content: string }[] }[];
  answer: (response: ServerResponse) => void;
}
const targets = new Map<string, Target>();
const targetOf = (name: string): Target => {
  const known = targets.get(name) ?? { seen: [], answer: ok };
  targets.set(name, known);
  return known;
};

const chunk = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "theirs", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
let streams = false;
/** Whether the whole upstream is down, and how often it was asked if it is there: a request that is no generation. */
let absent = false;
let presenceAsked = 0;
const ok = (response: ServerResponse) => {
  if (!streams) response.writeHead(200, { "content-type": "application/json" }).end(chatCompletion);
  else
    response.writeHead(200, { "content-type": "text/event-stream" }).end(`${chunk({ role: "assistant", content: "hi" })}${chunk({}, "stop")}data: [DONE]\n\n`);
};
const failing =
  (status: number, headers: Record<string, string> = {}, error: object = { message: "no" }) =>
  (response: ServerResponse) =>
    void response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify({ error }));

const server = createServer((request, response) => {
  if (request.method === "GET") {
    presenceAsked++;
    if (absent) response.writeHead(503).end();
    else response.writeHead(501).write("a list that never ends");
    return;
  }
  let body = "";
  request.on("data", (part: Buffer) => {
    body += part.toString();
  });
  request.on("end", () => {
    const asked = JSON.parse(body) as { model: string; stream?: boolean; messages: { role: string; content: string }[] };
    const target = targetOf(asked.model);
    const seen = { at: performance.now(), authorization: request.headers.authorization, closed: false, messages: asked.messages };
    target.seen.push(seen);
    response.on("close", () => {
      seen.closed = true;
    });
    streams = asked.stream === true;
    target.answer(response);
  });
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;

let gateway: Gateway;
const model = (id: string, route: string, more = "") => `  - { id: ${id}, ${more}prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [${route}] }\n`;
const at = (name: string, upstream = "here", more = "") => `{ upstream: ${upstream}, model: ${name}${more} }`;
const pairs = ["status", "caller", "context", "cut", "missing"];

before(async () => {
  gateway = await startGateway({
    workers: ["chat=64", "chat=64"],
    environment: { KEY_ONE: "one", KEY_TWO: "two" },
    catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  here: { dialect: openai-chat, circuitFailuresMax: 0, baseUrl: "${url}" }
  hasty: { dialect: openai-chat, circuitFailuresMax: 0, baseUrl: "${url}", limits: { firstByteTimeoutMs: 700, firstTokenTimeoutMs: 700 } }
  guarded: { dialect: openai-chat, circuitFailuresMax: 3, baseUrl: "${url}" }
  keyed: { dialect: openai-chat, baseUrl: "${url}", credential: KEY_ONE, credentials: [KEY_TWO] }
  narrow: { dialect: openai-chat, baseUrl: "${url}", concurrencyMax: 2 }
  going-on: { dialect: openai-chat, baseUrl: "${url}", prefill: true }
  dead: { dialect: openai-chat, baseUrl: "http://127.0.0.1:9/v1" }
models:
${pairs.map((id) => model(id, `${at(`${id}-one`)}, ${at(`${id}-two`)}`)).join("")}${model("same", `${at("same-one")}, ${at("same-two")}`, "splice: true, deterministic: true, ")}${model("unlike", `${at("unlike-one")}, ${at("unlike-two")}`, "splice: true, deterministic: true, ")}${model("prefilled", `${at("prefilled-one")}, ${at("prefilled-two", "going-on")}`, "splice: true, ")}${model("alone", at("alone-one"))}${model("keys", at("keys-one", "keyed"))}${model("full", at("full-one", "narrow"))}${model("down", `${at("down-one", "dead")}, ${at("down-two")}`)}${["silence", "slow"].map((id) => model(id, `${at(`${id}-one`, "hasty")}, ${at(`${id}-two`)}`)).join("")}${["outage", "absent"].map((id) => model(id, `${at(`${id}-one`, "guarded")}, ${at(`${id}-two`)}`)).join("")}${model("weighted", `${at("weighted-one", "here", ", weight: 3")}, ${at("weighted-two", "here", ", weight: 1")}`)}${model("small", at("small-one"), "contextWindow: 100, fallbacks: [large], ")}${model("large", at("large-one"), "contextWindow: 1000, ")}`,
  });
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
});

const ask = (id: string, stream = false) => gateway.post({ model: id, messages: [{ role: "user", content: "hello" }], stream });
const calls = (...names: string[]) => names.map((name) => targetOf(name).seen.length);
const textOf = async (response: Response, stream: boolean) => {
  const text = await response.text();
  if (response.status !== 200) return JSON.parse(text).error.message as string;
  return stream ? [...text.matchAll(/"content":"([^"]*)"/g)].map(([, part]) => part).join("") : (JSON.parse(text).choices[0].message.content as string);
};

for (const stream of [false, true]) {
  const way = stream ? "streamed" : "whole";
  const forget = () => {
    targets.clear();
  };

  test(`a target that fails before its content is left for the next, unseen by the caller (${way})`, async () => {
    for (const status of [500, 502, 503, 529, 429, 408, 409, 401, 403]) {
      forget();
      targetOf("status-one").answer = failing(status);
      const response = await ask("status", stream);
      assert.equal(response.status, 200, String(status));
      assert.equal(await textOf(response, stream), "hi");
      assert.deepEqual(calls("status-one", "status-two"), [1, 1], String(status));
    }
  });

  test(`the caller's own fault is passed on at once, with the upstream's reason (${way})`, async () => {
    forget();
    targetOf("caller-one").answer = failing(400, {}, { message: "Bad temperature.", type: "invalid_request_error", param: "temperature", code: null });
    const response = await ask("caller", stream);
    assert.equal(response.status, 400);
    assert.match(await textOf(response, stream), /Bad temperature/);
    assert.deepEqual(calls("caller-one", "caller-two"), [1, 0]);
  });

  test(`what is too long goes to a fallback with a larger window, which the answer names (${way})`, async () => {
    forget();
    targetOf("small-one").answer = failing(400, {}, { message: "Too long.", code: "context_length_exceeded" });
    const response = await ask("small", stream);
    assert.equal(response.status, 200);
    assert.match(await response.text(), /"model":"large"/);
    targetOf("large-one").answer = failing(400, {}, { message: "Too long.", code: "context_length_exceeded" });
    assert.equal((await ask("small", stream)).status, 400);
  });

  test(`one target alone is asked again after a pause, and no more often than the retries allow (${way})`, async () => {
    forget();
    let left = 2;
    targetOf("alone-one").answer = (response) => (left-- > 0 ? failing(500)(response) : ok(response));
    const response = await ask("alone", stream);
    assert.equal(response.status, 200);
    const times = targetOf("alone-one").seen.map((seen) => seen.at);
    assert.equal(times.length, 3);
    assert.ok((times[1] as number) - (times[0] as number) >= 95 && (times[2] as number) - (times[1] as number) >= 195, String(times));
    forget();
    targetOf("alone-one").answer = failing(503, { "retry-after": "7" });
    const refused = await ask("alone", stream);
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get("retry-after"), "7");
    assert.deepEqual(calls("alone-one"), [1], "a long wait is the caller's to decide on");
  });

  test(`a silent target is not asked twice (${way})`, { skip: !stream }, async () => {
    forget();
    targetOf("silence-one").answer = () => undefined;
    const response = await ask("silence", stream);
    assert.equal(await textOf(response, stream), "hi");
    assert.deepEqual(calls("silence-one", "silence-two"), [1, 1]);
    await until("it was hung up on", () => targetOf("silence-one").seen[0]?.closed === true);
  });
}

test("a slow first token moves on to the next target", async () => {
  targetOf("slow-one").answer = (response) => void response.writeHead(200, { "content-type": "text/event-stream" }).write(chunk({ role: "assistant" }));
  const response = await ask("slow", true);
  assert.equal(await textOf(response, true), "hi");
  assert.deepEqual(calls("slow-one", "slow-two"), [1, 1]);
});

test("after its first content an answer is nobody else's to go on with", async () => {
  targetOf("cut-one").answer = (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).write(chunk({ role: "assistant", content: "begun" }));
    setImmediate(() => response.destroy());
  };
  const text = await (await ask("cut", true)).text();
  assert.match(text, /begun/);
  assert.match(text, /"error"/);
  assert.doesNotMatch(text, /\[DONE\]/);
  assert.deepEqual(calls("cut-one", "cut-two"), [1, 0]);
});

const streaming = (...pieces: string[]) => pieces.map((content) => chunk({ content })).join("");
const dying = (text: string) => (response: ServerResponse) => {
  response.writeHead(200, { "content-type": "text/event-stream" }).write(text);
  setImmediate(() => response.destroy());
};
const ending = (text: string) => (response: ServerResponse) =>
  void response.writeHead(200, { "content-type": "text/event-stream" }).end(`${text}${chunk({}, "stop")}data: [DONE]\n\n`);

test("an answer whose upstream dies goes on from the next target, which repeats what was delivered: every character once", async () => {
  targetOf("same-one").answer = dying(streaming("Hel", "lo wor"));
  targetOf("same-two").answer = ending(streaming("H", "ello", " world", ", again"));
  const text = await (await ask("same", true)).text();
  assert.equal([...text.matchAll(/"content":"([^"]+)"/g)].map(([, part]) => part).join(""), "Hello world, again");
  assert.match(text, /"finish_reason":"stop".*data: \[DONE\]\n\n$/s);
  assert.equal(new Set([...text.matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id)).size, 1);
  const call = (pieces: string[]) => pieces.map((piece) => chunk({ tool_calls: [{ index: 0, function: { arguments: piece } }] })).join("");
  const start = chunk({ tool_calls: [{ index: 0, id: "call_x", type: "function", function: { name: "weather", arguments: "" } }] });
  targetOf("same-one").answer = dying(start + call(['{"ci', 'ty":']));
  targetOf("same-two").answer = ending(start.replace("call_x", "call_y") + call(['{"city":"Par', 'is"}']));
  const called = await (await ask("same", true)).text();
  assert.equal([...called.matchAll(/"arguments":"((?:[^"\\]|\\.)*)"/g)].map(([, part]) => JSON.parse(`"${part}"`)).join(""), '{"city":"Paris"}');
  assert.doesNotMatch(called, /call_y/);
});

test("a next target that answers differently ends the answer in an error", async () => {
  targetOf("unlike-one").answer = dying(streaming("Hello wor"));
  targetOf("unlike-two").answer = ending(streaming("Hello, world"));
  const text = await (await ask("unlike", true)).text();
  assert.match(text, /Hello wor/);
  assert.match(text, /"error"/);
  assert.doesNotMatch(text, /DONE|Hello, /);
});

test("a target that goes on from an assistant's turn is given the text so far", async () => {
  targetOf("prefilled-one").answer = dying(streaming("Hello ", "wor"));
  targetOf("prefilled-two").answer = ending(streaming("ld", "!"));
  const text = await (await ask("prefilled", true)).text();
  assert.equal([...text.matchAll(/"content":"([^"]+)"/g)].map(([, part]) => part).join(""), "Hello world!");
  assert.deepEqual(targetOf("prefilled-two").seen.at(-1)?.messages.at(-1), { role: "assistant", content: "Hello wor" });
  assert.match(text, /data: \[DONE\]\n\n$/s);
});

test("a target that knows no such model is passed over", async () => {
  targetOf("missing-one").answer = failing(404);
  assert.equal((await ask("missing")).status, 200);
  assert.deepEqual(calls("missing-one", "missing-two"), [1, 1]);
});

test("weights share the requests", async () => {
  await Promise.all(Array.from({ length: 200 }, async () => (await ask("weighted")).text()));
  const [one, two] = calls("weighted-one", "weighted-two") as [number, number];
  assert.equal(one + two, 200);
  assert.ok(one > 110 && one < 185, `${one} of 200`);
});

/** Of every worker. */
const told = (path: string) => Promise.all(gateway.workers.map(async ({ urls }) => (await fetch(`${urls.operations}${path}`)).text()));

/** Asks until every worker knows that the first target of this model is not to be called. */
const opened = (id: string) =>
  until("the circuit is open everywhere", async () => {
    assert.equal((await ask(id)).status, 200);
    const known = (await told("/status")).map((text) => (JSON.parse(text) as { targets: { target: string; state: string }[] }).targets);
    return known.every((targets) => targets.some(({ target, state }) => target === `guarded/${id}-one` && state !== "closed"));
  });

test("an outage costs a few calls in all, over two workers, and its end is seen within seconds", async () => {
  targetOf("outage-one").answer = failing(500);
  const answers = await Promise.all(Array.from({ length: 20 }, async () => (await ask("outage")).status));
  assert.ok(answers.every((status) => status === 200));
  await opened("outage");
  const before = targetOf("outage-one").seen.length;
  const began = performance.now();
  while (performance.now() - began < 3_000) assert.equal((await ask("outage")).status, 200);
  const during = targetOf("outage-one").seen.length - before;
  assert.ok(during <= 4, `${during} calls in three seconds`);
  targetOf("outage-one").answer = ok;
  const recovered = targetOf("outage-one").seen.length;
  await until("it is used again", async () => {
    await ask("outage");
    return targetOf("outage-one").seen.length > recovered + 3;
  });
});

test("an upstream that is down as a whole is risked no generation until it is there again, over two workers", async () => {
  const one = targetOf("absent-one");
  absent = true;
  one.answer = failing(503);
  await opened("absent");
  assert.ok(one.seen.length <= 9, `${one.seen.length} calls`);
  const before = one.seen.length;
  const asked = presenceAsked;
  await until(
    "it was looked for",
    async () => {
      assert.equal((await ask("absent")).status, 200);
      return presenceAsked >= asked + 2;
    },
    15_000,
  );
  assert.equal(one.seen.length, before);
  absent = false;
  one.answer = ok;
  await until("it is used again", async () => {
    await ask("absent");
    return one.seen.length > before + 3;
  });
});

test("the operator sees circuits, resting credentials and calls", async () => {
  const [worker] = gateway.workers;
  const status = (await (await fetch(`${worker?.urls.operations}/status`)).json()) as { role: string; ready: boolean; lanes: object[]; targets: object[] };
  assert.deepEqual([status.role, status.ready, status.lanes.length], ["worker", true, 1]);
  assert.ok(Array.isArray(status.targets));
  const ingress = (await (await fetch(`${gateway.ingresses[0]?.urls.operations}/status`)).json()) as { role: string; lanes: { lane: string }[] };
  assert.deepEqual([ingress.role, ingress.lanes.map(({ lane }) => lane).includes("chat")], ["ingress", true]);
  // Which of them took what is theirs to settle.
  const metrics = (await told("/metrics")).join("");
  assert.match(metrics, /sluice_upstream_calls_total\{upstream="here",again="yes"\} [1-9]/);
  assert.match(metrics, /sluice_upstream_errors_total\{upstream="here",code="upstream_failed",status="500"\} [1-9]/);
});

test("a target that can't be reached is passed over", async () => {
  assert.equal((await ask("down")).status, 200);
  assert.equal((await ask("down", true)).status, 200);
});

test("credentials are taken in turn, and one that is refused rests by itself", async () => {
  await Promise.all(Array.from({ length: 8 }, () => ask("keys")));
  assert.deepEqual(new Set(targetOf("keys-one").seen.map(({ authorization }) => authorization)), new Set(["Bearer one", "Bearer two"]));
  targetOf("keys-one").seen.length = 0;
  targetOf("keys-one").answer = (response) => (targetOf("keys-one").seen.at(-1)?.authorization === "Bearer one" ? failing(401)(response) : ok(response));
  for (let count = 0; count < 20; count++) assert.equal((await ask("keys")).status, 200);
  const refused = targetOf("keys-one").seen.filter(({ authorization }) => authorization === "Bearer one").length;
  assert.ok(refused >= 1 && refused <= 2, `${refused} calls with the refused one: one for each worker`);
});

test("an upstream that takes two requests at once is sent two at once, over two workers, and the others wait", async () => {
  let open = 0;
  let most = 0;
  const both = Promise.withResolvers<void>();
  targetOf("full-one").answer = async (response) => {
    most = Math.max(most, ++open);
    if (open === 2) both.resolve();
    await both.promise;
    setTimeout(() => {
      open--;
      ok(response);
    }, 60);
  };
  const statuses = await Promise.all(Array.from({ length: 12 }, async () => (await ask("full")).status));
  assert.deepEqual(new Set(statuses), new Set([200]));
  assert.equal(most, 2);
});

test("a dead worker's places at a full upstream come back", async () => {
  targetOf("full-one").answer = () => undefined;
  const abort = new AbortController();
  const hanging = [1, 2].map(() =>
    gateway.post({ model: "full", messages: [{ role: "user", content: "x" }] }, { signal: abort.signal }).catch(() => undefined),
  );
  const seen = targetOf("full-one").seen.length;
  await until("both places are taken", () => targetOf("full-one").seen.length >= seen + 2);
  await Promise.all(gateway.workers.map((worker) => worker.kill()));
  abort.abort();
  await Promise.all(hanging);
  targetOf("full-one").answer = ok;
  await gateway.addWorker("chat=8");
  assert.equal((await ask("full")).status, 200);
});
