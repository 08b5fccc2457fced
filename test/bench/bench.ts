/**
 * The bench: `npm run bench`. Starts everything on this machine, all systems in the same run, and
 * prints tables whose figures are the medians of several interleaved rounds. Nothing fails on a
 * number; an answer that is wrong or missing makes the exit code 1.
 *
 *   --quick          as short as shows that everything works: fewer callers, shorter, one round,
 *                    without other gateways
 *   --only a,b       these sections: short, streams, parts, ledger, idle, bodies, images, scale,
 *                    memory, overload, many, saturation, fanout
 *   --systems a,b    these of the systems that are compared: upstream, nginx, direct, portkey,
 *                    litellm, gomodel, bifrost (if installed), sluice, sluice-2, beside
 *   --litellm PATH, --gomodel PATH, --bifrost PATH
 *                    the program of another gateway, where it is not on PATH
 *   --release REF    an earlier commit as the system "beside": the last release by default
 *   --beside DIR     in its place, another checkout of Sluice with its dependencies installed
 *   --rounds N       3 by default
 *   --write          docs/performance.md as well
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { version } from "#service/version.ts";
import { imageModels, measureBigBodies, measureImages } from "./beside.ts";
import { environmentOf } from "./environment.ts";
import { measureFanOut } from "./fan-out.ts";
import { measureIdle } from "./idle.ts";
import { measureLedger } from "./ledger.ts";
import { chatBodyOf, wrkProgram } from "./load.ts";
import { measureManyStreams, measureSaturation } from "./many-streams.ts";
import { measureMemory, measureStart, memoryAfterRun } from "./memory.ts";
import { measureBurst, measureOverload } from "./overload.ts";
import { pageOf } from "./page.ts";
import { measureParts } from "./parts.ts";
import { gatewayNames, startDirect, startGateway, startNginx, startPortkey, startUpstream } from "./peers.ts";
import { earlierVersion } from "./release.ts";
import type { Table } from "./report.ts";
import { type Bench, pause, unpause, warmUp } from "./rounds.ts";
import { measureKeysAndModels, measureOpenStreams, measureWaiting, measureWorkers } from "./scale.ts";
import { measureShortAnswers, shortModels } from "./short-answers.ts";
import { startSluice } from "./sluice.ts";
import { measureStreamCases, streamChunks, streamModel } from "./streams.ts";
import { type Absent, isPresent, type System } from "./system.ts";
import { verdictsOf } from "./targets.ts";

type Start = (upstreamUrl: string) => Promise<System | Absent>;

const models = [...Object.values(shortModels), streamModel, ...Object.values(imageModels)];
const starters: Record<string, Start> = {
  nginx: startNginx,
  direct: startDirect,
  portkey: startPortkey,
  sluice: (upstreamUrl) => startSluice({ name: "sluice", ingresses: 1, workers: 1, upstreamUrl, models }),
  "sluice-2": (upstreamUrl) => startSluice({ name: "sluice-2", ingresses: 2, workers: 2, upstreamUrl, models }),
};
const upstreamName = "upstream";
const shortModel = shortModels["at once"];

type Measure = (bench: Bench) => Table | Promise<Table | Table[]>;

const sections: Record<string, Measure[]> = {
  short: [measureShortAnswers],
  streams: [measureStreamCases],
  parts: [measureParts],
  ledger: [measureLedger],
  idle: [measureIdle],
  bodies: [measureBigBodies],
  images: [measureImages],
  scale: [measureOpenStreams, measureWorkers, measureWaiting, measureKeysAndModels],
  overload: [measureOverload, measureBurst],
  many: [measureManyStreams],
  saturation: [measureSaturation],
  fanout: [measureFanOut],
  memory: [memoryAfterRun, measureMemory, measureStart],
};

const { values: flags } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string" },
    systems: { type: "string" },
    rounds: { type: "string" },
    beside: { type: "string" },
    release: { type: "string" },
    litellm: { type: "string" },
    gomodel: { type: "string" },
    bifrost: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const gatewayPaths: Partial<Record<string, string>> = {
  litellm: flags.litellm,
  gomodel: flags.gomodel,
  bifrost: flags.bifrost,
};
for (const name of gatewayNames)
  starters[name] = (upstreamUrl) => startGateway(name, gatewayPaths[name], upstreamUrl, models);
starters.beside = startEarlier;
const namesEarlier = flags.beside !== undefined || flags.release !== undefined;
const quickSystems = [upstreamName, "nginx", "direct", "sluice", ...(namesEarlier ? ["beside"] : [])];
const namesOf = (
  text: string | undefined,
  choices: readonly string[],
  fallback: readonly string[],
): readonly string[] => {
  const names = text?.split(",") ?? fallback;
  const unknown = names.find((name) => !choices.includes(name));
  if (unknown !== undefined) throw new Error(`there is no "${unknown}"; there are ${choices.join(", ")}`);
  return choices.filter((name) => names.includes(name));
};
const systemNames = namesOf(
  flags.systems,
  [upstreamName, ...Object.keys(starters)],
  flags.quick ? quickSystems : [upstreamName, ...Object.keys(starters)],
);
const sectionNames = namesOf(flags.only, Object.keys(sections), Object.keys(sections));
wrkProgram();

// A stop may arrive twice: from the terminal to the whole group, and from the parent.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
const began = performance.now();
const tell = (text: string) =>
  void process.stderr.write(`${((performance.now() - began) / 1_000).toFixed(0).padStart(5)} s  ${text}\n`);
await using resources = new AsyncDisposableStack();
const upstream = await startUpstream();
resources.defer(() => upstream.stop());
const systems: (System | Absent)[] = [];
for (const name of systemNames) {
  tell(`starting ${name}`);
  const system = name === upstreamName ? upstream : await (starters[name] as Start)(upstream.url);
  systems.push(system);
  if (!isPresent(system)) tell(`${name}: ${system.absent}`);
  else {
    if (system !== upstream)
      resources.defer(async () => {
        unpause(system);
        await system.stop();
      });
    const streams = { body: chatBodyOf(streamModel, { stream: true }), chunks: streamChunks };
    await warmUp(system, flags, shortModel, streams).catch((error: Error) =>
      tell(`${name} is measured as warm as it became: ${error.message}`),
    );
    if (system !== upstream && !flags.quick) pause(system);
  }
}
const bench: Bench = {
  systems,
  upstream,
  rounds: Number(flags.rounds ?? (flags.quick ? 1 : 3)),
  quick: flags.quick,
  shortModel,
  tell,
};
const tables: Table[] = [];
const faults: string[] = [];
for (const measure of sectionNames.flatMap((name) => sections[name] as Measure[]))
  try {
    tables.push(...[await measure(bench)].flat());
  } catch (error) {
    faults.push(`${measure.name}: ${(error as Error).message}`);
  }

const environment = environmentOf(bench, process.argv.slice(2));
const verdicts = verdictsOf(tables);
const file = join(import.meta.dirname, "..", "..", "docs", "performance.md");
const pageBefore = await readFile(file, "utf8").catch(() => "");
const text = pageOf({ environment, rounds: bench.rounds, tables, verdicts, version, pageBefore });
process.stdout.write(text);
if (flags.write) await writeFile(file, text);
for (const { title, rows } of tables)
  for (const { labels, errors } of rows)
    faults.push(...new Set(errors.map((error) => `${title}, ${labels.join(", ")}: ${error}`)));
if (faults.length > 0) {
  process.exitCode = 1;
  process.stderr.write(`bench: some results are wrong or missing:\n${faults.map((fault) => `  ${fault}\n`).join("")}`);
}

/** The version before this one. */
async function startEarlier(upstreamUrl: string): Promise<System | Absent> {
  const earlier = earlierVersion(flags);
  if (earlier.kind === "absent") return { name: "beside", absent: earlier.reason };
  const options = { name: "beside", ingresses: 1, workers: 1, upstreamUrl, models, checkout: earlier.directory };
  const system = await startSluice(options);
  return { ...system, version: `${earlier.what}: ${system.version}` };
}
