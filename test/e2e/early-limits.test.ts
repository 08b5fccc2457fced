/**
 * A caller over one of its limits is refused before it sends a large body, with the same error as
 * for a small one.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Limits } from "#access/rate-limits.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { exchange } from "./support.ts";

const silent = "sim-text;first=60000";
const gateway = await startGateway({
  catalogue: catalogueOf([
    { id: "fast", model: "sim-text;rate=0;first=0;tokens=5" },
    { id: "silent", model: silent },
  ])
    .replace('narrow: { models: ["fast"] }', 'priced: { models: ["fast", "silent"] }')
    .concat(
      '  - { id: free, queue: chat, prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: simulator, model: "sim-text;rate=0;first=0" }] }\n',
    ),
});
after(() => gateway[Symbol.asyncDispose]());
const metrics = () => metricsOf(gateway.ingresses[0]);
const saying = (content: string, model = "fast") => ({ model, messages: [{ role: "user", content }] });
const ask = async (key: string, content = "x") => {
  const response = await gateway.post(saying(content), { key });
  return { response, text: await response.text() };
};

interface Announced {
  lines?: string[];
  path?: string;
}
const large = "Content-Length: 20000000";

/**
 * The response to a sender that announces a body and sends nothing of it, until it is answered or
 * asked for the body.
 */
const announce = (key: string, { lines = [large], path = "/v1/chat/completions" }: Announced = {}) =>
  exchange(
    gateway.url,
    `${[`POST ${path} HTTP/1.1`, "Host: x", `Authorization: Bearer ${key}`, "Content-Type: application/json", ...lines].join("\r\n")}\r\n\r\n`,
    { until: (text) => text.endsWith("}") || text.includes(" 100 ") },
  );

const limitHeadersOf = (headers: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(headers).filter(([name]) => /^x-ratelimit-(limit|remaining)|^x-should-retry$/.test(name)),
  );
const withoutSeconds = (text: string) => text.replace(/try again in \d+ s/, "try again");

const cases: { limits: Limits; spend: (key: string) => Promise<unknown> }[] = [
  { limits: { requestsPerMinute: 1 }, spend: ask },
  { limits: { tokensPerMinute: 10 }, spend: (key) => ask(key, "x".repeat(40)) },
  { limits: { budgetPerDay: 0.000001 }, spend: ask },
  { limits: { budgetPerMonth: 0.000001, requestsPerMinute: 100 }, spend: ask },
  {
    limits: { generationsMax: 1 },
    async spend(key) {
      const before = (await gateway.seen(silent)).length;
      void gateway.post({ ...saying("x", "silent"), stream: true }, { key }).catch(() => undefined);
      await until("it runs", async () => (await gateway.seen(silent)).length > before);
    },
  },
];

for (const { limits, spend } of cases)
  test(`a caller that is over ${JSON.stringify(limits)} does not send a large body`, async () => {
    const key = await gateway.createKey("priced", { limits });
    assert.equal((await announce(key, { lines: [large, "Expect: 100-continue"] })).status, 100);
    await spend(key);
    const { response, text } = await ask(key);
    assert.ok(response.status === 429, text);
    for (const lines of [[large], [large, "Expect: 100-continue"], ["Transfer-Encoding: chunked"]]) {
      const early = await announce(key, { lines });
      assert.equal(early.status, 429, String(lines));
      assert.equal(early.answers, 1);
      assert.equal(withoutSeconds(early.body), withoutSeconds(text));
      assert.deepEqual(limitHeadersOf(early.headers), limitHeadersOf(Object.fromEntries(response.headers)));
      const waits = [early.headers["retry-after"], response.headers.get("retry-after") ?? undefined].map(
        (seconds) => seconds && Number(seconds),
      );
      assert.equal(waits[0] === undefined, waits[1] === undefined);
      if (waits[0] !== undefined) assert.ok(Math.abs(Number(waits[0]) - Number(waits[1])) <= 2, String(waits));
    }
    const [limit] = Object.keys(limits);
    assert.match(await metrics(), new RegExp(`sluice_limit_refusals_total\\{limit="${limit}",scope="key"\\} 4\\n`));
  });

test("large bodies are refused in every dialect's form, and small ones are not checked twice", async () => {
  const key = await gateway.createKey("priced", { limits: { requestsPerMinute: 1 } });
  await ask(key);
  for (const [path, kind] of [
    ["/v1/messages", '"type":"rate_limit_error"'],
    ["/v1/responses", '"code":"rate_limit_exceeded"'],
    ["/v1beta/models/fast:generateContent", '"status":"RESOURCE_EXHAUSTED"'],
    ["/v1/embeddings", '"code":"rate_limit_exceeded"'],
    ["/v1/messages/count_tokens", '"type":"rate_limit_error"'],
  ] as const) {
    const { status, body } = await announce(key, { path });
    assert.equal(status, 429, path);
    assert.ok(body.includes(kind), body);
  }
  assert.equal((await announce(key, { lines: ["Content-Length: 1000", "Expect: 100-continue"] })).status, 100);
});

test("an early check counts nothing, so large and small bodies have the same limit", async () => {
  const key = await gateway.createKey("priced", { limits: { requestsPerMinute: 2, generationsMax: 2 } });
  const statuses = [];
  for (let count = 0; count < 3; count++) statuses.push((await ask(key, "x".repeat(300_000))).response.status);
  assert.deepEqual(statuses, [200, 200, 429]);
});

test("a body is requested if it may still be answered: with a free model, a token count, or a stored answer", async () => {
  const expecting = { lines: [large, "Expect: 100-continue"] };
  const mixed = await gateway.createKey("default", { limits: { budgetPerDay: 0.000001 } });
  await ask(mixed);
  assert.equal((await ask(mixed)).response.status, 429);
  assert.equal((await announce(mixed, expecting)).status, 100);
  const spent = await gateway.createKey("priced", { limits: { budgetPerDay: 0.000001, tokensPerMinute: 10 } });
  await ask(spent, "x".repeat(40));
  assert.equal((await announce(spent, { ...expecting, path: "/v1/messages/count_tokens" })).status, 100);
  assert.equal((await announce(spent, { lines: [...expecting.lines, "Idempotency-Key: one"] })).status, 100);
  assert.equal((await announce(spent, expecting)).status, 429);
});
