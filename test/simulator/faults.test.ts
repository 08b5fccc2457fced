/** Each fault over real sockets: exactly after the given number of tokens. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, begin, chatOf, closedEntryOf, startSimulator, tokensIn, until } from "./support.ts";

test("a status fault has the dialect's error body and Retry-After", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const heard = await ask({ url, body: chatOf("sim-text;status=429;retry-after=7") });
  assert.equal(heard.status, 429);
  assert.equal(heard.headers["retry-after"], "7");
  assert.equal(JSON.parse(heard.text).error.code, "rate_limit_exceeded");
  assert.equal((await closedEntryOf(simulator, "sim-text;status=429;retry-after=7")).outcome, "fault");
});

test("a Retry-After with an instant is sent as an HTTP date", async (t) => {
  const { url } = await startSimulator(t);
  const heard = await ask({
    url,
    body: chatOf("sim-text;status=503;retry-after=2030-01-01T00:00:00Z", { stream: false }),
  });
  assert.equal(heard.status, 503);
  assert.equal(heard.headers["retry-after"], "Tue, 01 Jan 2030 00:00:00 GMT");
});

test("a reset before the head sends no byte, streamed or whole", async (t) => {
  const { url, simulator } = await startSimulator(t);
  for (const stream of [true, false]) {
    const heard = await ask({ url, body: chatOf(`sim-${stream};reset=0`, { stream }) });
    assert.deepEqual([heard.status, heard.ended], [0, "ECONNRESET"]);
    const entry = await closedEntryOf(simulator, `sim-${stream};reset=0`);
    assert.deepEqual([entry.status, entry.outcome, entry.chunksSent], [0, "fault", 0]);
  }
});

test("a reset after some tokens delivers exactly these, each time", async (t) => {
  const { url, simulator } = await startSimulator(t);
  for (const pace of ["", ";rate=1000"]) {
    for (let turn = 0; turn < 30; turn++) {
      const heard = await ask({ url, body: chatOf(`sim-text;tokens=8;reset=3${pace}`) });
      assert.equal(heard.status, 200);
      assert.equal(heard.ended, "ECONNRESET");
      assert.equal(tokensIn(heard.events).length, 3);
    }
    const entry = await closedEntryOf(simulator, `sim-text;tokens=8;reset=3${pace}`);
    assert.deepEqual([entry.outcome, entry.chunksSent], ["fault", 3]);
  }
});

test("a stall keeps the connection open and silent until the caller leaves", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const model = "sim-text;tokens=8;stall=2";
  const stalled = begin({ url, body: chatOf(model) });
  const next = await ask({ url, body: chatOf("sim-text;tokens=200;rate=2000") });
  assert.equal(tokensIn(next.events).length, 200);
  const text = await stalled.heard(
    (heard) => tokensIn([...heard.matchAll(/^data: (.*)$/gm)].map((match) => match[1] ?? "")).length === 2,
  );
  assert.doesNotMatch(text, /\[DONE\]|"finish_reason":"/);
  assert.equal(simulator.journal.active(), 1);
  stalled.leave();
  const entry = await closedEntryOf(simulator, model);
  assert.deepEqual([entry.outcome, entry.chunksSent], ["client-closed", 2]);
  assert.equal(simulator.journal.active(), 0);
});

test("a stall at 0 sends only the head, with the opening if that is early", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const bare = begin({ url, body: chatOf("sim-text;stall=0") });
  const opened = begin({ url, body: chatOf("sim-text;stall=0;early-opening") });
  await opened.heard((text) => text.includes('"role":"assistant"'));
  await until(() => simulator.journal.list({ model: "sim-text;stall=0" })[0]?.status === 200);
  assert.equal(await bare.heard(() => true), "");
  bare.leave();
  opened.leave();
});

test("a cut ends the body normally without a finish", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const heard = await ask({ url, body: chatOf("sim-text;tokens=8;cut=5") });
  assert.equal(heard.ended, "clean");
  assert.equal(tokensIn(heard.events).length, 5);
  assert.doesNotMatch(heard.text, /\[DONE\]|"finish_reason":"/);
  assert.equal((await closedEntryOf(simulator, "sim-text;tokens=8;cut=5")).outcome, "fault");
});

test("a cut after the last token comes before the finish, and a later one never happens", async (t) => {
  const { url } = await startSimulator(t);
  const behind = await ask({ url, body: chatOf("sim-text;tokens=4;cut=4") });
  assert.equal(tokensIn(behind.events).length, 4);
  assert.doesNotMatch(behind.text, /"finish_reason":"/);
  const beyond = await ask({ url, body: chatOf("sim-text;tokens=4;cut=5") });
  assert.equal(beyond.events.at(-1), "[DONE]");
});

test("a malformed event is broken JSON, and the stream continues to its end", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const heard = await ask({ url, body: chatOf("sim-text;tokens=6;malformed=3") });
  const broken = heard.events.filter((event) => event !== "[DONE]").filter((event) => !isJson(event));
  assert.equal(broken.length, 1);
  assert.equal(tokensIn(heard.events.filter((event) => event !== broken[0])).length, 5);
  assert.equal(heard.events.at(-1), "[DONE]");
  assert.equal((await closedEntryOf(simulator, "sim-text;tokens=6;malformed=3")).outcome, "fault");
});

test("no-end sends everything except the terminator", async (t) => {
  const { url } = await startSimulator(t);
  const heard = await ask({ url, body: chatOf("sim-text;tokens=4;no-end") });
  assert.equal(heard.ended, "clean");
  assert.match(heard.events.at(-1) ?? "", /"finish_reason":"stop"/);
});

test("an error in the stream comes after the given tokens, or before all content, and ends the body", async (t) => {
  const { url, openai } = await startSimulator(t);
  for (const count of [0, 3]) {
    const heard = await ask({ url, body: chatOf(`sim-text;tokens=6;error=${count}`) });
    assert.equal(heard.status, 200);
    assert.equal(heard.events.length, count === 0 ? 1 : count + 2);
    assert.deepEqual(Object.keys(JSON.parse(heard.events.at(-1) ?? "")), ["error"]);
  }
  const stream = await openai.chat.completions.create({
    model: "sim-text;error=2",
    messages: [{ role: "user", content: "x" }],
    stream: true,
  });
  await assert.rejects(
    async () => {
      for await (const _ of stream);
    },
    { message: /told to fail/ },
  );
});

test("faults of a whole answer apply in proportion to its tokens", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const whole = await ask({ url, body: chatOf("sim-text;tokens=10", { stream: false }) });
  assert.doesNotThrow(() => JSON.parse(whole.text));
  const cut = await ask({ url, body: chatOf("sim-text;tokens=10;cut=5", { stream: false }) });
  assert.equal(cut.ended, "clean");
  assert.ok(cut.text.length > 0 && cut.text.length < whole.text.length && !isJson(cut.text));
  const reset = await ask({ url, body: chatOf("sim-text;tokens=10;reset=5", { stream: false }) });
  assert.deepEqual([reset.status, reset.ended], [200, "ECONNRESET"]);
  const malformed = await ask({ url, body: chatOf("sim-text;tokens=10;malformed=5", { stream: false }) });
  assert.ok(malformed.ended === "clean" && !isJson(malformed.text));
  const error = await ask({ url, body: chatOf("sim-text;tokens=10;error=5", { stream: false }) });
  assert.equal(error.status, 200);
  assert.ok(JSON.parse(error.text).error);
  const stalled = begin({ url, body: chatOf("sim-text;tokens=10;stall=5", { stream: false }) });
  await stalled.heard((text) => text.length > 0);
  stalled.leave();
  assert.equal((await closedEntryOf(simulator, "sim-text;tokens=10;stall=5")).outcome, "client-closed");
});

test("fail-first applies to the first requests of the model or of an x-simulate-id", async (t) => {
  const { url } = await startSimulator(t);
  const statusOf = async (headers: Record<string, string>, model = "sim-text;fail-first=2") =>
    (await ask({ url, body: chatOf(model), headers })).status;
  assert.deepEqual([await statusOf({}), await statusOf({}), await statusOf({})], [503, 503, 200]);
  const named = { "x-simulate-id": "one" };
  assert.deepEqual([await statusOf(named), await statusOf(named), await statusOf(named)], [503, 503, 200]);
  assert.deepEqual(
    [await statusOf({}, "sim-text;fail-first=1;status=429"), await statusOf({}, "sim-text;fail-first=1;status=429")],
    [429, 200],
  );
  assert.deepEqual(
    [await statusOf({}, "sim-text;fail-first=1;reset=0"), await statusOf({}, "sim-text;fail-first=1;reset=0")],
    [0, 200],
  );
  await ask({ url, method: "DELETE", path: "/_simulator/requests" });
  assert.equal(await statusOf(named), 503);
});

test("a slow head, a slow first token and a pace each take at least their time, one after the other", async (t) => {
  const { url } = await startSimulator(t);
  const tookAtLeast = async (ms: number, settings: string) => {
    const startedAt = performance.now();
    const heard = await ask({ url, body: chatOf(`sim-text;tokens=10;${settings}`) });
    assert.equal(tokensIn(heard.events).length, 10);
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs >= ms, `${settings}: ${tookMs} ms`);
  };
  await Promise.all([
    tookAtLeast(450, "rate=20"),
    tookAtLeast(400, "head=400"),
    tookAtLeast(150, "first=150"),
    tookAtLeast(1_000, "head=400;first=150;rate=20"),
  ]);
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
