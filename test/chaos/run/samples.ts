/** Memory, open files and Redis over the time of a chaos run. */
import { readdirSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { residentKibibytesOf } from "../../bench/processes.ts";
import { pidOf, type Stack } from "./stack.ts";

export interface Sample {
  /** Seconds since the beginning. */
  at: number;
  /** By process; absent while it does not run. */
  memoryMiB: Record<string, number>;
  openFiles: Record<string, number>;
  redis: { memoryMiB: number; keys: number; clients: number };
  /** Calls that ended so far. */
  calls: number;
}

const everyMs = 5_000;

export interface Sampler {
  samples: readonly Sample[];
  stop(): Promise<void>;
}

export function startSampler(stack: Stack, callsSoFar: () => number): Sampler {
  const samples: Sample[] = [];
  const began = performance.now();
  let isOver = false;
  const sampling = (async () => {
    while (!isOver) {
      samples.push({ at: (performance.now() - began) / 1_000, ...(await sampleOf(stack)), calls: callsSoFar() });
      await delay(everyMs);
    }
  })();
  return {
    samples,
    async stop() {
      isOver = true;
      await sampling;
    },
  };
}

export async function sampleOf(stack: Stack): Promise<Omit<Sample, "at" | "calls">> {
  const memoryMiB: Record<string, number> = {};
  const openFiles: Record<string, number> = {};
  for (const member of stack.members) {
    const pid = pidOf(member);
    if (pid === undefined) continue;
    try {
      memoryMiB[member.name] = residentKibibytesOf(pid) / 1024;
      openFiles[member.name] = readdirSync(`/proc/${pid}/fd`).length;
    } catch {
      // It ended meanwhile.
    }
  }
  return { memoryMiB, openFiles, redis: await redisOf(stack) };
}

/** Sums over the primaries that answer. */
async function redisOf({ topology }: Stack): Promise<Sample["redis"]> {
  const infos = await Promise.all(
    topology.servers.map((server) => server.ask((redis) => redis.info()).catch(() => "")),
  );
  const sum = (pattern: RegExp) =>
    infos
      .filter((info) => info.includes("role:master"))
      .reduce((total, info) => total + Number(pattern.exec(info)?.[1] ?? 0), 0);
  return {
    memoryMiB: sum(/^used_memory:(\d+)/m) / 1_048_576,
    keys: sum(/^db0:keys=(\d+)/m),
    clients: sum(/^connected_clients:(\d+)/m),
  };
}
