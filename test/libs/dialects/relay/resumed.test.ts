/**
 * Answers that another attempt resumes from the part that their caller has: cut after every event,
 * in every dialect.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext, Codec, StreamDecoder } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { type AnswerEvent, foldedOf } from "#dialects/neutral/neutral.ts";
import { toolNameOf } from "#dialects/neutral/tools.ts";
import { ResumedAnswer, ResumedDecoder, resumed, resumedText } from "#dialects/relay/resumed.ts";
import { SseReader } from "#wire/sse.ts";

type SentEvent = Exclude<AnswerEvent, { kind: "error" }>;

const parameters = { type: "object" };
const bodies: Record<ConversationDialect, Record<string, unknown>> = {
  "openai-chat": {
    model: "m",
    stream: true,
    messages: [{ role: "user", content: "hi" }],
    tools: [
      ...["weather", "my.tool"].map((name) => ({ type: "function", function: { name, parameters } })),
      { type: "custom", custom: { name: "free" } },
    ],
  },
  "openai-responses": {
    model: "m",
    stream: true,
    store: false,
    input: "hi",
    include: ["reasoning.encrypted_content"],
    tools: [
      ...["weather", "my.tool"].map((name) => ({ type: "function", name, parameters, strict: false })),
      { type: "custom", name: "free" },
    ],
  },
  "anthropic-messages": {
    model: "m",
    stream: true,
    max_tokens: 99,
    messages: [{ role: "user", content: "hi" }],
    tools: ["weather", "my_tool", "free"].map((name) => ({ name, input_schema: parameters })),
  },
  gemini: {
    contents: [{ role: "user", parts: [{ text: "hi" }] }],
    tools: [{ functionDeclarations: ["weather", "my.tool", "free"].map((name) => ({ name, parameters })) }],
  },
};

const saying = (kind: "text" | "reasoning" | "refusal", ...chunks: string[]): SentEvent[] => [
  { kind: "block", block: { kind } },
  ...chunks.map((text): SentEvent => ({ kind: "delta", text })),
  { kind: "block-end" },
];
const calling = (name: string, ...chunks: string[]): SentEvent[] => [
  { kind: "block", block: { kind: "call", id: `call_${name}`, name } },
  ...chunks.map((text): SentEvent => ({ kind: "delta", text })),
  { kind: "block-end" },
];
const signedBy = (dialect: ConversationDialect, ...chunks: string[]): SentEvent[] =>
  saying("reasoning", ...chunks).toSpliced(-1, 0, { kind: "signature", signature: { dialect, data: "c2ln" } });

const answers: Record<string, SentEvent[]> = {
  text: saying("text", "Hello", " wor", "ld ümläut 😀", "  ", "\n\nbye"),
  "two texts": [...saying("text", "A one", "x"), ...saying("text", "B two", "y")],
  refusal: [...saying("text", "so"), ...saying("refusal", "I can", "not")],
  thinking: [...saying("reasoning", "hm ", "ok"), ...saying("text", "answer", " is 4")],
  "signed thinking": [...signedBy("anthropic-messages", "hm ", "ok"), ...saying("text", "answer", " is 4")],
  "thinking that is not shown": [...signedBy("gemini"), ...saying("text", "answer", " is 4")],
  calls: [...calling("my_tool", '{"ci', 'ty":1}'), ...calling("weather", '{"a":', "1}")],
  "a call without arguments": [...calling("weather"), ...calling("my_tool", "{}")],
  "text and calls": [
    ...saying("text", "let me", "see"),
    ...calling("free", '{"input":"a', 'bc"}'),
    ...saying("text", "after", "z"),
  ],
};

const contextOf = (dialect: ConversationDialect): AnswerContext => {
  const body = bodies[dialect];
  const request = consistent(codecs[dialect].decodeRequest({ body, framing: "sse", headers: {} }));
  return { id: "abc123", model: "m", createdAt: 1_700_000_000, framing: "sse", request, body };
};
const beginningOf = (codec: Codec, context: AnswerContext) => new ResumedAnswer(codec.streamEncoder(context));

/** The text sent to the caller of a stream that repeats these events; undefined if it differs. */
function sentAgain(answer: ResumedAnswer, events: readonly SentEvent[]): string | undefined {
  const waiting = [...events];
  const stream: StreamDecoder = {
    push: () => [waiting.shift() as AnswerEvent],
    end: () => [],
    finished: false,
    malformedEvents: 0,
    usage: undefined,
  };
  const decoder = new ResumedDecoder(answer, stream, "repeat");
  let sent = "";
  while (waiting.length > 0)
    for (const event of decoder.push({ event: undefined, data: Buffer.alloc(0) })) {
      if (event.kind === "error") return undefined;
      sent += answer.push(event);
    }
  return sent;
}

