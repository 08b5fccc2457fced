import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Message, NeutralRequest, Part, Settings } from "#dialects/neutral/neutral.ts";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { openaiResponses } from "#dialects/openai-responses/codec.ts";
import { responsesRequestSchema } from "#dialects/openai-responses/schema.ts";
import { statefulFieldIn } from "#dialects/openai-responses/stateless.ts";
import { targetOf } from "../../../support/target.ts";
import { refusalOf, schemaServer, withoutPaths } from "../support.ts";

const server = schemaServer({ "/": responsesRequestSchema });
after(() => server.close());

/** The schema's verdict on a body: the path of the fault, or undefined. */
async function faultOf(body: object): Promise<string | undefined> {
  const { statusCode, payload } = await server.inject({ method: "POST", url: "/", payload: body });
  return statusCode === 200 ? undefined : String(JSON.parse(payload).message);
}

const decoded = (fields: Record<string, unknown>): NeutralRequest =>
  openaiResponses.decodeRequest({ body: { model: "m", input: "Hi", ...fields }, framing: "sse" });
const target = targetOf("openai-responses", "upstream-name");
const wireOf = (
  request: NeutralRequest,
  framing: "whole" | "sse" = "whole",
  model = target.model,
): Record<string, unknown> =>
  JSON.parse(openaiResponses.encodeRequest(request, framing, targetOf("openai-responses", model)).body.toString());

const png = "iVBORw0KGgo=";
const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const foreign = { dialect: "anthropic-messages", data: "c2lnbmF0dXJl" } as const;

