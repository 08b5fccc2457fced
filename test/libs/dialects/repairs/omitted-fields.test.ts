import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCatalogue } from "#catalogue/load.ts";
import { callIdRules, fitsText } from "#dialects/neutral/value-bounds.ts";
import {
  cacheMarks,
  callIds,
  complexSchemas,
  loneSurrogates,
  nullContents,
  reasoningBeside,
  spareCacheMarks,
  textLists,
  thinkingCacheMarks,
  withoutFields,
} from "#dialects/repairs/omitted-fields.ts";
import { refusedFieldsOf } from "#dialects/repairs/refused-fields.ts";
import { repairOf } from "#dialects/repairs/repairs.ts";
import { strictnessOf, upstreamRules } from "#dialects/repairs/strict-upstreams.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";

const without = (json: string, ...paths: string[]): string => String(withoutFields(Buffer.from(json), paths));

test("fields are removed where they are, and every other byte stays", () => {
  const cases: [json: string, paths: string[], kept: string][] = [
    [
      '{ "a" : 1.0, "context_management":{"edits":[]} , "n":12345678901234567890}',
      ["context_management"],
      '{ "a" : 1.0,  "n":12345678901234567890}',
    ],
    [
      '{"tools":[{"name":"context_management","eager_input_streaming":true,"input_schema":{"properties":{"eager_input_streaming":{}}}}]}',
      ["tools.eager_input_streaming", "context_management"],
      '{"tools":[{"name":"context_management","input_schema":{"properties":{"eager_input_streaming":{}}}}]}',
    ],
    [
      '{"system":[{"text":"ttl","cache_control":{"type":"ephemeral","ttl":"1h","scope":"global"}}],"cache_control":{"type":"ephemeral","ttl":"5m"},"tools":[{"cache_control":{"ttl":"1h","type":"ephemeral"}}],"messages":[{"content":[{"content":[{"cache_control":{"type":"ephemeral","ttl":"1h"}}],"input":{"cache_control":{"ttl":"mine"}}}]},{"content":"\\"ttl\\""}]}',
      ["cache_control.ttl", "cache_control.scope"],
      '{"system":[{"text":"ttl","cache_control":{"type":"ephemeral"}}],"cache_control":{"type":"ephemeral"},"tools":[{"cache_control":{"type":"ephemeral"}}],"messages":[{"content":[{"content":[{"cache_control":{"type":"ephemeral"}}],"input":{"cache_control":{"ttl":"mine"}}}]},{"content":"\\"ttl\\""}]}',
    ],
    [
      '{"metadata":{"user_id":"x"},"output_config":{"effort":"low","format":{}}}',
      ["metadata.user_id", "output_config.effort"],
      '{"output_config":{"format":{}}}',
    ],
    [
      '{"tools":[{"type":"custom","name":"f"},{"type":"web_search_20250305"}]}',
      ["tools.type=custom"],
      '{"tools":[{"name":"f"},{"type":"web_search_20250305"}]}',
    ],
    ['{"a":1}', ['reasoning_effort:="none"'], '{"a":1,"reasoning_effort":"none"}'],
    ['{"reasoning_effort":"high"}', ['reasoning_effort:="none"'], '{"reasoning_effort":"none"}'],
    ['{"max_tokens": 64000,"n":1}', ["max_tokens<=8192", "max_completion_tokens<=8192"], '{"max_tokens": 8192,"n":1}'],
    ['{"max_tokens":8000}', ["max_tokens<=8192"], '{"max_tokens":8000}'],
    ['{"max_tokens": 64,"n":1}', ["max_tokens=>max_completion_tokens"], '{"n":1,"max_completion_tokens":64}'],
    [
      '{"max_completion_tokens":9,"max_tokens":8}',
      ["max_tokens=>max_completion_tokens"],
      '{"max_completion_tokens":9}',
    ],
    [
      '{"messages":[{"content": [ {"type":"text","text":"a"}, {"type":"text","text":"b"} ]},{"content":"c"},{"content":[{"type":"text","text":"d"},{"type":"image_url"}]},{"content":null}]}',
      [textLists],
      '{"messages":[{"content": "a\\n\\nb"},{"content":"c"},{"content":[{"type":"text","text":"d"},{"type":"image_url"}]},{"content":null}]}',
    ],
    ['{"n":1}', ["max_tokens=>max_completion_tokens"], '{"n":1}'],
    ['{"tools": [ ],"n":1}', ["tools=[]"], '{"n":1}'],
    ['{"tools":[{}]}', ["tools=[]"], '{"tools":[{}]}'],
    [
      '{"messages":[{"content":[{"text":"x","cache_control":{"type":"ephemeral"}}]}]}',
      [cacheMarks],
      '{"messages":[{"content":[{"text":"x"}]}]}',
    ],
    [
      '{"cache_control":{"type":"ephemeral"},"system":[{"text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"content":[{"text":"x","cache_control":{"type":"ephemeral"}}]}]}',
      strictnessOf("https://bedrock-mantle.us-east-1.api.aws/anthropic/v1").omits,
      '{"system":[{"text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"content":[{"text":"x","cache_control":{"type":"ephemeral"}}]}]}',
    ],
    [
      '{"generationConfig":{"maxOutputTokens":70000}}',
      ["generationConfig.maxOutputTokens<=65536"],
      '{"generationConfig":{"maxOutputTokens":65536}}',
    ],
    [
      String.raw`{"a":"é\ud83d\ude00 \uD83D\n \\ud83d \\\ude00\ud83d"}`,
      [loneSurrogates],
      String.raw`{"a":"é\ud83d\ude00 \ufffd\n \\ud83d \\\ufffd\ufffd"}`,
    ],
    ["not json", ["a"], "not json"],
    ['["context_management"]', ["context_management"], '["context_management"]'],
  ];
  for (const [json, paths, kept] of cases) assert.equal(without(json, ...paths), kept);
  const untouched = Buffer.from('{"messages":[{"content":"temperature"}]}');
  assert.equal(withoutFields(untouched, ["temperature", "cache_control.ttl", loneSurrogates]), untouched);
  const paired = Buffer.from(String.raw`{"a":"\ud83d\ude00"}`);
  assert.equal(withoutFields(paired, [loneSurrogates]), paired);
});

