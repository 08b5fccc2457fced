/**
 * A simulation of the chart's autoscaling, in steps of one second: KEDA's triggers, the
 * HorizontalPodAutoscaler's algorithm
 * (https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#algorithm-details),
 * workers that take a while to start, and workers that drain. `node infra/kubernetes/scaling.ts`
 * writes its table and its picture for docs/kubernetes.md.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { numberTableOf, withMarked } from "../../docs/tables.ts";

const root = join(import.meta.dirname, "..", "..");

export interface Scaling {
  /** Generations that one worker runs at once: its setting for the queue. */
  capacity: number;
  /** Generations that it really takes, if that is fewer: `sluice_worker_capacity` under load. */
  realCapacity?: number;
  minReplicas: number;
  maxReplicas: number;
  spareReplicas: number;
  targetUtilization: number;
  startSeconds: number;
  oldestWaitSeconds: number;
  stabilizationSeconds: number;
  scaleInPercentPerMinute: number;
  drainSeconds: number;
}

export interface Load {
  /** How long requests arrive. The simulation goes on until they are answered. */
  seconds: number;
  /** Requests a second at this second. */
  rate(second: number): number;
  /** The mean duration of a generation. Durations are distributed exponentially. */
  generationSeconds: number;
}

export interface Outcome {
  requests: number;
  /** Waits in seconds, ascending. */
  waits: number[];
  /** Generations that were running when a worker's drain time was over. */
  interrupted: number;
  /** One sample for each second. */
  workers: number[];
  slotsNeeded: number[];
}

/** Metrics of a pool, as Prometheus has them after a scrape. */
export interface Sample {
  at: number;
  /** That wait or run. */
  generations: number;
  oldestWait: number;
  /** Workers that take requests. */
  workers: number;
  /** The mean of `sluice_worker_capacity` over these. */
  capacity: number;
}

/** Values of the platform and of the PodMonitor. */
const scrapeSeconds = 5;
/** So old is a scrape when the autoscaler reads it, at worst. */
const scrapeAgeSeconds = 4;
const autoscalerSeconds = 15;
const pollSeconds = 10;
const tolerance = 0.1;
/** A worker that runs fewer generations does not know its capacity, and reports its setting. */
const measuredFrom = 32;
/** By what factor the load is expected to grow while a worker starts, at most. */
const growthMax = 1.25;
/** A long wait multiplies the workers by so many, at most. */
const waitFactorMax = 2;
/** The autoscaler may multiply the workers by so many, or add so many, in 15 seconds. */
const scaleOutFactor = 5;
const scaleOutPods = 10;

interface Worker {
  readyAt: number;
  running: number;
  /** How many of them end at a second. */
  ends: Map<number, number>;
  drainUntil: number | undefined;
}

/**
 * The number that the autoscaler wants now, before its rules about the speed of changes. `samples`
 * are in order of time, the last one is the present. The expressions in the chart's
 * templates/workers.yaml compute the same.
 */
export function desiredOf(scaling: Scaling, current: number, samples: readonly Sample[]): number {
  const last = samples.at(-1)!;
  const before = (seconds: number) => samples.findLast(({ at }) => at <= last.at - seconds);
  const { generations } = last;
  const earlier = before(scaling.startSeconds)?.generations ?? 0;
  const growth = earlier === 0 ? 1 : Math.min(Math.max(generations / earlier, 1), growthMax);
  const capacity = last.workers === 0 ? scaling.capacity : Math.max(last.capacity, scaling.capacity / 10);
  const byLoad = (generations * growth) / (scaling.targetUtilization * capacity) + scaling.spareReplicas;
  const waitSeconds = scaling.startSeconds + autoscalerSeconds;
  const wait = Math.min(...samples.filter(({ at }) => at > last.at - waitSeconds).map(({ oldestWait }) => oldestWait));
  const byWait = (before(waitSeconds)?.workers ?? 0) * Math.min(wait / scaling.oldestWaitSeconds, waitFactorMax);
  const replicasOf = (value: number) =>
    current > 0 && Math.abs(value / current - 1) <= tolerance ? current : Math.ceil(value);
  return Math.max(replicasOf(byLoad), replicasOf(byWait));
}

