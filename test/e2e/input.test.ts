import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, test } from "node:test";
import OpenAI from "openai";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until, workMsOf } from "../support/time.ts";
import { badBodies, requestWith, saying, user } from "./bad-bodies.ts";
import { exchange, modelLine } from "./support.ts";

const gateway = await startGateway({
  catalogue:
    catalogueOf(
      [
        { id: "sim", model: "sim-text;rate=0" },
        { id: "paced", model: "sim-text;rate=50;tokens=5000" },
      ],
      `  other: { dialect: anthropic-messages, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }\n`,
    ) + modelLine({ id: "translated", upstream: "other", model: "sim-text;rate=0" }),
});
/**
 * A second ingress with tight bounds, and a third one that does not wait long: nothing but slow
 * senders is its business.
 */
const bodyBytesMax = 100_000;
const ingressWith = async (environment: Record<string, string>) =>
  (await gateway.addIngress(environment)).urls.api as string;
const tight = await ingressWith({ BODY_BYTES_MAX: String(bodyBytesMax), BODIES_BYTES_MAX: String(1 << 20) });
const { api: hasty = "", operations } = (await gateway.addIngress({ REQUEST_TIMEOUT_MS: "1000" })).urls;
after(() => gateway[Symbol.asyncDispose]());

const journal = async () => (await (await fetch(`${gateway.simulatorUrl}/_simulator/requests`)).json()) as unknown[];
const authorization = `Authorization: Bearer ${gateway.key}\r\n`;
const json = "Content-Type: application/json\r\n";
const chatHead = (more: string) => `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n${authorization}${more}\r\n`;
interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string | null };
}

/** A body that the gateway refuses itself, whatever its size. */
const refused = (content: string) => requestWith({ n: 0, messages: [{ role: "user", content }] });
/** The same body, for a model whose upstream speaks another format. */
const translated = (body: string) => body.replace('"model":"sim"', '"model":"translated"');

test("every invalid body gets its own error, which names the field as its sender would write it", async () => {
  for (const [body, param, message] of badBodies) {
    const response = await gateway.post(translated(body));
    const { error } = (await response.json()) as ErrorBody;
    const name = body.slice(0, 120);
    assert.equal(response.status, 400, name);
    assert.equal(error.param, param, name);
    assert.match(error.message, message, name);
    assert.deepEqual([error.type, error.code], ["invalid_request_error", null], name);
    assert.match(response.headers.get("x-request-id") ?? "", /^req_/);
    if (param !== null) assert.ok(error.message.replaceAll("'", "").startsWith(`${param} `), error.message);
  }
  const { status } = await exchange(
    gateway.url,
    Buffer.concat([
      Buffer.from(chatHead(`${json}Content-Length: 3\r\nConnection: close\r\n`)),
      Buffer.from([0x22, 0xff, 0x22]),
    ]),
  );
  assert.equal(status, 400);
});

test("an invalid nested field is named by its path, and the error repeats no content of the body", async () => {
  const response = await gateway.post(
    translated(saying({ role: "user", content: [{ type: "image_url", image_url: { url: "" } }] })),
  );
  assert.equal(((await response.json()) as ErrorBody).error.param, "messages[0].content[0].image_url.url");
  const secret = await gateway.post(`{"model":"sim","messages":[{"role":"user","content":"a secret"}], a secret`);
  assert.doesNotMatch(await secret.text(), /secret/);
});