/** One turn of everything that has a place in the neutral form. */
const whole = {
  model: "m",
  instructions: "Be brief.",
  input: [
    { role: "developer", content: "Speak Dutch." },
    {
      type: "message",
      id: "msg_client",
      role: "user",
      internal_chat_message_metadata_passthrough: { any: 1 },
      content: [
        { type: "input_text", text: "Look:", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
        { type: "input_image", image_url: `data:image/png;base64,${png}`, detail: "original" },
        { type: "input_image", image_url: "https://pictures.example/a.png" },
        { type: "input_file", file_data: `data:application/pdf;base64,${png}`, filename: "a.pdf" },
        { type: "input_file", file_url: "https://documents.example/b.pdf" },
        { type: "input_audio", input_audio: { data: png, format: "mp3" } },
      ],
    },
    {
      type: "reasoning",
      id: "rs_1",
      summary: [
        { type: "summary_text", text: "First." },
        { type: "summary_text", text: "Second." },
      ],
      encrypted_content: "ENC",
    },
    {
      type: "reasoning",
      id: "rs_2",
      summary: [{ type: "summary_text", text: "shown" }],
      encrypted_content: wrappedSignatureOf(foreign, "thought"),
    },
    {
      type: "function_call",
      id: "fc_1",
      status: "completed",
      call_id: "call_1",
      name: "weather",
      arguments: '{"city":"Ghent"}',
    },
    { type: "function_call", call_id: "call_2", name: "list", namespace: "agents", arguments: "{}" },
    { type: "custom_tool_call", call_id: "call_3", name: "exec", input: 'print("é")' },
    { type: "function_call_output", call_id: "call_1", output: "Rain" },
    {
      type: "function_call_output",
      call_id: "call_2",
      output: [
        { type: "input_text", text: "one" },
        { type: "input_image", image_url: `data:image/png;base64,${png}` },
      ],
    },
    { type: "custom_tool_call_output", call_id: "call_3", output: "done" },
    { role: "system", content: "Now in French." },
    {
      type: "message",
      role: "assistant",
      phase: "final_answer",
      content: [
        { type: "output_text", text: "Il pleut.", annotations: [] },
        { type: "refusal", refusal: "Non." },
      ],
    },
    { role: "user", content: "Merci" },
  ],
  tools: [
    { type: "function", name: "weather", description: "Tells the weather", parameters: schema, strict: true },
    {
      type: "namespace",
      name: "agents",
      description: "d",
      tools: [{ type: "function", name: "list", parameters: null, strict: null }],
    },
    { type: "web_search", external_web_access: false },
  ],
  client_metadata: { any: "thing" },
  include: ["reasoning.encrypted_content"],
};
const lite = {
  ...whole,
  input: [
    {
      type: "additional_tools",
      role: "developer",
      tools: [
        {
          type: "namespace",
          name: "functions",
          description: "",
          tools: [
            {
              type: "custom",
              name: "exec",
              description: "Runs code",
              format: { type: "grammar", syntax: "lark", definition: "start: /.+/" },
            },
          ],
        },
      ],
    },
    ...whole.input,
  ],
};

test("a request with every supported field passes the schema and the check for stored state", async () => {
  for (const body of [whole, lite, { model: "m", input: "Hi" }]) {
    assert.equal(await faultOf(body), undefined);
    assert.equal(statefulFieldIn(body), undefined);
  }
});

test("instructions come before the developer's, later ones stay in place, and the order of messages is kept", () => {
  const { system, messages } = decoded(lite);
  assert.deepEqual(
    system.map(({ text, path }) => [text, path]),
    [
      ["Be brief.", "instructions"],
      ["Speak Dutch.", "input[1].content"],
    ],
  );
  assert.deepEqual(
    messages.map(({ role, parts }) => `${role}: ${parts.map(({ kind }) => kind)}`),
    [
      "user: text,image,image,file,file,audio",
      "assistant: reasoning",
      "assistant: reasoning",
      "assistant: call",
      "assistant: call",
      "assistant: call",
      "user: result",
      "user: result",
      "user: result",
      "system: text",
      "assistant: text,refusal",
      "user: text",
    ],
  );
});

test("parts keep the caller's text and its path", () => {
  const parts = decoded(lite).messages.flatMap((message) => message.parts);
  const expected: Part[] = [
    { kind: "text", text: "Look:", path: "input[2].content[0]", cache: { ttl: "long" } },
    {
      kind: "image",
      source: { kind: "data", mimeType: "image/png", data: png },
      detail: "high",
      path: "input[2].content[1].image_url",
    },
    {
      kind: "image",
      source: { kind: "url", url: "https://pictures.example/a.png" },
      path: "input[2].content[2].image_url",
    },
    {
      kind: "file",
      source: { kind: "data", mimeType: "application/pdf", data: png },
      name: "a.pdf",
      path: "input[2].content[3].file_data",
    },
    {
      kind: "file",
      source: { kind: "url", url: "https://documents.example/b.pdf" },
      path: "input[2].content[4].file_url",
    },
    { kind: "audio", source: { kind: "data", mimeType: "audio/mp3", data: png }, path: "input[2].content[5]" },
    {
      kind: "reasoning",
      text: "First.\n\nSecond.",
      signature: { dialect: "openai-responses", data: "ENC", itemId: "rs_1" },
      path: "input[3]",
    },
    { kind: "reasoning", text: "thought", signature: foreign, path: "input[4]" },
    { kind: "call", id: "call_1", name: "weather", input: '{"city":"Ghent"}', path: "input[5]" },
    { kind: "call", id: "call_2", name: "agents__list", input: "{}", path: "input[6]" },
    { kind: "call", id: "call_3", name: "exec", input: '{"input":"print(\\"é\\")"}', path: "input[7]" },
    {
      kind: "result",
      callId: "call_1",
      name: "weather",
      content: [{ kind: "text", text: "Rain", path: "input[8].output" }],
      isError: false,
      path: "input[8]",
    },
  ];
  assert.deepEqual(parts.slice(0, expected.length), expected);
  assert.deepEqual(
    parts.flatMap((part) => (part.kind === "result" ? [part.name] : [])),
    ["weather", "agents__list", "exec"],
  );
});

test("tools in namespaces and in the input are flattened; the default namespace counts as none; unforced hosted tools are left out", () => {
  assert.deepEqual(decoded(lite).tools, [
    {
      name: "weather",
      callerName: "weather",
      description: "Tells the weather",
      parameters: schema,
      strict: true,
      path: "tools[0]",
    },
    { name: "agents__list", callerName: "list", namespace: "agents", path: "tools[1].tools[0]" },
    {
      name: "exec",
      callerName: "exec",
      takesText: true,
      description: "Runs code",
      grammar: { syntax: "lark", definition: "start: /.+/" },
      path: "input[0].tools[0].tools[0]",
    },
  ]);
});

const tools = [
  { type: "function", name: "a" },
  { type: "namespace", name: "n", tools: [{ type: "function", name: "b" }] },
  { type: "custom", name: "c" },
  { type: "web_search" },
];

test("a tool choice uses neutral names; only one that requires an unsupported tool is rejected", () => {
  const choiceOf = (tool_choice: unknown, offered: unknown = tools) =>
    decoded({ tools: offered, tool_choice }).toolChoice;
  const path = "tool_choice";
  assert.deepEqual(choiceOf("auto"), { mode: "auto", path });
  assert.deepEqual(choiceOf("required"), { mode: "required", path });
  assert.deepEqual(choiceOf({ type: "function", name: "b" }), { mode: "required", only: ["n__b"], path });
  assert.deepEqual(choiceOf({ type: "custom", name: "c" }), { mode: "required", only: ["c"], path });
  const allowed = [
    { type: "function", name: "a" },
    { type: "web_search" },
    { type: "function", name: "b", namespace: "n" },
  ];
  assert.deepEqual(choiceOf({ type: "allowed_tools", mode: "auto", tools: allowed }), {
    mode: "auto",
    only: ["a", "n__b"],
    path,
  });
  assert.deepEqual(choiceOf({ type: "allowed_tools", mode: "auto", tools: [{ type: "web_search" }] }), {
    mode: "none",
    path,
  });
  assert.equal(choiceOf("auto", [{ type: "web_search" }]), undefined);
  for (const choice of [
    { type: "web_search" },
    "sometimes",
    {},
    { type: "mcp", server_label: "s" },
    { type: "function", name: "absent" },
  ])
    assert.equal(
      refusalOf(() => choiceOf(choice)),
      path,
    );
  assert.equal(
    refusalOf(() => choiceOf("required", [{ type: "web_search" }])),
    path,
  );
});

test("settings are read with the caller's field names, and values without effect are no settings", () => {
  const format = { type: "json_schema", name: "answer", schema, strict: true };
  const { settings } = decoded({
    max_output_tokens: 100,
    temperature: 0.5,
    top_p: 0.9,
    parallel_tool_calls: false,
    user: "u",
    safety_identifier: "s",
    metadata: { a: "b" },
    service_tier: "flex",
    prompt_cache_key: "k",
    reasoning: { effort: "high", summary: "auto", context: "all_turns" },
    text: { format, verbosity: "low" },
    input: [
      { role: "user", content: "Hi" },
      { type: "configuration_update", reasoning: { effort: "low" } },
    ],
  });
  const expected: Settings = {
    outputTokensMax: { value: 100, path: "max_output_tokens" },
    temperature: { value: 0.5, path: "temperature" },
    topP: { value: 0.9, path: "top_p" },
    parallelCalls: { value: false, path: "parallel_tool_calls" },
    user: { value: "s", path: "safety_identifier" },
    metadata: { value: { a: "b" }, path: "metadata" },
    serviceTier: { value: "flex", path: "service_tier" },
    cacheKey: { value: "k", path: "prompt_cache_key" },
    effort: { value: "low", path: "input[1].reasoning.effort" },
    thinkingShown: { value: true, path: "reasoning.summary" },
    format: { value: { kind: "schema", name: "answer", schema, strict: true }, path: "text.format" },
    verbosity: { value: "low", path: "text.verbosity" },
  };
  assert.deepEqual(settings, expected);
  const nothing = {
    store: true,
    background: false,
    parallel_tool_calls: true,
    metadata: {},
    service_tier: "auto",
    truncation: "disabled",
    top_logprobs: 0,
    text: { format: { type: "text" } },
  };
  assert.deepEqual(
    decoded({ ...nothing, reasoning: null, previous_response_id: null, tools: null, include: null }).settings,
    {},
  );
});

test("a field that the neutral form cannot express is rejected by name", () => {
  const user = (part: object) => ({ input: [{ role: "user", content: [part] }] });
  const cases: [string, Record<string, unknown>][] = [
    ["top_logprobs", { top_logprobs: 3 }],
    ["reasoning.effort", { reasoning: { effort: "immense" } }],
    ["text.verbosity", { text: { verbosity: "chatty" } }],
    ["text.format.type", { text: { format: { type: "grammar" } } }],
    ["input[0]", { input: [{ type: "hologram_call", id: "h_1", status: "completed" }] }],
    ["input[0].content[0].type", user({ type: "input_film", url: "x" })],
    ["input[0].content[0].image_url", user({ type: "input_image", image_url: "ftp://x" })],
    ["input[0].content[0].image_url", user({ type: "input_image" })],
    ["input[0].content[0].file_data", user({ type: "input_file", file_data: "data:application/pdf;base64,@" })],
    ["input[0].content[0].file_data", user({ type: "input_file", filename: "a.pdf" })],
    [
      "input[0].content[0].image_url",
      { input: [{ role: "assistant", content: [{ type: "input_image", image_url: "https://a.example/b" }] }] },
    ],
    [
      "input[0].content[0].image_url",
      { input: [{ role: "system", content: [{ type: "input_image", image_url: "https://a.example/b" }] }] },
    ],
  ];
  for (const [param, fields] of cases)
    assert.equal(
      refusalOf(() => decoded(fields)),
      param,
      JSON.stringify(fields),
    );
});

test("a conversation with a vendor's compaction item goes on with what is readable, and its caller is told", () => {
  const user = { role: "user", content: "Hi" };
  const item = { type: "compaction", id: "cmp_1", encrypted_content: "x" };
  const early = decoded({ input: [item, user] });
  assert.match(String(early.system[0]?.text), /were compacted by another model/);
  assert.deepEqual(
    early.messages.map(({ role }) => role),
    ["user"],
  );
  assert.match(String(early.warnings), /^input\[0\] is a compaction item of a vendor/);
  const late = decoded({ input: [user, item, user] });
  assert.deepEqual(
    late.messages.map(({ role }) => role),
    ["user", "system", "user"],
  );
  assert.equal(decoded({ input: [user] }).warnings, undefined);
  assert.equal(
    refusalOf(() => decoded({ input: [{ type: "compaction_trigger" }, user] })),
    "input[0]",
  );
  assert.equal(
    refusalOf(() => decoded({ input: "Hi", context_management: [{ type: "compaction", compact_threshold: 1_000 }] })),
    "taken",
  );
});

test("messages between agents are the user's for other models, and what only their vendor decrypts is named", () => {
  const message = (...content: unknown[]) => ({
    type: "agent_message",
    id: "amsg_1",
    author: "/root",
    recipient: "/root/child",
    content,
  });
  const task = { type: "input_text", text: "Payload:" };
  const sealed = (encrypted_content: string) => ({ type: "encrypted_content", encrypted_content });
  const readable = decoded({ input: [message(task, sealed("Count the files."))] });
  assert.deepEqual(withoutPaths(readable.messages), [
    {
      role: "user",
      parts: [
        { kind: "text", text: "Payload:" },
        { kind: "text", text: "Count the files." },
      ],
    },
  ]);
  assert.equal(readable.warnings, undefined);
  const opaque = decoded({ input: [message(task, sealed("gAAAAABqx0k2"))] });
  assert.doesNotMatch(JSON.stringify(opaque.messages), /gAAAA/);
  assert.match(String(opaque.warnings), /^input\[0\] is encrypted for models of its vendor/);
  const hosted = { call_id: "mac_1", action: "spawn_agent" };
  const history = decoded({
    input: [
      { role: "user", content: "Hi" },
      { type: "multi_agent_call", ...hosted, arguments: "{}" },
      { type: "multi_agent_call_output", ...hosted, output: [] },
      { type: "context_compaction", encrypted_content: "x" },
    ],
  });
  assert.deepEqual(
    history.messages.map(({ role }) => role),
    ["user", "system"],
  );
});

test("a search names the tools that it loaded as the model knows them", () => {
  const tool = (name: string) => ({ type: "function", name, parameters: { type: "object", properties: {} } });
  const tools = [
    tool("plain"),
    { type: "namespace", name: "mail", tools: [tool("send")] },
    { type: "namespace", name: "functions", tools: [tool("exec")] },
  ];
  const output = { type: "tool_search_output", call_id: "ts_1", execution: "client", status: "completed", tools };
  const request = decoded({
    input: [
      { role: "user", content: "Hi" },
      { type: "tool_search_call", call_id: "ts_1", execution: "client", arguments: { query: "mail" } },
      output,
    ],
    tools: [{ type: "tool_search", execution: "client" }],
  });
  assert.deepEqual(
    request.tools.map(({ name }) => name),
    ["tool_search", "plain", "mail__send", "exec"],
  );
  assert.match(JSON.stringify(request.messages), /These tools are loaded now: plain, mail__send, exec\./);
});

test("images from an earlier answer belong to the model's turn, and are left out with a warning without their bytes", () => {
  const empty = decoded({
    input: [
      { role: "user", content: "Hi" },
      { type: "image_generation_call", result: null },
    ],
  });
  assert.match(String(empty.warnings), /^input\[1\] is an image without its bytes/);
  const { messages } = decoded({
    input: [{ type: "image_generation_call", id: "ig_1", status: "completed", result: png, output_format: "webp" }],
  });
  assert.deepEqual(messages, [
    {
      role: "assistant",
      parts: [{ kind: "image", source: { kind: "data", mimeType: "image/webp", data: png }, path: "input[0].result" }],
      path: "input[0]",
    },
  ]);
});

test("every reference to an object at a vendor is found, with advice to send the content", () => {
  const cases: [string, object][] = [
    ["prompt", { prompt: { id: "pmpt_1" } }],
    [
      "input[0].content[1].file_id",
      {
        input: [
          {
            role: "user",
            content: [
              { type: "input_text", text: "" },
              { type: "input_file", file_id: "file-1" },
            ],
          },
        ],
      },
    ],
    [
      "input[0].output[0].file_id",
      { input: [{ type: "function_call_output", call_id: "c", output: [{ type: "input_image", file_id: "file-1" }] }] },
    ],
  ];
  for (const [param, fields] of cases) {
    const field = statefulFieldIn({ input: "Hi", ...fields });
    assert.equal(field?.param, param);
    assert.match(field.message, /send the content itself/);
  }
  const harmless = {
    input: [null, 1, { role: "user", content: [null, { file_id: null }] }],
    conversation: null,
    prompt: null,
    background: false,
    context_management: [],
  };
  assert.equal(statefulFieldIn({ ...harmless, previous_response_id: null, store: true }), undefined);
});

test("errors name the invalid field", async () => {
  const cases: [RegExp, object][] = [
    [/'model'/, { input: "Hi" }],
    [/'input'/, { model: "m" }],
    [/\/input /, { model: "m", input: 3 }],
    [/\/input /, { model: "m", input: null }],
    [/\/input /, { model: "m", input: null, conversation: null, previous_response_id: null }],
    [/^taken$/, { model: "m", input: null, conversation: "conv_1" }],
    [/^taken$/, { model: "m", input: null, previous_response_id: "resp_1" }],
    [/input\/0 .*'role'/, { model: "m", input: [{ content: "Hi" }] }],
    [/input\/0 .*'content'/, { model: "m", input: [{ role: "user" }] }],
    [/input\/0\/role /, { model: "m", input: [{ role: "tool", content: "Hi" }] }],
    [/input\/0\/content\/0 .*'text'/, { model: "m", input: [{ role: "user", content: [{ type: "input_text" }] }] }],
    [/input\/0 .*'call_id'/, { model: "m", input: [{ type: "function_call", name: "a", arguments: "{}" }] }],
    [/input\/0 .*'arguments'/, { model: "m", input: [{ type: "function_call", call_id: "c", name: "a" }] }],
    [/input\/0 .*'output'/, { model: "m", input: [{ type: "function_call_output", call_id: "c" }] }],
    [/input\/0\/tools\/0 .*'type'/, { model: "m", input: [{ type: "additional_tools", tools: [{}] }] }],
    [/tools\/0 .*'name'/, { model: "m", input: "Hi", tools: [{ type: "function" }] }],
    [
      /tools\/0\/tools\/0 .*'name'/,
      { model: "m", input: "Hi", tools: [{ type: "namespace", name: "n", tools: [{ type: "function" }] }] },
    ],
    [/temperature/, { model: "m", input: "Hi", temperature: 3 }],
    [/top_p/, { model: "m", input: "Hi", top_p: "1" }],
    [/max_output_tokens/, { model: "m", input: "Hi", max_output_tokens: 0.5 }],
    [/reasoning\/effort/, { model: "m", input: "Hi", reasoning: { effort: 3 } }],
    [/text\/format .*'name'/, { model: "m", input: "Hi", text: { format: { type: "json_schema" } } }],
    [/metadata\/a/, { model: "m", input: "Hi", metadata: { a: 1 } }],
    [/metadata\/tags/, { model: "m", input: "Hi", metadata: { tags: [1] } }],
    [/^taken$/, { model: "m", input: "Hi", metadata: { tags: ["a", "b"], x: "y" } }],
    [/stream/, { model: "m", input: "Hi", stream: "yes" }],
  ];
  for (const [fault, body] of cases) assert.match((await faultOf(body)) ?? "taken", fault);
});

const requestOf = (fields: Partial<NeutralRequest>): NeutralRequest => ({
  system: [],
  messages: [{ role: "user", parts: [{ kind: "text", text: "Hi", path: "m" }], path: "m" }],
  tools: [],
  settings: {},
  ...fields,
});

test("a request has store: false, and asks for a stream only if the caller wants one", () => {
  const user = { type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] };
  assert.deepEqual(wireOf(requestOf({})), { model: "upstream-name", input: [user], store: false });
  assert.equal(wireOf(requestOf({}), "sse").stream, true);
  assert.equal(openaiResponses.encodeRequest(requestOf({}), "sse", target).path, "/responses");
});