test("known upstreams have defaults by their host, which the catalogue may replace", () => {
  const catalogue = parseCatalogue(
    Buffer.from(`groups: { default: { models: ["*"] } }
upstreams:
  kimi: { dialect: anthropic-messages, baseUrl: "https://api.moonshot.ai/anthropic/v1" }
  own: { dialect: anthropic-messages, baseUrl: "https://api.moonshot.ai/anthropic/v1", omits: [speed], betas: ["effort-*"] }
  mine: { dialect: anthropic-messages, baseUrl: "https://claude.example/v1" }
models: [{ id: m, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: kimi, model: m }] }]
`),
    "catalogue.yaml",
    {},
  );
  const { upstreams } = catalogue;
  assert.ok(upstreams.get("kimi")?.omits.includes("context_management"));
  assert.deepEqual(upstreams.get("kimi")?.betas, []);
  assert.deepEqual([upstreams.get("own")?.omits, upstreams.get("own")?.betas], [["speed"], ["effort-*"]]);
  assert.deepEqual([upstreams.get("mine")?.omits, upstreams.get("mine")?.betas], [[], ["*"]]);
  const hosts: [string, string][] = [
    ["https://bedrock-mantle.us-east-1.api.aws/anthropic/v1", "Amazon Bedrock"],
    ["https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1", "Amazon Bedrock"],
    ["https://vpce-0a.bedrock-runtime.us-east-1.vpce.amazonaws.com/openai/v1", "Amazon Bedrock"],
    ["https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic", "Vertex AI"],
    ["https://aiplatform.googleapis.com/v1", "Vertex AI"],
    ["https://api.kimi.com/coding/v1", "Kimi"],
    ["https://api.z.ai/api/anthropic/v1", "z.ai"],
    ["https://open.bigmodel.cn/api/anthropic/v1", "z.ai"],
    ["https://api.minimax.io/anthropic/v1", "MiniMax"],
    ["https://api.deepseek.com/anthropic/v1", "DeepSeek"],
    ["https://api.groq.com/openai/v1", "Groq"],
    ["https://api.mistral.ai/v1", "Mistral"],
  ];
  for (const [address, name] of hosts) {
    const rule = upstreamRules.find((one) => one.name === name);
    assert.deepEqual(strictnessOf(address).omits, rule?.omits, address);
    assert.match(rule?.source ?? "", /^https:/);
  }
  for (const address of [
    "https://api.anthropic.com/v1",
    "https://evil-deepseek.com.example/v1",
    "https://notgroq.com/v1",
    "nonsense",
  ])
    assert.deepEqual(strictnessOf(address), { omits: [], betas: ["*"] }, address);
});

const adaptive = 'thinking:={"type":"adaptive","display":"summarized"}';
const budgeted = 'thinking:={"type":"enabled","budget_tokens":8192}';
const efforts = ["output_config.effort", "reasoning_effort"];
const thinkingCases: [error: string | object, fields: string[], isLasting: boolean][] = [
  [
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
    [adaptive],
    false,
  ],
  ["adaptive thinking is not supported on this model", [budgeted], false],
  ["thinking.enabled.budget_tokens: Field required", [budgeted], false],
  // https://github.com/anthropics/claude-code/issues/12914
  ["'claude-3-5-haiku-20241022' does not support thinking.", ["thinking"], true],
  ["thinking: Extra inputs are not permitted", ["thinking"], true],
  [
    "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags: 'disabled', 'enabled'",
    [budgeted],
    false,
  ],
  [
    {
      detail: [
        { loc: ["body", "thinking", "type"], msg: "Input should be 'enabled' or 'disabled'", input: "adaptive" },
      ],
    },
    [budgeted],
    false,
  ],
  ["`max_tokens` must be greater than `thinking.budget_tokens`.", ['thinking:={"type":"disabled"}'], false],
  ["`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive", ["context_management"], false],
  ["This model does not support the effort parameter.", efforts, true],
  [
    'output_config.effort "high" was provided, but model claude-haiku-4.5 does not support reasoning effort',
    efforts,
    true,
  ],
  ["output_config.effort: Input should be 'low', 'medium', 'high' or 'max'", efforts, false],
];

