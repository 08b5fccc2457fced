import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { AnswerContext, Framing } from "#dialects/codec.ts";
import { failureOf } from "#dialects/errors.ts";
import { gemini } from "#dialects/gemini/codec.ts";
import {
  type Answer,
  type AnswerEvent,
  type Block,
  eventsOf,
  foldedOf,
  type NeutralRequest,
} from "#dialects/neutral/neutral.ts";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { SseReader } from "#wire/sse.ts";

type Json = Record<string, unknown>;
const request: NeutralRequest = {
  system: [],
  messages: [],
  tools: [{ name: "f_g", callerName: "f.g", path: "t" }],
  settings: {},
};
const contextOf = (framing: Framing = "sse", showsThoughts = true): AnswerContext => ({
  id: "abc",
  model: "mine",
  createdAt: 1,
  framing,
  request: { ...request, settings: showsThoughts ? { thinkingShown: { value: true, path: "s" } } : {} },
  body: {},
});

/** The answer's events in these responses, one response per event. */
function readEvents(...responses: (Json | string)[]): AnswerEvent[] {
  const decoder = gemini.streamDecoder();
  const events = responses.flatMap((response) =>
    decoder.push({
      event: undefined,
      data: Buffer.from(typeof response === "string" ? response : JSON.stringify(response)),
    }),
  );
  return [...events, ...decoder.end()];
}
const read = (...responses: (Json | string)[]) => foldedOf(readEvents(...responses));
const response = (parts: Json[], finishReason?: string, more: Json = {}): Json => ({
  candidates: [{ content: { role: "model", parts }, index: 0, ...(finishReason !== undefined && { finishReason }) }],
  modelVersion: "theirs",
  ...more,
});
/** The responses that a caller gets for an answer, and the text they came in. */
function written(answer: Answer, context = contextOf()): { text: string; responses: Json[] } {
  const encoder = gemini.streamEncoder(context);
  const text = eventsOf(answer)
    .map((event) => (event.kind === "error" ? "" : encoder.push(event)))
    .join("");
  const responses =
    context.framing === "array"
      ? JSON.parse(text)
      : text
          .split("\n\n")
          .slice(0, -1)
          .map((line) => JSON.parse(line.replace(/^data: /, "")));
  return { text, responses };
}
const partsIn = (responses: readonly Json[]): Json[] =>
  responses.flatMap(({ candidates }) => (candidates as [{ content: { parts: Json[] } }])[0].content.parts);
const signature = (data: string) => ({ dialect: "gemini" as const, data });
const foreign = { dialect: "anthropic-messages", data: "c2ln" } as const;

test("a stream of thoughts, text and calls is decoded with its signatures in place and the last usage", () => {
  const usage = (candidatesTokenCount: number) => ({
    usageMetadata: {
      promptTokenCount: 10,
      toolUsePromptTokenCount: 3,
      cachedContentTokenCount: 4,
      candidatesTokenCount,
      thoughtsTokenCount: 2,
      totalTokenCount: 20,
    },
  });
  const answer = read(
    response([{ text: "Think", thought: true }], undefined, usage(0)),
    response([{ text: "ing.", thought: true }, { text: "All " }], undefined, usage(1)),
    response([{ text: "done." }, { text: "", thoughtSignature: "VA==" }, { text: "More." }]),
    response([
      { functionCall: { name: "f_g", args: { a: [1] } }, thoughtSignature: "Qw==" },
      { functionCall: { id: "own", name: "f_g" } },
    ]),
    response([
      { inlineData: { mimeType: "image/png", data: "AAAA" } },
      { executableCode: { code: "1" } },
      { inlineData: { mimeType: "audio/wav", data: "AAAA" } },
    ]),
    response([{ text: "" }], "STOP", usage(5)),
    "[DONE]",
  );
  assert.ok(answer !== undefined && "blocks" in answer);
  const [call] = answer.blocks.filter((block) => block.kind === "call");
  assert.match(call?.id ?? "", /^call_[0-9a-f]{24}$/);
  assert.deepEqual(answer, {
    blocks: [
      { kind: "reasoning", text: "Thinking." },
      { kind: "text", text: "All done." },
      { kind: "reasoning", text: "", signature: signature("VA==") },
      { kind: "text", text: "More." },
      { kind: "reasoning", text: "", signature: signature("Qw==") },
      { kind: "call", id: call?.id, name: "f_g", input: '{"a":[1]}' },
      { kind: "call", id: "own", name: "f_g", input: "{}" },
      { kind: "image", mimeType: "image/png", data: "AAAA" },
      {
        kind: "text",
        text: "[The model made a file (audio/wav), which this API cannot show. Gemini's generateContent can.]",
      },
    ],
    finish: "calls",
    usage: { inputTokens: 13, cachedInputTokens: 4, cacheWriteTokens: 0, outputTokens: 7, reasoningTokens: 2 },
  });
});

