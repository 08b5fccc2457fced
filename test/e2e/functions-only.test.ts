/**
 * Codex with an upstream of Responses that knows functions only: it gets functions in place of all
 * other tools once it refused them, and Codex gets calls of the tools that it offered.
 */
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import {
  jsonAnswer,
  startScriptedUpstream,
  streamAnswer,
  typedEvent,
  type UpstreamRequest,
} from "../support/upstream.ts";

const upstream = await startScriptedUpstream();
after(() => upstream[Symbol.asyncDispose]());
const gateway = await startGateway({
  catalogue: `groups: { default: { models: ["*"] } }
upstreams: { responses: { dialect: openai-responses, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" } }
models:
  - { id: grok, retries: 0, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: responses, model: grok-4 }] }
  - { id: local, retries: 0, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: responses, model: qwen }] }
`,
});
after(() => gateway[Symbol.asyncDispose]());

type Json = Record<string, unknown>;
const called = (call_id: string, name: string, args: object) => ({
  ...{ type: "function_call", id: `fc_${call_id}`, status: "completed", call_id, name },
  arguments: JSON.stringify(args),
});

const strict = (response: ServerResponse, { json }: UpstreamRequest): void => {
  const other = (json.tools as Json[]).find(({ type }) => type !== "function");
  const message = `tools[0]: unknown variant \`${other?.type}\`, expected one of \`function\`, \`web_search\``;
  const output = [called("1", "mcp__docs__look", { q: "x" }), called("2", "apply_patch", { input: "*** Begin" })];
  const whole = { id: "resp_1", object: "response", status: "completed", model: "grok", output };
  if (other !== undefined) jsonAnswer({ error: { message, type: "invalid_request_error" } }, 422)(response);
  else if (json.stream === true) streamAnswer(typedEvent("response.completed", { response: whole }))(response);
  else jsonAnswer(whole)(response);
};

/** The items of an answer, whole or at the end of a stream. */
const outputIn = (answer: string): Json[] =>
  (answer.startsWith("{") ? JSON.parse(answer) : JSON.parse(answer.split("data: ").at(-1) ?? "").response).output;

const tools = [
  { type: "namespace", name: "mcp__docs", tools: [{ type: "function", name: "look", parameters: { type: "object" } }] },
  {
    type: "custom",
    name: "apply_patch",
    description: "Patches.",
    format: { type: "grammar", syntax: "lark", definition: "start: x" },
  },
  { type: "web_search" },
];
const input = [
  { type: "message", role: "user", content: "Go" },
  { type: "function_call", call_id: "a", namespace: "mcp__docs", name: "look", arguments: "{}" },
  { type: "function_call_output", call_id: "a", output: "found" },
  { type: "custom_tool_call", call_id: "b", name: "apply_patch", input: "*** End" },
  { type: "custom_tool_call_output", call_id: "b", output: "done" },
];

const post = (body: object) =>
  fetch(`${gateway.ingresses[0]?.urls.api}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: JSON.stringify({ store: false, ...body }),
  });

test("an upstream that knows functions only gets functions, and the caller calls of its own tools", async () => {
  upstream.answerWith(strict);
  for (const [calls, stream] of [
    [2, false],
    [1, false],
    [1, true],
  ]) {
    const before = upstream.requests.length;
    const response = await post({ model: "grok", input, tools, stream });
    const answer = await response.text();
    assert.equal(response.status, 200, answer);
    assert.equal(upstream.requests.length - before, calls);
    assert.deepEqual(
      outputIn(answer).map(({ type, namespace, name, arguments: args, input: text }) => [
        type,
        namespace,
        name,
        args ?? text,
      ]),
      [
        ["function_call", "mcp__docs", "look", '{"q":"x"}'],
        ["custom_tool_call", undefined, "apply_patch", "*** Begin"],
      ],
    );
  }
  const { json } = upstream.last();
  assert.deepEqual(
    (json.tools as Json[]).map(({ type, name, description }) => [type, name, description]),
    [
      ["function", "mcp__docs__look", undefined],
      ["function", "apply_patch", "Patches.\n\nThe input must follow this lark grammar:\nstart: x"],
    ],
  );
  assert.deepEqual(
    (json.input as Json[]).slice(1).map(({ type, name, arguments: args, output }) => [type, name, args ?? output]),
    [
      ["function_call", "mcp__docs__look", "{}"],
      ["function_call_output", undefined, "found"],
      ["function_call", "apply_patch", '{"input":"*** End"}'],
      ["function_call_output", undefined, "done"],
    ],
  );
});

test("an upstream that refuses Codex's own items gets their tools and texts", async () => {
  const message = { type: "message", status: "completed", role: "assistant", content: [] };
  upstream.answerWith((response, { json }) => {
    const place = (json.input as Json[]).findIndex(({ type }) => type !== "message");
    const { type } = (json.input as Json[])[place] ?? {};
    const refusal = `input[${place}]: unknown input item type: "${type}"`;
    if (place < 0) jsonAnswer({ id: "resp_1", status: "completed", model: "qwen", output: [message] })(response);
    else jsonAnswer({ error: { message: refusal, type: "invalid_request_error" } }, 400)(response);
  });
  const input = [
    { type: "additional_tools", role: "developer", tools: [{ type: "function", name: "look", parameters: {} }] },
    { type: "agent_message", author: "/root", content: [{ type: "input_text", text: "Go" }] },
  ];
  assert.equal((await post({ model: "local", input })).status, 200);
  const { json } = upstream.last();
  assert.deepEqual(json.input, [{ type: "message", role: "user", content: [{ type: "input_text", text: "Go" }] }]);
  assert.deepEqual(
    (json.tools as Json[]).map(({ name }) => name),
    ["look"],
  );
});
