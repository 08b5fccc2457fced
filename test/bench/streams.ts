/** Streams of 64 chunks at 20 ms: the delay that a system adds, and the cost of a chunk. */
import { chatBodyOf, chatPath, type StreamLoad } from "./load.ts";
import { type Column, record, type Table } from "./report.ts";
import { type Bench, interleaved, measureStreams } from "./rounds.ts";

export const streamModel = "stream-64-20";
export const streamChunks = 64;
/** As long as one stream takes: so callers are spread over it evenly. */
export const streamMs = 64 * 20;

export const streamColumns: Column[] = [
  { key: "chunksPerSecond", head: "chunks/s", digits: 0 },
  { key: "firstP50", head: "first p50 ms", digits: 1 },
  { key: "firstP99", head: "first p99 ms", digits: 1 },
  { key: "gapP50", head: "gap p50 ms", digits: 2 },
  { key: "gapP99", head: "gap p99 ms", digits: 1 },
  { key: "delayP50", head: "delay p50 ms", digits: 2 },
  { key: "delayP99", head: "delay p99 ms", digits: 1 },
  { key: "completeShare", head: "whole %", digits: 1 },
  { key: "cpu", head: "CPU µs/chunk", digits: 1 },
  { key: "around", head: "load and upstream µs/chunk", digits: 1 },
];

interface Translation {
  name: string;
  path: string;
  body: string;
  terminator: string;
}

const verbatim: Translation = {
  name: "openai-chat",
  path: chatPath,
  body: chatBodyOf(streamModel, { stream: true }),
  terminator: "[DONE]",
};

/** Streams whose callers speak another dialect than the upstream. */
const translations: Translation[] = [
  {
    name: "anthropic-messages",
    path: "/v1/messages",
    body: chatBodyOf(streamModel, { stream: true, max_tokens: 1_000 }),
    terminator: "message_stop",
  },
  {
    name: "openai-responses",
    path: "/v1/responses",
    body: JSON.stringify({ model: streamModel, stream: true, store: false, input: "Say how things are." }),
    terminator: "response.completed",
  },
];

/** Streams of 64 chunks for so many callers. */
export async function measureStreamCounts(bench: Bench, callerCounts: readonly number[]): Promise<Table> {
  const table: Table = {
    key: "streams",
    title: "Streams",
    notes: [
      "Answers of 64 chunks, one every 20 ms. Each caller sends its next request as soon as its answer is complete.",
      "First: from the request to the first chunk, which the upstream sends at once. Gap: by how much the time between two chunks differs from the upstream's own.",
      "Delay: from the upstream's sending of a chunk to the caller. Whole: streams whose every chunk came in order, none a second late, and the end.",
      "CPU is of all of a system's processes, Redis included (µs/chunk is seconds per million); what the load generator and the upstream took beside it is in the last column.",
    ],
    labels: ["callers", "system"],
    columns: streamColumns,
    rows: [],
  };
  for (const callers of callerCounts)
    await interleaved(
      bench,
      `streams, ${callers} callers`,
      (system) => measureInto(bench, table, [callers, system.name], { system, callers, ...verbatim }),
      (system, fault) => record(table, [callers, system], {}, [fault]),
    );
  return table;
}

async function measureInto(
  bench: Bench,
  table: Table,
  labels: (string | number)[],
  load: Pick<StreamLoad, "system" | "callers" | "path" | "body" | "terminator">,
): Promise<void> {
  const { window, figures } = await measureStreams(
    bench.upstream,
    { ...load, rampMs: bench.quick ? 300 : streamMs, chunks: streamChunks },
    { settleMs: bench.quick ? 0 : 500, windowMs: bench.quick ? 1_000 : 4_000 },
  );
  record(table, labels, figures, window.errors);
}

export async function measureStreamCases(bench: Bench): Promise<Table[]> {
  const table = await measureStreamCounts(bench, bench.quick ? [64] : [1, 64, 300, 1_000]);
  const translated: Table = {
    ...table,
    key: "translated",
    title: "Translated streams",
    notes: ["The same streams for callers of other dialects; the upstream speaks openai-chat."],
    labels: ["caller's dialect", "callers", "system"],
    rows: [],
  };
  const callers = bench.quick ? 64 : 300;
  const translating = { ...bench, systems: bench.systems.filter(({ name }) => name === "sluice") };
  for (let round = 0; round < bench.rounds; round++)
    for (const { name, ...load } of [verbatim, ...translations])
      await interleaved(
        { ...translating, rounds: 1 },
        `translated streams, ${name}`,
        (system) => measureInto(bench, translated, [name, callers, system.name], { system, callers, ...load }),
        (system, fault) => record(translated, [name, callers, system], {}, [fault]),
      );
  return translated.rows.length > 0 ? [table, translated] : [table];
}