test("a thought may have its own signature, and usage may follow the finish", () => {
  const decoder = gemini.streamDecoder();
  const push = (value: Json) => decoder.push({ event: undefined, data: Buffer.from(JSON.stringify(value)) });
  const events = push(
    response([{ text: "Hm.", thought: true, thoughtSignature: "Uw==" }, { text: "a" }], "MAX_TOKENS"),
  );
  assert.equal(decoder.finished, true);
  events.push(...push({ usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1 } }), ...decoder.end());
  const answer = foldedOf(events);
  assert.ok(answer !== undefined && "blocks" in answer);
  assert.deepEqual(answer.blocks, [
    { kind: "reasoning", text: "Hm.", signature: signature("Uw==") },
    { kind: "text", text: "a" },
  ]);
  assert.equal(answer.finish, "length");
  assert.equal(answer.usage?.inputTokens, 1);
  assert.deepEqual(decoder.end(), [], "it ends once");
});

test("every finish reason is mapped, and a malformed call is not an answer", () => {
  const cases: Record<string, string | number> = {
    STOP: "stop",
    MAX_TOKENS: "length",
    CONTINUATION: "paused",
    SAFETY: "content-filter",
    RECITATION: "content-filter",
    LANGUAGE: "content-filter",
    BLOCKLIST: "content-filter",
    PROHIBITED_CONTENT: "content-filter",
    SPII: "content-filter",
    IMAGE_SAFETY: "content-filter",
    IMAGE_PROHIBITED_CONTENT: "content-filter",
    IMAGE_RECITATION: "content-filter",
    IMAGE_OTHER: "stop",
    NO_IMAGE: "stop",
    OTHER: "stop",
    MALFORMED_RESPONSE: 502,
    SOMETHING_NEW: "stop",
    MALFORMED_FUNCTION_CALL: 502,
    UNEXPECTED_TOOL_CALL: 502,
    TOO_MANY_TOOL_CALLS: 502,
  };
  for (const [reason, expected] of Object.entries(cases)) {
    const answers = [
      read(response([{ text: "a" }]), response([], reason)),
      foldedOf(gemini.decodeAnswer(response([{ text: "a" }], reason))),
    ];
    for (const answer of answers)
      assert.equal(
        answer === undefined ? answer : "error" in answer ? answer.error.status : answer.finish,
        expected,
        reason,
      );
  }
  const blocked = { promptFeedback: { blockReason: "SAFETY" }, usageMetadata: { promptTokenCount: 4 } };
  const filtered = {
    blocks: [],
    finish: "content-filter",
    usage: { inputTokens: 4, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 0, reasoningTokens: 0 },
  };
  assert.deepEqual(read(blocked), filtered);
  assert.deepEqual(foldedOf(gemini.decodeAnswer(blocked)), filtered);
});

