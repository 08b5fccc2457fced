/**
 * Keys with skewed load at three ingresses, in virtual time: which part of the workers' time and of
 * the tokens each key gets. Run as a program, it prints the tables of docs/queues-and-scaling.md.
 */
import { AdmissionQueue } from "#relay/admission-queue.ts";
import { keySlotsIn, textOfKeySlots } from "#relay/key-slots.ts";
import { randomFrom } from "../../support/random.ts";

const stepMs = 5;
/** The estimate for an answer whose caller does not bound it. */
const defaultOutputTokens = 1_000;

export interface SimulatedKey {
  /** How many of its requests wait at each ingress at all times. */
  backlog: readonly number[];
  /** The weight of its group, whose only key it is; by default the keys are of one group. */
  weight?: number;
  meanMs: number;
  /** On average; the input is the same for each request. None by default. */
  inputTokens?: number;
  outputTokens?: number;
}

interface Item {
  key: string;
  ingress: number;
  ranMs: number;
  inputTokens: number;
  outputTokens: number;
}

interface Run {
  seed: number;
  slots: number;
  keys: Record<string, SimulatedKey>;
  /** The content of the announcements of keys. */
  tells: "nothing" | "slots" | "tokens";
  /** The time that is simulated, and the part of it at the beginning that does not count. */
  seconds?: number;
  warmSeconds?: number;
}

export interface Parts {
  time: Record<string, number>;
  tokens: Record<string, number>;
  /** The parts of the tokens of each minute. */
  minutes: Record<string, number>[];
  /** The part of the slots' time in use. */
  usedSlots: number;
}

/** By key: its parts of the time of the slots, and of the tokens. */
export function partsOf({ seed, slots, keys, tells, seconds = 120, warmSeconds = 10 }: Run): Parts {
  const random = randomFrom(seed);
  const ingresses = Math.max(...Object.values(keys).map(({ backlog }) => backlog.length));
  const queues = Array.from({ length: ingresses }, () => new AdmissionQueue<number>());
  const waiting = queues.map(() => new Map<string, number>());
  const items = new Map<number, Item>();
  const jobs: number[] = [];
  let running: { id: number; endsAt: number }[] = [];
  const time = new Map<string, number>();
  const tokens = new Map<string, number>();
  const minutes: Map<string, number>[] = [];
  const simulatedKeys = Object.entries(keys);
  let nextId = 0;
  for (let now = 0; now < seconds * 1_000; now += stepMs) {
    for (const { id, endsAt } of running) {
      if (endsAt > now) continue;
      const { key, ingress, ranMs, ...used } = items.get(id) as Item;
      queues[ingress]?.over(id, ranMs, now, used);
      items.delete(id);
      if (now <= warmSeconds * 1_000) continue;
      time.set(key, (time.get(key) ?? 0) + ranMs);
      const minute = Math.floor((now / 1_000 - warmSeconds) / 60);
      minutes[minute] ??= new Map<string, number>();
      for (const counts of [tokens, minutes[minute]])
        counts.set(key, (counts.get(key) ?? 0) + used.inputTokens + used.outputTokens);
    }
    if (running.some(({ endsAt }) => endsAt <= now)) running = running.filter(({ endsAt }) => endsAt > now);
    for (const [ingress, queue] of queues.entries()) {
      // Each announces at another time of the second.
      if (now % 1_000 === ingress * 300) {
        queue.slots = slots - running.length + queue.runningSize;
        const others = queues.filter((other) => other !== queue);
        const texts = others.map(({ keySlots }) =>
          textOfKeySlots(tells === "tokens" ? keySlots : { ...keySlots, tokens: [] }),
        );
        queue.setElsewhere(keySlotsIn(tells === "nothing" ? [] : texts), now);
      }
      for (const [key, { backlog, weight, meanMs, inputTokens = 0, outputTokens = 0 }] of simulatedKeys) {
        let size = waiting[ingress]?.get(key) ?? 0;
        for (; size < (backlog[ingress] ?? 0); size++) {
          const length = 0.5 + random();
          const used = { inputTokens, outputTokens: Math.round(outputTokens * length) };
          items.set(nextId, { key, ingress, ranMs: meanMs * length, ...used });
          const share = { group: weight === undefined ? "default" : key, weight: weight ?? 1, key };
          queue.admit(nextId++, share, now, { inputTokens, outputTokens: defaultOutputTokens });
        }
        waiting[ingress]?.set(key, size);
      }
      for (let id = queue.next(now); id !== undefined; id = queue.next(now)) {
        jobs.push(id);
        const { key } = items.get(id) as Item;
        waiting[ingress]?.set(key, (waiting[ingress]?.get(key) ?? 1) - 1);
      }
    }
    while (running.length < slots && jobs.length > 0) {
      const id = jobs.shift() as number;
      const { ingress, ranMs } = items.get(id) as Item;
      running.push({ id, endsAt: now + ranMs });
      queues[ingress]?.taken(id, now);
    }
  }
  const partsIn = (counts: Map<string, number>) => {
    const sum = [...counts.values()].reduce((total, count) => total + count, 0);
    return Object.fromEntries(Object.keys(keys).map((key) => [key, (counts.get(key) ?? 0) / sum]));
  };
  const busyMs = [...time.values()].reduce((total, ms) => total + ms, 0);
  const usedSlots = busyMs / (slots * (seconds - warmSeconds) * 1_000);
  return { time: partsIn(time), tokens: partsIn(tokens), minutes: minutes.map(partsIn), usedSlots };
}

