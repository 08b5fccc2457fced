import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { brokenTextOf } from "../support/stream.ts";
import { until } from "../support/time.ts";
import {
  bodyAnswer,
  chunkedAnswer,
  dataEvent,
  jsonAnswer,
  startScriptedUpstream,
  streamAnswer,
  type UpstreamAnswer,
} from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const refusals = [401, 402, 403, 404, 405];
const upstream = await startScriptedUpstream();
const gateway = await startGateway({
  catalogue:
    catalogueOf(
      [{ id: "sim", model: "sim-text" }],
      `  scripted: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}", credential: SCRIPTED_CREDENTIAL, headers: { x-project: "nine" } }\n` +
        `  plain: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}", streamUsage: false }\n`,
    ) +
    modelLine({ id: "mine", upstream: "scripted", model: "their/Model-7" }) +
    // Each has a target of its own, for a refused credential cools down.
    refusals
      .map((status) => modelLine({ id: `refused-${status}`, upstream: "scripted", model: `their/Model-${status}` }))
      .join("") +
    modelLine({ id: "no-usage", upstream: "plain", model: "their/Model-7" }),
  environment: { SCRIPTED_CREDENTIAL: "upstream-credential-1234" },
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});
const client = gateway.client();

const messages = [{ role: "user" as const, content: "hello" }];
const wholeText =
  '{"id":"x","object":"chat.completion","created":1,"model":"their/Model-7","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}';