test("decoding and encoding a request keeps its content, except audio", () => {
  const once = decoded({
    ...whole,
    input: [...lite.input],
    tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "weather" }] },
  });
  for (const message of once.messages) message.parts = message.parts.filter(({ kind }) => kind !== "audio");
  const wire = wireOf(once);
  assert.equal(wire.instructions, "Be brief.\n\nSpeak Dutch.");
  const twice = openaiResponses.decodeRequest({ body: wire, framing: "whole" });
  const partsByRole = ({ messages }: NeutralRequest) =>
    messages.flatMap(({ role, parts }) => parts.map((part) => [role, part]));
  const expected = partsByRole(once)
    .filter(
      ([, part]) =>
        !(typeof part === "object" && part.kind === "reasoning" && part.signature?.dialect !== "openai-responses"),
    )
    .map(([role, part]) => [
      role,
      {
        ...(part as Part),
        ...((part as Part).kind === "image" && { detail: (part as { detail?: string }).detail ?? "auto" }),
      },
    ]);
  const plain = (value: unknown) =>
    JSON.stringify(withoutPaths(value)).replaceAll(',"cache":{"ttl":"long"}', "").replaceAll(',"detail":"auto"', "");
  assert.equal(plain(partsByRole(twice)), plain(expected));
  assert.deepEqual(
    twice.tools.map(({ name }) => name),
    once.tools.map(({ name }) => name),
  );
  assert.deepEqual(twice.toolChoice, once.toolChoice);
});