/** Deterministic: the same arguments give the same outcome. */
export function simulate(scaling: Scaling, load: Load): Outcome {
  const autoscaler = new Autoscaler(scaling);
  const outcome: Outcome = { requests: 0, waits: [], interrupted: 0, workers: [], slotsNeeded: [] };
  const capacity = Math.min(scaling.capacity, scaling.realCapacity ?? scaling.capacity);
  const waiting: number[] = [];
  let workers: Worker[] = Array.from({ length: scaling.minReplicas }, () => workerOf(0));
  let due = 0;
  for (let now = 0; now < load.seconds || waiting.length > 0 || workers.some(({ running }) => running > 0); now++) {
    for (const worker of workers) worker.running -= worker.ends.get(now) ?? 0;
    outcome.interrupted += endDrained(workers, now);
    workers = workers.filter(({ drainUntil, running }) => drainUntil === undefined || running > 0);

    if (now < load.seconds) due += load.rate(now);
    for (; due >= 1; due--) waiting.push(now);
    const ready = workers.filter(({ readyAt, drainUntil }) => readyAt <= now && drainUntil === undefined);
    let taken = 0;
    for (let turn = 0, full = 0; taken < waiting.length && full < ready.length; turn++) {
      const worker = ready[turn % ready.length]!;
      if (worker.running >= capacity) {
        full++;
        continue;
      }
      full = 0;
      worker.running++;
      outcome.waits.push(now - waiting[taken++]!);
      const end = now + durationOf(outcome.requests++, load.generationSeconds);
      worker.ends.set(end, (worker.ends.get(end) ?? 0) + 1);
    }
    waiting.splice(0, taken);

    const serving = workers.filter(({ drainUntil }) => drainUntil === undefined);
    const running = workers.reduce((sum, worker) => sum + worker.running, 0);
    const reported = ready.reduce(
      (sum, worker) => sum + (worker.running < measuredFrom ? scaling.capacity : capacity),
      0,
    );
    const wanted = autoscaler.wanted(serving.length, {
      at: now,
      generations: running + waiting.length,
      oldestWait: waiting[0] === undefined ? 0 : now - waiting[0],
      workers: ready.length,
      capacity: reported / Math.max(1, ready.length),
    });
    for (let count = serving.length; count < wanted; count++) workers.push(workerOf(now + scaling.startSeconds));
    for (const worker of serving.slice(wanted)) worker.drainUntil = now + scaling.drainSeconds;
    outcome.workers.push(workers.length);
    outcome.slotsNeeded.push(running + waiting.length);
  }
  outcome.waits.sort((a, b) => a - b);
  return outcome;
}

const workerOf = (readyAt: number): Worker => ({ readyAt, running: 0, ends: new Map(), drainUntil: undefined });

/** Whole seconds, exponential, from a sequence that is spread evenly. */
function durationOf(index: number, mean: number): number {
  const golden = (Math.sqrt(5) - 1) / 2;
  return Math.ceil(-mean * Math.log(1 - ((index * golden + 0.5) % 1)));
}

function endDrained(workers: readonly Worker[], now: number): number {
  let interrupted = 0;
  for (const worker of workers) {
    if (worker.drainUntil === undefined || worker.drainUntil > now) continue;
    interrupted += worker.running;
    worker.running = 0;
  }
  return interrupted;
}

class Autoscaler {
  readonly #scaling: Scaling;
  #samples: Sample[] = [];
  #activeAt = 0;
  #recommendations: { at: number; count: number }[] = [];
  /** How many workers there were at each call, for the limits of a minute and of 15 seconds. */
  #counts: number[] = [];

  constructor(scaling: Scaling) {
    this.#scaling = scaling;
  }

