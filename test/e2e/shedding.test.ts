import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

const model = (id: string, name: string, queue = "chat") =>
  `  - { id: ${id}, queue: ${queue}, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "${name}" }] }\n`;
const gateway = await startGateway({
  workers: ["chat=1,strict=1,unknown=1"],
  catalogue: `queues:
  strict: { maxWaitMs: 400 }
  unknown: { maxWaitMs: 200 }
groups:
  default: { models: ["*"] }
upstreams:
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${["chat", "strict", "unknown"].map((queue) => model(`brief-${queue}`, "sim-text;rate=20;first=0;tokens=20", queue) + model(`slow-${queue}`, "sim-text;rate=20;first=0;tokens=5000", queue)).join("")}`,
});
after(() => gateway[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "hello" }];
const ask = (name: string, headers: Record<string, string> = {}) =>
  gateway.post({ model: name, messages }, { headers });

for (const [bound, queue, headers] of [
  ["its caller's bound", "chat", { "x-sluice-max-wait": "20" }],
  ["its queue's bound", "strict", {}],
] as const)
  test(`a request that would wait longer than ${bound} is refused at once, and served while a slot is free`, async () => {
    // The gateway learns how long an answer takes.
    assert.equal((await ask(`brief-${queue}`)).status, 200);
    const leaving = new AbortController();
    const running = await gateway.post({ model: `slow-${queue}`, messages, stream: true }, { signal: leaving.signal });
    assert.equal(running.status, 200);
    // The ingress learns once a second how many slots there are.
    let refused: Response | undefined;
    await until("the slots are known", async () => {
      refused = await ask(`brief-${queue}`, headers);
      return /would wait longer/.test(await refused.clone().text());
    });
    assert.equal(refused?.status, 503);
    assert.ok(Number(refused?.headers.get("retry-after")) >= 1);
    leaving.abort();
    await until("a slot is free", async () => (await ask(`brief-${queue}`, headers)).status === 200);
  });

test("a request that waits longer than its queue's bound, though nobody expected it to, is refused then", async () => {
  const leaving = new AbortController();
  const running = await gateway.post({ model: "slow-unknown", messages, stream: true }, { signal: leaving.signal });
  assert.equal(running.status, 200);
  // Nothing has ended on this queue, so no wait can be expected.
  const startedAt = performance.now();
  const refused = await ask("brief-unknown");
  assert.equal(refused.status, 503);
  assert.match(await refused.text(), /waited too long/);
  assert.ok(Number(refused.headers.get("retry-after")) >= 1);
  assert.ok(performance.now() - startedAt >= 200);
  leaving.abort();
  await until("a slot is free", async () => (await ask("brief-unknown")).status === 200);
});

test("a priority that does not exist is refused", async () => {
  const response = await ask("brief-chat", { "x-sluice-priority": "urgent" });
  assert.equal(response.status, 400);
  assert.match(await response.text(), /x-sluice-priority must be one of interactive, normal, background/);
});