test("settings are written in the upstream's format", () => {
  const at = <Value>(value: Value) => ({ value, path: "p" });
  const cases: [Settings, object][] = [
    [{ outputTokensMax: at(5) }, { max_output_tokens: 16 }],
    [{ thinkingTokensMax: at(8_000) }, { reasoning: { effort: "medium" }, include: ["reasoning.encrypted_content"] }],
    [{ effort: at("none" as const) }, { reasoning: { effort: "none" } }],
    [{ thinkingShown: at(true) }, { reasoning: { summary: "auto" }, include: ["reasoning.encrypted_content"] }],
    [{ thinkingShown: at(false), seed: at(1), topK: at(4), metadata: at({ a: "b" }) }, {}],
    [{ serviceTier: at("standard" as const) }, { service_tier: "default" }],
    [
      { format: at({ kind: "json" as const }), verbosity: at("low" as const) },
      { text: { format: { type: "json_object" }, verbosity: "low" } },
    ],
    [
      { format: at({ kind: "schema" as const, schema }) },
      { text: { format: { type: "json_schema", name: "answer", schema, strict: true } } },
    ],
    [
      { format: at({ kind: "schema" as const, schema: { type: "object" }, name: "n" }) },
      { text: { format: { type: "json_schema", name: "n", schema: { type: "object" }, strict: false } } },
    ],
    [
      { user: at("u"), cacheKey: at("k"), temperature: at(1), topP: at(1) },
      { safety_identifier: "u", prompt_cache_key: "k", temperature: 1, top_p: 1 },
    ],
  ];
  const { input: _, ...bare } = wireOf(requestOf({}));
  for (const [settings, expected] of cases) {
    const { input: __, ...wire } = wireOf(requestOf({ settings }));
    assert.deepEqual(wire, { ...bare, ...expected });
  }
  assert.match(
    String(wireOf(requestOf({ settings: { user: at("u".repeat(300)) } })).safety_identifier),
    /^[0-9a-f]{64}$/,
  );
});

