/**
 * Overload: what callers get while far more is offered than the workers' slots can serve, and
 * afterwards.
 */
import { setTimeout as delay } from "node:timers/promises";
import { chatBodyOf, chatPath, type OpenCallers, startOpenCallers } from "./load.ts";
import { record, type Table } from "./report.ts";
import { type Bench, meterOf } from "./rounds.ts";
import { type Sluice, startSluice } from "./sluice.ts";

/** An answer takes 500 ms. */
const model = "stream-6-100";
const chunks = 6;
export const answerMs = 500;
const keyCount = 20;
/** Shares of the capacity. */
const loads = [0.5, 1, 2, 5, 10];
const loadAfter = 0.5;
const mostLoad = Math.max(...loads);
/** A burst has work for so long. */
const burstSeconds = 10;
const burstMsMax = 45_000;
const slotsOf = ({ quick }: Bench): number => (quick ? 20 : 50);

const columns = [
  { key: "offered", head: "offered/s", digits: 0 },
  { key: "complete", head: "answered/s", digits: 0 },
  { key: "refused", head: "refused/s", digits: 0 },
  { key: "refusalP50", head: "refusal p50 ms", digits: 1 },
  { key: "refusalP99", head: "refusal p99 ms", digits: 1 },
  { key: "retryAfterP50", head: "Retry-After p50 s", digits: 0 },
  { key: "retryAfterMax", head: "Retry-After max s", digits: 0 },
  { key: "waitP50", head: "queued p50 ms", digits: 0 },
  { key: "waitP99", head: "queued p99 ms", digits: 0 },
  { key: "servedP50", head: "served p50 ms", digits: 0 },
  { key: "servedP99", head: "served p99 ms", digits: 0 },
  { key: "cores", head: "cores", digits: 2 },
];

/**
 * One ingress and one worker, with so many slots that answers are due at `capacity` a second, and a
 * queue of a second's work.
 */
export const startSmall = (upstreamUrl: string, slots: number): Promise<Sluice> =>
  startSluice({
    name: "sluice",
    ingresses: 1,
    workers: 1,
    upstreamUrl,
    models: [model],
    slots,
    waitingMax: capacityOf(slots),
  });
export const capacityOf = (slots: number): number => (slots * 1_000) / answerMs;

export const startCallers = async (sluice: Sluice, slots: number): Promise<OpenCallers> =>
  startOpenCallers({
    system: sluice,
    path: chatPath,
    body: chatBodyOf(model, { stream: true }),
    keys: await sluice.createKeys("default", keyCount),
    connections: 2 * slots,
    chunks,
  });

export async function measureOverload(bench: Bench): Promise<Table[]> {
  const slots = slotsOf(bench);
  const capacity = capacityOf(slots);
  const windowMs = bench.quick ? 1_000 : 8_000;
  const labelOf = (load: number) => `${load} × capacity`;
  const table: Table = {
    key: "overload",
    title: "Overload",
    notes: [
      `One ingress and one worker with ${slots} slots, answers that take ${answerMs} ms (a capacity of ${capacity} answers a second), and \`waitingMax: ${capacity}\`, a second's work; ${keyCount} keys.`,
      "Requests are due evenly, whatever was answered, and times count from when a request was due. Refusal: to the 503 at the caller. Queued: until the upstream sends the first chunk.",
      "Served: from then to the end at the caller. Cores: CPU of all of the gateway's processes.",
    ],
    labels: ["load"],
    columns,
    rows: [],
  };
  const recovery: Table = {
    key: "overload-recovery",
    title: "Overload: recovery",
    notes: [
      `What the ${labelOf(loadAfter)} get after the ${labelOf(mostLoad)}: answers in the first second, and how long after the load's fall the last request was due that was refused, and the last that waited for more than 100 ms.`,
    ],
    labels: ["load"],
    columns: [
      { key: "complete", head: "answered in the first second", digits: 0 },
      { key: "lastRefusedMs", head: "last refused, ms", digits: 0 },
      { key: "lastWaitedMs", head: "last queued, ms", digits: 0 },
    ],
    rows: [],
  };
  const sluice = await startSmall(bench.upstream.url, slots);
  const callers = await startCallers(sluice, slots);
  const offered = async (load: number, ms: number) => {
    callers.offer(load * capacity);
    const meter = meterOf(sluice);
    const window = await callers.watch(() => delay(ms));
    return { window, cores: ((meter().cpu as number) * 1_000) / ms };
  };
  try {
    await offered(1, bench.quick ? 500 : 8_000);
    for (let round = 0; round < bench.rounds; round++) {
      for (const load of loads) {
        bench.tell(`overload, ${labelOf(load)}, round ${round + 1}`);
        // The queue fills, or empties, first.
        await offered(load, bench.quick ? 500 : 2_500);
        const { window, cores } = await offered(load, windowMs);
        const { seconds, offered: requests, complete, refused, errors, ...times } = window;
        const perSecond = { offered: requests / seconds, complete: complete / seconds, refused: refused / seconds };
        record(table, [labelOf(load)], { ...times, ...perSecond, cores }, errors);
      }
      const first = await offered(loadAfter, 1_000);
      // The window ends with the first second, and those that were due then are answered in the
      // next.
      const rest = await offered(loadAfter, bench.quick ? 1_000 : 4_000);
      const lastOf = (key: "lastRefusedMs" | "lastWaitedMs") =>
        rest.window[key] > 0 ? 1_000 + rest.window[key] : first.window[key];
      const errors = [...first.window.errors, ...rest.window.errors];
      const figures = { lastRefusedMs: lastOf("lastRefusedMs"), lastWaitedMs: lastOf("lastWaitedMs") };
      record(recovery, [labelOf(loadAfter)], { complete: first.window.complete, ...figures }, errors);
    }
  } finally {
    await callers.stop();
    await sluice.stop();
  }
  return [table, recovery];
}

export async function measureBurst(bench: Bench): Promise<Table> {
  const slots = slotsOf(bench);
  const count = capacityOf(slots) * burstSeconds;
  const table: Table = {
    key: "overload-burst",
    title: "Overload: callers who follow Retry-After",
    notes: [
      `Work for ${burstSeconds} seconds is asked for at once. Callers who are refused ask again when Retry-After says, until they are answered.`,
    ],
    labels: ["callers"],
    columns: [
      { key: "seconds", head: "all answered after, s", digits: 1 },
      { key: "ideal", head: "at capacity, s", digits: 1 },
      { key: "asksP50", head: "asked, p50", digits: 0 },
      { key: "asksMax", head: "asked, most", digits: 0 },
      { key: "refusalP99", head: "refusal p99 ms", digits: 1 },
    ],
    rows: [],
  };
  const sluice = await startSmall(bench.upstream.url, slots);
  const callers = await startCallers(sluice, slots);
  try {
    callers.offer(capacityOf(slots));
    await delay(bench.quick ? 1_000 : 5_000);
    for (let round = 0; round < bench.rounds; round++) {
      callers.offer(0);
      await delay(2_000);
      bench.tell(`a burst of ${count}, round ${round + 1}`);
      const window = await callers.watch(() => callers.burst(count, { overMs: 0, follows: true, msMax: burstMsMax }));
      const { errors, ...seen } = window;
      record(table, [count], { ...seen, ideal: burstSeconds }, errors);
    }
  } finally {
    await callers.stop();
    await sluice.stop();
  }
  return table;
}
