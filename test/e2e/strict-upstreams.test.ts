/**
 * Fields that clients send by habit, to upstreams that do not take them: stop sequences, fields of
 * newer versions, ids of users.
 */
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import {
  jsonAnswer,
  startScriptedUpstream,
  streamAnswer,
  typedEvent,
  type UpstreamRequest,
} from "../support/upstream.ts";

const upstream = await startScriptedUpstream();
const models: [id: string, upstream: string, model: string][] = [
  ["responses", "responses", "gpt-5.2"],
  ["o3", "chat", "o3"],
  ["claude", "claude", "my-claude"],
  ["plain", "plain", "my-claude"],
  ["chat", "chat", "gpt-5.6-sol"],
  ["renamed", "chat", "gpt-5.2"],
];
const gateway = await startGateway({
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  responses: { dialect: openai-responses, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }
  chat: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }
  claude: { dialect: anthropic-messages, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}", betas: ["interleaved-thinking-*"], omits: [context_management, cache_control.scope, cache_control.ttl, tools.eager_input_streaming] }
  plain: { dialect: anthropic-messages, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }
  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - { id: simulated, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: simulator, model: "sim-text;rate=0" }] }
${models.map(([id, name, model]) => `  - { id: ${id}, retries: 0, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${name}, model: "${model}" }] }\n`).join("")}`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const api = gateway.ingresses[0]?.urls.api as string;
const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  fetch(`${api}${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      "anthropic-version": "2023-06-01",
      ...headers,
    },
    body: JSON.stringify(body),
  });

const hello = [{ role: "user", content: "hello" }];

/** A stream of Responses that goes on until its caller leaves. */
function endlessAnswer(response: ServerResponse): void {
  const at = { output_index: 0, content_index: 0, item_id: "i" };
  streamAnswer(
    typedEvent("response.created", { response: { id: "r", status: "in_progress" } }) +
      typedEvent("response.output_item.added", {
        output_index: 0,
        item: { type: "message", id: "i", role: "assistant", content: [] },
      }) +
      typedEvent("response.content_part.added", { ...at, part: { type: "output_text", text: "" } }),
    "open",
  )(response);
  const texts = ["Thought: look", "\nObser", "vation: 4"];
  const timer = setInterval(
    () => response.write(typedEvent("response.output_text.delta", { ...at, delta: texts.shift() ?? " more" })),
    5,
  );
  response.once("close", () => clearInterval(timer));
}

test("a stream of Responses ends at the caller's stop sequence, its usage counts, and the upstream is told", async () => {
  upstream.answerWith(endlessAnswer);
  const request = { model: "responses", max_tokens: 100, messages: hello, stream: true };
  const text = await (await post("/v1/messages", { ...request, stop_sequences: ["\nObservation:", " "] })).text();
  assert.match(text, /"text":"Thought:"/);
  assert.match(text, /"stop_reason":"stop_sequence","stop_sequence":" "/);
  assert.match(text, /"output_tokens":[1-9]/);
  await until("the upstream is told", () => upstream.last().isClosed);

  upstream.answerWith(endlessAnswer);
  const chat = { model: "responses", messages: hello, stream: true, stream_options: { include_usage: true } };
  const chunks = await (await post("/v1/chat/completions", { ...chat, stop: "\nObservation:" })).text();
  assert.doesNotMatch(chunks, /Obser/);
  assert.match(chunks, /"finish_reason":"stop"/);
  assert.match(chunks, /"completion_tokens":[1-9]/);
  assert.match(chunks, /data: \[DONE\]\n\n$/);
  assert.equal(upstream.last().json.stop, undefined);
  await until("the upstream is told", () => upstream.last().isClosed);
});

test("a model that refuses stop sequences is asked without them, also by callers of its dialect", async () => {
  const choices = [{ index: 0, message: { role: "assistant", content: "one END two" }, finish_reason: "stop" }];
  const usage = { prompt_tokens: 3, completion_tokens: 9, total_tokens: 12 };
  upstream.answerWith(jsonAnswer({ id: "c", object: "chat.completion", created: 1, model: "o3", choices, usage }));
  const response = await post("/v1/chat/completions", { model: "o3", messages: hello, stop: ["END", ""] });
  const answer = (await response.json()) as {
    choices: { message: { content: string } }[];
    usage: { completion_tokens: number };
  };
  assert.equal(answer.choices[0]?.message.content, "one ");
  assert.equal(answer.usage.completion_tokens, 9);
  assert.equal(upstream.last().json.stop, undefined);
});

