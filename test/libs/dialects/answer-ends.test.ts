/**
 * Why an answer ended, and what it used, in the words of every caller's dialect, whichever upstream
 * answers.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { TranslatedStream } from "#dialects/relay/translated.ts";
import { wholeOf } from "#operations/answer/exchange.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { SseReader } from "#wire/sse.ts";

const contextOf = (framing: "whole" | "sse", more: Partial<AnswerContext> = {}): AnswerContext => ({
  id: "a",
  model: "mine",
  createdAt: 1,
  framing,
  request: { system: [], messages: [], tools: [], settings: {} },
  body: { stream: framing === "sse", stream_options: { include_usage: true } },
  ...more,
});

/** The upstream's whole answer, for a caller. */
function whole(from: ConversationDialect, to: ConversationDialect, body: Record<string, unknown>) {
  const answer = wholeOf(codecs[to].decodeAnswer(body), from, contextOf("whole"));
  return answer.kind === "answer" ? parsedObject(answer.body) : answer;
}

/** The upstream's stream, as a caller's bytes and the error that it failed with. */
function streamed(
  from: ConversationDialect,
  to: ConversationDialect,
  events: readonly object[],
  context = contextOf("sse"),
) {
  const relay = new TranslatedStream(codecs[to].streamDecoder(), codecs[from].streamEncoder(context));
  const text = events
    .map((event) => {
      const name = to === "openai-chat" || to === "gemini" ? "" : `event: ${(event as { type: string }).type}\n`;
      return `${name}data: ${JSON.stringify(event)}\n\n`;
    })
    .join("");
  const out: Buffer[] = [];
  for (const event of new SseReader(100_000).push(Buffer.from(text))) relay.push(event, out);
  if (relay.error === undefined) relay.end(out);
  return { text: Buffer.concat(out).toString(), error: relay.error };
}

const claude = (stop: object, text = "Hi"): object[] => [
  { type: "message_start", message: { usage: { input_tokens: 12, output_tokens: 1 } } },
  ...(text === ""
    ? []
    : [
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
        { type: "content_block_stop", index: 0 },
      ]),
  { type: "message_delta", delta: stop, usage: { output_tokens: 3 } },
  { type: "message_stop" },
];
const claudeWhole = (stop: object, text = "Hi") => ({
  type: "message",
  content: text === "" ? [] : [{ type: "text", text }],
  usage: { input_tokens: 12, output_tokens: 3 },
  ...stop,
});
const google = (finishReason: string, text = "Hi", finishMessage?: string) => ({
  candidates: [{ content: { parts: text === "" ? [] : [{ text }] }, finishReason, finishMessage }],
  usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 3, totalTokenCount: 15 },
});
const chat = (finish: string, text = "Hi") => [
  { choices: [{ index: 0, delta: { content: text }, finish_reason: null }] },
  { choices: [{ index: 0, delta: {}, finish_reason: finish }] },
];

/** How each caller reads the end of a whole answer and of a stream. */
const endOf: Record<ConversationDialect, { whole(body: never): unknown; stream: RegExp }> = {
  "openai-chat": {
    whole: ({ choices: [choice] }: { choices: { finish_reason: string }[] }) => choice?.finish_reason,
    stream: /"finish_reason":"(\w+)"/,
  },
  "openai-responses": {
    whole: ({
      status,
      incomplete_details: details,
    }: {
      status: string;
      incomplete_details: { reason: string } | null;
    }) => details?.reason ?? status,
    stream: /"incomplete_details":\{"reason":"(\w+)"\}|event: response\.(completed)/,
  },
  "anthropic-messages": {
    whole: ({ stop_reason: reason }: { stop_reason: string }) => reason,
    stream: /"stop_reason":"(\w+)"/,
  },
  gemini: {
    whole: ({ candidates: [candidate] }: { candidates: { finishReason: string }[] }) => candidate?.finishReason,
    stream: /"finishReason":"(\w+)"/,
  },
};

