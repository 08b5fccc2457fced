/** A vendor without capacity for flex: requests wait or go on as standard, as the caller chose. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { modelLine } from "./support.ts";

/** Requests with flex that are still refused, and the status. */
const full = { count: 0, status: 429 };
const vendor = await startScriptedUpstream((response, { json }) => {
  const tier = json.service_tier ?? "default";
  if (tier === "flex" && full.count-- > 0)
    return jsonAnswer({ error: { message: "Resource Unavailable", code: "capacity_exceeded" } }, full.status)(response);
  return jsonAnswer({ ...JSON.parse(chatCompletion), service_tier: tier })(response);
});
const gateway = await startGateway({
  workers: ["chat=16"],
  environment: { KEY_A: "a" },
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  vendor: { dialect: openai-chat, baseUrl: "${vendor.url}", credential: KEY_A }
  claude: { dialect: anthropic-messages, baseUrl: "${vendor.url}" }
models:
${modelLine({ id: "waits", model: "waits", upstream: "vendor" })}${modelLine({ id: "standard", model: "standard", upstream: "vendor" }).replace("retries: 0", "retries: 0, whenFlexFull: standard")}${modelLine({ id: "claude", model: "m", upstream: "claude" })}`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await vendor[Symbol.asyncDispose]();
});

const bodyOf = (model: string, tier = "flex") => ({
  model,
  service_tier: tier,
  messages: [{ role: "user", content: "hi" }],
});
/** The tiers with which the vendor was called. */
async function tiersOf(refusals: number, status: number, model: string, headers: Record<string, string> = {}) {
  Object.assign(full, { count: refusals, status });
  const before = vendor.requests.length;
  const response = await gateway.post(bodyOf(model), { headers });
  const { service_tier: served } = (await response.json()) as { service_tier?: string };
  const calls = vendor.requests.slice(before).map(({ json }) => json.service_tier);
  return { status: response.status, served, calls };
}

// Groq answers with 498, Gemini perhaps with 503.
for (const status of [429, 498, 503]) {
  test(`${status}: a request goes on as standard where the model or the caller says so`, async () => {
    const asStandard = { status: 200, served: "default", calls: ["flex", undefined] };
    assert.deepEqual(await tiersOf(1, status, "standard"), asStandard);
    assert.deepEqual(await tiersOf(1, status, "waits", { "x-sluice-flex": "standard" }), asStandard);
  });

  test(`${status}: a request waits for capacity otherwise, without counting as a retry`, async () => {
    const asFlex = { status: 200, served: "flex", calls: ["flex", "flex"] };
    assert.deepEqual(await tiersOf(1, status, "waits"), asFlex);
    assert.deepEqual(await tiersOf(1, status, "standard", { "x-sluice-flex": "wait" }), asFlex);
  });
}

test("meanwhile other requests go to the vendor", async () => {
  Object.assign(full, { count: 1, status: 429 });
  const waiting = gateway.post(bodyOf("waits"));
  const response = await gateway.post(bodyOf("waits", "default"));
  assert.equal(response.status, 200);
  await response.text();
  assert.equal((await waiting).status, 200);
});

test("another value of the header is refused, and an unknown tier in the words of the caller's dialect", async () => {
  const header = await gateway.post(bodyOf("waits"), { headers: { "x-sluice-flex": "later" } });
  assert.equal(header.status, 400);
  assert.match(await header.text(), /The header x-sluice-flex must be \\"wait\\" or \\"standard\\"/);
  const tier = await gateway.post(bodyOf("claude", "turbo"));
  assert.equal(tier.status, 400);
  const { error } = (await tier.json()) as { error: { message: string; param: string } };
  assert.match(
    error.message,
    /^Invalid value: 'turbo'\. Supported values are: 'auto', 'default', 'flex', and 'priority'/,
  );
  assert.equal(error.param, "service_tier");
});