const agent = {
  max_tokens: 100,
  system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "1h", scope: "global" } }],
  tools: [{ name: "f", input_schema: { type: "object" }, eager_input_streaming: true }],
  context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
  messages: hello,
};
const betas = {
  "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
};
const message = {
  id: "m",
  type: "message",
  role: "assistant",
  model: "x",
  content: [{ type: "text", text: "hi" }],
  stop_reason: "end_turn",
  usage: { input_tokens: 1, output_tokens: 1 },
};

test("fields and betas that an upstream does not take are left out, for messages and for counting tokens", async () => {
  for (const [path, answer] of [
    ["/v1/messages", message],
    ["/v1/messages/count_tokens", { input_tokens: 7 }],
  ] as const) {
    upstream.answerWith(jsonAnswer(answer));
    assert.equal((await post(path, { model: "claude", ...agent }, betas)).status, 200);
    const { json, headers } = upstream.last();
    const { system, tools, context_management } = json;
    assert.deepEqual(system[0].cache_control, { type: "ephemeral" }, path);
    assert.deepEqual(Object.keys(tools[0]), ["name", "input_schema"]);
    assert.equal(context_management, undefined);
    assert.equal(headers["anthropic-beta"], "interleaved-thinking-2025-05-14");
  }
});

test("a strict upstream that nobody knows is asked once more without what it refuses, and from then on at once", async () => {
  const strict = (response: ServerResponse, { json, headers }: UpstreamRequest): void => {
    const refused = json.context_management
      ? "context_management: Extra inputs are not permitted"
      : String(headers["anthropic-beta"]).includes("claude-code-20250219")
        ? "Unexpected value(s) `claude-code-20250219` for the `anthropic-beta` header."
        : undefined;
    const error = { type: "error", error: { type: "invalid_request_error", message: refused } };
    jsonAnswer(refused === undefined ? message : error, refused === undefined ? 200 : 400)(response);
  };
  upstream.answerWith(strict);
  for (const calls of [3, 1]) {
    upstream.requests.length = 0;
    const response = await post("/v1/messages", { model: "plain", ...agent }, betas);
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(upstream.requests.length, calls);
  }
});

test("an upstream that refuses a beta without its name is asked without any", async () => {
  upstream.answerWith((response, { headers }) => {
    const isRefused = headers["anthropic-beta"] !== undefined;
    jsonAnswer(isRefused ? { message: "invalid beta flag" } : message, isRefused ? 400 : 200)(response);
  });
  upstream.requests.length = 0;
  const request = { model: "plain", max_tokens: 100, messages: hello };
  assert.equal((await post("/v1/messages", request, { "anthropic-beta": "effort-2025-11-24" })).status, 200);
  assert.equal(upstream.requests.length, 2);
});

test("a long output and half of a character are refused once, in translated requests as well", async () => {
  const half = String.raw`\ud83d`;
  upstream.answerWith((response, { json, body }) => {
    const refused = body.includes(half)
      ? "The request body is not valid JSON: no low surrogate in string: line 1 column 28642 (char 28641)"
      : json.max_tokens > 8_192 || json.max_completion_tokens > 8_192
        ? "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for my-claude"
        : undefined;
    const choices = [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }];
    const answer = json.max_completion_tokens
      ? { id: "c", object: "chat.completion", created: 1, model: "m", choices }
      : message;
    jsonAnswer(
      refused === undefined ? answer : { error: { message: refused } },
      refused === undefined ? 200 : 400,
    )(response);
  });
  const messages = [{ role: "user", content: "cut \ud83d, whole \ud83d\ude00" }];
  for (const model of ["plain", "chat"])
    for (const calls of [3, 1]) {
      upstream.requests.length = 0;
      const response = await post("/v1/messages", { model, max_tokens: 32_000, messages });
      assert.equal(response.status, 200, await response.clone().text());
      assert.equal(upstream.requests.length, calls);
      const { json } = upstream.last();
      assert.equal(json.max_tokens ?? json.max_completion_tokens, 8_192);
      assert.match(JSON.stringify(json.messages), /cut \ufffd, whole 😀/);
    }
});

