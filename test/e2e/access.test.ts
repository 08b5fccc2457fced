import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI from "openai";
import { internalSignatureHeader } from "#access/internal-signature.ts";
import { createKey, hashOf } from "#access/key.ts";
import { addRecord, revokeRecord } from "#access/projection.ts";
import type { KeyRecord } from "#access/record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { protocols } from "#service/protocol.ts";
import { connectRedis } from "#service/redis.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { brokenTextOf } from "../support/stream.ts";
import { until, within } from "../support/time.ts";
import { exchange } from "./support.ts";

const fast = "sim-text;rate=0";
const slow = "sim-text;rate=5;tokens=500";
const gateway = await startGateway({
  ingresses: 2,
  catalogue: catalogueOf([
    { id: "alpha", model: fast },
    { id: "beta-1", model: fast },
    { id: "beta-2", model: fast },
    { id: "slow", model: slow },
  ]),
});
const redis = await connectRedis(gateway.redis.url, "patient");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
});
const keyspace = keyspaceOf("sluice");
const urls = gateway.ingresses.map((ingress) => ingress.urls.api as string);
/** A key with a record of its own, known to every ingress unless it is refused by its nature. */
async function keyWith(more: Partial<KeyRecord>): Promise<string> {
  const { key, hash, hint } = createKey();
  await addRecord(redis, keyspace, hash, {
    id: `key_${hash.slice(0, 24)}`,
    name: `test-${hint}`,
    group: "default",
    hint,
    createdAt: Date.now(),
    ...more,
  });
  return key;
}

const statusAt = async (url: string, headers: Record<string, string>, query = "") =>
  (await fetch(`${url}/v1/models${query}`, { headers })).status;
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const chatBody = JSON.stringify({ model: "alpha", messages: [{ role: "user", content: "hello" }] });

const live = gateway.key;
const revoked = await keyWith({ revokedAt: Date.now() - 1_000 });
const disabled = await keyWith({ disabledAt: Date.now() - 1_000 });
const expiresAt = Date.now() - 1_000;
const expired = await keyWith({ expiresAt });
const otherDigit = (character: string | undefined) => (character === "0" ? "1" : "0");
const mistyped = live.slice(0, -1) + otherDigit(live.at(-1));

test("a key whose restrictions only a later version knows is not served, and a client tries again elsewhere", async () => {
  const later = await keyWith({ protocol: protocols.current + 1 });
  const own = await keyWith({ protocol: protocols.current });
  for (const url of urls) {
    const response = await fetch(`${url}/v1/models`, { headers: bearer(later) });
    assert.equal(response.status, 503);
    assert.ok(Number(response.headers.get("retry-after")) >= 1);
    assert.equal(await statusAt(url, bearer(own)), 200);
  }
});

test("a key is accepted at once everywhere, also where no notice of it has arrived", async () => {
  for (const url of urls) {
    const { key, hash, hint } = createKey();
    const record = { id: `key_${hash.slice(0, 24)}`, name: "new", group: "default", hint, createdAt: Date.now() };
    assert.equal(await statusAt(url, bearer(key)), 401);
    // Without a notice and a new version, which would make the ingress read it.
    await redis.hset(keyspace.keys, hash, JSON.stringify(record));
    assert.equal(await statusAt(url, bearer(key)), 200);
  }
});