test("encrypted reasoning is requested only from models that reason", () => {
  const asks = (model: string) => wireOf(requestOf({}), "whole", model).include !== undefined;
  assert.deepEqual(["o3-mini", "gpt-5", "gpt-6-sol", "openai/gpt-5.2", "codex-mini"].map(asks), [
    true,
    true,
    true,
    true,
    true,
  ]);
  assert.deepEqual(["gpt-4.1", "gpt-4o-mini", "gpt-5-chat-latest", "llama"].map(asks), [false, false, false, false]);
});

test("tools are marked strict if they fit, free text uses custom tools, and a choice names its tools", () => {
  const offered = [
    { name: "a", callerName: "a", parameters: schema, strict: true, path: "p" },
    { name: "b", callerName: "b", parameters: { type: "object", properties: { x: {} } }, strict: true, path: "p" },
    { name: "c", callerName: "c", takesText: true, path: "p" },
    { name: "d", callerName: "d", path: "p" },
  ];
  const wire = (mode: "auto" | "required" | "none", only?: string[]) =>
    wireOf(requestOf({ tools: offered, toolChoice: { mode, ...(only && { only }), path: "p" } }));
  assert.deepEqual(wire("auto").tools, [
    { type: "function", name: "a", parameters: schema, strict: true },
    { type: "function", name: "b", parameters: { type: "object", properties: { x: {} } }, strict: false },
    { type: "custom", name: "c" },
    {
      type: "function",
      name: "d",
      parameters: { type: "object", properties: {}, required: [], additionalProperties: false },
      strict: false,
    },
  ]);
  assert.equal(wire("none").tool_choice, "none");
  assert.deepEqual(wire("required", ["c"]).tool_choice, { type: "custom", name: "c" });
  assert.deepEqual(wire("auto", ["a"]).tool_choice, {
    type: "allowed_tools",
    mode: "auto",
    tools: [{ type: "function", name: "a" }],
  });
});

