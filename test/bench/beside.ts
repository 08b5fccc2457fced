/**
 * Effects of heavy requests (bodies of megabytes, and images on their own queue) on light requests
 * beside them.
 */
import { setTimeout as delay } from "node:timers/promises";
import { chatBodyOf, chatPath, runShort, type ShortResult, startStreams } from "./load.ts";
import { type Column, record, rowOf, type Table } from "./report.ts";
import { type Bench, figuresOf, interleaved } from "./rounds.ts";
import { streamChunks, streamModel, streamMs } from "./streams.ts";
import { isPresent, type System } from "./system.ts";

/** An image of 2 MB that takes a second; and a smaller one for a quick run. */
export const imageModels = { full: "image-2000000-1000", quick: "image-200000-100" };
const shortModel = "short-20";
const lightStreams = 16;
const lightShort = 4;

interface Heavy {
  name: string;
  path: string;
  body: string;
  callers: number;
}

const columns: Column[] = [
  { key: "heavyPerSecond", head: "heavy ones/s", digits: 1 },
  { key: "heavyP50", head: "heavy p50 ms", digits: 0 },
  { key: "heavyP99", head: "heavy p99 ms", digits: 0 },
  { key: "firstP50", head: "first p50 ms", digits: 1 },
  { key: "firstP99", head: "first p99 ms", digits: 1 },
  { key: "gapP50", head: "gap p50 ms", digits: 2 },
  { key: "gapP99", head: "gap p99 ms", digits: 1 },
  { key: "completeShare", head: "whole %", digits: 1 },
  { key: "shortP50", head: "short p50 ms", digits: 1 },
  { key: "shortP99", head: "short p99 ms", digits: 1 },
];

const light = `${lightStreams} callers of streams of 64 chunks at 20 ms and ${lightShort} of short answers that take 20 ms`;

/** A request with an image of this many megabytes, as base64. */
const pictureBody = (megabytes: number): string =>
  JSON.stringify({
    model: "short-0",
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is in this picture?" },
          {
            type: "image_url",
            image_url: { url: `data:image/png;base64,${"iVBORw0K".repeat((megabytes * 1e6) / 8)}` },
          },
        ],
      },
    ],
  });

export function measureBigBodies(bench: Bench): Promise<Table> {
  const sizes = bench.quick ? [1] : [1, 8];
  const heavies = sizes.map(
    (megabytes): Heavy => ({
      name: `requests of ${megabytes} MB`,
      path: chatPath,
      body: pictureBody(megabytes),
      callers: 8,
    }),
  );
  const note = `${light}; first alone, then beside 8 callers who send requests of megabytes (a picture as base64), each as soon as the one before is answered.`;
  return measureBeside(
    bench,
    { key: "bodies", title: "Big bodies", notes: [note] },
    heavies,
    bench.quick ? ["direct", "sluice"] : ["direct", "portkey", "sluice", "sluice-2"],
  );
}

export function measureImages(bench: Bench): Promise<Table> {
  const heavy: Heavy = {
    name: "pictures",
    path: "/v1/images/generations",
    body: JSON.stringify({ model: imageModels[bench.quick ? "quick" : "full"], prompt: "A wire." }),
    callers: 16,
  };
  const pictures = bench.quick ? "200 kB that take 0.1 s each" : "2 MB that take a second each";
  const note = `${light}; first alone, then beside 16 callers who ask for pictures of ${pictures}: twice as many as the image queue makes at once.`;
  return measureBeside(
    bench,
    { key: "images", title: "Images on their queue", notes: [note] },
    [heavy],
    bench.quick ? ["sluice"] : ["direct", "sluice", "sluice-2"],
  );
}

async function measureBeside(
  bench: Bench,
  about: Pick<Table, "key" | "title" | "notes">,
  heavies: Heavy[],
  names: string[],
): Promise<Table> {
  const table: Table = { ...about, labels: ["beside", "system"], columns, rows: [] };
  for (const name of ["nothing", ...heavies.map((heavy) => heavy.name)])
    for (const system of bench.systems)
      if (names.includes(system.name) && isPresent(system)) rowOf(table, [name, system.name]);
  await interleaved(
    { ...bench, systems: bench.systems.filter(({ name }) => names.includes(name)) },
    about.title.toLowerCase(),
    (system) => measure(bench, table, system, heavies),
    (system, fault) => record(table, ["nothing", system], {}, [fault]),
  );
  return table;
}

async function measure(bench: Bench, table: Table, system: System, heavies: Heavy[]): Promise<void> {
  const seconds = bench.quick ? 1 : 3;
  const body = chatBodyOf(streamModel, { stream: true });
  const streams = await startStreams({
    system,
    path: chatPath,
    body,
    callers: lightStreams,
    rampMs: streamMs,
    chunks: streamChunks,
  });
  try {
    for (const heavy of [undefined, ...heavies]) {
      let short: ShortResult | undefined;
      let beside: ShortResult | undefined;
      const window = await streams.watch(seconds * 1_000, async () => {
        [short, beside] = await Promise.all([
          runShort({ system, path: chatPath, bodies: [chatBodyOf(shortModel)], connections: lightShort, seconds }),
          heavy && runShort({ system, path: heavy.path, bodies: [heavy.body], connections: heavy.callers, seconds }),
        ]);
      });
      record(
        table,
        [heavy?.name ?? "nothing", system.name],
        {
          ...figuresOf(window),
          shortP50: short?.p50Ms ?? Number.NaN,
          shortP99: short?.p99Ms ?? Number.NaN,
          ...(beside && {
            heavyPerSecond: beside.requests / beside.seconds,
            heavyP50: beside.p50Ms,
            heavyP99: beside.p99Ms,
          }),
        },
        [...window.errors, ...(short?.errors ?? []), ...(beside?.errors ?? [])],
      );
      await delay(heavy === heavies.at(-1) ? 0 : 500);
    }
  } finally {
    await streams.stop();
  }
}
