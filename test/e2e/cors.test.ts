/** Pages in browsers as callers: https://fetch.spec.whatwg.org/#http-cors-protocol */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import WebSocket from "ws";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { exchange } from "./support.ts";

const app = "https://app.example";
const other = "https://other.example";
const lone = "tauri://localhost";
const gateway = await startGateway({
  catalogue: catalogueOf([
    { id: "sim", model: "sim-text;rate=0" },
    { id: "failing", model: "sim-text;status=503" },
  ]).replace(
    "groups:\n",
    `groups:\n  web: { models: ["*"], origins: ["${app}"], keyLimits: { requestsPerMinute: 1000 } }\n`,
  ),
  workers: ["chat=16,background=4"],
  environment: { BODY_BYTES_MAX: "100000" },
});
after(() => gateway[Symbol.asyncDispose]());
const web = await gateway.createKey("web");
const closed = await gateway.createKey("web", { origins: [] });
const own = await gateway.createKey("default", { origins: [lone] });
const slow = await gateway.createKey("web", { limits: { requestsPerMinute: 1 } });

interface Asking {
  method?: string;
  origin?: string | undefined;
  key?: string | undefined;
  headers?: Record<string, string>;
  body?: string;
}

const ask = (path: string, { method = "POST", origin, key, headers = {}, body }: Asking = {}) =>
  fetch(`${gateway.url}${path}`, {
    method,
    headers: {
      ...(origin !== undefined && { origin }),
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { body }),
  });

const chat = (more: object = {}) =>
  JSON.stringify({ model: "sim", messages: [{ role: "user", content: "hello" }], ...more });

const preflight = (path: string, origin: string, requestHeaders = "authorization, content-type, x-stainless-new") =>
  ask(path, {
    method: "OPTIONS",
    origin,
    headers: { "access-control-request-method": "POST", "access-control-request-headers": requestHeaders },
  });

/** Fails unless a page of the origin can read the response with its headers. */
function assertReadable({ headers }: Response, origin = app) {
  assert.equal(headers.get("access-control-allow-origin"), origin);
  assert.equal(headers.get("vary"), "origin");
  const exposed = (headers.get("access-control-expose-headers") ?? "").split(", ");
  for (const name of ["x-request-id", "request-id", "retry-after", "retry-after-ms", "x-should-retry"])
    assert.ok(exposed.includes(name), name);
  for (const name of headers.keys())
    if (/^(x-(?!accel)|anthropic-|request-id|retry-after)/.test(name)) assert.ok(exposed.includes(name), name);
}

test("a preflight needs no key, on every path and for every model", async () => {
  for (const path of [
    "/v1/chat/completions",
    "/v1/responses/resp_1?stream=true",
    "/v1/messages",
    "/v1beta/models/unknown:streamGenerateContent?alt=sse",
    "/v1/models",
    "/v1/unknown",
    "/",
  ])
    for (const origin of [app, lone]) {
      const requestHeaders = "authorization, x-stainless-os, anthropic-beta, x-goog-api-key, api-key";
      const { status, headers } = await preflight(path, origin, requestHeaders);
      assert.equal(status, 204, path);
      assert.equal(headers.get("access-control-allow-origin"), origin);
      assert.equal(headers.get("access-control-allow-headers"), requestHeaders);
      assert.match(headers.get("access-control-allow-methods") ?? "", /GET.*POST.*PATCH.*DELETE/);
      assert.equal(headers.get("access-control-max-age"), "7200");
      assert.equal(headers.get("vary"), "origin");
    }
});

test("a preflight from an origin that no key allows is refused without CORS headers", async () => {
  for (const origin of [other, "null", `${app}.evil.example`, "http://app.example"]) {
    const response = await preflight("/v1/chat/completions", origin);
    assert.equal(response.status, 403);
    assert.equal(response.headers.get("access-control-allow-origin"), null);
    assert.equal(response.headers.get("access-control-allow-headers"), null);
  }
});

test("OPTIONS that is no preflight needs a key as before", async () => {
  assert.equal((await ask("/v1/chat/completions", { method: "OPTIONS", origin: app })).status, 401);
  assert.equal((await ask("/v1/chat/completions", { method: "OPTIONS", key: web })).status, 405);
});

test("pages of an allowed origin read answers, whole, streamed and from another dialect's path", async () => {
  for (const [key, origin] of [
    [web, app],
    [own, lone],
  ] as const) {
    const whole = await ask("/v1/chat/completions", { key, origin, body: chat() });
    assert.equal(whole.status, 200);
    assertReadable(whole, origin);
    const streamed = await ask("/v1/chat/completions", { key, origin, body: chat({ stream: true }) });
    assert.match(await streamed.text(), /data: \[DONE\]/);
    assertReadable(streamed, origin);
    const list = await ask("/v1/models", { method: "GET", key, origin });
    assert.equal(list.status, 200);
    assertReadable(list, origin);
  }
  const google = await ask("/v1beta/models/sim:streamGenerateContent?alt=sse", {
    origin: app,
    headers: { "x-goog-api-key": web },
    body: JSON.stringify({ contents: [{ role: "user", parts: [{ text: "hello" }] }] }),
  });
  assert.match(await google.text(), /STOP/);
  assertReadable(google);
});