/** Keys that wait at these ingresses, all with requests of this mean time. */
export const alike = (backlogs: Record<string, readonly number[]>, meanMs: number): Record<string, SimulatedKey> =>
  Object.fromEntries(Object.entries(backlogs).map(([key, backlog]) => [key, { backlog, meanMs }]));

export const skewed = {
  "one key at all ingresses": { everywhere: [20, 20, 20], first: [20], second: [0, 20] },
  "a hundred times the backlog": { heavy: [1_000, 0, 0], light: [0, 10, 0], other: [0, 0, 10] },
  "two keys at one ingress": { a: [50], b: [50], c: [0, 50], d: [0, 0, 50] },
};

const long = { meanMs: 20_000, inputTokens: 1_000, outputTokens: 2_000 };
const short = { meanMs: 1_000, inputTokens: 300, outputTokens: 60 };
const reading = { meanMs: 3_000, inputTokens: 3_000, outputTokens: 150 };

/** Keys whose requests differ in time and tokens, each of a group with its weight. */
export const unlike: Record<string, Record<string, SimulatedKey>> = {
  "equal weights": {
    long: { ...long, backlog: [40], weight: 1 },
    short: { ...short, backlog: [40, 40, 40], weight: 1 },
  },
  "the long one is heavier": {
    long: { ...long, backlog: [40], weight: 2 },
    short: { ...short, backlog: [40, 40, 40], weight: 1 },
  },
  "the short one is heavier": {
    long: { ...long, backlog: [40], weight: 1 },
    short: { ...short, backlog: [40, 40, 40], weight: 2 },
  },
  "long inputs as well": {
    long: { ...long, backlog: [40], weight: 1 },
    short: { ...short, backlog: [40, 40, 40], weight: 2 },
    reading: { ...reading, backlog: [0, 20], weight: 1 },
  },
};

/** Each key's part by the weights of all. */
export function fairPartsOf(keys: Record<string, SimulatedKey>): Record<string, number> {
  const sum = Object.values(keys).reduce((total, { weight = 1 }) => total + weight, 0);
  return Object.fromEntries(Object.entries(keys).map(([key, { weight = 1 }]) => [key, weight / sum]));
}

/** The largest difference of a key's part from its fair one, relative to that. */
export const unfairnessOf = (parts: Record<string, number>, keys: Record<string, SimulatedKey>): number => {
  const fairParts = Object.entries(fairPartsOf(keys));
  return Math.max(...fairParts.map(([key, fair]) => Math.abs((parts[key] ?? 0) / fair - 1)));
};

const cellsOf = (parts: Record<string, number>) =>
  Object.entries(parts).map(([key, part]) => `${key} ${(part * 100).toFixed(0)} %`);

if (import.meta.main) {
  for (const [name, backlogs] of Object.entries(skewed))
    for (const [slots, meanMs] of [
      [60, 2_000],
      [200, 5_000],
      [60, 400],
    ] as const)
      for (const tells of ["nothing", "tokens"] as const) {
        const { time } = partsOf({ seed: 1, slots, keys: alike(backlogs, meanMs), tells });
        console.log(`${name}, ${slots} slots, ${meanMs} ms, told ${tells}: time ${cellsOf(time).join(", ")}`);
      }
  for (const [name, keys] of Object.entries(unlike))
    for (const slots of [60, 200])
      for (const tells of ["nothing", "slots", "tokens"] as const) {
        const { tokens, minutes, usedSlots } = partsOf({ seed: 1, slots, keys, tells, seconds: 360, warmSeconds: 60 });
        const worst = Math.max(...minutes.map((parts) => unfairnessOf(parts, keys)));
        const used = `slots in use ${(usedSlots * 100).toFixed(0)} %`;
        console.log(
          `${name}, ${slots} slots, told ${tells}: tokens ${cellsOf(tokens).join(", ")}; worst minute ${(worst * 100).toFixed(0)} %; ${used}`,
        );
      }
}