  /** How many workers there should be now. Call it once for each second. */
  wanted(current: number, state: Sample): number {
    const { minReplicas, maxReplicas, stabilizationSeconds } = this.#scaling;
    const now = state.at;
    if (now % scrapeSeconds === scrapeSeconds - scrapeAgeSeconds)
      this.#samples = [...this.#samples.filter(({ at }) => at > now - stabilizationSeconds), state];
    const last = this.#samples.at(-1);
    const isActive = last !== undefined && last.generations > 0;
    if (isActive) this.#activeAt = now;
    this.#counts.push(current);
    if (current === 0) return isActive && now % pollSeconds === 0 ? Math.max(1, minReplicas) : 0;
    if (minReplicas === 0 && now - this.#activeAt > stabilizationSeconds) return 0;
    if (now % autoscalerSeconds !== 0 || last === undefined) return current;
    const desired = desiredOf(this.#scaling, current, this.#samples);
    const count = Math.min(maxReplicas, Math.max(minReplicas, 1, desired));
    this.#recommendations.push({ at: now, count });
    this.#recommendations = this.#recommendations.filter(({ at }) => at > now - stabilizationSeconds);
    if (count > current) return Math.min(count, this.#most(now));
    // The autoscaler starts with the present number as its first recommendation.
    const recommended = now < stabilizationSeconds ? current : 0;
    const stable = Math.max(recommended, ...this.#recommendations.map((recommendation) => recommendation.count));
    return stable < current ? Math.max(stable, this.#fewest(now)) : current;
  }

  #most(now: number): number {
    const before = this.#counts[Math.max(0, now - autoscalerSeconds)] ?? 0;
    return Math.max(before * scaleOutFactor, before + scaleOutPods);
  }

  #fewest(now: number): number {
    const before = Math.max(...this.#counts.slice(Math.max(0, now - 60)));
    return Math.min(before - 1, Math.ceil(before * (1 - this.#scaling.scaleInPercentPerMinute / 100)));
  }
}

const minute = 60;
const hour = 60 * minute;

interface Scenario {
  name: string;
  pool: "chat" | "image";
  load: Load;
  changes?: Partial<Scaling>;
}

/** A day with its peak at 14:00, ten times what the night has. */
const day: Load = {
  seconds: 24 * hour,
  rate: (second) => 10 + 90 * Math.max(0, Math.sin(((second / hour - 8) / 12) * Math.PI)) ** 2,
  generationSeconds: 30,
};
/** 20 requests a second, and from minute 10 to minute 20 five times as many at once. */
const burst: Load = {
  seconds: 40 * minute,
  rate: (second) => (second >= 10 * minute && second < 20 * minute ? 100 : 20),
  generationSeconds: 30,
};
/**
 * From nothing to 5,000 streams in ten seconds, after `quietSeconds`, and on for ten minutes:
 * streams that end meanwhile are followed by others.
 */
export const stepOf = (quietSeconds: number): Load => ({
  seconds: quietSeconds + 10 * minute,
  rate: (second) => {
    const since = second - quietSeconds;
    if (since < 0) return 0;
    return since < 10 ? 500 + (since * 500) / 30 : 5_000 / 30;
  },
  generationSeconds: 30,
});
/** Streams of 50 chunks a second: a worker takes far fewer of them than its slots. */
const fastStreams = { realCapacity: 500 };
/** 60 images in a minute, once an hour. */
const images: Load = { seconds: 6 * hour, rate: (second) => (second % hour < minute ? 1 : 0), generationSeconds: 20 };

/** Twelve seconds after the autoscaler looked, the step is seen latest. */
const worstMoment = 12;
/** Two spare workers, each of which really takes 1,500 streams of its 2,048 slots. */
export const stepChanges = { spareReplicas: 2, realCapacity: 1_500 } satisfies Partial<Scaling>;

const scenarios: Scenario[] = [
  { name: "chat, a day", pool: "chat", load: day, changes: fastStreams },
  { name: "chat, a burst of 5 times the load", pool: "chat", load: burst, changes: fastStreams },
  ...[{ targetUtilization: 0.5 }, { targetUtilization: 0.9 }, { minReplicas: 6 }, { spareReplicas: 3 }].map(
    (change): Scenario => ({
      name: `… with \`${Object.entries(change).map(([name, value]) => `${name}: ${value}`)}\``,
      pool: "chat",
      load: burst,
      changes: { ...fastStreams, ...change },
    }),
  ),
  {
    name: "chat, 0 to 5,000 streams in 10 seconds",
    pool: "chat",
    load: stepOf(hour + worstMoment),
    changes: stepChanges,
  },
  {
    name: "… workers that take 1,000",
    pool: "chat",
    load: stepOf(hour + worstMoment),
    changes: { ...stepChanges, realCapacity: 1_000 },
  },
  {
    name: "… workers that start in 20 seconds",
    pool: "chat",
    load: stepOf(hour + worstMoment),
    changes: { ...stepChanges, startSeconds: 20 },
  },
  { name: "images, 60 an hour, from zero", pool: "image", load: images },
  { name: "… with `minReplicas: 1`", pool: "image", load: images, changes: { minReplicas: 1 } },
];

/** The chart's defaults for a pool. */
export function chartScaling(pool: string): Scaling {
  const values = parse(readFileSync(join(root, "infra/kubernetes/sluice/values.yaml"), "utf8")) as {
    workerAutoscaling: Scaling;
    workerDefaults: Scaling;
    workers: Record<string, Partial<Scaling> & { queues: Record<string, number> }>;
  };
  const { queues, ...own } = values.workers[pool]!;
  return { ...values.workerAutoscaling, ...values.workerDefaults, ...own, capacity: Object.values(queues)[0]! };
}

/** Markdown, for docs/kubernetes.md. */
export function scalingTable(): string {
  const rows = scenarios.map(({ name, pool, load, changes }) => {
    const { requests, waits, interrupted, workers } = simulate({ ...chartScaling(pool), ...changes }, load);
    const waited = waits.filter((wait) => wait > 0).length;
    const [p99, most] = [waits[Math.floor(waits.length * 0.99)]!, waits.at(-1)!];
    const hours = workers.reduce((sum, count) => sum + count, 0) / hour;
    const whole = (value: number) => Math.round(value).toLocaleString("en");
    const cells = [whole(requests), `${((100 * waited) / requests).toFixed(1)} %`, `${p99} s`, `${most} s`];
    return [name, ...cells, whole(Math.max(...workers)), hours.toFixed(1), whole(interrupted)];
  });
  const head = ["load", "requests", "waited", "wait p99", "longest", "most workers", "worker hours", "interrupted"];
  return numberTableOf(head, rows);
}

/** The burst as SVG: the slots that requests need, and those of the workers. */
export function burstPicture(): string {
  const scaling = { ...chartScaling("chat"), ...fastStreams };
  const { workers, slotsNeeded } = simulate(scaling, burst);
  const [width, height, left, bottom] = [720, 260, 50, 30];
  const seconds = burst.seconds;
  const most = Math.max(...slotsNeeded, ...workers.map((count) => count * scaling.realCapacity));
  const x = (second: number) => left + ((width - left - 10) * second) / seconds;
  const y = (slots: number) => height - bottom - ((height - bottom - 30) * slots) / most;
  const line = (values: readonly number[], color: string) => {
    const points = values
      .slice(0, seconds)
      .flatMap((value, second) => (second % 5 === 0 ? [`${x(second).toFixed(1)},${y(value).toFixed(1)}`] : []));
    return `<polyline fill="none" stroke="${color}" stroke-width="2" points="${points.join(" ")}"/>`;
  };
  const marks = [0, 10, 20, 30, 40].map(
    (at) => `<text x="${x(at * minute)}" y="${height - 10}" text-anchor="middle">${at} min</text>`,
  );
  const steps = [0, Math.round(most / 2), most].map(
    (slots) => `<text x="${left - 6}" y="${y(slots) + 4}" text-anchor="end">${slots}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img" aria-label="Slots of the workers follow a burst of requests">
<rect width="${width}" height="${height}" fill="#ffffff"/>
<text x="${left}" y="18" fill="#1c7ed6">slots of the workers</text>
<text x="${left + 160}" y="18" fill="#e8590c">generations that wait or run</text>
${[...marks, ...steps].join("\n")}
${line(
  workers.map((count) => count * scaling.realCapacity),
  "#1c7ed6",
)}
${line(slotsNeeded, "#e8590c")}
</svg>
`;
}

/** The text of docs/kubernetes.md with the table of today. */
export const withTable = (page: string): string => withMarked(page, "scaling", scalingTable());

export const pageFile = join(root, "docs/kubernetes.md");
export const pictureFile = join(root, "docs/pictures/scaling.svg");

if (import.meta.main) {
  writeFileSync(pageFile, withTable(readFileSync(pageFile, "utf8")));
  writeFileSync(pictureFile, burstPicture());
}
