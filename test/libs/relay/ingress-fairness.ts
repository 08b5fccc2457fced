/**
 * Keys with skewed load at three ingresses, in virtual time: which part of the workers' time each
 * key gets. Run as a program, it prints the shares of docs/queues-and-scaling.md.
 */
import { AdmissionQueue } from "#relay/admission-queue.ts";
import { keySlotsIn, textOfKeySlots } from "#relay/key-slots.ts";
import { randomFrom } from "../../support/random.ts";

const stepMs = 5;
const seconds = 120;

interface Run {
  seed: number;
  slots: number;
  meanMs: number;
  /** For each key, how many of its requests wait at each ingress at all times. */
  backlogs: Record<string, readonly number[]>;
  /** Whether ingresses tell each other the slots of their keys. */
  tellsSlots: boolean;
}

/** By key: its part of the time of the slots, after the first ten seconds. */
export function sharesOf({ seed, slots, meanMs, backlogs, tellsSlots }: Run): Record<string, number> {
  const random = randomFrom(seed);
  const ingresses = Math.max(...Object.values(backlogs).map(({ length }) => length));
  const queues = Array.from({ length: ingresses }, () => new AdmissionQueue<number>());
  const waiting = queues.map(() => new Map<string, number>());
  const items = new Map<number, { key: string; ingress: number; ranMs: number }>();
  const jobs: number[] = [];
  let running: { id: number; endsAt: number }[] = [];
  const used = new Map<string, number>();
  let nextId = 0;
  for (let now = 0; now < seconds * 1_000; now += stepMs) {
    for (const { id, endsAt } of running) {
      if (endsAt > now) continue;
      const { key, ingress, ranMs } = items.get(id) as { key: string; ingress: number; ranMs: number };
      queues[ingress]?.over(id, ranMs, now);
      items.delete(id);
      if (now > 10_000) used.set(key, (used.get(key) ?? 0) + ranMs);
    }
    running = running.filter(({ endsAt }) => endsAt > now);
    for (const [ingress, queue] of queues.entries()) {
      // Each announces at another time of the second.
      if (now % 1_000 === ingress * 300) {
        queue.slots = slots - running.length + queue.runningSize;
        const others = queues.filter((other) => other !== queue);
        if (tellsSlots) queue.elsewhere = keySlotsIn(others.map(({ keySlots }) => textOfKeySlots(keySlots)));
      }
      for (const [key, sizes] of Object.entries(backlogs)) {
        let size = waiting[ingress]?.get(key) ?? 0;
        for (; size < (sizes[ingress] ?? 0); size++) {
          items.set(nextId, { key, ingress, ranMs: meanMs * (0.5 + random()) });
          queue.admit(nextId++, { group: "default", weight: 1, key }, now);
        }
        waiting[ingress]?.set(key, size);
      }
      for (let id = queue.next(now); id !== undefined; id = queue.next(now)) {
        jobs.push(id);
        const { key } = items.get(id) as { key: string };
        waiting[ingress]?.set(key, (waiting[ingress]?.get(key) ?? 1) - 1);
      }
    }
    while (running.length < slots && jobs.length > 0) {
      const id = jobs.shift() as number;
      const { ingress, ranMs } = items.get(id) as { ingress: number; ranMs: number };
      running.push({ id, endsAt: now + ranMs });
      queues[ingress]?.taken(id, now);
    }
  }
  const sum = [...used.values()].reduce((total, time) => total + time, 0);
  return Object.fromEntries(Object.keys(backlogs).map((key) => [key, (used.get(key) ?? 0) / sum]));
}

export const skewed = {
  "one key at all ingresses": { everywhere: [20, 20, 20], first: [20], second: [0, 20] },
  "a hundred times the backlog": { heavy: [1_000, 0, 0], light: [0, 10, 0], other: [0, 0, 10] },
  "two keys at one ingress": { a: [50], b: [50], c: [0, 50], d: [0, 0, 50] },
};

if (import.meta.main)
  for (const [name, backlogs] of Object.entries(skewed))
    for (const [slots, meanMs] of [
      [60, 2_000],
      [200, 5_000],
      [60, 400],
    ] as const)
      for (const tellsSlots of [false, true]) {
        const shares = sharesOf({ seed: 1, slots, meanMs, backlogs, tellsSlots });
        const cells = Object.entries(shares).map(([key, share]) => `${key} ${(share * 100).toFixed(0)} %`);
        console.log(`${name}, ${slots} slots, ${meanMs} ms, ${tellsSlots ? "told" : "alone"}: ${cells.join(", ")}`);
      }
