/** Tests of upstreams that are not saved, by a worker of a whole gateway. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { startControl } from "../support/control.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

const secret = {
  CREDENTIALS_SECRET: "a secret that seals credentials in this test",
  INTERNAL_SECRET: "a secret that signs what control sends in this test",
};
const [one, two] = [3, 4].map((tokens) => `sim-text;tokens=${tokens};rate=0;first=0`);
const gateway = await startGateway({
  catalogue: `${catalogueOf([{ id: "one", model: "known-model" }], `  tried: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }\n`)}  - id: routed
    prices: { inputPerMillion: 1, outputPerMillion: 2 }
    route: [{ upstream: tried, model: "${one}" }, { upstream: tried, model: "${two}" }]
`,
  environment: { ...secret, OF_THE_ENVIRONMENT: "key-of-the-environment" },
});
const control = await startControl({
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
  ...secret,
});
const key = "sk-typed-0123456789abcdef";
let handle: (request: IncomingMessage, response: ServerResponse) => void = () => {};
const vendor = createServer((request, response) => handle(request, response));
vendor.listen(0, "127.0.0.1");
await once(vendor, "listening");
const url = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`;
after(async () => {
  vendor.closeAllConnections();
  vendor.close();
  await control[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});

async function post(path: string, body: object) {
  const response = await control.call("POST", `/catalogue/${path}`, body);
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of several operations.
  return { status: response.status, text, body: JSON.parse(text) as any };
}

const json = (response: ServerResponse, status: number, body: unknown, headers = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
};

test("a test of the simulator reads its models and shows the answer of one, in every dialect", async () => {
  for (const [dialect, path] of [
    ["openai-chat", "/v1"],
    ["openai-responses", "/v1"],
    ["anthropic-messages", "/v1"],
    ["gemini", "/v1beta"],
  ] as const) {
    const upstream = { dialect, baseUrl: `${gateway.simulatorUrl}${path}` };
    const { body, text } = await post("test-upstream", {
      upstream,
      value: key,
      model: "sim-text;tokens=5;rate=0;first=0",
    });
    assert.equal(body.call?.outcome, "ok", `${dialect}: ${text}`);
    assert.ok(body.call.answer.length > 0, dialect);
    assert.equal(body.isOk, true);
  }
  const { items } = await control.get<{ items: { target: string | null }[] }>("/usage/records?limit=10");
  assert.ok(
    items.every(({ target }) => target?.includes("tokens=5") !== true),
    "a test is nobody's usage",
  );
});

const answers: [name: string, outcome: string, problem: RegExp, respond: typeof handle][] = [
  [
    "a refused key",
    "credential-refused",
    /refuses the credential/,
    (_, response) => json(response, 401, { error: { message: `Incorrect API key provided: ${key}` } }),
  ],
  [
    "Google's refused key",
    "credential-refused",
    /refuses/,
    (_, response) => json(response, 400, { error: { message: "API key not valid. Please pass a valid API key." } }),
  ],
  [
    "no credit",
    "no-balance",
    /no balance/,
    (_, response) => json(response, 402, { error: { message: "Insufficient credits" } }),
  ],
  [
    "z.ai's empty balance",
    "no-balance",
    /no balance/,
    (_, response) => json(response, 429, { error: { code: "1113", message: "Insufficient balance" } }),
  ],
  [
    "a plan without it",
    "no-access",
    /may not do this/,
    (_, response) => json(response, 403, { error: { message: "Region not allowed" } }),
  ],
  ["a wrong path", "not-found", /Check the path/, (_, response) => json(response, 404, "<html>nothing here</html>")],
  [
    "a redirect, which is not followed",
    "not-found",
    /leads nowhere/,
    (_, response) => json(response, 302, "", { location: "http://169.254.169.254/latest/meta-data/" }),
  ],
  [
    "a busy key",
    "rate-limited",
    /credential is good/,
    (_, response) => json(response, 429, { error: { message: "Rate limit reached" } }),
  ],
  [
    "a failure",
    "upstream-failed",
    /failed by itself/,
    (_, response) => json(response, 500, { error: { message: "Internal error" } }),
  ],
  [
    "a page in place of a list",
    "unreadable",
    /another form/,
    (_, response) => json(response, 200, "<html>Welcome</html>"),
  ],
  ["a broken connection", "unreachable", /Nothing answers/, (request) => request.socket.destroy()],
];

for (const [name, outcome, problem, respond] of answers)
  test(`a test says what failed: ${name}`, async () => {
    handle = respond;
    const { status, body, text } = await post("test-upstream", {
      upstream: { dialect: "openai-chat", baseUrl: url },
      value: key,
    });
    assert.equal(status, 200, text);
    assert.equal(body.list.outcome, outcome, text);
    assert.match(body.list.problem, problem);
    assert.equal(body.isOk, false);
    assert.ok(!text.includes(key), "the credential is in the answer");
    const audit = await (await control.call("GET", "/audit?action=testUpstream")).text();
    assert.ok(!audit.includes(key), "the credential is in the audit log");
  });

test("link-local addresses are not called, in any spelling", async () => {
  for (const host of [
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "[fe80::1]",
    "[::ffff:169.254.169.254]",
    "[fd00:ec2::254]",
    "168.63.129.16",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the catalogue's own form
    "${ABSENT:-169.254.169.254}",
  ]) {
    const upstream = { dialect: "openai-chat", baseUrl: `http://${host}/v1` };
    const { status, body, text } = await post("test-upstream", { upstream, value: key });
    assert.equal(status, 400, `${host}: ${text}`);
    assert.match(body.detail, /link-local/);
  }
});

test("a test uses the typed credential, a stored one, or that of the worker's environment", async () => {
  const seen: (string | undefined)[] = [];
  handle = (request, response) => {
    seen.push(request.headers.authorization);
    json(response, 200, { data: [{ id: "m" }] });
  };
  await control.call("PUT", "/catalogue/credentials/kept", { value: "a-stored-key-of-the-test" });
  const upstream = { dialect: "openai-chat", baseUrl: url };
  await post("test-upstream", { upstream, value: ` ${key}\n` });
  await post("test-upstream", { upstream: { ...upstream, credential: "stored:kept" }, value: key });
  await post("test-upstream", { upstream: { ...upstream, credential: "OF_THE_ENVIRONMENT" } });
  const stored = await post("test-upstream", { upstream: { ...upstream, credential: "stored:kept" } });
  assert.deepEqual(
    seen,
    [key, key, "key-of-the-environment", "a-stored-key-of-the-test"].map((each) => `Bearer ${each}`),
    stored.text,
  );
  const absent = await post("test-upstream", { upstream: { ...upstream, credential: "ABSENT_KEY" } });
  assert.equal(absent.body.list.outcome, "credential-refused");
  assert.match(absent.body.list.message, /The worker has no credential ABSENT_KEY/);
  const own = await post("test-upstream", { upstream: { ...upstream, credential: "CREDENTIALS_SECRET" } });
  assert.equal(own.status, 400);
  assert.equal(seen.length, 4);
});

test("a stored Google credential is a service account, and names no file or address", async () => {
  const bodies: string[] = [];
  handle = (request, response) => {
    request.on("data", (chunk) => bodies.push(String(chunk))).on("end", () => json(response, 200, { data: [] }));
  };
  const directory = await mkdtemp(join(tmpdir(), "sluice-google-"));
  const file = join(directory, "secret");
  await writeFile(file, "secret-of-the-machine");
  const external = {
    type: "external_account",
    audience: "any",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_url: url,
    credential_source: { file },
  };
  const upstream = { dialect: "openai-chat", baseUrl: url, authentication: "google" };
  for (const value of [JSON.stringify(external), file, `{"type":"service_account" secret-of-the-machine}`]) {
    const { body, text } = await post("test-upstream", { upstream, value });
    assert.match(body.list.message, /service account/, text);
    assert.equal(body.list.outcome, "credential-refused", text);
    assert.ok(!text.includes("secret-of"), text);
  }
  const account = { type: "service_account", client_email: "a@b", private_key: "no key" };
  const { body, text } = await post("test-upstream", { upstream, value: JSON.stringify(account) });
  assert.equal(body.list.outcome, "credential-refused", text);
  assert.deepEqual(bodies, []);
  await rm(directory, { recursive: true });
});

test("a file without an end is not read for TLS", async () => {
  for (const file of ["/dev/zero", "/dev/random"]) {
    const upstream = { dialect: "openai-chat", baseUrl: url.replace("http:", "https:"), tls: { caFile: file } };
    const { body, text } = await post("test-upstream", { upstream, value: key });
    assert.equal(body.list.outcome, "unreachable", text);
    assert.match(body.list.message, /not a file|larger/);
  }
});

test("fetched models are new, known or gone, with the limits that the upstream states", async () => {
  handle = (_, response) =>
    json(response, 200, {
      data: [{ id: "known-model", context_length: 1_000 }, { id: "fresh", max_model_len: 2_000 }, { id: 7 }],
    });
  const upstream = { dialect: "openai-chat", baseUrl: url };
  const { body } = await post("fetch-models", { upstream, value: key, name: "simulator" });
  const states = body.items.map(({ name, state, contextWindow }: Record<string, unknown>) => [
    name,
    state,
    contextWindow,
  ]);
  assert.deepEqual(states, [
    ["known-model", "known", 1_000],
    ["fresh", "new", 2_000],
  ]);
  handle = (_, response) => json(response, 200, []);
  const { body: gone } = await post("fetch-models", { upstream, value: key, name: "simulator" });
  assert.deepEqual(
    gone.items.map(({ name, state }: Record<string, unknown>) => [name, state]),
    [["known-model", "gone"]],
  );
});

const targets = [one, two].map((target) => ({ upstream: "tried", target }));

const caller = "key_trials";
const callerKey = await gateway.createKey("default", { id: caller });
const trialOf = (failing: object[], more = {}) => post("trials", { key: caller, model: "routed", failing, ...more });

async function tried(failing: object[]) {
  const { body, status, text } = await trialOf(failing);
  assert.equal(status, 200, text);
  const response = await ask({ [body.header]: body.value });
  const path = `/usage/records/${response.headers.get("x-request-id")}`;
  await until("the ledger has the request", async () => (await control.call("GET", path)).ok);
  // biome-ignore lint/suspicious/noExplicitAny: the test looks into a record.
  const { callLog, target } = await control.get<any>(path);
  const outcomes = callLog.map(({ target, outcome }: Record<string, string>) => [target, outcome]);
  return { header: body, status: response.status, target, outcomes };
}

const ask = async (headers: Record<string, string>) => {
  const response = await gateway.post(
    { model: "routed", messages: [{ role: "user", content: "Hello" }] },
    { headers: { authorization: `Bearer ${callerKey}`, ...headers } },
  );
  await response.text();
  return response;
};

test("a trial shows which target answers, with failures that only it sees", async () => {
  const plain = await tried([]);
  assert.deepEqual([plain.status, plain.target, plain.outcomes], [200, one, [[one, "answered"]]]);
  const other = await tried(targets.slice(0, 1));
  assert.equal(other.status, 200);
  assert.deepEqual(other.outcomes, [
    [one, "simulated"],
    [two, "answered"],
  ]);
  const none = await tried(targets);
  assert.equal(none.status, 502);
  assert.ok(none.outcomes.length >= 2 && none.outcomes.every(([, outcome]: string[]) => outcome === "simulated"));
  for (let count = 0; count < 5; count++) await tried(targets.slice(0, 1));
  const caller = await ask({});
  const record = `/usage/records/${caller.headers.get("x-request-id")}`;
  await until("the ledger has the request", async () => (await control.call("GET", record)).ok);
  const { callLog, target } = await control.get<{ callLog: unknown; target: string }>(record);
  assert.deepEqual([callLog, target], [null, one], "callers' requests go on to the target");
});

test("only operators make trials, and each is for one request of one key to one model and path", async () => {
  const { body } = await trialOf(targets);
  assert.equal((await ask({ [body.header]: body.value })).status, 502);
  assert.equal((await ask({ [body.header]: body.value })).status, 400, "a second time");
  for (const value of ["x", body.value.replace(/.$/, (last: string) => (last === "A" ? "B" : "A"))])
    assert.equal((await ask({ [body.header]: value })).status, 400);
  for (const more of [{ key: "key_other" }, { model: "one" }]) {
    const { body: other } = await trialOf(targets, more);
    assert.equal((await ask({ [other.header]: other.value })).status, 400, JSON.stringify(more));
  }
  const fresh = (await trialOf(targets)).body;
  const elsewhere = await fetch(`${gateway.url}/v1/embeddings`, {
    method: "POST",
    headers: { authorization: `Bearer ${callerKey}`, [fresh.header]: fresh.value },
    body: "{}",
  });
  assert.equal(elsewhere.status, 400);
  await elsewhere.text();
  const asKey = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "x-sluice-internal": fresh.value },
    body: "{}",
  });
  assert.equal(asKey.status, 401, "it is no key");
  await asKey.text();
});