const lastMatch = (text: string, pattern: RegExp): string | undefined =>
  [...text.matchAll(new RegExp(pattern, "g"))].at(-1)?.slice(1).find(Boolean);

type Words = Record<ConversationDialect, string>;
const stop: Words = {
  "openai-chat": "stop",
  "openai-responses": "completed",
  "anthropic-messages": "end_turn",
  gemini: "STOP",
};
const cut: Words = {
  "openai-chat": "length",
  "openai-responses": "max_output_tokens",
  "anthropic-messages": "max_tokens",
  gemini: "MAX_TOKENS",
};
const filtered: Words = {
  "openai-chat": "content_filter",
  "openai-responses": "content_filter",
  "anthropic-messages": "refusal",
  gemini: "SAFETY",
};
const paused: Words = { ...cut, "anthropic-messages": "pause_turn", gemini: "CONTINUATION" };
const full: Words = { ...cut, "anthropic-messages": "model_context_window_exceeded" };

/**
 * https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons,
 * https://ai.google.dev/api/generate-content#FinishReason
 */
const ends: [upstream: ConversationDialect, reason: string, words: Words][] = [
  ["anthropic-messages", "end_turn", stop],
  ["anthropic-messages", "max_tokens", cut],
  ["anthropic-messages", "pause_turn", paused],
  ["anthropic-messages", "compaction", paused],
  ["anthropic-messages", "model_context_window_exceeded", full],
  ["anthropic-messages", "refusal", filtered],
  ["anthropic-messages", "something_new", stop],
  ["gemini", "STOP", stop],
  ["gemini", "MAX_TOKENS", cut],
  ["gemini", "CONTINUATION", paused],
  ["gemini", "SAFETY", filtered],
  ["gemini", "PROHIBITED_CONTENT", filtered],
  ["gemini", "IMAGE_SAFETY", filtered],
  ["gemini", "NO_IMAGE", stop],
  ["gemini", "IMAGE_OTHER", stop],
  ["gemini", "OTHER", stop],
  ["gemini", "SOMETHING_NEW", stop],
];

for (const [to, reason, words] of ends)
  test(`${to}: ${reason} beside content reaches every caller in its own words`, () => {
    for (const from of conversationDialects) {
      if (from === to) continue;
      const body = to === "gemini" ? google(reason) : claudeWhole({ stop_reason: reason });
      assert.equal(endOf[from].whole(whole(from, to, body) as never), words[from], `${from}, whole`);
      const events = to === "gemini" ? [google(reason)] : claude({ stop_reason: reason });
      assert.equal(lastMatch(streamed(from, to, events).text, endOf[from].stream), words[from], `${from}, streamed`);
    }
  });

test("a reason that says nothing of the content, or a call that can't be read, is no success without content, and its message says what happened", () => {
  const failing = [
    "NO_IMAGE",
    "OTHER",
    "IMAGE_OTHER",
    "SOMETHING_NEW",
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
  ];
  for (const reason of failing) {
    const body = google(reason, "", "Its own sentence.");
    const pattern = new RegExp(`stopped its answer: ${reason}\\. Its own sentence\\.$`);
    for (const from of conversationDialects) {
      const answer = whole(from, "gemini", body) as { kind?: string; error?: { message: string } };
      assert.match(answer.error?.message ?? "", pattern, `${from}, whole`);
      assert.match(streamed(from, "gemini", [body]).error?.message ?? "", pattern, `${from}, streamed`);
    }
  }
});