test("every request of Claude Code fits a chat upstream of OpenAI", async () => {
  const user_id = JSON.stringify({
    device_id: "0f".repeat(32),
    account_uuid: "",
    session_id: "5e2b6f50-57dc-4d07-b6ef-5a6b09dfd3e1",
  });
  const choices = [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }];
  upstream.answerWith(jsonAnswer({ id: "c", object: "chat.completion", created: 1, model: "m", choices }));
  const request = {
    ...agent,
    metadata: { user_id },
    thinking: { type: "adaptive" },
    output_config: { effort: "high" },
  };
  assert.equal(
    (await post("/v1/messages?beta=true", { model: "chat", ...request, temperature: 1 }, betas)).status,
    200,
  );
  const { user, temperature, reasoning_effort, tools } = upstream.last().json;
  assert.match(user, /^[0-9a-f]{64}$/);
  assert.equal(temperature, undefined);
  assert.equal(reasoning_effort, "none");
  assert.equal(tools.length, 1);
});

test("the limit of an answer's tokens has the name that the model reads, whichever the caller writes", async () => {
  // https://github.com/langchain-ai/langchainjs/issues/8641
  const refusal =
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
  const choices = [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }];
  upstream.answerWith((response, { json }) => {
    const isRefused = json.max_tokens !== undefined;
    const error = {
      message: refusal,
      type: "invalid_request_error",
      param: "max_tokens",
      code: "unsupported_parameter",
    };
    const answer = { id: "c", object: "chat.completion", created: 1, model: "m", choices };
    jsonAnswer(isRefused ? { error } : answer, isRefused ? 400 : 200)(response);
  });
  for (const calls of [2, 1]) {
    upstream.requests.length = 0;
    const response = await post("/v1/chat/completions", { model: "renamed", messages: hello, max_tokens: 77 });
    assert.equal(response.status, 200, await response.clone().text());
    assert.equal(upstream.last().json.max_completion_tokens, 77);
    assert.equal(upstream.requests.length, calls);
  }
});

test("embeddings come as the caller encodes them from a server that knows no encodings", async () => {
  // https://github.com/1Panel-dev/MaxKB/issues/2639
  const refusal = { detail: "extra fields not permitted: ['encoding_format']" };
  const answer = { object: "list", data: [{ object: "embedding", index: 0, embedding: [1, 2] }], model: "m" };
  upstream.answerWith((response, { json }) =>
    json.encoding_format === undefined ? jsonAnswer(answer)(response) : jsonAnswer(refusal, 400)(response),
  );
  const packed = Buffer.from(Float32Array.of(1, 2).buffer).toString("base64");
  for (const calls of [2, 1]) {
    upstream.requests.length = 0;
    const response = await post("/v1/embeddings", { model: "chat", input: "a", encoding_format: "base64" });
    const { data } = (await response.json()) as { data?: { embedding: string }[] };
    assert.deepEqual([response.status, data?.[0]?.embedding], [200, packed]);
    assert.equal(upstream.requests.length, calls);
  }
});

test("rankings are cut, and repeat their documents, for a server that does neither", async () => {
  const results = [0, 1].map((index) => ({ index, relevance_score: index / 2 }));
  upstream.answerWith((response, { json }) => {
    const name = ["top_n", "return_documents"].find((field) => json[field] !== undefined);
    const detail = [{ type: "extra_forbidden", loc: ["body", name], msg: "Extra inputs are not permitted" }];
    jsonAnswer(name === undefined ? { results } : { detail }, name === undefined ? 200 : 422)(response);
  });
  const documents = ["a", "b"];
  const response = await post("/v1/rerank", { model: "chat", query: "q", documents, top_n: 1, return_documents: true });
  const ranking = (await response.json()) as { results?: object[] };
  assert.deepEqual(ranking.results, [{ index: 1, relevance_score: 0.5, document: { text: "b" } }]);
});

test("more stop sequences than OpenAI takes: chat and legacy completions end at the last one", async () => {
  const stop = ["a1", "b2", "c3", "d4", "e5", "simulated"];
  const common = { model: "simulated", max_tokens: 50, stop };
  for (const [path, body] of [
    ["/v1/chat/completions", { ...common, messages: hello }],
    ["/v1/completions", { ...common, prompt: "hello" }],
  ] as const)
    for (const stream of [false, true]) {
      const response = await post(path, { ...body, stream });
      const text = await response.text();
      assert.equal(response.status, 200, `${path} ${stream}: ${text}`);
      assert.match(text, /"finish_reason":\s?"stop"/, path);
    }
});