const chunkText = (delta: object, finish: string | null = null) =>
  JSON.stringify({
    id: "x",
    object: "chat.completion.chunk",
    created: 1,
    model: "their/Model-7",
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
const events = (...data: string[]) => data.map(dataEvent).join("");

test("a request reaches the upstream byte for byte, except the model's name", async () => {
  upstream.answerWith(jsonAnswer(wholeText));
  const text =
    '\r\n{ "model" : "mine",\t"messages":[ {"role":"user","content":"h\\u00e9 \u00e9 😀", "new_field":[1.0,-0,1e400]} ],\n "top_k" : 12345678901234567890, "seed":9007199254740991, "__proto__":{"x":1}, "thinking":{"type":"enabled","model":"mine"}}\n ';
  const response = await gateway.post(text);
  assert.equal(response.status, 200, await response.clone().text());
  assert.equal(upstream.last().body.toString(), text.replace('"mine"', '"their/Model-7"'));
  assert.equal(upstream.last().path, "/v1/chat/completions");
});

test("extensions of OpenAI's format reach the upstream unchanged", async () => {
  upstream.answerWith(jsonAnswer(wholeText));
  const user = { role: "user", content: "hi" };
  for (const fields of [
    { max_tokens: -1 },
    { max_tokens: 0, max_completion_tokens: 4_000_000_000 },
    { temperature: 2.5, top_p: 1.5, top_logprobs: 50, frequency_penalty: 3, seed: -1 },
    { messages: [{ role: "user", content: [{ type: "image_url", image_url: "data:image/png;base64,iVBORw0KGgo=" }] }] },
    {
      messages: [
        user,
        { role: "assistant", content: null, tool_calls: [{ function: { name: "f", arguments: {} } }] },
        { role: "tool", content: "r" },
      ],
    },
    { messages: [{ role: "critic", content: null }, { content: "no role" }, user] },
    { tools: [{ name: "f" }, { function: { name: "f" } }], tool_choice: { name: "f" } },
    {
      response_format: { type: "regex", pattern: "a+" },
      stop: 7,
      logit_bias: [[1, 2]],
      metadata: "m",
      reasoning_effort: 3,
      user: 7,
    },
  ]) {
    const text = JSON.stringify({ model: "mine", messages: [user], ...fields });
    const response = await gateway.post(text);
    assert.equal(response.status, 200, `${text}: ${await response.clone().text()}`);
    assert.equal(upstream.last().body.toString(), text.replace('"mine"', '"their/Model-7"'));
  }
});

test("a stream that breaks ends with an error, and never as a complete answer", async () => {
  const call = (input: string) =>
    chunkText({ tool_calls: [{ index: 0, id: "c", type: "function", function: { name: "move", arguments: input } }] });
  const broken: string[] = [
    call('ta/tmp","amount":100').slice(0, -9),
    "7",
    JSON.stringify({
      choices: [{ index: 0, delta: {}, finish_reason: "error", error: { code: 502, message: "theirs" } }],
    }),
    chunkText({}, "insufficient_system_resource"),
  ];
  for (const event of broken) {
    upstream.answerWith(
      streamAnswer(events(call('{"path":"/srv/da'), event, call("0}"), chunkText({}, "tool_calls"), "[DONE]")),
    );
    const text = await brokenTextOf(await gateway.post({ model: "mine", messages, stream: true }));
    assert.match(
      text,
      /\{"error":\{"message":"[^"]+","type":"server_error","param":null,"code":"upstream_error"\}\}\n\n$/,
      event,
    );
    assert.doesNotMatch(text, /\[DONE\]|tool_calls"\}\]|theirs/);
    upstream.answerWith(streamAnswer(events(event, call("0}"), chunkText({}, "tool_calls"), "[DONE]")));
    assert.equal((await gateway.post({ model: "mine", messages, stream: true })).status, 502, event);
  }
});

test("a whole answer reaches the caller byte for byte, except the model's name", async () => {
  const text =
    ' {"id":"x", "model" : "their/Model-7","object":"chat.completion","created":1,"new":{"model":"their/Model-7"},"big":12345678901234567890,\r\n"choices":[{"index":0,"message":{"role":"assistant","content":"\\u00e9","x":1.0},"finish_reason":"stop"}] , "usage":null}\n';
  upstream.answerWith(jsonAnswer(text));
  const response = await gateway.post({ model: "mine", messages });
  assert.equal(await response.text(), text.replace("their/Model-7", "mine"));
});

test("a stream's events reach the caller byte for byte, except the model's name, however they are split and ended", async () => {
  const first =
    '{ "id":"x","object":"chat.completion.chunk","created":1,"model":"their/Model-7", "choices":[{"index":0,"delta":{"content":"é\u2028😀"},"new":12345678901234567890}]}';
  const text = `: comment\r\n\r\nid: 1\r\ndata:${first}\r\n\r\n\n\nevent: x\ndata: ${chunkText({ content: "b" })}\r\rdata: ${chunkText({}, "stop")}\n\ndata: [DONE]`;
  upstream.answerWith(
    chunkedAnswer(() =>
      Buffer.from(text)
        .values()
        .map((byte) => Buffer.from([byte])),
    ),
  );
  const response = await gateway.post({ model: "mine", messages, stream: true });
  assert.equal(
    await response.text(),
    events(first, chunkText({ content: "b" }), chunkText({}, "stop"), "[DONE]").replaceAll("their/Model-7", "mine"),
  );
});

test("the client sees unknown fields of an answer", async () => {
  upstream.answerWith(jsonAnswer(wholeText.replace('"content":"hi"', '"content":"hi","reasoning_details":[{"a":1}]')));
  const completion = await client.chat.completions.create({ model: "mine", messages });
  assert.deepEqual(
    { ...completion.choices[0]?.message },
    { role: "assistant", content: "hi", reasoning_details: [{ a: 1 }] },
  );
});

test("an upstream gets its own credential and headers, and none of the caller's", async () => {
  upstream.answerWith(jsonAnswer(wholeText));
  const headers = {
    "x-api-key": gateway.key,
    cookie: "a=b",
    "openai-organization": "org-1",
    "x-forwarded-for": "1.2.3.4",
    "x-simulate": "status=500",
  };
  await (await gateway.post({ model: "mine", messages }, { headers })).text();
  const seen = upstream.last().headers;
  assert.equal(seen.authorization, "Bearer upstream-credential-1234");
  assert.equal(seen["x-project"], "nine");
  for (const name of Object.keys(headers)) assert.equal(seen[name], undefined, name);
  assert.ok(!JSON.stringify(seen).includes(gateway.key.slice(-8)));
});

test("a caller gets none of an upstream's headers", async () => {
  upstream.answerWith(
    jsonAnswer(wholeText, 200, {
      "openai-model": "m",
      "openai-organization": "org-secret",
      "set-cookie": "a=b",
      "x-ratelimit-limit-requests": "5",
    }),
  );
  const response = await gateway.post({ model: "mine", messages });
  assert.deepEqual([...response.headers.keys()].toSorted(), [
    "connection",
    "content-length",
    "content-type",
    "date",
    "keep-alive",
    "x-request-id",
  ]);
});

test("usage is requested only in streams, and only from upstreams that support it", async () => {
  const bodyFor = async (body: object) => {
    const stream = streamAnswer(events(chunkText({ content: "a" }), chunkText({}, "stop"), "[DONE]"));
    upstream.answerWith((response, { json }) => (json.stream ? stream : jsonAnswer(wholeText))(response));
    const response = await gateway.post({ messages, ...body });
    assert.equal(response.status, 200);
    await response.text();
    return upstream.last().json.stream_options;
  };
  assert.deepEqual(await bodyFor({ model: "mine", stream: true }), { include_usage: true });
  assert.deepEqual(await bodyFor({ model: "mine", stream: true, stream_options: { include_obfuscation: false } }), {
    include_obfuscation: false,
    include_usage: true,
  });
  assert.equal(await bodyFor({ model: "mine" }), undefined);
  assert.equal(await bodyFor({ model: "mine", stream: false, stream_options: { include_usage: true } }), undefined);
  assert.equal(await bodyFor({ model: "no-usage", stream: true }), undefined);
  assert.equal(await bodyFor({ model: "no-usage", stream: true, stream_options: { include_usage: true } }), undefined);
});

/** How long a worker waits for a terminator alone. */
const lingerMs = 2_000;
const usageText = '{"id":"x","model":"their/Model-7","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}';

test("a stream with its usage ends at once, and one with only its finish soon, even if the upstream keeps the connection open", async () => {
  const timed = async (...rest: string[]) => {
    upstream.answerWith(streamAnswer(events(chunkText({ content: "a" }), chunkText({}, "stop"), ...rest), "open"));
    const startedAt = performance.now();
    const text = await (await gateway.post({ model: "mine", messages, stream: true })).text();
    assert.ok(text.endsWith("data: [DONE]\n\n"), text);
    return performance.now() - startedAt;
  };
  const [atOnce, soon] = [await timed(usageText), await timed()];
  assert.ok(atOnce < lingerMs, `${atOnce} ms`);
  assert.ok(soon >= lingerMs && soon < 10_000, `${soon} ms`);
});

test("the connection of an upstream that keeps it open after a complete answer is closed", async () => {
  upstream.answerWith(streamAnswer(events(chunkText({ content: "a" }), chunkText({}, "stop"), usageText), "open"));
  await (await gateway.post({ model: "mine", messages, stream: true })).text();
  await until("the connection is closed", () => upstream.last().isClosed);
});

test("a stream with an empty finish reason in every chunk is not cut short at a pause", async () => {
  upstream.answerWith(
    chunkedAnswer(async function* () {
      yield events(chunkText({ role: "assistant", content: "" }, ""), chunkText({ content: "a" }, ""));
      await delay(2_600);
      yield events(chunkText({ content: "b" }, ""), chunkText({}, "stop"), "[DONE]");
    }),
  );
  const text = await (await gateway.post({ model: "mine", messages, stream: true })).text();
  assert.match(text, /"content":"b"/);
  assert.ok(text.endsWith("data: [DONE]\n\n"));
});

test("a stream is recognised whatever content type its upstream declares", async () => {
  for (const headers of [{}, { "content-type": "text/plain" }, { "content-type": "Text/Event-Stream;charset=utf-8" }]) {
    upstream.answerWith(
      (response) =>
        void response.writeHead(200, headers).end(events(chunkText({ content: "a" }), chunkText({}, "stop"), "[DONE]")),
    );
    const response = await gateway.post({ model: "mine", messages, stream: true });
    assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
    assert.equal(
      await response.text(),
      events(chunkText({ content: "a" }), chunkText({}, "stop"), "[DONE]").replaceAll("their/Model-7", "mine"),
    );
  }
});

test("an upstream that answers whole instead of streaming, or the reverse, is adapted to the request", async () => {
  upstream.answerWith(jsonAnswer(wholeText));
  const streamed = await gateway.post({ model: "mine", messages, stream: true });
  assert.match(streamed.headers.get("content-type") ?? "", /^text\/event-stream/);
  assert.match(await streamed.text(), /"model":"mine".*"content":"hi".*"finish_reason":"stop".*\ndata: \[DONE\]\n\n$/s);
  upstream.answerWith(streamAnswer(events(chunkText({ content: "a" }), chunkText({}, "stop"), "[DONE]")));
  const whole = await gateway.post({ model: "mine", messages });
  assert.match(whole.headers.get("content-type") ?? "", /^application\/json/);
  const answer = (await whole.json()) as {
    model: string;
    choices: { message: { content: string }; finish_reason: string }[];
  };
  assert.deepEqual(
    [answer.model, answer.choices[0]?.message.content, answer.choices[0]?.finish_reason],
    ["mine", "a", "stop"],
  );
});

test("a response of another kind than requested is an error that repeats nothing of it", async () => {
  const page = bodyAnswer("<html>theirs", "text/html");
  const cases: [string, boolean, UpstreamAnswer][] = [
    ["a page", false, page],
    ["a page instead of a stream", true, page],
    ["nothing", false, (response) => response.writeHead(200).end()],
    ["nothing instead of a stream", true, streamAnswer("")],
    ["no content", true, (response) => response.writeHead(204).end()],
    ["only a terminator", true, streamAnswer(events("[DONE]"))],
    ["a redirect", false, (response) => response.writeHead(307, { location: `${upstream.url}/elsewhere` }).end()],
    ["JSON that is no completion", false, jsonAnswer('{"object":"theirs"}')],
    ["no choice", false, jsonAnswer('{"choices":[]}')],
    ["null for choices", false, jsonAnswer('{"choices":null}')],
    [
      "a failed choice",
      false,
      jsonAnswer(
        '{"choices":[{"message":{"content":"their"},"finish_reason":"error","error":{"code":502,"message":"theirs"}}]}',
      ),
    ],
    ["chunks without a choice", true, streamAnswer(events('{"choices":[]}', "[DONE]"))],
    ["an error page", false, bodyAnswer("<html>theirs at 10.0.0.1", "text/html", 502)],
  ];
  for (const [name, stream, answer] of cases) {
    upstream.answerWith(answer);
    const response = await gateway.post({ model: "mine", messages, stream });
    const text = await response.text();
    assert.equal(response.status, 502, `${name}: ${text}`);
    assert.equal(JSON.parse(text).error.code, "upstream_error", name);
    assert.doesNotMatch(text, /their|without a message|10\.0|127\.0/i, name);
  }
});

test("an error with a success status is an error for the caller, with its own status", async () => {
  for (const stream of [false, true]) {
    upstream.answerWith(jsonAnswer('{"error":{"message":"at 10.0.0.1","code":429}}'));
    assert.equal((await gateway.post({ model: "mine", messages, stream })).status, 429);
    upstream.answerWith(jsonAnswer('{"error":{"message":"Too long.","code":"context_length_exceeded"}}'));
    const response = await gateway.post({ model: "mine", messages, stream });
    assert.equal(response.status, 400);
    assert.deepEqual(await response.json(), {
      error: { message: "Too long.", type: "invalid_request_error", param: null, code: "context_length_exceeded" },
    });
  }
});

test("an upstream that refuses the credential or the model is the operator's fault, not the caller's", async () => {
  const body =
    '{"error":{"message":"Incorrect API key upstream-credential-1234 for their/Model-7 at 10.0.0.1","type":"invalid_request_error","code":"invalid_api_key"}}';
  for (const status of refusals) {
    upstream.answerWith(jsonAnswer(body, status));
    const response = await gateway.post({ model: `refused-${status}`, messages });
    const text = await response.text();
    assert.equal(response.status, 502);
    assert.doesNotMatch(text, /credential-1234|Model-7|10\.0|invalid_api_key/);
  }
});

test("an unreachable upstream is an error at once, which names no address", async () => {
  const gone = await startScriptedUpstream();
  await gone[Symbol.asyncDispose]();
  const text = await readFile(gateway.catalogueFile, "utf8");
  await writeFile(
    gateway.catalogueFile,
    text
      .replace("models:\n", `models:\n${modelLine({ id: "unreachable", upstream: "gone", model: "m" })}`)
      .replace(
        "upstreams:\n",
        `upstreams:\n  gone: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${gone.url}" }\n`,
      ),
  );
  let answer = "";
  await until("the model is offered and its upstream is not there", async () => {
    const response = await gateway.post({ model: "unreachable", messages });
    answer = await response.text();
    return response.status === 502;
  });
  assert.doesNotMatch(answer, /127\.0|ECONN|\d{4,5}/);
});