test("a truncated answer or one with an unreadable event is incomplete; only the first candidate is read", () => {
  assert.equal(read(response([{ text: "a" }])), undefined);
  assert.equal(read(response([{ text: "a" }], "FINISH_REASON_UNSPECIFIED")), undefined);
  const decoder = gemini.streamDecoder();
  const push = (text: string) => decoder.push({ event: undefined, data: Buffer.from(text) });
  assert.deepEqual([...push('{"candidates":[{"index":1,"finishReason":"STOP"}]}'), ...push("{}")], []);
  assert.equal(decoder.finished, false);
  const [broken, ...others] = push('{"candidates":[{"content":{"par');
  assert.equal(broken?.kind === "error" && broken.error.status, 502);
  assert.deepEqual([others, decoder.malformedEvents, push("{}")], [[], 1, []]);
});

test("errors are read from bodies, lists and streams", () => {
  const error = {
    code: 400,
    message: "The input token count (9) exceeds the maximum number of tokens allowed (8).",
    status: "INVALID_ARGUMENT",
  };
  assert.equal(failureOf(400, gemini.upstreamErrorOf({ error })).code, "context_too_long");
  assert.equal(failureOf(400, gemini.upstreamErrorOf([{ error }])).code, "context_too_long");
  const details = [
    {
      "@type": "type.googleapis.com/google.rpc.BadRequest",
      fieldViolations: [{ field: "generation_config.top_k", description: "bad" }],
    },
  ];
  assert.deepEqual(
    gemini.upstreamErrorOf({ error: { code: 400, message: "Bad.", status: "INVALID_ARGUMENT", details } }),
    {
      message: "Bad.",
      code: undefined,
      type: "INVALID_ARGUMENT",
      param: "generation_config.top_k",
      status: 400,
    },
  );
  for (const own of [
    { code: 400, message: "API key not valid. Please pass a valid API key.", status: "INVALID_ARGUMENT" },
    { code: 400, message: "No.", details: [{ reason: "API_KEY_INVALID" }] },
  ]) {
    const { operatorFault, message } = failureOf(400, gemini.upstreamErrorOf({ error: own }));
    assert.deepEqual([operatorFault, /key/i.test(message)], ["credential", false]);
  }
  const [event, ...others] = readEvents(
    { error: { code: 503, message: "busy", status: "UNAVAILABLE" } },
    response([{ text: "a" }], "STOP"),
  );
  assert.ok(event?.kind === "error" && event.error.status === 503 && others.length === 0);
  const named = gemini.streamDecoder().push({ event: "error", data: Buffer.from('{"message":"by name"}') });
  assert.equal(named[0]?.kind === "error" && named[0].error.message, "by name");
  for (const body of [{}, { candidates: [] }, { error: { code: 500, message: "m" } }])
    assert.equal(gemini.decodeAnswer(body)[0]?.kind, "error");
});

const usage = { inputTokens: 10, cachedInputTokens: 4, cacheWriteTokens: 0, outputTokens: 7, reasoningTokens: 2 };
const usageMetadata = {
  promptTokenCount: 10,
  cachedContentTokenCount: 4,
  candidatesTokenCount: 5,
  thoughtsTokenCount: 2,
  totalTokenCount: 17,
  promptTokensDetails: [{ modality: "TEXT", tokenCount: 10 }],
  candidatesTokensDetails: [{ modality: "TEXT", tokenCount: 5 }],
};
const spoken: Answer = {
  blocks: [
    { kind: "reasoning", text: "Hm.", signature: foreign },
    { kind: "text", text: "A line\u2028break." },
    { kind: "call", id: "c1", name: "f_g", input: '{"a":1}' },
    { kind: "call", id: "c2", name: "made_up", input: "" },
  ],
  finish: "calls",
  usage,
};
const tail = { modelVersion: "mine", responseId: "abc" };
const chunk = (parts: Json[], end: Json = {}, more: Json = {}): string =>
  JSON.stringify({ candidates: [{ content: { role: "model", parts }, ...end, index: 0 }], ...more, ...tail });

