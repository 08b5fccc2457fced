/** The rate limits that the simulator states and enforces. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, startSimulator } from "./support.ts";

const message = { messages: [{ role: "user", content: "Hello" }] };

test("OpenAI: responses state what is left, requests beyond it get 429, and time refills it", async (t) => {
  const time = { now: 0 };
  const { url } = await startSimulator(t, { clock: { now: () => time.now } });
  const call = (key = "a") =>
    ask({
      url,
      headers: { authorization: `Bearer ${key}` },
      body: { model: "sim-gpt;tokens=1;limit-requests=2;limit-tokens=1000", max_tokens: 100, ...message },
    });
  const { headers } = await call();
  assert.equal(headers["x-ratelimit-limit-requests"], "2");
  assert.equal(headers["x-ratelimit-remaining-requests"], "1");
  assert.equal(headers["x-ratelimit-reset-requests"], "30s");
  const left = Number(headers["x-ratelimit-remaining-tokens"]);
  assert.ok(left < 900 && left > 800, `${left} tokens: those of the prompt and the answer's most`);
  await call();
  const refused = await call();
  assert.deepEqual(
    [refused.status, refused.headers["x-ratelimit-remaining-requests"], refused.headers["retry-after"]],
    [429, "0", "30"],
  );
  assert.equal((await call("b")).status, 200, "another credential");
  time.now += 30_000;
  assert.equal((await call()).status, 200);
  assert.equal((await call()).status, 429);
});

test("Anthropic: the reset is a date", async (t) => {
  const { url } = await startSimulator(t);
  const { headers } = await ask({
    url,
    path: "/v1/messages",
    headers: { "x-api-key": "a", "anthropic-version": "2023-06-01" },
    body: { model: "sim-claude;limit-requests=4", max_tokens: 16, ...message },
  });
  assert.equal(headers["anthropic-ratelimit-requests-limit"], "4");
  assert.equal(headers["anthropic-ratelimit-requests-remaining"], "3");
  const resetMs = Date.parse(String(headers["anthropic-ratelimit-requests-reset"])) - Date.now();
  assert.ok(resetMs > 13_000 && resetMs <= 16_000, `${resetMs} ms`);
});

test("a limit with a window is full again at once", async (t) => {
  const time = { now: 0 };
  const { url } = await startSimulator(t, { clock: { now: () => time.now } });
  const model = "sim-gpt;tokens=1;limit-requests=2;limit-period=1000;limit-window";
  const call = async () => (await ask({ url, body: { model, ...message } })).status;
  assert.deepEqual([await call(), await call(), await call()], [200, 200, 429]);
  time.now += 999;
  assert.equal(await call(), 429);
  time.now += 1;
  assert.deepEqual([await call(), await call(), await call()], [200, 200, 429]);
});
