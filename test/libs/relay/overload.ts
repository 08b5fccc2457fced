/**
 * A queue at overload, in virtual time: ingresses with admission queues that shed what would wait
 * too long, one shared first-come, first-served queue, and workers. Run as a program, it prints the
 * table of docs/queues-and-scaling.md.
 */
import { AdmissionQueue, type AdmissionShare, type Priority } from "#relay/admission-queue.ts";
import { randomFrom } from "../../support/random.ts";

export const names = ["interactive", "normal", "background"] as const;
/** The part of the requests that has each priority. */
const mix = [0.1, 0.3, 0.6];
const keysOfEach = 5;
const stepMs = 5;

export interface Outcome {
  offered: number;
  served: number;
  /** From the arrival to the end, of the requests that were served. */
  p50: number;
  p99: number;
  /** The real wait divided by the middle of the expected one, of requests that had to wait. */
  waitRatio: { p10: number; p50: number; p90: number };
}

interface Request {
  ingress: number;
  priority: Priority;
  at: number;
  ranMs: number;
  expectedMs: number | undefined;
}

interface Run {
  /** Arrivals, as a multiple of what the workers serve. */
  load: number;
  seed: number;
  /** `maxWaitMs` of the queue; undefined for none: then requests wait for `waitMs` at most. */
  maxWaitMs: number | undefined;
  ingresses?: number;
  slots?: number;
  meanMs?: number;
  seconds?: number;
}

const waitMs = 60_000;

/** Spread like a gamma distribution of the shape 4: few generations take three times as long. */
const timeOf = (random: () => number, mean: number) => {
  let sum = 0;
  for (let part = 0; part < 4; part++) sum -= Math.log(1 - random());
  return (sum * mean) / 4;
};

export function play({ load, seed, maxWaitMs, ingresses = 3, slots = 60, meanMs = 2_000, seconds = 180 }: Run) {
  const random = randomFrom(seed);
  const queues = Array.from({ length: ingresses }, () => new AdmissionQueue<number>());
  const requests = new Map<number, Request>();
  const jobs: number[] = [];
  let running: { id: number; endsAt: number }[] = [];
  let nextId = 0;
  const times = names.map((): number[] => []);
  const ratios = names.map((): number[] => []);
  const offered = names.map(() => 0);
  const perStep = (load * slots * stepMs) / meanMs;
  for (let now = 0; now < seconds * 1_000; now += stepMs) {
    const endedRuns = running.filter(({ endsAt }) => endsAt <= now);
    running = running.filter(({ endsAt }) => endsAt > now);
    for (const { id } of endedRuns) {
      const { ingress, priority, at, ranMs } = requests.get(id) as Request;
      queues[ingress]?.over(id, ranMs, now);
      requests.delete(id);
      times[priority]?.push(now - at);
    }
    if (now % 1_000 === 0) for (const queue of queues) queue.slots = slots - running.length + queue.runningSize;
    for (let arrivals = perStep; arrivals > 0; arrivals--) {
      if (random() > arrivals) break;
      const draw = random();
      const priority = (draw < (mix[0] as number) ? 0 : draw < 1 - (mix[2] as number) ? 1 : 2) as Priority;
      const ingress = Math.floor(random() * ingresses);
      const share: AdmissionShare = {
        ...{ group: "default", weight: 1, priority },
        key: `${priority}-${Math.floor(random() * keysOfEach)}`,
      };
      offered[priority] = (offered[priority] as number) + 1;
      const queue = queues[ingress] as AdmissionQueue<number>;
      if (maxWaitMs !== undefined && queue.waitMsOf(share, now) > maxWaitMs) continue;
      const ranMs = timeOf(random, meanMs);
      queue.admit(nextId, share, now);
      const seconds = queue.placeOf(nextId, now)?.seconds;
      const expectedMs = seconds && (seconds.from + seconds.to) * 500;
      requests.set(nextId++, { ingress, priority, at: now, ranMs, expectedMs });
    }
    if (now % 50 === 0)
      for (const [id, { ingress, at }] of requests)
        if (now - at > (maxWaitMs ?? waitMs) && queues[ingress]?.holds(id)) {
          queues[ingress]?.over(id, undefined, now);
          requests.delete(id);
        }
    for (const queue of queues) for (let id = queue.next(now); id !== undefined; id = queue.next(now)) jobs.push(id);
    while (running.length < slots && jobs.length > 0) {
      const id = jobs.shift() as number;
      const { ingress, ranMs, priority, at, expectedMs = 0 } = requests.get(id) as Request;
      running.push({ id, endsAt: now + ranMs });
      if (expectedMs >= 100) ratios[priority]?.push((now - at) / expectedMs);
      queues[ingress]?.taken(id, now);
    }
  }
  return names.map((_, priority): Outcome => {
    const durations = times[priority] as number[];
    const [duration, ratio] = [quantilesOf(durations), quantilesOf(ratios[priority] as number[])];
    return {
      ...{ offered: offered[priority] as number, served: durations.length, p50: duration(0.5), p99: duration(0.99) },
      waitRatio: { p10: ratio(0.1), p50: ratio(0.5), p90: ratio(0.9) },
    };
  });
}

function quantilesOf(values: number[]): (part: number) => number {
  values.sort((a, b) => a - b);
  return (part) => values[Math.floor(values.length * part)] ?? 0;
}

if (import.meta.main) {
  const alone = play({ load: 0.5, seed: 1, maxWaitMs: undefined })[0] as Outcome;
  console.log(`unloaded (0.5): interactive p99 ${alone.p99} ms`);
  for (const maxWaitMs of [undefined, 1_000])
    for (const load of [1, 2, 5, 10]) {
      const outcomes = play({ load, seed: 1, maxWaitMs });
      const total = outcomes.reduce((sum, { served }) => sum + served, 0);
      const cells = outcomes.map(
        ({ offered, served, p99 }, index) =>
          `${names[index]} ${((served / offered) * 100).toFixed(0)} %, p99 ${p99} ms`,
      );
      const goodput = ((total * 2_000) / (60 * 180_000)) * 100;
      console.log(
        `${maxWaitMs ?? "none"} ${load}: goodput ${goodput.toFixed(0)} %; ${cells.join("; ")}; ratio ${((outcomes[0] as Outcome).p99 / alone.p99).toFixed(2)}`,
      );
    }
  for (const load of [1.2, 2]) {
    const cells = play({ load, seed: 1, maxWaitMs: 1_000 }).map(({ waitRatio: { p10, p50, p90 } }, index) =>
      [names[index], p10.toFixed(2), p50.toFixed(2), p90.toFixed(2)].join(" "),
    );
    console.log(`load ${load}: real wait / expected wait, p10 p50 p90: ${cells.join("; ")}`);
  }
}