/** The answer that a caller of the dialect understands, but for signatures. */
function understood(codec: Codec, text: string): unknown {
  const decoder = codec.streamDecoder();
  const events = [
    ...new SseReader(1 << 20).push(Buffer.from(text)).flatMap((event) => decoder.push(event)),
    ...decoder.end(),
  ];
  const answer = foldedOf(events.filter(({ kind }) => kind !== "signature"));
  assert.ok(answer !== undefined && !("error" in answer));
  return answer.blocks.filter((block) => block.kind !== "reasoning" || block.text !== "");
}

for (const dialect of conversationDialects)
  test(`${dialect}: a delivered answer is resumed without repeating a word, or not resumed at all`, () => {
    const codec = codecs[dialect];
    const wentOn: string[] = [];
    for (const [name, answer] of Object.entries(answers)) {
      const calls = answer.some((event) => event.kind === "block" && event.block.kind === "call");
      const events: SentEvent[] = [...answer, { kind: "finish", finish: calls ? "calls" : "stop" }];
      const whole = beginningOf(codec, contextOf(dialect));
      const sent = events.map((event) => whole.push(event));
      for (let cut = 1; cut < events.length; cut++) {
        const delivered = sent.slice(0, cut).join("");
        const context = contextOf(dialect);
        const next = resumed(beginningOf(codec, context), codec.streamDecoder(), delivered, (callerName) =>
          toolNameOf(context.request.tools, callerName),
        );
        if (delivered === "" || next === undefined) continue;
        const rest = sentAgain(next, events);
        if (rest === undefined) continue;
        wentOn.push(name);
        assert.deepEqual(
          understood(codec, delivered + rest),
          understood(codec, sent.join("")),
          `${name}, cut behind ${cut}`,
        );
      }
    }
    for (const name of ["text", "thinking"]) assert.ok(wentOn.includes(name), name);
  });

test("a citation of a continued text is about the same words of the whole text", () => {
  const sse = (event: object) => `data: ${JSON.stringify(event)}\n\n`;
  const chunk = (delta: object, reason: string | null = null) =>
    sse({ choices: [{ index: 0, delta, finish_reason: reason }] });
  const span = { start_index: 3, end_index: 7 };
  const url_citation = { url: "https://a.example", title: "", ...span };
  for (const [begun, rest, place] of [
    ["Über 🦊 is", " a blue fox", 9],
    ["Über 🦊 is ", " a blue fox", 9],
    ["Über 🦊 is ", "a blue fox", 10],
  ] as const) {
    const context = contextOf("openai-responses");
    const answer = resumedText(beginningOf(codecs["openai-responses"], context), begun);
    const decoder = new ResumedDecoder(answer, codecs["openai-chat"].streamDecoder(), "continue");
    const sent =
      chunk({ content: rest }) + chunk({ annotations: [{ type: "url_citation", url_citation }] }) + chunk({}, "stop");
    let written = "";
    for (const event of new SseReader(10_000).push(Buffer.from(sent)))
      for (const read of decoder.push(event)) if (read.kind !== "error") written += answer.push(read);
    for (const read of decoder.end()) if (read.kind !== "error") written += answer.push(read);
    const [, annotation] = /"annotation":(\{.*?\})/.exec(written) ?? [];
    assert.deepEqual(JSON.parse(annotation ?? "null"), {
      ...{ type: "url_citation", ...url_citation },
      ...{ start_index: place + span.start_index, end_index: place + span.end_index },
    });
  }
});
