/**
 * Memory of each process, at rest and with open streams; and how long `npm start` takes to its
 * first answer.
 */
import { rmSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { chatBodyOf, chatPath, runShort, startStreams } from "./load.ts";
import { copyOfCheckout, NpmStart } from "./npm-start.ts";
import { startDirect } from "./peers.ts";
import { openFilesMax, residentKibibytesOf } from "./processes.ts";
import { record, type Table } from "./report.ts";
import type { Bench } from "./rounds.ts";
import { slowModelOf, slowStreamsOf } from "./scale.ts";
import { startSluice } from "./sluice.ts";
import { isPresent, type System } from "./system.ts";

const shortModel = "short-0";
const filesBeside = 500;

export async function measureMemory(bench: Bench): Promise<Table> {
  const streams = Math.min(bench.quick ? 200 : 5_000, Math.floor((openFilesMax() - filesBeside) / 2));
  const holdMs = bench.quick ? 300 : 4_000;
  const table: Table = {
    key: "memory",
    title: "Memory",
    notes: [
      `Resident memory of each process, freshly started; after a few thousand short answers; with ${streams.toLocaleString("en")} open streams, which bring 2,000 chunks a second together; and after these.`,
      "Per stream: what it has grown by since the short answers.",
    ],
    labels: ["system", "process", "streams"],
    columns: [
      { key: "rest", head: "at rest MiB", digits: 0 },
      { key: "warm", head: "warm MiB", digits: 0 },
      { key: "open", head: "with streams MiB", digits: 0 },
      { key: "perStream", head: "KiB/stream", digits: 1 },
      { key: "after", head: "after MiB", digits: 0 },
    ],
    rows: [],
  };
  const look = (system: System) => system.processes.map(({ pid }) => residentKibibytesOf(pid));
  const measure = async (system: System) => {
    try {
      await delay(holdMs / 2);
      const rest = look(system);
      await runShort({
        system,
        path: chatPath,
        bodies: [chatBodyOf(shortModel)],
        connections: 16,
        seconds: bench.quick ? 1 : 3,
      });
      await delay(holdMs / 2);
      const warm = look(system);
      const load = await startStreams(slowStreamsOf(system, streams));
      await delay(holdMs);
      const open = look(system);
      const { errors } = await load.watch(0);
      await load.stop();
      await delay(holdMs);
      const after = look(system);
      for (const [place, { name }] of system.processes.entries()) {
        const [coolingDown, warmed, opened, left] = [rest, warm, open, after].map(
          (figures) => figures[place] as number,
        ) as [number, number, number, number];
        const figures = {
          rest: coolingDown / 1024,
          warm: warmed / 1024,
          open: opened / 1024,
          perStream: (opened - warmed) / streams,
          after: left / 1024,
        };
        record(table, [system.name, name, streams], figures, errors);
      }
    } finally {
      await system.stop();
    }
  };
  for (let round = 0; round < bench.rounds; round++) {
    bench.tell(`memory, round ${round + 1}`);
    if (!bench.quick) await measure(await startDirect(bench.upstream.url));
    const models = [shortModel, slowModelOf(streams)];
    await measure(
      await startSluice({ name: "sluice", ingresses: 1, workers: 1, upstreamUrl: bench.upstream.url, models }),
    );
  }
  return table;
}

/** Memory at the end of a run, for the systems measured in it. */
export function memoryAfterRun(bench: Bench): Table {
  const table: Table = {
    key: "memory-after",
    title: "Memory after the run",
    notes: ["Resident memory of the compared systems at the end of the run."],
    labels: ["system", "process"],
    columns: [{ key: "after", head: "MiB", digits: 0 }],
    rows: [],
  };
  for (const system of bench.systems)
    if (isPresent(system))
      for (const { name, pid } of system.processes)
        record(table, [system.name, name], { after: residentKibibytesOf(pid) / 1024 });
  return table;
}

const startMsMax = 60_000;

export async function measureStart(bench: Bench): Promise<Table> {
  const table: Table = {
    key: "start",
    title: "Start",
    notes: [
      "From `npm start` to the first answer of a model, in a checkout whose dependencies are installed: the first time there, with an empty directory for temporary files, and the second time.",
    ],
    labels: ["start"],
    columns: [{ key: "ms", head: "ms", digits: 0 }],
    rows: [],
  };
  for (let round = 0; round < bench.rounds; round++) {
    const root = copyOfCheckout();
    try {
      for (const label of bench.quick ? ["cold"] : ["cold", "warm"]) {
        bench.tell(`npm start, ${label}, round ${round + 1}`);
        record(table, [label], { ms: await timeStart(root) });
      }
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  }
  return table;
}

async function timeStart(root: string): Promise<number> {
  const began = performance.now();
  const started = new NpmStart(root);
  try {
    const { baseUrl, key } = await started.ready();
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    while (performance.now() - began < startMsMax) {
      const answer = await fetch(`${baseUrl}/chat/completions`, {
        method: "POST",
        headers,
        body: chatBodyOf("sim-fast"),
      });
      await answer.arrayBuffer();
      if (answer.status === 200) return performance.now() - began;
      await delay(5);
    }
    throw new Error(`npm start did not come to an answer within ${startMsMax} ms`);
  } finally {
    await started.stop();
  }
}