test("a key is read from each place where clients put it", async () => {
  const places: [Record<string, string>, string][] = [
    [bearer(live), ""],
    [{ authorization: `bearer ${live}` }, ""],
    [{ "x-api-key": live }, ""],
    [{ "x-goog-api-key": live }, ""],
    [{}, `?key=${live}`],
    [{}, `?api-key=${live}`],
    [{}, `?pageSize=5&key=${live}`],
  ];
  for (const [headers, query] of places) {
    assert.equal(await statusAt(gateway.url, headers, query), 200, JSON.stringify(headers) + query);
    const response = await fetch(`${gateway.url}/v1/chat/completions${query}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: chatBody,
    });
    assert.equal(response.status, 200);
    await response.arrayBuffer();
  }
});

test("of a valid and a stale key the valid one counts, in any order", async () => {
  for (const stale of [revoked, expired, mistyped, "sk-ant-api03-somebody-else", ""]) {
    assert.equal(await statusAt(gateway.url, { ...bearer(stale), "x-api-key": live }), 200);
    assert.equal(await statusAt(gateway.url, { ...bearer(live), "x-api-key": stale, "x-goog-api-key": stale }), 200);
    assert.equal(await statusAt(gateway.url, { "x-api-key": stale, "x-goog-api-key": live }), 200);
    assert.equal(await statusAt(gateway.url, { "x-goog-api-key": stale }, `?key=${live}`), 200);
    assert.equal(await statusAt(gateway.url, bearer(live), `?key=${stale}`), 200);
  }
});

test("of two valid keys the bearer token counts", async () => {
  const narrow = await gateway.createKey("narrow");
  const response = await fetch(`${gateway.url}/v1/models`, { headers: { ...bearer(narrow), "x-api-key": live } });
  assert.equal(((await response.json()) as { data: unknown[] }).data.length, 1);
});

type Refused = [string, Record<string, string>, string?];

const missing: Refused[] = [
  ["none", {}],
  ["an empty one", { "x-api-key": "" }],
  ["no scheme", { authorization: live }],
  ["another scheme", { authorization: `Basic ${Buffer.from(`user:${live}`).toString("base64")}` }],
  ["a scheme alone", { authorization: "Bearer" }],
  ["in a wrong header", { "x-key": live }],
  ["in a wrong parameter", {}, `?api_key=${live}`],
];

const wrong: [string, string][] = [
  ["another maker's", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"],
  ["a wrong checksum", mistyped],
  ["too short", live.slice(0, -1)],
  ["too long", `${live}0`],
  ["huge", "a".repeat(20_000)],
  ["unknown", createKey().key],
  ["its hash", hashOf(live)],
];

const paths = [
  ["GET", "/v1/models"],
  ["GET", "/v1/models/alpha"],
  ["GET", "/v1/models/unknown"],
  ["POST", "/v1/chat/completions"],
  ["GET", "/v1/chat/completions"],
  ["OPTIONS", "/v1/chat/completions"],
  ["POST", "/v1/v1/chat/completions"],
  ["GET", "/nowhere"],
  ["GET", "/"],
] as const;

/** The one response, byte for byte, to all these requests. */
async function onlyAnswerTo(
  requests: readonly Refused[],
  status: number,
  at: readonly (readonly [method: string, path: string])[],
): Promise<string> {
  const answers = new Set<string>();
  const ids = new Set<string>();
  for (const [name, headers, query = ""] of requests)
    for (const [method, path] of at) {
      const body = method === "POST" ? { body: chatBody } : {};
      const response = await fetch(`${gateway.url}${path}${query}`, {
        method,
        headers: { "content-type": "application/json", ...headers },
        ...body,
      });
      assert.equal(response.status, status, `${name} at ${method} ${path}`);
      ids.add(response.headers.get("x-request-id") ?? "");
      const head = [...response.headers].filter(([header]) => !["x-request-id", "request-id", "date"].includes(header));
      answers.add(JSON.stringify(head) + (await response.text()).replace(/req_\w+/, ""));
    }
  assert.equal(answers.size, 1, [...answers].join("\n"));
  assert.equal(ids.size, requests.length * at.length);
  return [...answers][0]?.replace(/^\[.*?\]\]/, "") ?? "";
}

const advice = "Send a key of this gateway as 'Authorization: Bearer <key>', x-api-key, x-goog-api-key or api-key.";
const noKey = `You didn't provide an API key. ${advice}`;
const wrongKey = `Incorrect API key provided. ${advice}`;
const openaiError = (message: string, code: string | null) => ({
  error: { message, type: "invalid_request_error", param: null, code },
});
const anthropicError = (message: string) => ({
  ...{ type: "error", error: { type: "authentication_error", message }, request_id: "" },
});
const geminiError = (code: number, status: string, message: string, details?: object[]) => ({
  error: { code, message, status, ...(details && { details }) },
});

test("malformed and unknown keys get the same response, byte for byte, on every path", async () => {
  const answer = await onlyAnswerTo(
    wrong.map(([name, key]) => [name, bearer(key)]),
    401,
    paths,
  );
  assert.deepEqual(JSON.parse(answer), openaiError(wrongKey, "invalid_api_key"));
  const head = await fetch(`${gateway.url}/v1/models`, { method: "HEAD", headers: bearer(revoked) });
  assert.equal(head.status, 401);
});

test("a key that was valid once is told why it is no longer, with the status and the code of a wrong one", async () => {
  const other = "Use another key of this gateway.";
  const ends: [key: string, end: string][] = [
    [expired, `it expired at ${new Date(expiresAt).toISOString()}. ${other}`],
    [revoked, `it was revoked. ${other}`],
    [disabled, "its account is disabled. An operator of this gateway can enable it."],
  ];
  for (const [key, end] of ends) {
    const message = `Incorrect API key provided: ${end}`;
    const answerAt = async (status: number, path: string, headers: Record<string, string>) =>
      JSON.parse(await onlyAnswerTo([[end, headers]], status, [["POST", path]]));
    assert.deepEqual(await answerAt(401, "/v1/chat/completions", bearer(key)), openaiError(message, "invalid_api_key"));
    assert.deepEqual(await answerAt(401, "/v1/messages", { "x-api-key": key }), anthropicError(message));
    const google = await answerAt(400, "/v1beta/models/alpha:generateContent", { "x-goog-api-key": key });
    assert.equal(google.error.message, `API key not valid. ${message}`);
    assert.equal(google.error.details[0].reason, "API_KEY_INVALID");
    // A vendor's key beside it says nothing.
    const both = { "x-api-key": key, authorization: "Bearer sk-proj-abcdefghijklmnopqrstuvwxyz0123456789" };
    assert.deepEqual(await answerAt(401, "/v1/messages", both), anthropicError(message));
  }
});

test("a request without a key gets the same response on every path, whatever it has in other places", async () => {
  assert.deepEqual(JSON.parse(await onlyAnswerTo(missing, 401, paths)), openaiError(noKey, null));
});

test("Anthropic's clients get the type and the status of their vendor", async () => {
  const at = [
    ["POST", "/v1/messages"],
    ["POST", "/v1/messages/count_tokens"],
    ["GET", "/v1/messages/batches"],
  ] as const;
  assert.deepEqual(JSON.parse(await onlyAnswerTo(missing, 401, at)), anthropicError(noKey));
  for (const place of [(key: string) => ({ "x-api-key": key }), bearer])
    assert.deepEqual(
      JSON.parse(
        await onlyAnswerTo(
          wrong.map(([name, key]) => [name, place(key)]),
          401,
          at,
        ),
      ),
      anthropicError(wrongKey),
    );
});

test("a line of a batch whose signature or key is not valid is a 401 in each dialect", async () => {
  const headers = { [internalSignatureHeader]: "no signature", "content-type": "application/json" };
  for (const path of ["/v1/chat/completions", "/v1/messages", "/v1beta/models/alpha:generateContent"]) {
    const response = await fetch(`${gateway.url}${path}`, { method: "POST", headers, body: "{}" });
    await response.arrayBuffer();
    assert.equal(response.status, 401, path);
  }
});

const geminiPaths = [
  ["POST", "/v1beta/models/alpha:generateContent"],
  ["POST", "/v1beta/models/alpha:streamGenerateContent"],
  ["POST", "/v1/models/alpha:countTokens"],
  ["GET", "/v1beta/models"],
  ["GET", "/v1beta/models/alpha"],
  ["GET", "/v1beta/files"],
  ["POST", "/upload/v1beta/files"],
  ["GET", "/v1beta/batches"],
  ["GET", "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"],
] as const;

test("Google's clients get the status and the reason of their vendor, wherever their key is", async () => {
  const message = `API key not valid. ${wrongKey}`;
  const invalid = geminiError(400, "INVALID_ARGUMENT", message, [
    {
      "@type": "type.googleapis.com/google.rpc.ErrorInfo",
      reason: "API_KEY_INVALID",
      domain: "googleapis.com",
      metadata: { service: "generativelanguage.googleapis.com" },
    },
    { "@type": "type.googleapis.com/google.rpc.LocalizedMessage", locale: "en-US", message },
  ]);
  for (const place of [
    (key: string): [Record<string, string>, string?] => [{ "x-goog-api-key": key }],
    (key: string): [Record<string, string>, string?] => [{}, `?key=${key.slice(0, 8_000)}`],
    (key: string): [Record<string, string>, string?] => [{ ...bearer(key.slice(0, 5_000)), "x-goog-api-key": "stale" }],
  ])
    assert.deepEqual(
      JSON.parse(
        await onlyAnswerTo(
          wrong.map(([name, key]) => [name, ...place(key)]),
          400,
          geminiPaths,
        ),
      ),
      invalid,
    );
  assert.deepEqual(
    JSON.parse(
      await onlyAnswerTo(
        wrong.map(([name, key]) => [name, bearer(key)]),
        401,
        geminiPaths,
      ),
    ),
    geminiError(401, "UNAUTHENTICATED", wrongKey),
  );
  assert.deepEqual(
    JSON.parse(await onlyAnswerTo(missing, 403, geminiPaths)),
    geminiError(403, "PERMISSION_DENIED", noKey),
  );
});

test("the client throws an AuthenticationError with a request id, also for a body that is not sent completely", async () => {
  for (const content of ["hello", "x".repeat(20 << 20)])
    for (let count = 0; count < 3; count++)
      await assert.rejects(
        gateway
          .client({ key: mistyped })
          .chat.completions.create({ model: "alpha", messages: [{ role: "user", content }] }),
        (error) =>
          error instanceof OpenAI.AuthenticationError &&
          error.code === "invalid_api_key" &&
          /^req_/.test(error.requestID ?? ""),
      );
});

test("without a valid key no body is read or checked", async () => {
  const { status, text } = await exchange(
    gateway.url,
    "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 999999999\r\n\r\n{",
    {
      until: (text) => text.endsWith("}"),
    },
  );
  assert.equal(status, 401);
  assert.match(text, /You didn.t provide an API key/);
});

test("a new key is valid at every ingress within a second, and a revoked one is refused", async () => {
  const key = await keyWith({});
  for (const url of urls)
    await within(1_000, "the new key is good", async () => (await statusAt(url, bearer(key))) === 200);
  await revokeRecord(redis, keyspace, hashOf(key), Date.now());
  for (const url of urls)
    await within(1_000, "the revoked key is refused", async () => (await statusAt(url, bearer(key))) === 401);
});

test("a key expires at its time without further action", async () => {
  const key = await keyWith({ expiresAt: Date.now() + 5_000 });
  await until("it is good", async () => (await statusAt(gateway.url, bearer(key))) === 200, 4_900);
  await until("it is over", async () => (await statusAt(gateway.url, bearer(key))) === 401);
});

test("a key's own list narrows its group's, and neither extends the other", async () => {
  const listed = await keyWith({ models: ["beta-*", "unknown"] });
  const both = await keyWith({ group: "narrow", models: ["alpha", "beta-1"] });
  const nobody = await keyWith({ group: "no-such-group" });
  const idsFor = async (key: string) => {
    await until("the key is known", async () => (await statusAt(gateway.url, bearer(key))) === 200);
    const response = await fetch(`${gateway.url}/v1/models`, { headers: bearer(key) });
    return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
  };
  assert.deepEqual(await idsFor(listed), ["beta-1", "beta-2"]);
  assert.deepEqual(await idsFor(both), ["alpha"]);
  assert.deepEqual(await idsFor(nobody), []);
  const chat = async (key: string, model: string) => {
    const response = await gateway.post({ model, messages: [{ role: "user", content: "hello" }] }, { key });
    await response.arrayBuffer();
    return response.status;
  };
  assert.equal(await chat(listed, "beta-2"), 200);
  assert.equal(await chat(listed, "alpha"), 404);
  assert.equal(await chat(both, "beta-1"), 404);
  assert.equal(await chat(nobody, "alpha"), 404);
});

test("any Host header is accepted", async () => {
  for (const host of ["gateway.example", "cdn.gateway.example:443", "[::1]:8080", "", "ünknown", "a".repeat(300)]) {
    const { status } = await exchange(
      gateway.url,
      `GET /v1/models HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-Host: other.example\r\nAuthorization: Bearer ${live}\r\nConnection: close\r\n\r\n`,
    );
    assert.equal(status, 200, host);
  }
});

test("the running answers of a revoked key end within seconds, and others continue", async () => {
  const revokedKey = await gateway.createKey("default");
  const hash = hashOf(revokedKey);
  const begin = async (key: string) => {
    const response = await gateway.post(
      { model: "slow", stream: true, messages: [{ role: "user", content: "hello" }] },
      { key },
    );
    assert.equal(response.status, 200);
    return response;
  };
  const [ended, other] = [await begin(revokedKey), await begin(live)];
  await revokeRecord(redis, keyspace, hash, Date.now());
  const text = await brokenTextOf(ended);
  assert.match(text, /Incorrect API key provided: it was revoked/);
  assert.doesNotMatch(text, /\[DONE\]/);
  await until("its upstream call has ended", async () =>
    (await gateway.seen(slow)).some(({ outcome }) => outcome === "client-closed"),
  );
  await other.body?.cancel();
});
