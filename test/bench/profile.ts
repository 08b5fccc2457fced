/**
 * Where the time goes: `npm run bench:profile`. An ingress and a worker run under V8's profiler
 * with a load of short answers and then with one of streams, and the codecs by themselves; printed
 * are the functions that took most of each process by themselves. The profiles stay in a directory
 * that is named, for DevTools or any other viewer. `--seconds N` of each load, 10 unless said
 * otherwise; `--lines N` of each table, 30.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { nowMicroseconds } from "./clock.ts";
import { chatBodyOf, chatPath, runShort } from "./load.ts";
import { startUpstream } from "./peers.ts";
import { gridOf, numberText } from "./report.ts";
import { measureStreams } from "./rounds.ts";
import { startSluice } from "./sluice.ts";
import { streamChunks, streamModel, streamMs } from "./streams.ts";
import type { System } from "./system.ts";

/** The part of V8's profile that is read here; times are microseconds of the machine's clock. */
interface Profile {
  startTime: number;
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
  samples: number[];
  timeDeltas: number[];
}

const { values: flags } = parseArgs({
  options: { seconds: { type: "string", default: "10" }, lines: { type: "string", default: "30" } },
});
const seconds = Number(flags.seconds);
const root = fileURLToPath(new URL("../..", import.meta.url));
const shortModel = "short-0";

await using resources = new AsyncDisposableStack();
const upstream = await startUpstream();
resources.defer(() => upstream.stop());
const directory = await mkdtemp(join(tmpdir(), "sluice-profile-"));

await profiled("64 callers of short answers", (system) =>
  runShort({ system, path: chatPath, bodies: [chatBodyOf(shortModel)], connections: 64, seconds }),
);
const body = chatBodyOf(streamModel, { stream: true });
await profiled("300 streams of 64 chunks at 20 ms", (system) =>
  measureStreams(
    upstream,
    { system, path: chatPath, body, callers: 300, rampMs: streamMs, chunks: streamChunks },
    { settleMs: 0, windowMs: seconds * 1_000 },
  ),
);
const codecs = spawn(
  process.execPath,
  ["--cpu-prof", `--cpu-prof-dir=${directory}`, join(import.meta.dirname, "codecs.ts")],
  { stdio: "ignore" },
);
await once(codecs, "exit");
await print("the codecs alone", codecs.pid as number, 0);
console.log(`The profiles are in ${directory}`);

async function profiled(what: string, load: (system: System) => Promise<unknown>): Promise<void> {
  const environment = { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${directory}` };
  const models = [shortModel, streamModel];
  const system = await startSluice({
    name: "sluice",
    ingresses: 1,
    workers: 1,
    upstreamUrl: upstream.url,
    models,
    environment,
  });
  const began = nowMicroseconds();
  await load(system).finally(() => system.stop());
  for (const { name, pid } of system.processes) if (name !== "redis") await print(`${name}, ${what}`, pid, began);
}

/**
 * The dearest functions of a process that has ended, by what it did since a time of the machine's
 * clock.
 */
async function print(what: string, pid: number, since: number): Promise<void> {
  // CPU.<date>.<time>.<process>.<thread>.<number>.cpuprofile
  const files = (await readdir(directory)).filter((name) => name.split(".")[3] === String(pid)).toSorted();
  if (files.length === 0) throw new Error(`process ${pid} left no profile in ${directory}`);
  for (const file of files) await printProfile(`${what}, thread ${file.split(".")[4]}`, file, since);
}

async function printProfile(what: string, file: string, since: number): Promise<void> {
  const { startTime, nodes, samples, timeDeltas } = JSON.parse(
    await readFile(join(directory, file), "utf8"),
  ) as Profile;
  const placeOf = new Map(nodes.map(({ id, callFrame }) => [id, placeIn(callFrame)]));
  const took = new Map<string, number>();
  let now = startTime;
  for (const [index, id] of samples.entries()) {
    now += timeDeltas[index] as number;
    if (now < since) continue;
    const place = placeOf.get(id) as string;
    took.set(place, (took.get(place) ?? 0) + (timeDeltas[index] as number));
  }
  took.delete("(idle)");
  const whole = [...took.values()].reduce((sum, one) => sum + one, 0);
  const lines = [...took].toSorted(([, left], [, right]) => right - left).slice(0, Number(flags.lines));
  console.log(`## ${what}: ${numberText(whole / 1e6, 1)} s busy\n`);
  console.log(
    `${gridOf(
      ["function", "self %", "self ms"],
      lines.map(([place, time]) => [place, numberText((100 * time) / whole, 1), numberText(time / 1_000, 0)]),
      1,
    )}\n`,
  );
}

function placeIn({ functionName, url, lineNumber }: Profile["nodes"][number]["callFrame"]): string {
  const file = url
    .replace(/^file:\/\//, "")
    .replace(root, "")
    .replace(/^.*node_modules\//, "");
  return file === "" ? functionName || "(anonymous)" : `${functionName || "(anonymous)"} ${file}:${lineNumber + 1}`;
}