test("the client throws a BadRequestError that names the field", async () => {
  const wrong = { model: "translated", messages: [{ role: "user" as const, content: "x" }], temperature: 3 };
  for (const stream of [false, true])
    await assert.rejects(
      gateway.client().chat.completions.create({ ...wrong, stream }),
      (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature",
    );
});

test("a body over the limit is refused, with or without a Content-Length, and the sender receives the response", async () => {
  const announced = await exchange(tight, chatHead(`${json}Content-Length: ${bodyBytesMax + 1}\r\n`), {
    until: (text) => text.endsWith("}"),
  });
  assert.equal(announced.status, 413);
  assert.equal(JSON.parse(announced.body).error.code, "request_too_large");
  assert.match(announced.body, /100000 bytes/);
  for (let count = 0; count < 3; count++) {
    const large = requestWith({ messages: [{ role: "user", content: "x".repeat(8 << 20) }] });
    assert.equal((await gateway.post(large, { url: tight })).status, 413);
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ < 40) controller.enqueue(new Uint8Array(100_000).fill(0x20));
        else controller.close();
      },
    });
    const response = await fetch(`${tight}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body,
      duplex: "half",
    } as RequestInit);
    assert.equal(response.status, 413);
    assert.equal(((await response.json()) as ErrorBody).error.code, "request_too_large");
  }
  const most = refused("x".repeat(bodyBytesMax - refused("").length));
  assert.equal((await gateway.post(most, { url: tight })).status, 400);
  assert.equal((await gateway.post(`${most} `, { url: tight })).status, 413);
});

test("a body of unknown length is accepted if it is small enough", async () => {
  const { status, body } = await exchange(
    tight,
    `${chatHead(`${json}Transfer-Encoding: chunked\r\nConnection: close\r\n`)}2\r\n{}\r\n0\r\n\r\n`,
  );
  assert.equal(status, 400);
  assert.equal(JSON.parse(body).error.param, "model");
});

test("large bodies beyond the memory bound are refused before they are read, and accepted again when memory is free", async () => {
  const { hostname, port } = new URL(tight);
  const sockets = Array.from({ length: 10 }, () => {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined);
    socket.write(
      `${chatHead(`${json}Transfer-Encoding: chunked\r\n`)}${(99_000).toString(16)}\r\n${"{".padEnd(99_000)}\r\n`,
    );
    return socket;
  });
  const post = async () => {
    const response = await gateway.post(refused("x".repeat(80_000)), { url: tight });
    return { status: response.status, retryAfter: response.headers.get("retry-after"), text: await response.text() };
  };
  let answer = await post();
  await until("there is no room", async () => {
    answer = await post();
    return answer.status !== 400;
  });
  assert.equal(answer.status, 503);
  assert.equal(answer.retryAfter, "1");
  assert.match(answer.text, /"code":"server_is_overloaded"/);
  for (const socket of sockets) socket.destroy();
  await until("there is room again", async () => (await post()).status === 400);
});

test("an announced body that is not sent reserves no memory", async () => {
  const { hostname, port } = new URL(tight);
  const senders = Array.from({ length: 20 }, () => {
    const sender = { socket: connect(Number(port), hostname), told: "" };
    sender.socket.on("data", (bytes: Buffer) => {
      sender.told += bytes.toString();
    });
    sender.socket.write(`${chatHead(`${json}Content-Length: 99000\r\nExpect: 100-continue\r\n`)}{`);
    return sender;
  });
  await until("all were heard", () => senders.every(({ told }) => /^HTTP\/1.1 (100|503) /.test(told)));
  const { status } = await gateway.post(refused("x".repeat(60_000)), { url: tight });
  assert.equal(status, 400);
  for (const { socket } of senders) socket.destroy();
});

test("a body without a JSON content type, or in an unknown content coding, is refused", async () => {
  for (const more of [
    "",
    "Content-Type: text/plain\r\n",
    "Content-Type: application/x-www-form-urlencoded\r\n",
    "Content-Type: multipart/form-data; boundary=x\r\n",
    "Content-Type: application/jsonp\r\n",
    "Content-Type: ;;;\r\n",
    `${json}Content-Encoding: compress\r\n`,
    `${json}Content-Encoding: gzip, br\r\n`,
  ]) {
    const { status, body } = await exchange(
      gateway.url,
      `${chatHead(`${more}Content-Length: 2\r\nConnection: close\r\n`)}{}`,
    );
    assert.equal(status, 415, more);
    assert.equal(JSON.parse(body).error.code, "unsupported_media_type");
  }
  for (const more of [
    "Content-Type: application/json; charset=utf-8\r\n",
    "Content-Type: Application/JSON\r\n",
    `${json}Content-Encoding: identity\r\n`,
  ]) {
    const { status } = await exchange(
      gateway.url,
      `${chatHead(`${more}Content-Length: 2\r\nConnection: close\r\n`)}{}`,
    );
    assert.equal(status, 400, more);
  }
});

test("a wrong method gets the list of right ones, whatever its body", async () => {
  for (const [method, path, allow] of [
    ["GET", "/v1/chat/completions", "POST"],
    ["HEAD", "/v1/chat/completions", "POST"],
    ["PUT", "/v1/chat/completions", "POST"],
    ["DELETE", "/v1/chat/completions", "POST"],
    ["OPTIONS", "/v1/chat/completions", "POST"],
    ["PROPFIND", "/v1/chat/completions", "POST"],
    ["POST", "/v1/models", "GET, HEAD"],
    ["PATCH", "/v1/models", "GET, HEAD"],
    ["POST", "/v1/models/sim", "GET, HEAD"],
    ["OPTIONS", "/v1/models", "GET, HEAD"],
  ] as const) {
    const body = ["GET", "HEAD"].includes(method)
      ? {}
      : { body: "{ no JSON", headers: { "x-api-key": gateway.key, "content-type": "text/plain" } };
    const response = await fetch(`${gateway.url}${path}`, { method, headers: { "x-api-key": gateway.key }, ...body });
    assert.equal(response.status, 405, `${method} ${path}`);
    assert.equal(response.headers.get("allow"), allow);
    const text = await response.text();
    if (method !== "HEAD") assert.equal(JSON.parse(text).error.code, "method_not_allowed");
  }
});

const openaiShape = { type: "invalid_request_error", param: null, code: "unknown_url" };
const anthropicShape = { type: "not_found_error" };
const googleShape = { code: 404, status: "NOT_FOUND" };

async function unknownPath(path: string, shape: object, headers: Record<string, string> = {}): Promise<string> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json", ...headers },
    body: requestWith({}),
  });
  const { error } = (await response.json()) as ErrorBody;
  assert.equal(response.status, 404, path);
  assert.deepEqual({ ...error, message: "" }, { message: "", ...shape }, path);
  return error.message;
}

test("a path under a wrong base URL gets an error in the suggested dialect, with the right path and base URL", async () => {
  const [withVersion, withoutVersion] = [/ address with one \/v1 at the end/, / address without a path/];
  for (const [path, meant, shape, advice] of [
    ["/v1/v1/chat/completions", "/v1/chat/completions", openaiShape, withVersion],
    ["/chat/completions/", "/v1/chat/completions", openaiShape, withVersion],
    ["/v1/chat/completions/", "/v1/chat/completions", openaiShape, withVersion],
    ["/v1/responses/", "/v1/responses", openaiShape, withVersion],
    ["//v1/chat/completions", "/v1/chat/completions", openaiShape, withVersion],
    ["/v1//embeddings", "/v1/embeddings", openaiShape, withVersion],
    ["/v1/v1beta/openai/chat/completions", "/v1/chat/completions", openaiShape, withVersion],
    ["/v1/v1/v1/responses", "/v1/responses", openaiShape, withVersion],
    ["/responses/compact/", "/v1/responses/compact", openaiShape, withVersion],
    ["/v1/v1/messages?beta=true", "/v1/messages", anthropicShape, withoutVersion],
    ["//v1/messages", "/v1/messages", anthropicShape, withoutVersion],
    ["/messages", "/v1/messages", anthropicShape, /AI SDK's Anthropic provider wants \/v1/],
    ["/v1/messages/count_tokens/", "/v1/messages/count_tokens", anthropicShape, withoutVersion],
    ["/v1/v1beta/models/m:generateContent", "/v1beta/models/m:generateContent", googleShape, withoutVersion],
    ["/v1beta/v1beta/models/m:generateContent", "/v1beta/models/m:generateContent", googleShape, withoutVersion],
    [
      "/v1beta/v1/models/m:streamGenerateContent?alt=sse",
      "/v1beta/models/m:streamGenerateContent",
      googleShape,
      withoutVersion,
    ],
    ["/v1/v1/models/sim", "/v1/models/sim", openaiShape, withVersion],
  ] as const) {
    const message = await unknownPath(path, shape);
    assert.ok(
      message.startsWith(
        `There is no POST ${path.split("?")[0]} here. The path is ${meant}. Set the client's base URL to `,
      ),
      message,
    );
    assert.match(message, advice, path);
  }
});