test("stored, background and joined answers are readable, too", async () => {
  const body = { model: "sim", input: "hello", background: true };
  const polled = await ask("/v1/responses", { key: web, origin: app, body: JSON.stringify(body) });
  assertReadable(polled);
  const streamed = await ask("/v1/responses", {
    key: web,
    origin: app,
    body: JSON.stringify({ ...body, stream: true }),
  });
  assertReadable(streamed);
  const id = /"id":"(resp_\w+)"/.exec(await streamed.text())?.[1];
  const events = await ask(`/v1/responses/${id}?stream=true`, { method: "GET", key: web, origin: app });
  assert.match(await events.text(), /response\.completed/);
  assertReadable(events);
  for (let count = 0; count < 2; count++) {
    const joined = await ask("/v1/chat/completions", {
      key: web,
      origin: app,
      body: chat(),
      headers: { "idempotency-key": "one" },
    });
    assert.equal(joined.status, 200);
    assertReadable(joined);
  }
});

test("pages of an allowed origin read every error", async () => {
  await ask("/v1/chat/completions", { key: slow, body: chat() });
  const cases: [number, string, Asking][] = [
    [401, "/v1/chat/completions", { body: chat() }],
    [401, "/v1/messages", { key: "sk-wrong", body: chat() }],
    [404, "/v1/chat/completions", { key: web, body: chat({ model: "unknown" }) }],
    [404, "/v1/unknown", { key: web, method: "GET" }],
    [404, "/v1/%zz", { key: web, method: "GET" }],
    [405, "/v1/chat/completions", { key: web, method: "GET" }],
    [413, "/v1/chat/completions", { key: web, body: chat({ user: "x".repeat(200_000) }) }],
    [415, "/v1/chat/completions", { key: web, body: chat(), headers: { "content-type": "text/plain" } }],
    [429, "/v1/chat/completions", { key: slow, body: chat() }],
    [400, "/v1/chat/completions", { key: web, body: chat({ stream: 3 }) }],
    [503, "/v1/chat/completions", { key: web, body: chat({ model: "failing" }) }],
    [503, "/v1/chat/completions", { key: web, body: chat({ model: "failing", stream: true }) }],
  ];
  for (const [status, path, asking] of cases) {
    const response = await ask(path, { origin: app, ...asking });
    assert.equal(response.status, status, `${path} ${asking.body?.slice(0, 60)}`);
    assertReadable(response);
  }
});

test("a key may not be used from pages that neither it nor its group allows", async () => {
  const refused: [string, string, boolean][] = [
    [gateway.key, app, true],
    [closed, app, true],
    [own, app, true],
    [web, lone, true],
    [web, other, false],
  ];
  for (const [key, origin, isReadable] of refused) {
    const openai = await ask("/v1/chat/completions", { key, origin, body: chat() });
    assert.equal(openai.status, 403);
    assert.equal(openai.headers.get("access-control-allow-origin"), isReadable ? origin : null);
    const { error } = (await openai.json()) as { error: { code: string; message: string } };
    assert.equal(error.code, "origin_not_allowed");
    assert.ok(error.message.includes(origin));
    const anthropic = await ask("/v1/messages", { key, origin, body: "{}" });
    assert.deepEqual(
      [anthropic.status, ((await anthropic.json()) as { error: { type: string } }).error.type],
      [403, "permission_error"],
    );
    const google = await ask("/v1beta/models/sim:generateContent", { key, origin, body: "{}" });
    assert.deepEqual(
      [google.status, ((await google.json()) as { error: { status: string } }).error.status],
      [403, "PERMISSION_DENIED"],
    );
  }
});

test("a page that is served under the gateway's own address needs no permission", async () => {
  const head = `GET /v1/models HTTP/1.1\r\nHost: gateway.example\r\nConnection: close\r\nAuthorization: Bearer ${gateway.key}\r\n`;
  assert.equal((await exchange(gateway.url, `${head}Origin: https://gateway.example\r\n\r\n`)).status, 200);
  assert.equal((await exchange(gateway.url, `${head}Origin: https://gateway.example.org\r\n\r\n`)).status, 403);
});

test("requests without an Origin get no CORS headers", async () => {
  const response = await ask("/v1/chat/completions", { key: web, body: chat() });
  assert.equal(response.status, 200);
  for (const name of response.headers.keys()) assert.ok(name !== "vary" && !name.startsWith("access-control-"), name);
});

test("a WebSocket handshake from a page needs an allowed origin", async () => {
  const open = async (origin: string | undefined, key: string) => {
    const socket = new WebSocket(`${gateway.url.replace("http", "ws")}/v1/responses`, {
      headers: { authorization: `Bearer ${key}` },
      ...(origin !== undefined && { origin }),
    });
    const status = await Promise.race([
      once(socket, "open").then(() => 101),
      once(socket, "unexpected-response").then(([, { statusCode }]) => statusCode as number),
    ]);
    socket.on("error", () => undefined);
    socket.terminate();
    return status;
  };
  assert.deepEqual(
    [await open(app, web), await open(undefined, gateway.key), await open(app, gateway.key), await open(other, web)],
    [101, 101, 403, 403],
  );
});