test("a streamed answer has the bytes that Google's clients read, as events and as a list", () => {
  const chunks = [
    chunk([{ text: "Hm.", thought: true }]),
    chunk([{ text: "A line\u2028break." }]).replace("\u2028", "\\u2028"),
    chunk([
      { functionCall: { id: "c1", name: "f.g", args: { a: 1 } }, thoughtSignature: wrappedSignatureOf(foreign, "Hm.") },
    ]),
    chunk([{ functionCall: { id: "c2", name: "made_up", args: {} } }]),
    chunk([{ text: "" }], { finishReason: "STOP" }, { usageMetadata }),
  ];
  assert.equal(written(spoken).text, chunks.map((text) => `data: ${text}\n\n`).join(""));
  assert.equal(written(spoken, contextOf("array")).text, `[${chunks.join("\n\n,")}\n\n]`);
});

test("a caller that does not ask for thoughts sees none, but gets their signature", () => {
  const parts = partsIn(written(spoken, contextOf("sse", false)).responses);
  assert.ok(parts.every(({ thought }) => thought === undefined));
  assert.equal(parts[1]?.thoughtSignature, wrappedSignatureOf(foreign, "Hm."));
  assert.ok(!gemini.encodeAnswer(spoken, contextOf("whole", false)).includes('"thought":'));
});

test("a signature without a following call goes on the final text, and no two share a part", () => {
  const thought = (text: string): Block => ({ kind: "reasoning", text, signature: foreign });
  const env = (text: string) => wrappedSignatureOf(foreign, text);
  const cases: [Block[], Json[], Json[]][] = [
    [
      [thought("t"), { kind: "text", text: "a" }],
      [{ text: "a" }, { text: "", thoughtSignature: env("t") }],
      [{ text: "a", thoughtSignature: env("t") }],
    ],
    [[thought("t")], [{ text: "", thoughtSignature: env("t") }], [{ text: "", thoughtSignature: env("t") }]],
    [
      [thought("t"), { kind: "text", text: "a" }, thought("u"), { kind: "call", id: "1", name: "x", input: "{}" }],
      [
        { text: "a" },
        { text: "", thoughtSignature: env("t") },
        { functionCall: { id: "1", name: "x", args: {} }, thoughtSignature: env("u") },
        { text: "" },
      ],
      [
        { text: "a" },
        { text: "", thoughtSignature: env("t") },
        { functionCall: { id: "1", name: "x", args: {} }, thoughtSignature: env("u") },
      ],
    ],
    [
      [{ kind: "call", id: "1", name: "x", input: "{}" }, thought("t")],
      [{ functionCall: { id: "1", name: "x", args: {} } }, { text: "", thoughtSignature: env("t") }],
      [{ functionCall: { id: "1", name: "x", args: {} } }, { text: "", thoughtSignature: env("t") }],
    ],
    [[], [{ text: "" }], []],
  ];
  for (const [blocks, streamed, whole] of cases) {
    const context = contextOf("sse", false);
    assert.deepEqual(partsIn(written({ blocks, finish: "stop" }, context).responses), streamed);
    assert.deepEqual(partsIn([JSON.parse(gemini.encodeAnswer({ blocks, finish: "stop" }, context))]), whole);
  }
});

test("a whole answer has all parts in one response", () => {
  const { candidates, ...rest } = JSON.parse(gemini.encodeAnswer(spoken, contextOf("whole")));
  assert.deepEqual(rest, { usageMetadata, ...tail });
  assert.deepEqual(
    candidates[0].content.parts.map((part: Json) => Object.keys(part)),
    [["text", "thought"], ["text"], ["functionCall", "thoughtSignature"], ["functionCall"]],
  );
});

test("a call whose arguments are not an object is left out, and the finish reason reports it", () => {
  const blocks: Block[] = [{ kind: "call", id: "1", name: "x", input: '{"a":' }];
  for (const [finish, expected] of [
    ["calls", "MALFORMED_FUNCTION_CALL"],
    ["length", "MAX_TOKENS"],
  ] as const)
    for (const body of [
      written({ blocks, finish }).responses.at(-1),
      JSON.parse(gemini.encodeAnswer({ blocks, finish }, contextOf("whole"))),
    ]) {
      assert.equal(body.candidates[0].finishReason, expected);
      assert.ok(!JSON.stringify(body).includes("functionCall"));
    }
});