test("an unknown path of Azure's client gets advice for that client", async () => {
  for (const [path, meant] of [
    ["/openai/openai/deployments/m/chat/completions?api-version=1", "/openai/deployments/m/chat/completions"],
    ["/openai/deployments/m/v1/chat/completions", "/openai/deployments/m/chat/completions"],
    ["/openai/deployments/a/openai/deployments/b/embeddings", "/openai/deployments/b/embeddings"],
    ["/deployments/m/chat/completions", "/openai/deployments/m/chat/completions"],
    ["/openai/v1/v1/chat/completions", "/openai/v1/chat/completions"],
    ["/openai/openai/v1/responses", "/openai/v1/responses"],
    ["/openai/chat/completions/", "/openai/v1/chat/completions"],
  ] as const)
    assert.equal(
      await unknownPath(path, openaiShape),
      `There is no POST ${path.split("?")[0]} here. The path is ${meant}. Set the endpoint of Azure's client to this gateway's address without a path; a base URL ends with /openai or /openai/v1.`,
    );
  for (const path of ["/openai/deployments/m/nothing", "/openai/openai/nothing", "/deployments/m", "/openai/v1/"])
    assert.match(await unknownPath(path, openaiShape), /^There is no POST \S* here\.$/);
});

test("an unknown path gets an error in the dialect of the caller's headers, without advice", async () => {
  for (const path of ["/v1", "/v1/", "/v1/nothing", "/v2/chat", "/metrics", "/healthz", "/queues", "//"])
    for (const [shape, headers] of [
      [openaiShape, {}],
      [anthropicShape, { "anthropic-version": "2023-06-01" }],
      [googleShape, { "x-goog-api-key": gateway.key }],
      [googleShape, { "x-goog-api-client": "google-genai-sdk/3.1.0 gl-node/v24" }],
    ] as const)
      assert.match(await unknownPath(path, shape, headers), /^There is no POST \/\S* here\.$/, path);
  assert.match(await unknownPath("/v1beta/nothing", googleShape), /^There is no POST \/v1beta\/nothing here\.$/);
  assert.ok((await unknownPath(`/${"x".repeat(5_000)}`, openaiShape)).length < 300);
  assert.equal((await fetch(`${gateway.url}/v1/models/%zz`, { headers: { "x-api-key": gateway.key } })).status, 404);
});