test("a malformed call fails an answer beside text too: an agent would take the text for all of it", () => {
  for (const reason of ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"])
    assert.match(streamed("openai-chat", "gemini", [google(reason)]).error?.message ?? "", new RegExp(reason));
});

test("so does the one that only the vendor's own reason tells, at OpenRouter", () => {
  const reasons = { finish_reason: "stop", native_finish_reason: "MALFORMED_FUNCTION_CALL" };
  const text = { choices: [{ index: 0, delta: { content: "x" } }] };
  const body = { choices: [{ index: 0, message: { role: "assistant", content: "x" }, ...reasons }] };
  for (const from of conversationDialects) {
    const answer = whole(from, "openai-chat", body) as { error?: { message: string } };
    assert.match(answer.error?.message ?? "", /MALFORMED_FUNCTION_CALL/, `${from}, whole`);
    const events = [text, { choices: [{ index: 0, delta: {}, ...reasons }] }];
    assert.match(streamed(from, "openai-chat", events).error?.message ?? "", /MALFORMED_FUNCTION_CALL/, from);
  }
  const good = { choices: [{ ...body.choices[0], native_finish_reason: "STOP" }] };
  assert.equal((whole("openai-chat", "openai-chat", good) as { error?: object }).error, undefined);
});

/** A call with these arguments, whole and streamed, that ends with this reason. */
const calling: Record<"openai-chat" | "anthropic-messages", (args: string, reason: string) => object[]> = {
  "openai-chat": (args, reason) => [
    {
      choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: args } }] } }],
    },
    { choices: [{ index: 0, delta: {}, finish_reason: reason }] },
  ],
  "anthropic-messages": (args, reason) => [
    { type: "message_start", message: {} },
    { type: "content_block_start", index: 0, content_block: { type: "tool_use", id: "a", name: "f", input: {} } },
    { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: args } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: reason } },
    { type: "message_stop" },
  ],
};

test("a call that was cut off ends as an answer that is too long, whatever reason its server names", () => {
  const calls = { ...stop, "openai-chat": "tool_calls", "anthropic-messages": "tool_use" };
  for (const to of ["openai-chat", "anthropic-messages"] as const)
    for (const [args, words] of [
      ['{"x":1', cut],
      ['{"x":"}', cut],
      ['{"x":1}', calls],
      ["", calls],
    ] as const)
      for (const reason of to === "openai-chat" ? ["tool_calls", "stop"] : ["tool_use", "end_turn"])
        for (const from of conversationDialects) {
          const what = `${from} from ${to}, ${args}, ${reason}`;
          if (from === to) continue;
          // Gemini's answers have no arguments that are no object.
          if (from === "gemini" && args === '{"x":"}') continue;
          assert.equal(
            lastMatch(streamed(from, to, calling[to](args, reason)).text, endOf[from].stream),
            words[from],
            what,
          );
          if (to !== "openai-chat") continue;
          const message = { tool_calls: [{ id: "a", function: { name: "f", arguments: args } }] };
          const body = { choices: [{ index: 0, message, finish_reason: reason }] };
          assert.equal(endOf[from].whole(whole(from, to, body) as never), words[from], `${what}, whole`);
        }
});

test("an answer without a call ends as one, although its server names calls as the reason", () => {
  for (const from of conversationDialects)
    for (const [to, events, body] of [
      [
        "openai-chat",
        chat("tool_calls"),
        { choices: [{ index: 0, message: { content: "Hi", tool_calls: [] }, finish_reason: "tool_calls" }] },
      ],
      ["anthropic-messages", claude({ stop_reason: "tool_use" }), claudeWhole({ stop_reason: "tool_use" })],
    ] as const) {
      if (from === to) continue;
      assert.equal(lastMatch(streamed(from, to, events).text, endOf[from].stream), stop[from], `${from} from ${to}`);
      assert.equal(endOf[from].whole(whole(from, to, body) as never), stop[from], `${from} from ${to}, whole`);
    }
});