test("an output token limit that is too large is lowered to the one in the error", () => {
  const cases: [message: string, most: number][] = [
    ["max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet", 8_192],
    [
      "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
      4_096,
    ],
    [
      "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.",
      16_384,
    ],
    ["max_tokens (384000) exceeds model's maximum output tokens (65536) for model deepseek-v4-flash:0731", 65_536],
    ["Input validation error: `max_new_tokens` must be <= 512. Given: 4096", 512],
    ["Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192],
    [
      "`max_completion_tokens` must be less than or equal to `40960`, the maximum value for `max_completion_tokens` is less than the context_window for this model",
      40_960,
    ],
    [
      "The parameter `max_completion_tokens` specified in the request are not valid: integer above maximum value, expected a value <= 12288, but got 32000 instead.",
      12_288,
    ],
    [
      "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
      65_536,
    ],
  ];
  for (const [message, most] of cases) {
    const refused = refusedFieldsOf(upstreamErrorOf({ error: { message } }));
    assert.deepEqual([refused?.fields[0], refused?.isLasting], [`max_tokens<=${most}`, true], message);
  }
});

test("an output that does not fit the context beside the prompt is shortened, if enough of it is left", () => {
  const vllm = (input: number) =>
    `'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768 tokens and your request has ${input} input tokens (32000 > 32768 - ${input}). (parameter=max_tokens, value=32000)`;
  const cases: [message: string, most: number | undefined][] = [
    // https://github.com/farion1231/cc-switch/issues/1022
    [vllm(17_459), 15_309],
    [vllm(32_000), undefined],
    [
      "This model's maximum context length is 20480 tokens. However, your request has 8000 input tokens plus 20450 'max_tokens'. Please reduce one or the other.",
      12_480,
    ],
    [
      "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.",
      6_793,
    ],
    [
      "This endpoint's maximum context length is 65536 tokens. However, you requested about 80000 tokens (50000 of text input, 10000 of tool input, 20000 in the output). Please reduce the length of either one.",
      5_536,
    ],
    [
      "This model's maximum context length is 131072 tokens. However, you requested 141403 tokens (133211 in the messages, 8192 in the completion).",
      undefined,
    ],
    [
      "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease input length or `max_tokens` and try again",
      56_347,
    ],
    ["input length and `max_tokens` exceed context limit: 199000 + 64000 > 200000", undefined],
  ];
  for (const [message, most] of cases) {
    const error = upstreamErrorOf({ error: { message } });
    assert.equal(error.means, "context_too_long", message);
    const repair = repairOf(400, error);
    assert.deepEqual(
      repair?.kind === "omit" ? [repair.fields[0], repair.isLasting] : undefined,
      most === undefined ? undefined : [`max_tokens<=${most}`, false],
      message,
    );
  }
});

test("cache marks beyond four go once Anthropic refused them, the earliest of the messages first", () => {
  // https://github.com/Wei-Shaw/sub2api/issues/176, https://github.com/envoyproxy/ai-gateway/pull/1712
  const message = "A maximum of 4 blocks with cache_control may be provided. Found 5.";
  const repair = repairOf(400, upstreamErrorOf({ type: "error", error: { type: "invalid_request_error", message } }));
  assert.deepEqual(repair, { kind: "omit", fields: [spareCacheMarks], isLasting: true });
  const part = (text: string, isMarked: boolean) => ({
    type: "text",
    text,
    ...(isMarked && { cache_control: { type: "ephemeral" } }),
  });
  const bodyOf = (marks: { tool: number; system: number; results: number; turns: number[] }) =>
    JSON.stringify({
      tools: Array.from({ length: marks.tool }, (_, at) => ({ name: `t${at}`, ...part("", true) })),
      system: Array.from({ length: marks.system }, () => part("s", true)),
      messages: [
        ...marks.turns.map((isMarked) => ({ role: "user", content: [part("cache_control", isMarked === 1)] })),
        {
          role: "user",
          content: [{ type: "tool_result", content: Array.from({ length: marks.results }, () => part("r", true)) }],
        },
      ],
    });
  const cases: [Parameters<typeof bodyOf>[0], Parameters<typeof bodyOf>[0] | undefined][] = [
    [
      { tool: 1, system: 2, results: 0, turns: [1, 1, 1] },
      { tool: 1, system: 2, results: 0, turns: [0, 0, 1] },
    ],
    [{ tool: 1, system: 1, results: 0, turns: [1, 1] }, undefined],
    [{ tool: 0, system: 0, results: 0, turns: [] }, undefined],
  ];
  for (const [sent, kept] of cases) assert.equal(without(bodyOf(sent), spareCacheMarks), bodyOf(kept ?? sent));
  const withNulls =
    '{"messages":[{"cache_control":null},{"cache_control":null}],"cache_control":{},"tools":[{"cache_control":{}},{"cache_control":{}},{"cache_control":{}}]}';
  assert.equal(without(withNulls, spareCacheMarks), withNulls);
  const deep = JSON.parse(without(bodyOf({ tool: 1, system: 2, results: 2, turns: [1] }), spareCacheMarks));
  assert.equal(JSON.stringify(deep).match(/"cache_control":/g)?.length, 4);
  assert.ok(deep.messages[0].content[0].cache_control);
});

test("only the cache marks that a refusal is about are left out", () => {
  const everywhere =
    '{"cache_control":{},"tools":[{"cache_control":{}},{"function":{"cache_control":{}}}],"system":[{"cache_control":{}}],"messages":[{"cache_control":{},"content":[{"type":"thinking","cache_control":{}},{"type":"redacted_thinking","cache_control":{}},{"type":"text","cache_control":{}},{"type":"tool_result","content":[{"type":"text","cache_control":{}}]}]}]}';
  const own = { fields: ["cache_control"], fallback: [cacheMarks], isLasting: true };
  const ofTools = { fields: ["tools.cache_control", "tools.function.cache_control"], isLasting: true };
  const all = { fields: [cacheMarks], isLasting: true };
  const refusals: [error: string | object, refused: object, kept: number][] = [
    ["cache_control: Extra inputs are not permitted", own, 8],
    ["property 'cache_control' is unsupported", own, 8],
    ["Unrecognized request argument supplied: cache_control", { fields: ["cache_control"], isLasting: true }, 8],
    ['json: unknown field "cache_control"', own, 8],
    [
      { detail: [{ type: "extra_forbidden", loc: ["body", "cache_control"], msg: "Extra inputs are not permitted" }] },
      own,
      8,
    ],
    // https://github.com/earendil-works/pi/issues/7938
    ["tools.3.cache_control: Extra inputs are not permitted", ofTools, 7],
    // https://github.com/Wei-Shaw/sub2api/issues/225, https://github.com/LeenHawk/gproxy/issues/67
    [
      "messages.13.content.0.thinking.cache_control: Extra inputs are not permitted",
      { fields: [thinkingCacheMarks], isLasting: true },
      7,
    ],
    // https://github.com/Mirascope/mirascope/issues/618
    ["messages.0.content.0.text.cache_control: Extra inputs are not permitted", all, 0],
    // https://github.com/anthropics/anthropic-sdk-typescript/issues/553
    ["system.0.cache_control: Extra inputs are not permitted", all, 0],
    [
      "messages.2.content.0.tool_result.content.0.cache_control: cache_control may not be specified within `tool_result.content`. Instead, place it directly on `tool_result`. Received",
      { fields: ["messages.content.content.cache_control"], isLasting: true },
      8,
    ],
    ["Unknown parameter: 'messages[0].content[0].cache_control'.", all, 0],
    [
      "'messages.0' : for 'role:user' the following must be satisfied[('messages.0' : property 'cache_control' is unsupported)]",
      all,
      0,
    ],
    [
      `Invalid JSON payload received. Unknown name "cache_control" at 'messages[0].content[0]': Cannot find field.`,
      all,
      0,
    ],
  ];
  for (const [body, refused, kept] of refusals) {
    const refusal = refusedFieldsOf(upstreamErrorOf(body));
    assert.deepEqual(refusal, refused, JSON.stringify(body));
    const left = without(everywhere, ...(refusal?.fields ?? []));
    assert.equal(left.match(/"cache_control"/g)?.length ?? 0, kept, left);
  }
});

test("ids of calls that an upstream refuses become others, the same for a call and its result", () => {
  const theirs = "call_PTLP8xhu3uwZk4l3nlnrrJha";
  const long = `call_${"x".repeat(60)}`;
  const odd = "functions.Bash:0";
  const chatOf = (id: string) =>
    `{"x":1.0,"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"${id}","type":"function"},{"id":"D681PevKs"}]},{"role":"tool","tool_call_id":"${id}","content":"r"},{"role":"tool","tool_call_id":"D681PevKs"}]}`;
  const responsesOf = (id: string) =>
    `{"input":[{"type":"function_call","id":"fc_1","call_id":"${id}"},{"type":"function_call_output","call_id":"${id}"}]}`;
  const messagesOf = (id: string) =>
    `{"messages":[{"content":[{"type":"tool_use","id":"${id}"},{"type":"tool_use","id":"toolu_1"}]},{"content":[{"type":"tool_result","tool_use_id":"${id}"},{"type":"tool_result","tool_use_id":"toolu_1"}]}]}`;
  const cases: [
    status: number,
    error: string | object,
    name: keyof typeof callIds,
    bodyOf: (id: string) => string,
    id: string,
  ][] = [
    // https://github.com/anomalyco/opencode/issues/1680
    [
      400,
      { object: "error", message: `Tool call id was ${theirs} but must be a-z, A-Z, 0-9, with a length of 9.` },
      "nine",
      chatOf,
      theirs,
    ],
    // https://github.com/jundot/omlx/pull/1997
    [
      500,
      "Tool call id was call_49c89af0 but must be a-z, A-Z, 0-9, with a length of 9",
      "nine",
      chatOf,
      "call_49c89af0",
    ],
    // https://github.com/microsoft/autogen/issues/6377
    [
      400,
      "Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 64 instead.",
      "upTo40",
      chatOf,
      long,
    ],
    // https://github.com/HKUDS/nanobot/issues/1623
    [
      400,
      "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64, but got a string with length 80 instead.",
      "upTo64",
      responsesOf,
      long,
    ],
    // https://github.com/maximhq/bifrost/issues/5097
    [400, "messages.4.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", "plain", messagesOf, odd],
  ];
  for (const [status, error, name, bodyOf, id] of cases) {
    const body = typeof error === "string" ? { error: { message: error } } : error;
    const field = callIds[name];
    assert.deepEqual(repairOf(status, upstreamErrorOf(body)), { kind: "omit", fields: [field], isLasting: true });
    const rule = callIdRules[name];
    const fitted = bodyOf(rule.hashed(id));
    assert.ok(fitsText(rule.hashed(id), rule));
    assert.equal(without(bodyOf(id), field), fitted);
    assert.equal(without(fitted, field), fitted);
  }
  assert.ok(strictnessOf("https://api.mistral.ai/v1").omits.includes(callIds.nine));
});

test("calls without a text get an empty one where a server wants a string", () => {
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  const bodyOf = (content: object) =>
    JSON.stringify({
      x: 1,
      messages: [
        { role: "user", content: "q" },
        { role: "assistant", tool_calls: [call], ...content },
        { role: "tool", tool_call_id: "c", ...content },
      ],
    });
  const refusals: [status: number, error: string | object, fields?: string[]][] = [
    // https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/261
    [400, "Invalid 'content': 'content' field must be a string or an array of objects."],
    // https://github.com/ggml-org/llama.cpp/issues/13471, https://github.com/browser-use/browser-use/issues/1635
    [500, { error: { code: 500, message: "Expected 'content' to be a string or an array", type: "server_error" } }],
    // https://github.com/ggml-org/llama.cpp/pull/12293
    [500, "Missing 'content' (ref: https://github.com/ggml-org/llama.cpp/issues/8367)"],
    [500, "Invalid 'content' type (ref: https://github.com/ggerganov/llama.cpp/issues/8367)"],
    // https://github.com/huggingface/text-generation-inference/pull/3021
    [
      422,
      "Failed to deserialize the JSON body into the target type: messages[0]: missing field `content` at line 17 column 9",
    ],
    // https://github.com/jeremychone/rust-genai/pull/74
    [
      400,
      "[{'type': 'missing', 'loc': ('body', 'messages', 2, 'ChatCompletionMessageGenericParam', 'content'), 'msg': 'Field required', 'input': {'role': 'assistant'}}]",
    ],
    // https://github.com/spring-projects/spring-ai/issues/3657
    [400, "ChatCompletionMessageGenericParam.content Field required [type=missing, input_value={'role': 'assistant'}]"],
    // https://github.com/TQZHR/grok2api/pull/41
    [400, "ValidationError: body.messages.content.str - Input should be a valid string", [textLists, nullContents]],
  ];
  for (const [status, error, fields = [nullContents]] of refusals) {
    const repair = repairOf(status, upstreamErrorOf(typeof error === "string" ? { error: { message: error } } : error));
    assert.deepEqual(repair, { kind: "omit", fields, isLasting: true }, JSON.stringify(error));
    for (const content of [{ content: null }, {}])
      assert.deepEqual(JSON.parse(without(bodyOf(content), ...fields)), JSON.parse(bodyOf({ content: "" })));
  }
});

test("halves of characters are replaced once a strict parser refused them", () => {
  for (const message of [
    "The request body is not valid JSON: no low surrogate in string: line 1 column 143607 (char 143606)",
    "'utf-8' codec can't encode character '\\ud83d' in position 24407: surrogates not allowed",
    "unexpected end of hex escape at line 1 column 23",
  ])
    assert.deepEqual(refusedFieldsOf({ message }), { fields: [loneSurrogates], isLasting: true });
});

test("Vertex AI gets calls and results without their ids, in both spellings", () => {
  const { omits } = strictnessOf("https://aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google");
  const body =
    '{"contents":[{"role":"model","parts":[{"functionCall":{"id":"c","name":"f","args":{"id":1}}},{"function_call":{"name":"f","id":"d"}}]},{"parts":{"functionResponse":{"id":"c","name":"f","response":{"id":2}}}}]}';
  assert.equal(
    withoutFields(Buffer.from(body), omits).toString(),
    '{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"id":1}}},{"function_call":{"name":"f"}}]},{"parts":{"functionResponse":{"name":"f","response":{"id":2}}}}]}',
  );
});

test("the refused field is found in the errors of real upstreams", () => {
  const cases: [error: string | object, fields: string[] | undefined, isLasting?: boolean][] = [
    ["context_management: Extra inputs are not permitted", ["context_management"], true],
    ["tools.0.custom.eager_input_streaming: Extra inputs are not permitted", ["tools.eager_input_streaming"], true],
    ["system.1.cache_control.ephemeral.scope: Extra inputs are not permitted", ["cache_control.scope"], true],
    [
      "messages.0.content.2.text.cache_control.ephemeral.ttl: Extra inputs are not permitted",
      ["cache_control.ttl"],
      true,
    ],
    ["`temperature` is deprecated for this model.", ["temperature", "generationConfig.temperature"], true],
    [
      "Unexpected value(s) `context-management-2025-06-27` for the `anthropic-beta` header.",
      ["anthropic-beta:context-management-2025-06-27"],
      true,
    ],
    [{ message: "The model returned the following errors: invalid beta flag" }, ["anthropic-beta:"], false],
    [
      {
        error: {
          message: "Unsupported parameter: 'prompt_cache_key' is not supported with this model.",
          type: "invalid_request_error",
          param: "prompt_cache_key",
          code: "unsupported_parameter",
        },
      },
      ["prompt_cache_key"],
      true,
    ],
    [
      {
        error: {
          message:
            "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.",
          param: "temperature",
          code: "unsupported_value",
        },
      },
      ["temperature", "generationConfig.temperature"],
      true,
    ],
    [{ error: { message: "Unrecognized request argument supplied: reasoning_effort" } }, ["reasoning_effort"], true],
    ["property 'prompt_cache_key' is unsupported", ["prompt_cache_key"], true],
    [
      { message: "body.prompt_cache_key: property 'body.prompt_cache_key' is unsupported", code: "wrong_api_format" },
      ["prompt_cache_key"],
      true,
    ],
    [
      {
        error: {
          code: 400,
          message: 'Invalid JSON payload received. Unknown name "prompt_cache_key": Cannot find field.',
          status: "INVALID_ARGUMENT",
        },
      },
      ["prompt_cache_key"],
      true,
    ],
    [
      { error: { code: 400, message: "Penalty is not enabled for this model", status: "INVALID_ARGUMENT" } },
      [
        "presence_penalty",
        "generationConfig.presencePenalty",
        "frequency_penalty",
        "generationConfig.frequencyPenalty",
      ],
      true,
    ],
    [
      {
        detail: [{ type: "extra_forbidden", loc: ["body", "user"], msg: "Extra inputs are not permitted", input: "u" }],
      },
      ["user"],
      true,
    ],
    // https://github.com/langfuse/langfuse/issues/4699
    [
      {
        error: {
          message: "Invalid type for 'metadata.seed': expected a string, but got an object instead.",
          type: "invalid_request_error",
          param: "metadata.seed",
          code: "invalid_type",
        },
      },
      ["metadata"],
      false,
    ],
    // https://github.com/BerriAI/litellm/issues/6642, https://github.com/OpenHands/OpenHands/issues/4643
    ...[
      "Failed to deserialize the JSON body into the target type: messages[2]: invalid type: sequence, expected a string at line 1 column 13946",
      "'messages.0' : for 'role:system' the following must be satisfied[('messages.0.content' : value must be a string)]",
    ].map((body): [string, string[], boolean] => [body, [textLists], true]),
    ...[
      { code: 20015, message: "Input should be a valid string", data: null },
      {
        detail: [
          { type: "string_type", loc: ["body", "messages", 1, "content"], msg: "Input should be a valid string" },
        ],
      },
    ].map((body): [string | object, string[], boolean] => [body, [textLists, nullContents], true]),
    ["Encrypted content is not supported with this model.", ["include"], true],
    [
      "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
      ["reasoning.effort", "output_config.effort"],
      true,
    ],
    [
      { code: "Client specified an invalid argument", error: "Argument not supported on this model: presencePenalty" },
      ["presence_penalty", "generationConfig.presencePenalty"],
      false,
    ],
    ["Unrecognized request argument supplied: thinking", ["thinking"], true],
    [
      "Unrecognized request arguments supplied: min_p, top_k, chat_template_kwargs",
      ["min_p", "top_k", "generationConfig.topK", "chat_template_kwargs"],
      true,
    ],
    ["Unrecognized request argument supplied: tools", undefined],
    ["Unknown parameter: 'reasoning'.", ["reasoning"], true],
    ["property 'chat_template_kwargs' is unsupported", ["chat_template_kwargs"], true],
    ["Invalid value for 'provider': no such provider.", undefined],
    ['Invalid JSON payload received. Unknown name "enable_thinking": Cannot find field.', ["enable_thinking"], true],
    [
      {
        detail: [{ type: "extra_forbidden", loc: ["body", "enable_thinking"], msg: "Extra inputs are not permitted" }],
      },
      ["enable_thinking"],
      true,
    ],
    [
      {
        error: {
          message:
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
          type: "invalid_request_error",
          param: "max_tokens",
          code: "unsupported_parameter",
        },
      },
      ["max_tokens=>max_completion_tokens"],
      true,
    ],
    [
      "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
      ["max_tokens=>max_completion_tokens"],
      true,
    ],
    [
      {
        detail: [
          { type: "extra_forbidden", loc: ["body", "max_completion_tokens"], msg: "Extra inputs are not permitted" },
        ],
      },
      ["max_completion_tokens=>max_tokens"],
      true,
    ],
    ["Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", ["parallel_tool_calls"], true],
    [
      "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
      ["tools=[]", "tool_choice", "parallel_tool_calls"],
      false,
    ],
    ["When using `tool_choice`, `tools` must be set.", ["tools=[]", "tool_choice", "parallel_tool_calls"], false],
    [
      "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
      ["tools=[]"],
      false,
    ],
    ["[] is too short - 'tools'", ["tools=[]"], false],
    ["Unknown parameter: 'reasoning.context'.", undefined],
    // https://github.com/zyycn/codex-proxy-rs/issues/194
    ["Unknown parameter: 'input[2].status'.", ["input.status"], true],
    ["`temperature` and `top_p` cannot both be specified for this model. Please use only one.", ["top_p"], false],
    ...[
      "The compiled grammar is too large, which would cause performance issues. Simplify your tool schemas or reduce the number of strict tools.",
      "Schema is too complex for compilation. Try reducing the number of tools or simplifying tool schemas.",
      "Too many strict tools (25). The maximum number of strict tools supported is 20.",
    ].map((message): [string, string[], boolean] => [message, ["tools.strict", "tools.function.strict"], true]),
    ...[
      "A FunctionDeclaration in the request exceeds the maximum allowed nesting depth.",
      "The specified schema produces a constraint that has too many states for serving.",
      "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: schema depth exceeds maximum limit of 10",
      "[invalid_request_error] JSON schema exceeds the maximum nesting depth of 10 levels",
    ].map((message): [string, string[], boolean] => [
      message,
      [complexSchemas, "tools.strict", "tools.function.strict"],
      false,
    ]),
    ["metadata.user_id: user_id appears to contain an email address", ["metadata.user_id"], false],
    [
      "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead.",
      ['reasoning_effort:="none"'],
      false,
    ],
    [
      "The tool_choice parameter does not support being set to required or object in thinking mode",
      ['thinking:={"type":"disabled"}', "enable_thinking:=false"],
      false,
    ],
    ["Thinking may not be enabled when tool_choice forces tool use.", ['thinking:={"type":"disabled"}'], false],
    [
      {
        error: {
          message:
            "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 190 instead.",
          param: "user",
          code: "string_above_max_length",
        },
      },
      ["user"],
      false,
    ],
    [{ error: { message: "user: must not have more than 64 characters.", param: "user" } }, ["user"], false],
    [{ error: { message: "metadata.key: must not have more than 64 characters.", param: "metadata" } }, undefined],
    ...thinkingCases,
    ["messages: at least one message is required", undefined],
    ["tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", undefined],
    ["Invalid model name 'user-model'", undefined],
    ["prompt is too long: 210000 tokens > 200000 maximum", undefined],
    ["Unsupported parameter: 'messages'", undefined],
  ];
  for (const [body, fields, isLasting] of cases) {
    const refused = refusedFieldsOf(upstreamErrorOf(body));
    assert.deepEqual(refused?.fields, fields, JSON.stringify(body));
    if (isLasting !== undefined) assert.equal(refused?.isLasting, isLasting, JSON.stringify(body));
  }
});

test("summaries of reasoning are left out where the upstream's organization may not have them", () => {
  // https://github.com/openai/openai-cookbook/issues/2271
  const error = {
    message:
      "Your organization must be verified to generate reasoning summaries. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization.",
    type: "invalid_request_error",
    param: "reasoning.summary",
    code: "unsupported_value",
  };
  const expected = { kind: "omit", fields: ["reasoning.summary"], isLasting: true };
  assert.deepEqual(repairOf(400, upstreamErrorOf({ error })), expected);
  const body = '{"reasoning":{"effort":"low","summary":"auto"},"x":1}';
  assert.equal(without(body, ...expected.fields), '{"reasoning":{"effort":"low"},"x":1}');
});

test("fields of embeddings and images that an upstream does not take are left out", () => {
  const voyage =
    "The request body is not valid JSON, or some arguments were not specified properly. In particular, Value 'float' supplied for argument 'encoding_format' is not valid -- accepted values are 'base64'";
  const refusals: [body: object, field: string, isLasting: boolean][] = [
    // https://github.com/1Panel-dev/MaxKB/issues/2639
    [{ detail: "extra fields not permitted: ['encoding_format']" }, "encoding_format", true],
    // https://github.com/BerriAI/litellm/pull/38774
    [
      {
        error: {
          message:
            "litellm.UnsupportedParamsError: bedrock does not support parameters: {'encoding_format': 'base64'}, for model=amazon.titan-embed-text-v1",
        },
      },
      "encoding_format",
      true,
    ],
    // https://github.com/cocoindex-io/cocoindex-code/issues/148,
    // https://github.com/embeddings-benchmark/mteb/issues/1681
    [{ detail: voyage }, "encoding_format", false],
    // https://github.com/Kilo-Org/cloud/pull/3196
    [
      {
        detail: [{ type: "extra_forbidden", loc: ["body", "encoding_format"], msg: "Extra inputs are not permitted" }],
      },
      "encoding_format",
      true,
    ],
    // https://github.com/obot-platform/obot/issues/2995
    [{ error: "Argument not supported: quality" }, "quality", true],
    // https://github.com/memochou1993/gpt-ai-assistant/issues/360
    [{ error: { message: "Unknown parameter: 'quality'." } }, "quality", true],
    // https://github.com/genkit-ai/genkit/issues/3346
    [
      { error: { message: "Unknown parameter: 'response_format'.", param: "response_format" } },
      "response_format=b64_json",
      true,
    ],
  ];
  for (const [body, field, isLasting] of refusals)
    assert.deepEqual(repairOf(400, upstreamErrorOf(body)), { kind: "omit", fields: [field], isLasting });
  for (const [body, field, kept] of [
    ['{"response_format":"b64_json","n":1}', "response_format=b64_json", '{"n":1}'],
    ['{"response_format":"url"}', "response_format=b64_json", '{"response_format":"url"}'],
    [
      '{"response_format":{"type":"json_object"}}',
      "response_format=b64_json",
      '{"response_format":{"type":"json_object"}}',
    ],
    ['{"documents":["a"],"return_documents":true}', "return_documents", '{"documents":["a"]}'],
  ] as const)
    assert.equal(without(body, field), kept);
});

test("reasoning beside the content becomes its first part, where an upstream takes it there", () => {
  const thinking = '{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":true}';
  for (const [message, expected] of [
    // https://github.com/charmbracelet/crush/issues/1590
    [
      '{"role":"assistant","content":"a","reasoning_content":"hm"}',
      `{"role":"assistant","content":[${thinking},{"type":"text","text":"a"}]}`,
    ],
    [
      '{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[]}',
      `{"role":"assistant","content":[${thinking}],"tool_calls":[]}`,
    ],
    ['{"role":"assistant","content":"a","reasoning_content":""}', '{"role":"assistant","content":"a"}'],
    ['{"role":"assistant","content":"a","reasoning_content":null}', '{"role":"assistant","content":"a"}'],
    [
      `{"role":"assistant","content":[${thinking}],"reasoning_content":"hm"}`,
      `{"role":"assistant","content":[${thinking}]}`,
    ],
    ['{ "role":"user","content":"\\"reasoning_content\\"" }', '{ "role":"user","content":"\\"reasoning_content\\"" }'],
  ])
    assert.equal(without(`{"messages":[${message}]}`, reasoningBeside), `{"messages":[${expected}]}`);
  assert.ok(strictnessOf("https://api.mistral.ai/v1").omits.includes(reasoningBeside));
});

test("complex schemas keep four levels and no bounds; the rest stands in descriptions", () => {
  const list = (items: object) => ({ type: "array", items });
  const object = (inner: object) => ({ type: "object", properties: { a: inner }, required: ["a"] });
  const count = { type: "integer", description: "How many", minimum: 1 };
  const noted = { type: "integer", description: "How many\n\n{minimum: 1}" };
  const cut = (inner: object) => ({
    type: "object",
    description: `{properties: ${JSON.stringify({ a: inner })}, required: ["a"]}`,
  });
  const cases: [schema: object, expected: object][] = [
    [object(count), object(noted)],
    [object(list(object(object(count)))), object(list(object(cut(count))))],
    [
      object(object(object(list({ type: "string" })))),
      object(object(object({ type: "array", description: '{items: {"type":"string"}}', items: {} }))),
    ],
    [
      { type: "object", properties: {}, $defs: { minimum: count }, additionalProperties: count },
      { type: "object", properties: {}, $defs: { minimum: noted }, additionalProperties: noted },
    ],
    [{ anyOf: [count, { type: "null" }] }, { anyOf: [noted, { type: "null" }] }],
  ];
  for (const [schema, expected] of cases)
    for (const bodyOf of [
      (one: object) => ({ tools: [{ name: "f", input_schema: one }] }),
      (one: object) => ({ tools: [{ type: "function", name: "f", parameters: one }] }),
      (one: object) => ({ tools: [{ type: "function", function: { name: "f", parameters: one } }] }),
      (one: object) => ({ tools: [{ functionDeclarations: [{ name: "f", parametersJsonSchema: one }] }] }),
      (one: object) => ({ generationConfig: { responseJsonSchema: one } }),
    ])
      assert.deepEqual(
        JSON.parse(without(JSON.stringify(bodyOf(schema)), complexSchemas)),
        JSON.parse(JSON.stringify(bodyOf(expected))),
      );
  const simple = Buffer.from('{"tools":[{"name":"f","input_schema":{ "type" : "object","properties":{}}}]}');
  assert.equal(withoutFields(simple, [complexSchemas]), simple);
});