test("headers that are too large are refused", async () => {
  const { status, body } = await exchange(
    gateway.url,
    `GET /v1/models HTTP/1.1\r\nHost: x\r\n${authorization}X: ${"a".repeat(40_000)}\r\n\r\n`,
  );
  assert.equal(status, 431);
  assert.equal(JSON.parse(body).error.code, "headers_too_large");
});

test("a slow sender of headers or of a body is timed out", async () => {
  const [headers, body] = await Promise.all([
    exchange(hasty, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX: "),
    exchange(hasty, `${chatHead(`${json}Content-Length: 1000\r\n`)}{"model":`),
  ]);
  for (const { status, body: text, answers } of [headers, body]) {
    assert.equal(status, 408);
    assert.equal(answers, 1);
    assert.equal(JSON.parse(text).error.code, "request_timeout");
  }
});

test("a slow sender that stays connected is disconnected, and keeps no memory", async () => {
  const { hostname, port } = new URL(hasty);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  const told = new Promise<string>((resolve) => socket.once("data", (bytes: Buffer) => resolve(bytes.toString())));
  socket.write(`${chatHead(`${json}Content-Length: 50000\r\n`)}{"model":`);
  assert.match(await told, /^HTTP\/1\.1 408 /);
  await until("nothing of it is held", async () =>
    /sluice_bodies_bytes 0\n/.test(await (await fetch(`${operations}/metrics`)).text()),
  );
  socket.destroy();
});

test("bytes that are not HTTP are refused with a plain message", async () => {
  for (const bytes of [
    "hello there\r\n\r\n",
    "\u0016\u0003\u0001\u0002\u0000",
    "FOO /v1/models HTTP/1.1\r\n\r\n",
    `${chatHead(`${json}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n`)}0\r\n\r\n`,
    `${chatHead(`${json}Content-Length: -1\r\n`)}`,
    `${chatHead(`${json}Transfer-Encoding: chunked\r\n`)}zz\r\n`,
  ]) {
    const { status, body, headers } = await exchange(gateway.url, bytes);
    assert.equal(status, 400, JSON.stringify(bytes));
    assert.equal(headers.connection, "close");
    assert.match(JSON.parse(body).error.message, /not a valid HTTP/);
  }
});

test("HTTP/1.0 is answered", async () => {
  const { status, body } = await exchange(gateway.url, `GET /v1/models HTTP/1.0\r\n${authorization}\r\n`);
  assert.equal(status, 200);
  assert.equal(JSON.parse(body).data[0].id, "sim");
  const post = chatHead(`${json}Content-Length: 2\r\nExpect: 100-continue\r\n`).replace("HTTP/1.1", "HTTP/1.0");
  assert.equal((await exchange(gateway.url, `${post}{}`)).status, 400, "without an interim response");
});

const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);