test("an explained refusal reaches every caller, as a refusal where its dialect has one", () => {
  const details = {
    stop_reason: "refusal",
    stop_details: { type: "refusal", category: "cyber", explanation: "Not this." },
  };
  const sources: [ConversationDialect, Record<string, unknown>, object[]][] = [
    ["anthropic-messages", claudeWhole(details, ""), claude(details, "")],
    ["gemini", google("SAFETY", "", "Not this."), [google("SAFETY", "", "Not this.")]],
    [
      "gemini",
      { promptFeedback: { blockReason: "SAFETY", blockReasonMessage: "Not this." } },
      [{ promptFeedback: { blockReason: "SAFETY", blockReasonMessage: "Not this." } }],
    ],
  ];
  for (const [to, body, events] of sources)
    for (const from of conversationDialects) {
      if (from === to) continue;
      const answer = whole(from, to, body);
      assert.match(JSON.stringify(answer), /Not this\./, `${from} from ${to}`);
      assert.equal(endOf[from].whole(answer as never), filtered[from], `${from} from ${to}`);
      const { text } = streamed(from, to, events);
      assert.match(text, /Not this\./, `${from} from ${to}, streamed`);
      assert.equal(lastMatch(text, endOf[from].stream), filtered[from], `${from} from ${to}, streamed`);
      if (from === "openai-chat") assert.match(text, /"refusal":"Not this\."/);
    }
  const category = claudeWhole({ ...details, stop_details: { type: "refusal", category: "bio" } }, "");
  assert.match(JSON.stringify(whole("openai-chat", "anthropic-messages", category)), /refused to answer: bio/);
});

test("a stream in Anthropic's format begins with the prompt's tokens: the upstream's count, or else an estimate", () => {
  const inputIn = (text: string) => Number(/message_start.*?"input_tokens":(\d+)/s.exec(text)?.[1]);
  const estimating = contextOf("sse", { inputTokens: 77 });
  assert.equal(inputIn(streamed("anthropic-messages", "gemini", [google("STOP")], estimating).text), 12);
  assert.equal(inputIn(streamed("anthropic-messages", "openai-chat", chat("stop"), estimating).text), 77);
});

test("a caller's usage object has every detail that its clients read", () => {
  const body = claudeWhole({ stop_reason: "end_turn" });
  assert.deepEqual((whole("openai-chat", "anthropic-messages", body) as { usage: object }).usage, {
    prompt_tokens: 12,
    completion_tokens: 3,
    total_tokens: 15,
    prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  });
  assert.deepEqual((whole("openai-responses", "anthropic-messages", body) as { usage: object }).usage, {
    input_tokens: 12,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: 3,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 15,
  });
  assert.deepEqual((whole("anthropic-messages", "gemini", google("STOP")) as { usage: object }).usage, {
    input_tokens: 12,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: 3,
    output_tokens_details: { thinking_tokens: 0 },
    server_tool_use: null,
    cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
    inference_geo: null,
    service_tier: "standard",
    speed: null,
  });
  assert.deepEqual((whole("gemini", "anthropic-messages", body) as { usageMetadata: object }).usageMetadata, {
    promptTokenCount: 12,
    candidatesTokenCount: 3,
    totalTokenCount: 15,
    promptTokensDetails: [{ modality: "TEXT", tokenCount: 12 }],
    candidatesTokensDetails: [{ modality: "TEXT", tokenCount: 3 }],
  });
});

test("callers see what was billed apart: searches, cache writes of an hour, tokens of images", () => {
  const hours = {
    ...claudeWhole({ stop_reason: "end_turn" }),
    usage: {
      input_tokens: 1,
      cache_creation_input_tokens: 9,
      cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 5 },
      server_tool_use: { web_search_requests: 2 },
      output_tokens: 3,
    },
  };
  assert.match(JSON.stringify(whole("openai-chat", "anthropic-messages", hours)), /"web_search_requests":2/);
  const pictures = google("STOP");
  Object.assign(pictures.usageMetadata, { candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 2 }] });
  assert.match(JSON.stringify(whole("openai-chat", "gemini", pictures)), /"image_tokens":2/);
  assert.match(JSON.stringify(whole("openai-responses", "gemini", pictures)), /"image_tokens":2/);
});
