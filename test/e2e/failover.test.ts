/**
 * Responses to callers and calls of targets when upstreams misbehave: routes, retries, circuit
 * breakers, credentials, concurrency.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { brokenTextOf } from "../support/stream.ts";
import { until } from "../support/time.ts";
import {
  bodyAnswer,
  chatChunk,
  chatCompletion,
  chatEnd,
  jsonAnswer,
  startScriptedUpstream,
  streamAnswer,
  type UpstreamAnswer,
  type UpstreamRequest,
} from "../support/upstream.ts";

/** An upstream whose targets behave as a test demands, and which records its callers. */
interface Target {
  requests: UpstreamRequest[];
  answer: UpstreamAnswer;
}
const targets = new Map<string, Target>();
const targetOf = (name: string): Target => {
  const target = targets.get(name) ?? { requests: [], answer: ok };
  targets.set(name, target);
  return target;
};

/**
 * Whether the whole upstream is down, and how often it was asked if it is there: a request that is
 * no generation.
 */
let absent = false;
let presenceChecks = 0;
const hi = chatChunk({ role: "assistant", content: "hi" }) + chatEnd;
const ok: UpstreamAnswer = (response, { json }) =>
  (json.stream ? streamAnswer(hi) : jsonAnswer(chatCompletion))(response);
const failing = (status: number, headers: Record<string, string> = {}, error: object = { message: "no" }) =>
  jsonAnswer({ error }, status, headers);

/** Fails the first request to this target, and answers the others. */
const oneFailure =
  (name: string, failure: UpstreamAnswer): UpstreamAnswer =>
  (response, request) =>
    (targetOf(name).requests.length === 1 ? failure : ok)(response, request);

const upstream = await startScriptedUpstream((response, request) => {
  if (request.method === "GET") {
    presenceChecks++;
    if (absent) response.writeHead(503).end();
    else response.writeHead(501).write("a list that never ends");
    return;
  }
  const target = targetOf(request.json.model);
  target.requests.push(request);
  target.answer(response, request);
});
const { url } = upstream;

let gateway: Gateway;
const model = (id: string, route: string, more = "") =>
  `  - { id: ${id}, ${more}prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [${route}] }\n`;
const at = (name: string, upstream = "here", more = "") => `{ upstream: ${upstream}, model: ${name}${more} }`;
const refusals = [401, 402].flatMap((status) => ["whole", "streamed"].map((way) => `refused-${status}-${way}`));
const pairs = [
  "status",
  "caller",
  "context",
  "cut",
  "missing",
  "label",
  "encoding",
  "billing-whole",
  "billing-streamed",
  "remembered",
  "flagged",
  "closed",
  "stuck",
  "choices",
  ...refusals,
];

