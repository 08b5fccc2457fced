/**
 * `npm run bench:cost`: in two to three minutes, the CPU time of a short answer (64 callers) and of
 * a chunk (300 streams), as ratios to the direct proxy of the same run. Nothing fails on a number;
 * an answer that is wrong or missing makes the exit code 1.
 *
 *   --release REF    an earlier commit beside this one: the last release by default
 *   --beside DIR     in its place, another checkout of Sluice with its dependencies installed
 *   --rounds N       rounds of streams: 3 by default, 2 with an earlier version. Short answers have
 *                    2N + 1 shorter ones, because their times differ more from round to round
 *   --quick          a few seconds, which show that everything works
 */
import { parseArgs } from "node:util";
import { environmentOf } from "./environment.ts";
import { chatBodyOf } from "./load.ts";
import { startDirect, startUpstream } from "./peers.ts";
import { earlierVersion } from "./release.ts";
import { cpuOf, figureOf, gridOf, numberText, type Table } from "./report.ts";
import { type Bench, pause, unpause, warmUp } from "./rounds.ts";
import { measureShortCases, shortModels } from "./short-answers.ts";
import { startSluice } from "./sluice.ts";
import { measureStreamCounts, streamChunks, streamModel } from "./streams.ts";
import type { System } from "./system.ts";
import { verdictsOf, verdictText } from "./targets.ts";

const warmSeconds = 5;
const processes = ["ingress", "worker", "redis", "control"];

const { values: flags } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    release: { type: "string" },
    beside: { type: "string" },
    rounds: { type: "string" },
  },
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
const tell = (text: string) => void process.stderr.write(`${text}\n`);

await using resources = new AsyncDisposableStack();
const upstream = await startUpstream();
resources.defer(() => upstream.stop());
const shortModel = shortModels["at once"];
const streams = { body: chatBodyOf(streamModel, { stream: true }), chunks: streamChunks };
const systems: System[] = [];
const add = async (starting: Promise<System>) => {
  const system = await starting;
  resources.defer(async () => {
    unpause(system);
    await system.stop();
  });
  systems.push(system);
  tell(`warming up ${system.name}`);
  await warmUp(system, { quick: flags.quick, warmSeconds }, shortModel, streams);
  if (!flags.quick) pause(system);
};
const gateway = { ingresses: 1, workers: 1, upstreamUrl: upstream.url, models: [shortModel, streamModel] };
await add(startDirect(upstream.url));
await add(startSluice({ ...gateway, name: "sluice" }));
const earlier = earlierVersion(flags);
if (earlier.kind === "absent") tell(`no earlier version beside: ${earlier.reason}`);
else await add(startSluice({ ...gateway, name: earlier.what, checkout: earlier.directory }));

const rounds = Number(flags.rounds ?? (flags.quick ? 1 : systems.length > 2 ? 2 : 3));
const bench: Bench = { systems, upstream, rounds, quick: flags.quick, shortModel, tell };
const callers = flags.quick ? 16 : 64;
const streamCallers = flags.quick ? 64 : 300;
const shortRounds = flags.quick ? rounds : 2 * rounds + 1;
const short = await measureShortCases(
  { ...bench, rounds: shortRounds },
  { paces: ["at once"], callers: [callers], seconds: flags.quick ? 1 : 2 },
);
const streamed = await measureStreamCounts(bench, [streamCallers]);

const { date, machine, versions } = environmentOf(bench, []);
const verdicts = verdictsOf([short, streamed]);
const sections = [
  `${date}, ${shortRounds} rounds of short answers, ${rounds} of streams. ${machine}. ${versions}.\n${systems.map(({ name, version }) => `${name}: ${version}`).join("\n")}`,
  costText(short, "a short answer", "requestsPerSecond", (system) => ["at once", callers, system]),
  costText(streamed, "a chunk", "chunksPerSecond", (system) => [streamCallers, system]),
  ...(verdicts.length === 0 ? [] : [verdictText(verdicts)]),
];
process.stdout.write(`${sections.join("\n\n")}\n`);
const faults = [short, streamed].flatMap(({ rows }) =>
  rows.flatMap(({ labels, errors }) => [...new Set(errors)].map((error) => `${labels.join(", ")}: ${error}`)),
);
if (faults.length > 0) {
  process.exitCode = 1;
  process.stderr.write(`bench: some answers are wrong or missing:\n${faults.map((fault) => `  ${fault}\n`).join("")}`);
}

/** The CPU time of one item by process, in multiples of direct's. */
function costText(table: Table, item: string, rate: string, labelsOf: (system: string) => (string | number)[]): string {
  const figure = (system: string, key: string) => figureOf([table], table.key, labelsOf(system), key);
  const direct = figure("direct", "cpu") ?? Number.NaN;
  const lines = systems.map(({ name }) => [
    name,
    numberText(figure(name, rate) ?? Number.NaN, 0),
    numberText(figure(name, "cpu") ?? Number.NaN, 1),
    ...["cpu", ...processes.map((process) => `${cpuOf}${process}`)].map((key) =>
      numberText((figure(name, key) ?? Number.NaN) / direct, 2),
    ),
  ]);
  const head = ["system", `${item}: per second`, "CPU µs", "× direct", ...processes.map((name) => `${name} ×`)];
  return gridOf(head, lines, 1);
}