test("an answer in Google's own format is decoded and encoded without change", () => {
  const text = fc
    .string({ minLength: 1, unit: "binary" })
    .map((value): Block => ({ kind: "text", text: value.toWellFormed() }));
  const thought = fc.string({ minLength: 1 }).map((value): Block => ({ kind: "reasoning", text: value }));
  const signed = fc
    .base64String({ minLength: 4 })
    .map((data): Block => ({ kind: "reasoning", text: "", signature: signature(data) }));
  const call = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 })).map(
    (args): Block => ({
      kind: "call",
      id: "own",
      name: "x",
      input: JSON.stringify(JSON.parse(JSON.stringify(args))),
    }),
  );
  const image = fc
    .base64String({ minLength: 4 })
    .map((data): Block => ({ kind: "image", mimeType: "image/png", data }));
  const unlikeNeighbours = (blocks: Block[]) =>
    blocks.filter((block, place) => {
      const before = blocks[place - 1];
      return (
        before?.kind !== block.kind ||
        block.kind === "call" ||
        block.kind === "image" ||
        (block.kind === "reasoning" && block.signature !== undefined)
      );
    });
  const answers = fc.array(fc.oneof(text, thought, signed, call, image), { maxLength: 6 }).map(unlikeNeighbours);
  fc.assert(
    fc.property(answers, fc.constantFrom("stop", "length", "content-filter"), (blocks, reason) => {
      const finish = reason === "stop" && blocks.some(({ kind }) => kind === "call") ? "calls" : reason;
      const answer: Answer = { blocks, finish, usage };
      const events = new SseReader(1 << 20).push(Buffer.from(written(answer).text)).map(({ data }) => data.toString());
      assert.deepEqual(read(...events), answer);
      assert.deepEqual(read(...written(answer, contextOf("array")).responses), answer);
    }),
  );
});

test("no answer makes a reader throw, and blocks never overlap", () => {
  const part = fc.record(
    {
      text: fc.oneof(fc.string(), fc.jsonValue()),
      thought: fc.oneof(fc.boolean(), fc.jsonValue()),
      thoughtSignature: fc.oneof(fc.string(), fc.jsonValue()),
      functionCall: fc.oneof(
        fc.jsonValue(),
        fc.record({ name: fc.string(), id: fc.jsonValue(), args: fc.jsonValue() }),
      ),
      inlineData: fc.oneof(fc.jsonValue(), fc.record({ mimeType: fc.constant("image/png"), data: fc.jsonValue() })),
    },
    { requiredKeys: [] },
  );
  const candidate = fc.record({
    content: fc.record({ parts: fc.array(part) }),
    finishReason: fc.constantFrom("STOP", "SAFETY", 7, null, undefined),
    index: fc.constantFrom(0, undefined, "x"),
  });
  const answer = fc.oneof(
    fc.json(),
    fc.string(),
    fc
      .record({
        candidates: fc.oneof(fc.array(candidate), fc.jsonValue()),
        usageMetadata: fc.jsonValue(),
        promptFeedback: fc.jsonValue(),
        error: fc.constantFrom(null, undefined, 1),
      })
      .map((value) => JSON.stringify(value)),
  );
  fc.assert(
    fc.property(fc.array(answer, { maxLength: 5 }), (texts) => {
      let isOpen = false;
      for (const event of readEvents(...texts)) {
        assert.equal(
          event.kind === "delta" || event.kind === "signature" || event.kind === "block-end"
            ? isOpen
            : event.kind === "error" || !isOpen,
          true,
        );
        isOpen = event.kind === "block" || (isOpen && event.kind !== "block-end");
      }
      for (const text of texts) {
        try {
          gemini.decodeAnswer(JSON.parse(text) ?? {});
        } catch (error) {
          assert.ok(error instanceof SyntaxError, String(error));
        }
        gemini.upstreamErrorOf(text);
      }
    }),
  );
});
