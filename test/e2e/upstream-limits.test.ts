/**
 * A strict vendor refuses each request beyond its limits. Several workers together send none that
 * it refuses.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const limit = 12;
/** By credential and model: when the accepted requests came. */
const accepted = new Map<string, number[]>();
let refusals = 0;
const vendor = await startScriptedUpstream((response, { headers, json, at }) => {
  const account = `${headers.authorization} ${json.model}`;
  const recent = (accepted.get(account) ?? []).filter((time) => time > at - 60_000);
  if (recent.length >= limit) {
    refusals++;
    return response.writeHead(429).end(JSON.stringify({ error: { message: "Rate limit reached." } }));
  }
  accepted.set(account, [...recent, at]);
  return jsonAnswer(chatCompletion)(response);
});
const upstream = (name: string, more: string) =>
  `  ${name}: { dialect: openai-chat, baseUrl: "${vendor.url}", credential: KEY_ONE, credentials: [KEY_TWO], ${more} }\n`;
const gateway = await startGateway({
  workers: ["chat=16", "chat=16", "chat=16"],
  environment: { KEY_ONE: "one", KEY_TWO: "two" },
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
${upstream("keys", `credentialLimits: { requestsPerMinute: ${limit} }, whenFull: refuse`)}${upstream("whole", `requestsPerMinute: ${limit}, whenFull: next`)}${upstream("spare", `whenFull: refuse`)}
models:
${modelLine({ id: "refusing", model: "refusing", upstream: "keys" })}  - { id: moving, prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: whole, model: moving-one }, { upstream: spare, model: moving-two, requestsPerMinute: 4 }] }
`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await vendor[Symbol.asyncDispose]();
});
const statusesOf = async (model: string, count: number) => {
  const responses = await Promise.all(
    Array.from({ length: count }, () => gateway.post({ model, messages: [{ role: "user", content: "hi" }] })),
  );
  await Promise.all(responses.map((response) => response.arrayBuffer()));
  return responses.map(({ status, headers }) => ({ status, retryAfter: Number(headers.get("retry-after")) }));
};
const countOf = (model: string) =>
  [...accepted].reduce((sum, [account, times]) => sum + (account.endsWith(model) ? times.length : 0), 0);

test("each credential gets as many requests as its vendor accepts, and the others are refused here", async () => {
  const answers = await statusesOf("refusing", 60);
  assert.equal(answers.filter(({ status }) => status === 200).length, 2 * limit);
  for (const { status, retryAfter } of answers)
    if (status !== 200) {
      assert.equal(status, 429);
      assert.ok(retryAfter > 0 && retryAfter <= 60, `retry-after ${retryAfter}`);
    }
  assert.deepEqual([countOf("refusing"), refusals], [2 * limit, 0]);
});

test("requests over the limit of an upstream go to the next target, up to its limits", async () => {
  const answers = await statusesOf("moving", 40);
  assert.deepEqual([countOf("moving-one"), countOf("moving-two"), refusals], [limit, 8, 0]);
  assert.equal(answers.filter(({ status }) => status === 429).length, 40 - limit - 8);
});
