/** The requests of a session go to one target with one credential, whichever worker calls it. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream, type UpstreamRequest } from "../support/upstream.ts";

const refused = new Set<string>();
const credentialOf = ({ headers }: UpstreamRequest) => String(headers.authorization).replace("Bearer ", "");
const upstream = await startScriptedUpstream((response, request) =>
  refused.has(`${credentialOf(request)} ${request.json.model}`)
    ? jsonAnswer({ error: { message: "slow down" } }, 429, { "retry-after": "60" })(response)
    : jsonAnswer(chatCompletion)(response),
);
const model = (id: string, more = "") =>
  `  - { id: ${id}, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: vendor, model: ${id} }]${more} }\n`;
const gateway = await startGateway({
  workers: ["chat=4", "chat=4", "chat=4"],
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  vendor: { dialect: openai-chat, baseUrl: "${upstream.url}", credential: KEY_A, credentials: [KEY_B] }
  single: { dialect: openai-chat, baseUrl: "${upstream.url}", credential: KEY_A }
models:
${model("kept")}${model("moved")}${model("alike")}${model("off", ", affinity: off")}  - { id: single, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: single, model: single }] }
`,
  environment: { KEY_A: "a", KEY_B: "b" },
});
const redis = await connectRedis(gateway.redis.url, "patient");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

/** The credentials of so many requests, which come one after another. */
async function credentialsOf(model: string, count: number, headers: Record<string, string>): Promise<string[]> {
  const from = upstream.requests.length;
  for (let turn = 0; turn < count; turn++) {
    const response = await gateway.post({ model, messages: [{ role: "user", content: `${turn}` }] }, { headers });
    assert.equal(response.status, 200, await response.text());
  }
  return upstream.requests.slice(from).map(credentialOf);
}
const distinct = (values: readonly string[]) => [...new Set(values)].sort();
const bindings = () => redis.xlen("{sluice:bindings}");

test("a session keeps its credential, and sessions share both", async () => {
  const used: string[] = [];
  for (let index = 0; index < 12; index++) {
    const credentials = await credentialsOf("kept", 3, { "x-sluice-session": `s${index}` });
    assert.equal(distinct(credentials).length, 1, `session ${index}`);
    used.push(...credentials);
  }
  assert.deepEqual(distinct(used), ["a", "b"]);
  assert.equal(await bindings(), 0, "Redis stores nothing of sessions at their first places");
});

for (const [name, id, headers] of [
  ["affinity: off of the model", "off", {}],
  ["the header x-sluice-affinity", "kept", { "x-sluice-affinity": "off" }],
] as const)
  test(`${name} places each request anew`, async () => {
    assert.deepEqual(distinct(await credentialsOf(id, 12, { "x-sluice-session": "s", ...headers })), ["a", "b"]);
  });

test("another value of the header is refused, and names the header", async () => {
  const response = await gateway.post(
    { model: "kept", messages: [{ role: "user", content: "hi" }] },
    { headers: { "x-sluice-affinity": "on" } },
  );
  const { error } = (await response.json()) as { error: { message: string; param: string } };
  assert.deepEqual([response.status, error.param], [400, "x-sluice-affinity"]);
});

test("a session whose credential is limited moves once, and stays where it was served", async () => {
  const headers = { "x-sluice-session": "moving" };
  const [first = ""] = await credentialsOf("moved", 1, headers);
  const other = first === "a" ? "b" : "a";
  refused.add(`${first} moved`);
  assert.deepEqual(await credentialsOf("moved", 1, headers), [first, other]);
  assert.equal(await bindings(), 1);
  refused.clear();
  assert.deepEqual(distinct(await credentialsOf("moved", 9, headers)), [other]);
  assert.equal(await bindings(), 1);
});

test("requests that only begin alike go to one place, and are not bound to another that served one", async () => {
  const messages = [{ role: "user", content: "how are you" }];
  const post = async () => {
    const response = await gateway.post({ model: "alike", messages });
    assert.equal(response.status, 200, await response.text());
    return credentialOf(upstream.requests.at(-1) as UpstreamRequest);
  };
  const first = await post();
  const bound = await bindings();
  refused.add(`${first} alike`);
  assert.notEqual(await post(), first);
  refused.clear();
  assert.equal(await bindings(), bound);
});

test("a model with one target and one credential has no session in its jobs", async () => {
  assert.deepEqual(distinct(await credentialsOf("single", 2, { "x-sluice-session": "s" })), ["a"]);
});
