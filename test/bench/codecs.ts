/**
 * The codecs alone, without sockets or Redis: what one core reads, translates and writes for each
 * pair of dialects. `npm run bench:codecs` prints a table, each figure the median of several
 * interleaved rounds; verbatim pairs stand on the diagonal and are the reference.
 */

import type { AnswerContext, StreamRelay } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type AnswerEvent, eventsOf, type NeutralRequest } from "#dialects/neutral/neutral.ts";
import { TranslatedStream } from "#dialects/relay/translated.ts";
import { SseReader } from "#wire/sse.ts";

const rounds = 5;
const roundMs = Number(process.env.BENCH_ROUND_MS ?? 150);
/** About as much as a socket delivers at once. */
const chunkBytes = 1_400;

const request: NeutralRequest = { system: [], messages: [], tools: [], settings: {} };
const context: AnswerContext = {
  id: "bench",
  model: "mine",
  createdAt: 1_767_225_600,
  framing: "sse",
  request,
  body: { stream: true },
};

/** A typical answer: some thinking, a text of 200 tokens, a call. */
const events: AnswerEvent[] = [
  ...spread("reasoning", 20),
  ...spread("text", 200),
  { kind: "block", block: { kind: "call", id: "call_bench", name: "weather" } },
  ...Array.from('{"city":"Reykjavík","unit":"celsius"}', (text): AnswerEvent => ({ kind: "delta", text })),
  { kind: "block-end" },
  ...eventsOf({
    blocks: [],
    finish: "calls",
    usage: { inputTokens: 1_000, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 260, reasoningTokens: 20 },
  }),
];

function spread(kind: "text" | "reasoning", count: number): AnswerEvent[] {
  const deltas = Array.from({ length: count }, (_, place): AnswerEvent => ({ kind: "delta", text: ` word${place}` }));
  return [{ kind: "block", block: { kind } }, ...deltas, { kind: "block-end" }];
}

/** An upstream's stream in this dialect, split into chunks. */
function streamOf(dialect: ConversationDialect): { chunks: Buffer[]; bytes: number; events: number } {
  const encoder = codecs[dialect].streamEncoder(context);
  const text = events.map((event) => (event.kind === "error" ? "" : encoder.push(event))).join("");
  const whole = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(whole.length / chunkBytes) }, (_, place) =>
    whole.subarray(place * chunkBytes, (place + 1) * chunkBytes),
  );
  return { chunks, bytes: whole.length, events: text.split("\n\n").length - 1 };
}

const relayOf = (from: ConversationDialect, to: ConversationDialect): StreamRelay =>
  from === to
    ? codecs[from].verbatim.stream(Buffer.from('{"model":"mine","stream":true}'), "sse", {
        id: "abc123",
        model: "mine",
      })
    : new TranslatedStream(codecs[to].streamDecoder(), codecs[from].streamEncoder(context), undefined);

/** Seconds of CPU for one answer. */
function measure(from: ConversationDialect, to: ConversationDialect, chunks: readonly Buffer[]): number {
  const began = process.cpuUsage();
  const until = performance.now() + roundMs;
  let answers = 0;
  do {
    const reader = new SseReader(1 << 20);
    const relay = relayOf(from, to);
    const out: Buffer[] = [];
    for (const chunk of chunks) for (const event of reader.push(chunk)) relay.push(event, out);
    relay.end(out);
    if (!relay.ended || out.length === 0) throw new Error(`${from} from ${to}: the answer did not end`);
    answers++;
  } while (performance.now() < until);
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 1e6 / answers;
}

const pairs = conversationDialects.flatMap((to) =>
  conversationDialects.map((from) => ({ from, to, source: streamOf(to), seconds: [] as number[] })),
);
for (const { from, to, source } of pairs) measure(from, to, source.chunks);
for (let round = 0; round < rounds; round++)
  for (const { from, to, source, seconds } of pairs) seconds.push(measure(from, to, source.chunks));

const median = (values: number[]) =>
  values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] as number;
console.log(
  "| upstream | caller | events/s | MB/s | CPU µs per event | of verbatim |\n| --- | --- | --: | --: | --: | --: |",
);
for (const { from, to, source, seconds } of pairs) {
  const second = median(seconds);
  const verbatim = median(pairs.find((pair) => pair.from === to && pair.to === to)?.seconds ?? []);
  const cells = [
    to,
    from,
    Math.round(source.events / second).toLocaleString("en"),
    (source.bytes / second / 1e6).toFixed(0),
    ((second / source.events) * 1e6).toFixed(2),
    (second / verbatim).toFixed(2),
  ];
  console.log(`| ${cells.join(" | ")} |`);
}
