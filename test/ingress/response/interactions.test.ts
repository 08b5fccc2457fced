/**
 * The wire shapes are those of `CreateModelInteraction`, `Step` and `InteractionSSEEvent` in
 * `@google/genai`.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Refusal } from "../../../apps/ingress/common/refusal.ts";
import { readInteraction } from "../../../apps/ingress/request/interactions.ts";
import { InteractionStream, interactionOf } from "../../../apps/ingress/response/interactions.ts";

function translated(body: object): Record<string, unknown> {
  const read = readInteraction(Buffer.from(JSON.stringify({ model: "m", input: "Hi", ...body })));
  if (read instanceof Refusal) assert.fail(read.failure.message);
  return JSON.parse(read.bytes.toString()) as Record<string, unknown>;
}

const user = (...content: object[]) => ({ type: "message", role: "user", content });
const inputText = (text: string) => ({ type: "input_text", text });

const inputs: [name: string, input: unknown, items: unknown][] = [
  ["text", "Hi", "Hi"],
  ["one content", { type: "text", text: "Hi" }, [user(inputText("Hi"))]],
  [
    "content in a row",
    [
      { type: "text", text: "See" },
      { type: "image", data: "AAAA", mime_type: "image/webp", resolution: "low" },
      { type: "document", uri: "https://example.com/a.pdf" },
      { type: "audio", data: "AAAA", mime_type: "audio/mpeg" },
    ],
    [
      user(
        inputText("See"),
        { type: "input_image", image_url: "data:image/webp;base64,AAAA", detail: "low" },
        { type: "input_file", file_url: "https://example.com/a.pdf" },
        { type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } },
      ),
    ],
  ],
  [
    "turns of the first version",
    [
      { role: "user", content: "Hi" },
      { role: "model", content: "Hello" },
    ],
    [user(inputText("Hi")), { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello" }] }],
  ],
  [
    "a tool loop with thinking, and a search at Google",
    [
      { type: "thought", signature: "s", summary: [{ type: "text", text: "Hm" }] },
      { type: "google_search_call", id: "g", arguments: { queries: ["x"] } },
      { type: "google_search_result", call_id: "g", result: [] },
      { type: "function_call", id: "c", name: "f", arguments: { a: 1 } },
      { type: "function_result", call_id: "c", result: { weather: "sunny" } },
      { type: "function_result", call_id: "d", result: [{ type: "text", text: "no" }], is_error: true },
    ],
    [
      {
        type: "reasoning",
        id: "rs_foreign_0",
        summary: [{ type: "summary_text", text: "Hm" }],
        encrypted_content: "s",
      },
      { type: "function_call", call_id: "c", name: "f", arguments: '{"a":1}' },
      { type: "function_call_output", call_id: "c", output: '{"weather":"sunny"}' },
      { type: "function_call_output", call_id: "d", output: [inputText("Error:"), inputText("no")] },
    ],
  ],
  [
    "a picture that a model made",
    [{ type: "model_output", content: [{ type: "image", data: "AAAA", mime_type: "image/jpeg" }] }],
    [{ type: "image_generation_call", status: "completed", result: "AAAA", output_format: "jpeg" }],
  ],
];

for (const [name, input, items] of inputs)
  test(`the input of an interaction becomes items: ${name}`, () => {
    assert.deepEqual(translated({ input }).input, items);
  });

const schema = { type: "OBJECT", properties: { a: { type: "STRING" } } };
const plain = { type: "object", properties: { a: { type: "string" } } };
const tools = [{ type: "function", name: "f", parameters: schema }];
const settings: [name: string, body: object, expected: object][] = [
  ["instructions", { system_instruction: "Be brief." }, { instructions: "Be brief." }],
  ["storage", { store: false, previous_interaction_id: "i" }, { store: false, previous_response_id: "i" }],
  [
    "sampling and limits",
    { generation_config: { temperature: 0.5, top_p: 0.9, max_output_tokens: 4, stop_sequences: ["x"], seed: 7 } },
    { temperature: 0.5, top_p: 0.9, max_output_tokens: 16, stop: ["x"] },
  ],
  [
    "thinking",
    { generation_config: { thinking_level: "high", thinking_summaries: "auto" } },
    { reasoning: { effort: "high", summary: "auto" } },
  ],
  ["tools", { tools }, { tools: [{ type: "function", name: "f", parameters: plain, strict: false }] }],
  ["any call", { tools, generation_config: { tool_choice: "any" } }, { tool_choice: "required" }],
  [
    "one of some calls",
    { tools, generation_config: { tool_choice: { allowed_tools: { mode: "any", tools: ["f"] } } } },
    { tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "f" }] } },
  ],
  [
    "a schema",
    { response_format: [{ type: "text", mime_type: "application/json", schema }] },
    { text: { format: { type: "json_schema", name: "answer", schema: plain } } },
  ],
  [
    "a bare schema of the first version",
    { response_format: schema, response_mime_type: "application/json" },
    { text: { format: { type: "json_schema", name: "answer", schema: plain } } },
  ],
  ["JSON", { response_mime_type: "application/json" }, { text: { format: { type: "json_object" } } }],
  ["tiers", { service_tier: "flex" }, { service_tier: "flex" }],
  ["the standard tier", { service_tier: "standard", labels: { a: "b" }, response_modalities: ["text"] }, {}],
];

for (const [name, body, expected] of settings)
  test(`settings of an interaction become those of a response: ${name}`, () => {
    const { model: _model, input: _input, ...others } = translated(body);
    const { tools: offered, ...rest } = others;
    assert.deepEqual("tools" in expected ? { tools: offered } : rest, expected);
  });

test("an interaction's answer has the steps of its items, and the status of its end", () => {
  const response = {
    id: "resp_1",
    model: "m",
    created_at: 0,
    status: "completed",
    output: [
      { type: "reasoning", summary: [{ type: "summary_text", text: "Hm" }], encrypted_content: "s" },
      { type: "web_search_call", id: "w" },
      { type: "message", role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
      { type: "image_generation_call", result: "AAAA", output_format: "webp" },
      { type: "function_call", call_id: "c", name: "f", arguments: "{broken" },
    ],
    usage: {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 4 },
      output_tokens: 7,
      output_tokens_details: { reasoning_tokens: 5 },
      total_tokens: 17,
    },
  };
  const { steps, status, usage } = interactionOf(response);
  assert.deepEqual(steps, [
    { type: "thought", signature: "s", summary: [{ type: "text", text: "Hm" }] },
    { type: "model_output", content: [{ type: "text", text: "No." }] },
    { type: "model_output", content: [{ type: "image", mime_type: "image/webp", data: "AAAA" }] },
    { type: "function_call", id: "c", name: "f", arguments: {} },
  ]);
  assert.equal(status, "requires_action");
  assert.deepEqual(usage, {
    total_input_tokens: 10,
    total_cached_tokens: 4,
    total_output_tokens: 2,
    total_thought_tokens: 5,
    total_tool_use_tokens: 0,
    total_tokens: 17,
  });
  for (const other of ["queued", "in_progress", "incomplete", "failed", "cancelled"])
    assert.equal(interactionOf({ ...response, status: other }).status, other);
});

test("items of a stream that come whole are steps with one delta, and an error is told once", () => {
  const stream = new InteractionStream();
  const texts = [
    { type: "keepalive" },
    { type: "response.output_item.added", output_index: 0, item: { type: "web_search_call" } },
    { type: "response.output_item.done", output_index: 0, item: { type: "web_search_call" } },
    { type: "response.output_item.added", output_index: 1, item: { type: "image_generation_call", result: null } },
    { type: "response.output_item.done", output_index: 1, item: { type: "image_generation_call", result: "AAAA" } },
    {
      type: "response.output_item.done",
      output_index: 2,
      item: { type: "function_call", call_id: "c", name: "f", arguments: '{"a":1}' },
    },
    { type: "error", code: "server_is_overloaded", message: "Later." },
    { type: "response.failed", response: { error: { code: "x", message: "Later." } } },
  ].map((event) => stream.textOf(Buffer.from(JSON.stringify(event))));
  assert.equal(texts[0], "\n");
  const events = [...texts.join("").matchAll(/^data: (.*)$/gm)].map(
    ([, data = ""]) => JSON.parse(data) as Record<string, unknown>,
  );
  assert.deepEqual(
    events.map(({ event_type: type, event_id: id, index, step, delta, error }) => [
      type,
      id,
      ...[index, step, delta, error].filter((value) => value !== undefined),
    ]),
    [
      ["step.start", "0", 0, { type: "model_output" }],
      ["step.delta", "1", 0, { type: "image", mime_type: "image/png", data: "AAAA" }],
      ["step.stop", "2", 0],
      ["step.start", "3", 1, { type: "function_call", id: "c", name: "f", arguments: {} }],
      ["step.delta", "4", 1, { type: "arguments_delta", arguments: '{"a":1}' }],
      ["step.stop", "5", 1],
      ["error", "6", { code: "UNAVAILABLE", message: "Later." }],
    ],
  );
});

test("hostile bodies are refused with the field at fault", () => {
  for (const [body, param] of [
    [{ input: [{ type: "constructor" }] }, "input[0].type"],
    [{ input: [{ type: "user_input", content: [{ type: "image" }] }] }, "input[0].content[0]"],
    [{ input: [null] }, "input[0].type"],
    [{ input: [{ type: "function_call", id: "c" }] }, "input[0].name"],
    [{ input: 7 }, "input"],
    [{ tools: [{ type: "__proto__" }] }, "tools[0].type"],
    [{ tools: [{ type: "function", name: "f" }], generation_config: { tool_choice: "__proto__" } }, /tool_choice/],
    [{ response_modalities: ["audio"] }, "response_modalities"],
    [{ input: [{ type: "video", uri: "https://example.com/v.mp4" }] }, "input[0].type"],
  ] as const) {
    const read = readInteraction(Buffer.from(JSON.stringify({ model: "m", input: "Hi", ...body })));
    assert.ok(read instanceof Refusal, JSON.stringify(body));
    const { failure } = read as { failure: { param?: string; message: string; instancePath?: string } };
    const name = JSON.stringify(failure);
    assert.ok(typeof param === "string" ? name.includes(param) : param.test(name), name);
  }
});