before(async () => {
  gateway = await startGateway({
    workers: ["chat=64", "chat=64"],
    environment: { KEY_ONE: "one", KEY_TWO: "two" },
    catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  here: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${url}" }
  careful: { dialect: openai-chat, circuitBreakerFailuresMax: 5, baseUrl: "${url}" }
  brief: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${url}", timeouts: { firstContentTimeoutMs: 700 } }
  hasty: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${url}", timeouts: { firstByteTimeoutMs: 700, firstTokenTimeoutMs: 700 } }
  guarded: { dialect: openai-chat, circuitBreakerFailuresMax: 3, baseUrl: "${url}" }
  keyed: { dialect: openai-chat, baseUrl: "${url}", credential: KEY_ONE, credentials: [KEY_TWO] }
  narrow: { dialect: openai-chat, baseUrl: "${url}", concurrencyMax: 2 }
  going-on: { dialect: openai-chat, baseUrl: "${url}", prefill: true }
  dead: { dialect: openai-chat, baseUrl: "http://127.0.0.1:9/v1" }
models:
${pairs.map((id) => model(id, `${at(`${id}-one`)}, ${at(`${id}-two`)}`)).join("")}${model("same", `${at("same-one")}, ${at("same-two")}`, "resume: true, deterministic: true, ")}${model("unlike", `${at("unlike-one")}, ${at("unlike-two")}`, "resume: true, deterministic: true, ")}${model("prefilled", `${at("prefilled-one")}, ${at("prefilled-two", "going-on")}`, "resume: true, ")}${model("alone", at("alone-one"))}${model("keys", at("keys-one", "keyed"))}${model("full", at("full-one", "narrow"))}${model("down", `${at("down-one", "dead")}, ${at("down-two")}`)}${["silence", "slow"].map((id) => model(id, `${at(`${id}-one`, "hasty")}, ${at(`${id}-two`)}`)).join("")}${["outage", "absent"].map((id) => model(id, `${at(`${id}-one`, "guarded")}, ${at(`${id}-two`)}`)).join("")}${model("weighted", `${at("weighted-one", "here", ", weight: 3")}, ${at("weighted-two", "here", ", weight: 1")}`)}${model("small", at("small-one"), "contextWindow: 100, fallbacks: [large], ")}${model("large", at("large-one"), "contextWindow: 1000, ")}${["quiet", "drip"].map((id) => model(id, `${at(`${id}-one`, "brief")}, ${at(`${id}-two`)}`)).join("")}${model("own", at("own-one"), "fallbacks: [other], ")}${model("other", at("other-one"))}${model("twice", `${at("twice-one")}, ${at("twice-one")}`)}${model("unknown", `${at("unknown-one", "guarded")}, ${at("unknown-two")}`)}${["words", "eager"].map((id) => model(id, at(`${id}-one`))).join("")}${model("poison", at("poison-one", "careful"))}${model("deep", at("deep-one"))}${model("proving", at("proving-one", "guarded"), "retries: 0, ")}${model("reopening", at("reopening-one", "guarded"))}${model("rotating", at("rotating-one", "keyed"))}`,
  });
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const ask = (id: string, stream = false, content = "hello") =>
  gateway.post({ model: id, messages: [{ role: "user", content }], stream });
/** Another conversation, which may go to another target. */
const askAnew = (id: string, number: number) => ask(id, false, `hello ${number}`);
const calls = (...names: string[]) => names.map((name) => targetOf(name).requests.length);
const textOf = async (response: Response, stream: boolean) => {
  const text = await response.text();
  if (response.status !== 200) return JSON.parse(text).error.message as string;
  return stream
    ? [...text.matchAll(/"content":"([^"]*)"/g)].map(([, part]) => part).join("")
    : (JSON.parse(text).choices[0].message.content as string);
};

for (const stream of [false, true]) {
  const way = stream ? "streamed" : "whole";
  const forget = () => {
    targets.clear();
  };

  test(`a target that fails before content is replaced by the next, and the caller does not notice (${way})`, async () => {
    for (const status of [500, 502, 503, 529, 429, 408, 409, 403, 404, 405, 418, 302]) {
      forget();
      targetOf("status-one").answer = failing(status);
      const response = await ask("status", stream);
      assert.equal(response.status, 200, String(status));
      assert.equal(await textOf(response, stream), "hi");
      assert.deepEqual(calls("status-one", "status-two"), [1, 1], String(status));
    }
  });

  test(`the caller's own error is passed on at once, with the upstream's reason (${way})`, async () => {
    forget();
    targetOf("caller-one").answer = failing(
      400,
      {},
      { message: "Bad temperature.", type: "invalid_request_error", param: "temperature", code: null },
    );
    const response = await ask("caller", stream);
    assert.equal(response.status, 400);
    assert.match(await textOf(response, stream), /Bad temperature/);
    assert.deepEqual(calls("caller-one", "caller-two"), [1, 0]);
  });

  test(`a prompt that is too long goes to a fallback with a larger window, which the answer names (${way})`, async () => {
    forget();
    targetOf("small-one").answer = failing(400, {}, { message: "Too long.", code: "context_length_exceeded" });
    const response = await ask("small", stream);
    assert.equal(response.status, 200);
    assert.match(await response.text(), /"model":"large"/);
    targetOf("large-one").answer = failing(400, {}, { message: "Too long.", code: "context_length_exceeded" });
    assert.equal((await ask("small", stream)).status, 400);
  });

  test(`a single target is retried after a pause, and no more often than the retries allow (${way})`, async () => {
    forget();
    let left = 2;
    targetOf("alone-one").answer = (response, request) => (left-- > 0 ? failing(500) : ok)(response, request);
    const response = await ask("alone", stream);
    assert.equal(response.status, 200);
    const times = targetOf("alone-one").requests.map(({ at: time }) => time);
    assert.equal(times.length, 3);
    assert.ok(
      (times[1] as number) - (times[0] as number) >= 95 && (times[2] as number) - (times[1] as number) >= 195,
      String(times),
    );
    forget();
    targetOf("alone-one").answer = failing(503, { "retry-after": "7" });
    const refused = await ask("alone", stream);
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get("retry-after"), "7");
    assert.deepEqual(calls("alone-one"), [1], "a long wait is the caller's to decide on");
  });

  test(`a silent target is not called twice (${way})`, { skip: !stream }, async () => {
    forget();
    targetOf("silence-one").answer = () => undefined;
    const response = await ask("silence", stream);
    assert.equal(await textOf(response, stream), "hi");
    assert.deepEqual(calls("silence-one", "silence-two"), [1, 1]);
    await until("it was hung up on", () => targetOf("silence-one").requests[0]?.isClosed === true);
  });
}

test("a slow first token moves on to the next target", async () => {
  targetOf("slow-one").answer = streamAnswer(chatChunk({ role: "assistant" }), "open");
  const response = await ask("slow", true);
  assert.equal(await textOf(response, true), "hi");
  assert.deepEqual(calls("slow-one", "slow-two"), [1, 1]);
});

test("an answer that breaks off is never mixed with another: a target that does not repeat it ends it with an error", async () => {
  targetOf("cut-one").answer = streamAnswer(chatChunk({ role: "assistant", content: "begun" }), "broken");
  const text = await brokenTextOf(await ask("cut", true));
  assert.match(text, /begun/);
  assert.match(text, /"error"/);
  assert.doesNotMatch(text, /\[DONE\]/);
  assert.doesNotMatch(text, /"hi"/);
  assert.deepEqual(calls("cut-one", "cut-two"), [1, 1]);
});

const streaming = (...parts: string[]) => parts.map((content) => chatChunk({ content })).join("");
const dying = (text: string) => streamAnswer(text, "broken");
const ending = (text: string) => streamAnswer(text + chatEnd);

test("an answer whose upstream dies is resumed at the next target, which repeats the delivered part: every character once", async () => {
  targetOf("same-one").answer = dying(streaming("Hel", "lo wor"));
  targetOf("same-two").answer = ending(streaming("H", "ello", " world", ", again"));
  const text = await (await ask("same", true)).text();
  assert.equal([...text.matchAll(/"content":"([^"]+)"/g)].map(([, part]) => part).join(""), "Hello world, again");
  assert.match(text, /"finish_reason":"stop".*data: \[DONE\]\n\n$/s);
  assert.equal(new Set([...text.matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id)).size, 1);
  const call = (parts: string[]) =>
    parts.map((part) => chatChunk({ tool_calls: [{ index: 0, function: { arguments: part } }] })).join("");
  const start = chatChunk({
    tool_calls: [{ index: 0, id: "call_x", type: "function", function: { name: "weather", arguments: "" } }],
  });
  targetOf("same-one").answer = dying(start + call(['{"ci', 'ty":']));
  targetOf("same-two").answer = ending(start.replace("call_x", "call_y") + call(['{"city":"Par', 'is"}']));
  const called = await (await ask("same", true)).text();
  assert.equal(
    [...called.matchAll(/"arguments":"((?:[^"\\]|\\.)*)"/g)].map(([, part]) => JSON.parse(`"${part}"`)).join(""),
    '{"city":"Paris"}',
  );
  assert.doesNotMatch(called, /call_y/);
});

test("a resumed answer that differs ends with an error", async () => {
  targetOf("unlike-one").answer = dying(streaming("Hello wor"));
  targetOf("unlike-two").answer = ending(streaming("Hello, world"));
  const text = await brokenTextOf(await ask("unlike", true));
  assert.match(text, /Hello wor/);
  assert.match(text, /"error"/);
  assert.doesNotMatch(text, /DONE|Hello, /);
});

test("a target with prefill is given the text so far", async () => {
  targetOf("prefilled-one").answer = dying(streaming("Hello ", "wor"));
  targetOf("prefilled-two").answer = ending(streaming("ld", "!"));
  const text = await (await ask("prefilled", true)).text();
  assert.equal([...text.matchAll(/"content":"([^"]+)"/g)].map(([, part]) => part).join(""), "Hello world!");
  assert.deepEqual(targetOf("prefilled-two").requests.at(-1)?.json.messages.at(-1), {
    role: "assistant",
    content: "Hello wor",
  });
  assert.match(text, /data: \[DONE\]\n\n$/s);
});

test("a target without the model is skipped", async () => {
  targetOf("missing-one").answer = failing(404);
  assert.equal((await ask("missing")).status, 200);
  assert.deepEqual(calls("missing-one", "missing-two"), [1, 1]);
});

for (const stream of [false, true]) {
  const way = stream ? "streamed" : "whole";

  test(`a refused credential fails over to the next target, and cools down there (${way})`, async () => {
    for (const status of [401, 402]) {
      const name = `refused-${status}-${way}`;
      targetOf(`${name}-one`).answer = failing(status);
      for (let request = 0; request < 6; request++) assert.equal((await ask(name, stream)).status, 200);
      const [first, second] = calls(`${name}-one`, `${name}-two`) as [number, number];
      assert.equal(second, 6);
      assert.ok(first >= 1 && first <= 2, `${first} calls for ${status}: one for each worker`);
    }
  });

  test(`a target that sends nothing, or only keep-alives, fails over to the next (${way})`, async () => {
    targets.clear();
    targetOf("quiet-one").answer = () => undefined;
    assert.equal(await textOf(await ask("quiet", stream), stream), "hi");
    assert.deepEqual(calls("quiet-one", "quiet-two"), [1, 1]);
    await until("it was hung up on", () => targetOf("quiet-one").requests[0]?.isClosed === true);
    for (const sign of [stream ? ": PROCESSING\n\n" : "\n", " "]) {
      targets.clear();
      targetOf("drip-one").answer = (response) => {
        response.writeHead(200, { "content-type": stream ? "text/event-stream" : "application/json" });
        const dripping = setInterval(() => response.write(sign), 50);
        response.once("close", () => clearInterval(dripping));
      };
      assert.equal(await textOf(await ask("drip", stream), stream), "hi");
      assert.deepEqual(calls("drip-one", "drip-two"), [1, 1]);
    }
  });

  test(`a fallback model is called only after the model's own target used up its retries (${way})`, async () => {
    targets.clear();
    targetOf("own-one").answer = oneFailure("own-one", failing(500));
    assert.match(await (await ask("own", stream)).text(), /"model":"own"/);
    targets.clear();
    targetOf("own-one").answer = oneFailure("own-one", failing(429, { "retry-after": "1" }));
    assert.match(await (await ask("own", stream)).text(), /"model":"own"/);
    const [first, second] = targetOf("own-one").requests.map(({ at: time }) => time) as [number, number];
    assert.ok(second - first >= 950, `${second - first} ms`);
    targets.clear();
    targetOf("own-one").answer = failing(500);
    assert.match(await (await ask("own", stream)).text(), /"model":"other"/);
    assert.deepEqual(calls("own-one", "other-one"), [3, 1]);
    targets.clear();
    targetOf("own-one").answer = failing(503, { "retry-after": "30" });
    assert.match(await (await ask("own", stream)).text(), /"model":"other"/);
    assert.deepEqual(calls("own-one", "other-one"), [1, 1], "a long wait is left for the fallback");
  });

  test(`a target that is listed twice keeps its pause (${way})`, async () => {
    targets.clear();
    targetOf("twice-one").answer = oneFailure("twice-one", failing(500));
    assert.equal((await ask("twice", stream)).status, 200);
    const [first, second] = targetOf("twice-one").requests.map(({ at: time }) => time) as [number, number];
    assert.ok(second - first >= 95, `${second - first} ms`);
  });

  test(`an account problem that comes as a 400 is the operator's, and the caller sees no details (${way})`, async () => {
    targets.clear();
    const billing = {
      type: "invalid_request_error",
      message: "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
    };
    targetOf(`billing-${way}-one`).answer = failing(400, {}, billing);
    assert.equal(await textOf(await ask(`billing-${way}`, stream), stream), "hi");
    targetOf(`billing-${way}-two`).answer = failing(400, {}, billing);
    const response = await ask(`billing-${way}`, stream);
    assert.ok(response.status >= 500, String(response.status));
    assert.doesNotMatch(await response.text(), /credit|balance|billing/i);
  });

  test(`one caller's refused content blocks no other caller (${way})`, async () => {
    targets.clear();
    const flagged = {
      code: 403,
      message: "Your chosen model requires moderation and your input was flagged",
      metadata: { reasons: ["violence"] },
    };
    targetOf("flagged-one").answer = failing(403, {}, flagged);
    for (let request = 0; request < 3; request++) assert.equal((await ask("flagged", stream)).status, 400);
    targetOf("flagged-one").answer = ok;
    assert.equal((await ask("flagged", stream)).status, 200);
    assert.deepEqual(calls("flagged-one", "flagged-two"), [4, 0]);
    targets.clear();
    targetOf("closed-one").answer = failing(403);
    for (let request = 0; request < 3; request++) assert.equal((await ask("closed", stream)).status, 200);
    assert.deepEqual(
      calls("closed-one", "closed-two"),
      [3, 3],
      "a 403 without a reason says nothing about the credential",
    );
  });

  test(`five unknown 4xx of one caller open no circuit breaker (${way})`, async () => {
    targets.clear();
    targetOf("unknown-one").answer = failing(418);
    for (let request = 0; request < 8; request++) assert.equal((await ask("unknown", stream)).status, 200);
    assert.deepEqual(calls("unknown-one", "unknown-two"), [8, 8]);
  });

  test(`good answers with unusual statuses and wrong content types are good answers (${way})`, async () => {
    const type = stream ? "text/event-stream" : "application/json";
    const body = stream ? hi : chatCompletion;
    for (const status of [201, 202, 203, 206]) {
      targets.clear();
      targetOf("label-one").answer = bodyAnswer(body, type, status);
      assert.equal(await textOf(await ask("label", stream), stream), "hi");
      assert.deepEqual(calls("label-one", "label-two"), [1, 0], String(status));
    }
    for (const [label, sent] of [
      [stream ? "application/json" : "text/event-stream", body],
      ["text/plain", `\n ${body}`],
      // The other framing than requested, with the wrong content type.
      [type, stream ? chatCompletion : hi],
    ] as const) {
      targets.clear();
      targetOf("label-one").answer = bodyAnswer(sent, label);
      assert.equal(await textOf(await ask("label", stream), stream), "hi");
      assert.deepEqual(calls("label-one", "label-two"), [1, 0], label);
    }
  });

  test(`a compressed answer is read (${way})`, async () => {
    targets.clear();
    const type = stream ? "text/event-stream" : "application/json";
    targetOf("encoding-one").answer = bodyAnswer(gzipSync(stream ? hi : chatCompletion), type, 200, {
      "content-encoding": "gzip",
    });
    assert.equal(await textOf(await ask("encoding", stream), stream), "hi");
    assert.deepEqual(calls("encoding-one", "encoding-two"), [1, 0]);
  });

  test(`the caller gets the upstream's request id, with answers and errors (${way})`, async () => {
    targets.clear();
    targetOf("label-one").answer = (response, request) => ok(response.setHeader("x-request-id", "theirs-1"), request);
    assert.equal((await ask("label", stream)).headers.get("x-upstream-request-id"), "theirs-1");
    targetOf("alone-one").answer = failing(400, { "request-id": "theirs-2" });
    const refused = await ask("alone", stream);
    assert.deepEqual([refused.status, refused.headers.get("x-upstream-request-id")], [400, "theirs-2"]);
    assert.match(refused.headers.get("x-request-id") ?? "", /^req_/);
  });
}

test("a Retry-After of an hour is remembered", async () => {
  targetOf("remembered-one").answer = failing(429, { "retry-after": "3600" });
  for (let request = 0; request < 10; request++) assert.equal((await ask("remembered")).status, 200);
  const [first, second] = calls("remembered-one", "remembered-two") as [number, number];
  assert.equal(second, 10);
  assert.ok(first >= 1 && first <= 2, `${first} calls: one for each worker`);
});

test("a credential without quota is replaced by the next one, and not used again", async () => {
  const error = { message: "You exceeded your current quota.", type: "insufficient_quota", code: "insufficient_quota" };
  targetOf("rotating-one").answer = (response, request) =>
    (request.headers.authorization === "Bearer one" ? failing(429, {}, error) : ok)(response, request);
  for (let request = 0; request < 10; request++) assert.equal((await askAnew("rotating", request)).status, 200);
  const empty = targetOf("rotating-one").requests.filter(
    ({ headers }) => headers.authorization === "Bearer one",
  ).length;
  assert.ok(empty >= 1 && empty <= 2, `${empty} calls with the empty one: one for each worker`);
});

test("an error in the gateway's own code ends the affected answer at once", async () => {
  const nested = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
  const call = { id: "call_1", type: "function", function: { name: "deep", arguments: "@" } };
  const message = { role: "assistant", content: null, tool_calls: [call] };
  const answer = JSON.stringify({ choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
  // Some servers send arguments as an object.
  targetOf("deep-one").answer = jsonAnswer(answer.replace('"@"', `{"a":${nested}}`));
  const response = await fetch(`${gateway.url}/v1/messages`, {
    method: "POST",
    headers: { "x-api-key": gateway.key, "content-type": "application/json" },
    body: JSON.stringify({
      model: "deep",
      max_tokens: 100,
      messages: [{ role: "user", content: "hello" }],
      tools: [{ name: "deep", input_schema: { type: "object" } }],
    }),
    signal: AbortSignal.timeout(20_000),
  });
  assert.ok(response.status >= 500, String(response.status));
  assert.equal(((await response.json()) as { type: string }).type, "error");
});

test("weights share the requests", async () => {
  await Promise.all(Array.from({ length: 200 }, async (_, number) => (await askAnew("weighted", number)).text()));
  const [one, two] = calls("weighted-one", "weighted-two") as [number, number];
  assert.equal(one + two, 200);
  assert.ok(one > 110 && one < 185, `${one} of 200`);
});

/** The responses of every worker's operations port. */
const told = (path: string) =>
  Promise.all(gateway.workers.map(async ({ urls }) => (await fetch(`${urls.operations}${path}`)).text()));

/** Asks until every worker knows that the first target of this model is not to be called. */
const opened = (id: string) =>
  until("the circuit breaker is open everywhere", async () => {
    assert.equal((await ask(id)).status, 200);
    const states = (await told("/status")).map(
      (text) => (JSON.parse(text) as { targets: { target: string; state: string }[] }).targets,
    );
    return states.every((targets) =>
      targets.some(({ target, state }) => target === `guarded/${id}-one` && state !== "closed"),
    );
  });

test("an outage costs a few calls over two workers, and its end is noticed within seconds", async () => {
  targetOf("outage-one").answer = failing(500);
  const answers = await Promise.all(Array.from({ length: 20 }, async () => (await ask("outage")).status));
  assert.ok(answers.every((status) => status === 200));
  await opened("outage");
  const before = targetOf("outage-one").requests.length;
  const began = performance.now();
  await until("three seconds of requests are over", async () => {
    assert.equal((await ask("outage")).status, 200);
    return performance.now() - began >= 3_000;
  });
  const during = targetOf("outage-one").requests.length - before;
  assert.ok(during <= 4, `${during} calls in three seconds`);
  targetOf("outage-one").answer = ok;
  const recovered = targetOf("outage-one").requests.length;
  await until("it is used again", async () => {
    await ask("outage");
    return targetOf("outage-one").requests.length > recovered + 3;
  });
});

test("an unreachable upstream gets no generation until it is back, over two workers", async () => {
  const one = targetOf("absent-one");
  absent = true;
  one.answer = failing(503);
  await opened("absent");
  assert.ok(one.requests.length <= 9, `${one.requests.length} calls`);
  const before = one.requests.length;
  const checksBefore = presenceChecks;
  await until(
    "it was looked for",
    async () => {
      assert.equal((await ask("absent")).status, 200);
      return presenceChecks >= checksBefore + 2;
    },
    15_000,
  );
  assert.equal(one.requests.length, before);
  absent = false;
  one.answer = ok;
  await until("it is used again", async () => {
    await ask("absent");
    return one.requests.length > before + 3;
  });
});

test("the operator sees circuit breakers, cooldowns and calls", async () => {
  const [worker] = gateway.workers;
  const status = (await (await fetch(`${worker?.urls.operations}/status`)).json()) as {
    role: string;
    ready: boolean;
    queues: object[];
    targets: object[];
  };
  assert.deepEqual([status.role, status.ready, status.queues.length], ["worker", true, 1]);
  assert.ok(Array.isArray(status.targets));
  const ingress = (await (await fetch(`${gateway.ingresses[0]?.urls.operations}/status`)).json()) as {
    role: string;
    queues: { queue: string }[];
  };
  assert.deepEqual([ingress.role, ingress.queues.map(({ queue }) => queue).includes("chat")], ["ingress", true]);
  // Which of them took what is theirs to settle.
  const metrics = (await told("/metrics")).join("");
  assert.match(metrics, /sluice_upstream_calls_total\{upstream="here",again="yes"\} [1-9]/);
  assert.match(metrics, /sluice_upstream_errors_total\{upstream="here",code="upstream_failed",status="500"\} [1-9]/);
});

test("a probe's first content closes the circuit breaker, before its answer ends", async () => {
  const one = targetOf("proving-one");
  one.answer = failing(500);
  await until("the circuit breaker is open everywhere", async () => {
    await ask("proving", true);
    const states = (await told("/status")).map(
      (text) => (JSON.parse(text) as { targets: { target: string; state: string }[] }).targets,
    );
    return states.every((all) =>
      all.some(({ target, state }) => target === "guarded/proving-one" && state !== "closed"),
    );
  });
  let end: (() => void) | undefined;
  one.answer = (response) => {
    streamAnswer(chatChunk({ content: "begun" }), "open")(response);
    end ??= () => void response.end(chatEnd);
    one.answer = ok;
  };
  let proof: Response | undefined;
  await until("a proof has begun", async () => {
    const response = await ask("proving", true);
    if (response.status === 200) proof = response;
    return proof !== undefined;
  });
  assert.notEqual(end, undefined);
  await until(
    "others are served while the proof goes on",
    async () => (await ask("proving", true)).status === 200,
    4_000,
  );
  end?.();
  assert.match((await proof?.text()) ?? "", /begun/);
});

test("a probe that fails opens the circuit breaker again, also as a retry of the request that opened it", async () => {
  targetOf("reopening-one").answer = failing(500);
  for (let request = 0; request < 3; request++) assert.equal((await ask("reopening")).status, 502);
  assert.deepEqual(calls("reopening-one"), [9]);
  const states = (await told("/status")).flatMap((text) =>
    (JSON.parse(text) as { targets: { target: string; state: string }[] }).targets
      .filter(({ target }) => target === "guarded/reopening-one")
      .map(({ state }) => state),
  );
  assert.ok(states.includes("open"), `${states}: the next probe may begin when its time is over`);
  targetOf("reopening-one").answer = ok;
  await until("it is used again", async () => (await ask("reopening")).status === 200);
});

test("words that an upstream quotes from its caller block nobody", async () => {
  const message = "your credit balance is too low: Extra inputs are not permitted";
  targetOf("words-one").answer = (response, request) => {
    const isQuoted = JSON.stringify(request.json).includes("credit balance");
    (isQuoted ? failing(400, {}, { type: "invalid_request_error", message }) : ok)(response, request);
  };
  for (let request = 0; request < 3; request++) {
    const refused = await gateway.post({
      model: "words",
      messages: [{ role: "user", content: "Your credit \u0062alance is too low" }],
    });
    assert.deepEqual(
      [refused.status, ((await refused.json()) as { error: { message: string } }).error.message],
      [400, message],
    );
    assert.equal((await ask("words")).status, 200);
  }
});

test("a stream with a finish reason on every chunk is read to its end, and fails if it breaks", async () => {
  const word = (place: number) => chatChunk({ content: `w${place} ` }, "stop");
  let breaks = false;
  targetOf("eager-one").answer = (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    let place = 0;
    const speaking = setInterval(() => {
      response.write(word(place++));
      if (place === 3 && breaks) response.destroy();
      if (place === 12) response.end("data: [DONE]\n\n");
      if (place === 12 || response.destroyed) clearInterval(speaking);
    }, 300);
  };
  assert.equal(
    await textOf(await ask("eager", true), true),
    Array.from({ length: 12 }, (_, place) => `w${place} `).join(""),
  );
  breaks = true;
  const broken = await brokenTextOf(await ask("eager", true));
  assert.match(broken, /"error"/);
  assert.doesNotMatch(broken, /\[DONE\]/);
});

test("the retries of one request count as one failure of their target", async () => {
  targetOf("poison-one").answer = (response, request) =>
    (JSON.stringify(request.json.messages).includes("poison") ? failing(500) : ok)(response, request);
  for (let request = 0; request < 2; request++)
    assert.equal(
      (await gateway.post({ model: "poison", messages: [{ role: "user", content: "poison" }] })).status,
      502,
    );
  assert.equal(targetOf("poison-one").requests.length, 6);
  for (let request = 0; request < 4; request++) assert.equal((await ask("poison")).status, 200);
});

test("an error body that never ends does not delay the failover", async () => {
  targetOf("stuck-one").answer = (response) =>
    void response.writeHead(503, { "content-type": "application/json" }).write('{"error":');
  const startedAt = performance.now();
  assert.equal((await ask("stuck")).status, 200);
  assert.ok(performance.now() - startedAt < 10_000, "its time limits are 30 s and more");
});

test("a fallback that the key may not use is not called", async () => {
  targetOf("own-one").answer = failing(500);
  const key = await gateway.createKey("default", { models: ["own"] });
  const refused = await gateway.post({ model: "own", messages: [{ role: "user", content: "hello" }] }, { key });
  assert.equal(refused.status, 502);
  assert.equal((await ask("own")).status, 200);
});

test("several choices merged into one are not an answer", async () => {
  targetOf("choices-one").answer = streamAnswer(hi);
  const response = await gateway.post({ model: "choices", n: 2, messages: [{ role: "user", content: "hello" }] });
  assert.equal(response.status, 200);
  assert.deepEqual(calls("choices-one", "choices-two"), [1, 1]);
});

test("an unreachable target is skipped", async () => {
  assert.equal((await ask("down")).status, 200);
  assert.equal((await ask("down", true)).status, 200);
});

test("credentials are used in turn, and a refused one cools down alone", async () => {
  await Promise.all(Array.from({ length: 16 }, (_, number) => askAnew("keys", number)));
  assert.deepEqual(
    new Set(targetOf("keys-one").requests.map(({ headers }) => headers.authorization)),
    new Set(["Bearer one", "Bearer two"]),
  );
  targetOf("keys-one").requests.length = 0;
  targetOf("keys-one").answer = (response, request) =>
    (request.headers.authorization === "Bearer one" ? failing(401) : ok)(response, request);
  for (let count = 0; count < 20; count++) assert.equal((await askAnew("keys", count)).status, 200);
  const refused = targetOf("keys-one").requests.filter(({ headers }) => headers.authorization === "Bearer one").length;
  assert.ok(refused >= 1 && refused <= 2, `${refused} calls with the refused one: one for each worker`);
});

test("an upstream with a concurrency limit of two gets two requests at once over two workers, and the others wait", async () => {
  let open = 0;
  let most = 0;
  const both = Promise.withResolvers<void>();
  targetOf("full-one").answer = async (response, request) => {
    most = Math.max(most, ++open);
    if (open === 2) both.resolve();
    await both.promise;
    setTimeout(() => {
      open--;
      ok(response, request);
    }, 60);
  };
  const statuses = await Promise.all(Array.from({ length: 12 }, async () => (await ask("full")).status));
  assert.deepEqual(new Set(statuses), new Set([200]));
  assert.equal(most, 2);
});

test("the slots of a dead worker at a full upstream are freed", async () => {
  await Promise.all(gateway.workers.map((worker) => worker.kill()));
  const doomed = await gateway.addWorker("chat=8", {}, true);
  targetOf("full-one").answer = () => undefined;
  const abort = new AbortController();
  const hanging = [1, 2].map(() =>
    gateway
      .post({ model: "full", messages: [{ role: "user", content: "x" }] }, { signal: abort.signal })
      .catch(() => undefined),
  );
  const seen = targetOf("full-one").requests.length;
  await until("both slots are taken", () => targetOf("full-one").requests.length >= seen + 2);
  await doomed.kill();
  abort.abort();
  await Promise.all(hanging);
  targetOf("full-one").answer = ok;
  await gateway.addWorker("chat=8");
  assert.equal((await ask("full")).status, 200);
});