test("bodies that are deep or have very many parts are refused or accepted in bounded time", async () => {
  const workMs = await workMsOf(async () => {
    for (const body of [
      nested(100_000),
      '{"a":'.repeat(100_000),
      requestWith({ model: 1 }).replace("1", nested(100_000)),
      '{"messages":'.repeat(1_000) + "}".repeat(1_000),
    ])
      assert.equal((await gateway.post(body)).status, 400);
    const many = saying(...Array.from({ length: 90_000 }, () => user), { role: "robot", content: "x" });
    const { error } = (await (await gateway.post(translated(many))).json()) as ErrorBody;
    assert.equal(error.param, "messages[90000].role");
    const wide = `{${Array.from({ length: 200_000 }, (_, index) => `"k${index}":0`).join(",")}}`;
    assert.equal((await gateway.post(wide)).status, 400);
  });
  assert.ok(workMs < 5_000, `${workMs} ms`);
});

test("none of these requests reached an upstream", async () => {
  assert.deepEqual(await journal(), []);
});

test("unknown fields and long conversations are passed on; endless nesting is refused", async () => {
  const deep = requestWith({ unknown: 0, stream_options: null }).replace(
    '"unknown":0',
    `"unknown":${nested(190)},"__proto__":{"stream":true},"constructor":1`,
  );
  assert.equal((await gateway.post(deep)).status, 200);
  const refused = await gateway.post(
    requestWith({ unknown: 0 }).replace('"unknown":0', `"unknown":${nested(100_000)}`),
  );
  assert.equal(refused.status, 400);
  assert.match(((await refused.json()) as ErrorBody).error.message, /nested more than 200 levels/);
  const many = saying(...Array.from({ length: 90_000 }, () => user));
  assert.equal((await gateway.post(many)).status, 200);
  assert.equal((await journal()).length, 2);
});

test("nothing is written into a running response, whatever its caller sends meanwhile", async () => {
  const body = requestWith({ model: "paced", stream: true });
  let garbled = false;
  const { answers, text } = await exchange(
    gateway.url,
    `${chatHead(`${json}Content-Length: ${body.length}\r\n`)}${body}`,
    {
      more: () => {
        if (garbled) return undefined;
        garbled = true;
        return "garbage\r\n\r\n";
      },
    },
  );
  assert.equal(answers, 1);
  assert.doesNotMatch(text, /not a valid HTTP/);
});

test("bad requests are counted by code, and no caller's path becomes a label", async () => {
  const metrics = await metricsOf(gateway.ingresses[0]);
  for (const code of ["invalid_request", "path_not_found", "method_not_allowed", "unsupported_media_type"])
    assert.match(metrics, new RegExp(`sluice_errors_total\\{code="${code}"\\} [1-9]`));
  const paths = new Set(
    [...metrics.matchAll(/sluice_requests_total\{path="([^"]*)".*\} [1-9]/g)].map(([, path]) => path),
  );
  assert.deepEqual([...paths].toSorted(), ["/v1/chat/completions", "/v1/models", "/v1/models/*", "other"]);
  await until("no bytes are held", async () => /sluice_bodies_bytes 0\n/.test(await metricsOf(gateway.ingresses[0])));
});