test("what the assistant said has a form that strict servers take", () => {
  const text = (value: string): Part => ({ kind: "text", text: value, path: "p" });
  const refusal: Part = { kind: "refusal", text: "no", path: "p" };
  for (const [parts, content] of [
    [[text("a")], "a"],
    [[text("a"), text("b")], "ab"],
    [
      [text("a"), refusal],
      [
        { type: "output_text", text: "a", annotations: [] },
        { type: "refusal", refusal: "no" },
      ],
    ],
  ] as [Part[], unknown][]) {
    const messages: Message[] = [{ role: "assistant", parts, path: "p" }];
    assert.deepEqual(wireOf(requestOf({ messages })).input, [{ type: "message", role: "assistant", content }]);
  }
});

test("turns become items: foreign and unsigned reasoning is left out, errors are marked, long ids are shortened consistently", () => {
  const path = "p";
  const id = "x".repeat(100);
  const messages: Message[] = [
    {
      role: "assistant",
      parts: [
        { kind: "reasoning", text: "unsigned", path },
        { kind: "reasoning", text: "foreign", signature: foreign, path },
        { kind: "text", text: "Wait.", path },
        { kind: "call", id, name: "gone", input: "", path },
      ],
      path,
    },
    {
      role: "user",
      parts: [
        { kind: "text", text: "And?", path },
        {
          kind: "result",
          callId: id,
          name: "gone",
          content: [{ kind: "text", text: "lost", path }],
          isError: true,
          path,
        },
        {
          kind: "file",
          source: { kind: "data", mimeType: "text/plain", data: Buffer.from("héllo").toString("base64") },
          path,
        },
      ],
      path,
    },
  ];
  const [message, call, result, question] = wireOf(requestOf({ messages })).input as Record<string, unknown>[];
  assert.deepEqual(message, { type: "message", role: "assistant", content: "Wait." });
  assert.deepEqual(call, { type: "function_call", call_id: call?.call_id, name: "gone", arguments: "{}" });
  assert.deepEqual(result, { type: "function_call_output", call_id: call?.call_id, output: "Error: lost" });
  assert.equal(String(call?.call_id).length, 64);
  assert.deepEqual(question, {
    type: "message",
    role: "user",
    content: [
      { type: "input_text", text: "And?" },
      { type: "input_text", text: "héllo" },
    ],
  });
});

test("a request with instructions alone is valid", () => {
  const system = [{ kind: "text" as const, text: "Greet.", path: "p" }];
  const wire = wireOf(requestOf({ system, messages: [] }));
  assert.deepEqual(wire.input, [
    { type: "message", role: "developer", content: [{ type: "input_text", text: "Greet." }] },
  ]);
  assert.equal(wire.instructions, undefined);
});

test("audio is rejected by the caller's field name", () => {
  const sound: Part = {
    kind: "audio",
    source: { kind: "data", mimeType: "audio/wav", data: "AAAA" },
    path: "messages[0].content[0]",
  };
  const request = requestOf({ messages: [{ role: "user", parts: [sound], path: "messages[0]" }] });
  assert.equal(
    refusalOf(() => wireOf(request)),
    "messages[0].content[0]",
  );
});
