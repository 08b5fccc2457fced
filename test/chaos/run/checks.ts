/**
 * Invariants after a chaos run: the answers of callers, the output of the upstream and the counts
 * of the ledger agree, and nothing is left over.
 */
import { setTimeout as delay } from "node:timers/promises";
import { metricsOf } from "../../support/metrics.ts";
import { until } from "../../support/time.ts";
import { type LedgerRecord, nanoOfRecord, recordsOf } from "../ledger-support.ts";
import { type Call, ranAgain } from "./call.ts";
import type { UpstreamJournal } from "./journal.ts";
import { budgeted } from "./kinds.ts";
import type { Load } from "./load.ts";
import { sampleOf } from "./samples.ts";
import { budgetedGenerationsMax, type Stack } from "./stack.ts";

/** Effects of a fault that excuse failures which callers saw. Epoch milliseconds. */
export interface Struck {
  name: string;
  startedAt: number;
  /** When everything was healthy again. */
  healthyAt: number;
  /** Places of ingresses whose connections to callers may have broken. */
  ingresses: readonly number[];
}

/** A breach of a promise, in a sentence. */
export type Violation = string;

const overlaps = ({ startedAt, endedAt }: Call, struck: Struck) =>
  startedAt <= struck.healthyAt && endedAt >= struck.startedAt;

/** When the call began and ended, in UTC. */
const timeOf = ({ startedAt, endedAt }: Call): string =>
  [startedAt, endedAt].map((ms) => new Date(ms).toISOString().slice(11, 23)).join("–");

/** Answers: whole and in order, or an error with a cause. */
export function violationsOfCalls(calls: readonly Call[], struck: readonly Struck[]): Violation[] {
  const violations: Violation[] = [];
  for (const call of calls) {
    const { outcome, kind, number, detail, message = "" } = call;
    if ((outcome === "complete" && detail !== ranAgain) || outcome === "left") continue;
    const causes = struck.filter((one) => overlaps(call, one));
    const says = (what: string) =>
      violations.push(
        `call ${number} (${kind}) at ${timeOf(call)} ${what}: ${detail} ${message}; faults: ${causes.map(({ name }) => name).join(", ") || "none"}`,
      );
    if (outcome === "wrong") says("got what no caller may see");
    else if (
      (outcome === "cut" || detail === "408") &&
      !causes.some(({ ingresses }) => call.ingresses.some((one) => ingresses.includes(one)))
    )
      says("was cut off by an ingress that no fault had struck");
    else if (outcome === "refused" && kind === "rate-limited key" && detail === "429") continue;
    else if (causes.length === 0) says(`was ${outcome} without a fault`);
  }
  return violations;
}

/**
 * The ledger: each answer once, with the tokens that its caller saw and the upstream produced. A
 * request that is repeated with its Idempotency-Key may run again when a fault keeps the ingress
 * that runs it from renewing its claim.
 */
export function violationsOfLedger(
  calls: readonly Call[],
  records: readonly LedgerRecord[],
  journal: UpstreamJournal,
  struck: readonly Struck[],
): Violation[] {
  const violations: Violation[] = [];
  const byRequest = Map.groupBy(records, ({ requestId }) => requestId);
  if (new Set(records.map(({ id }) => id)).size !== records.length)
    violations.push("the ledger has a generation more than once");
  for (const call of calls) {
    const { number, kind, outcome, requestIds, usage } = call;
    if (outcome !== "complete" || requestIds.length === 0) continue;
    const own = requestIds.flatMap((id) => byRequest.get(id) ?? []).filter((record) => record.outcome === "complete");
    const runsAgain = requestIds.length > 1 && struck.some((one) => overlaps(call, one));
    if (own.length !== 1 && !(own.length > 1 && runsAgain))
      violations.push(
        `the ledger has ${own.length} complete generations of call ${number} (${kind}) at ${timeOf(call)}, ${requestIds}`,
      );
    const tokens = own[0]?.tokens;
    if (tokens && usage && (tokens.input !== usage.input || tokens.output !== usage.output))
      violations.push(`the ledger has other tokens than the caller of call ${number} (${kind})`);
  }
  for (const call of calls) {
    // An answer that a slow reader's ingress had whole counts as the caller's.
    if (call.outcome !== "cut" || call.kind === "slow reader") continue;
    const isKilled = struck.some((one) => one.name === "kill: ingress" && overlaps(call, one));
    const own = call.requestIds.flatMap((id) => byRequest.get(id) ?? []);
    if (isKilled && own.some((record) => record.outcome === "complete" && record.status === 0))
      violations.push(`call ${call.number} (${call.kind}) paid for an answer that died with its ingress`);
  }
  const billed = Map.groupBy(
    records.filter(({ outcome, upstreamRequestId }) => outcome === "complete" && upstreamRequestId !== null),
    ({ upstreamRequestId }) => upstreamRequestId as string,
  );
  for (const [id, own] of billed) {
    const produced = journal.completed.get(id) ?? [];
    if (produced.length < own.length)
      violations.push(`the ledger has ${own.length} complete answers of ${id}, the upstream sent ${produced.length}`);
  }
  return violations;
}

/**
 * Answers that the upstream sent more often than the ledger counts them: work that was done again
 * after a fault.
 */
export function doneAgain(records: readonly LedgerRecord[], journal: UpstreamJournal): number {
  const billed = new Map<string, number>();
  for (const { upstreamRequestId: id } of records) if (id !== null) billed.set(id, (billed.get(id) ?? 0) + 1);
  return [...journal.completed].reduce((sum, [id, sent]) => sum + Math.max(0, sent.length - (billed.get(id) ?? 1)), 0);
}

const settleMsMax = 100_000;

/** All records, once the ledger has those of all calls that its callers know the ids of. */
export async function settledRecords(stack: Stack, calls: readonly Call[]): Promise<LedgerRecord[]> {
  const control = stack.control();
  let records: LedgerRecord[] = [];
  const deadline = performance.now() + settleMsMax;
  for (;;) {
    records = await recordsOf(control);
    const ids = new Set(records.map(({ requestId }) => requestId));
    const hasAll = calls.every(
      ({ outcome, requestIds }) =>
        outcome !== "complete" || requestIds.length === 0 || requestIds.some((id) => ids.has(id)),
    );
    if (hasAll || performance.now() > deadline) return records;
    await delay(1_000);
  }
}

/**
 * The budget in Redis is what the ledger has for its key, at the latest after the next comparison.
 */
export async function violationsOfBudget(stack: Stack): Promise<Violation[]> {
  const [url] = stack.urls;
  let seen = "";
  try {
    await until(
      "the budget agrees",
      async () => {
        const response = await fetch(`${url}/v1/usage`, {
          headers: { authorization: `Bearer ${stack.keys.budgeted}` },
        });
        const usage = (await response.json()) as { key: { id: string }; budgets: { period: string; spent: number }[] };
        const spent = Math.round((usage.budgets.find(({ period }) => period === "total")?.spent ?? Number.NaN) * 1e9);
        const records = (await recordsOf(stack.control())).filter(({ key }) => key === usage.key.id);
        const ledger = records.reduce((sum, record) => sum + nanoOfRecord(record), 0);
        seen = `Redis has ${spent} nano-units, the ledger ${ledger}`;
        return spent === ledger;
      },
      settleMsMax,
    );
    return [];
  } catch {
    return [`the budget in Redis and the ledger differ: ${seen}`];
  }
}

/** Every slot of a key that limits generations is free: as many streams run at once. */
export async function violationsOfSlots(load: Load): Promise<Violation[]> {
  const calls = await Promise.all(
    Array.from({ length: budgetedGenerationsMax }, (_, place) => load.send(budgeted, place % 2)),
  );
  const lost = calls.filter(({ outcome }) => outcome !== "complete");
  return lost.length === 0 ? [] : [`${lost.length} of ${budgetedGenerationsMax} slots of a key are not free`];
}

const gaugesThatMustBeZero =
  /^(sluice_(?:generations|worker_generations|queued_generations|queue_jobs|bodies_bytes|detached_generations|upstream_slots_used|worker_attachment_bytes|credentials_cooling|circuit_breaker_open)(?:{[^}]*})?) (\S+)$/gm;

/** Nothing runs, waits or is held anywhere. */
export async function violationsOfGauges(stack: Stack, journal: UpstreamJournal): Promise<Violation[]> {
  let left: string[] = [];
  try {
    await until(
      "nothing is left",
      async () => {
        left = [];
        for (const { name, role } of stack.members) {
          const text = await metricsOf(role);
          for (const [, gauge, value] of text.matchAll(gaugesThatMustBeZero))
            if (Number(value) !== 0) left.push(`${name}: ${gauge} is ${value}`);
        }
        if ((await journal.running()) > 0) left.push("the upstream still answers");
        return left.length === 0;
      },
      60_000,
    );
    return [];
  } catch {
    return left.length === 0 ? ["the metrics cannot be read"] : left;
  }
}

/** How many keys without an expiry Redis has, by the shape of their names. */
export async function keptKeys({ topology }: Stack): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const server of topology.servers)
    await server.ask(async (redis) => {
      if ((await redis.role())[0] !== "master") return;
      let cursor = "0";
      do {
        const [next, keys] = await redis.scan(cursor, "COUNT", 1_000);
        cursor = next;
        const lives = await Promise.all(keys.map((key) => redis.ttl(key)));
        for (const [place, key] of keys.entries()) {
          if (lives[place] !== -1) continue;
          const shape = key.replaceAll(/[A-Za-z0-9_-]{14,}|\d+/g, "*");
          counts.set(shape, (counts.get(shape) ?? 0) + 1);
        }
      } while (cursor !== "0");
    });
  return counts;
}

/**
 * How many more keys of one shape may be kept than before the run: those of keys that the run
 * created, and of restarted processes.
 */
const moreKeysMax = 100;
/** A queue has a few keys of its own, some only since its first pause. */
const newKeysMax = 5;

export function violationsOfKeys(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): Violation[] {
  return [...after]
    .filter(([shape, count]) => count > (before.get(shape) ?? 0) + (before.has(shape) ? moreKeysMax : newKeysMax))
    .map(([shape, count]) => `Redis keeps ${count} keys like ${shape}, and ${before.get(shape) ?? 0} before the run`);
}

const openFilesMoreMax = 60;
const memoryMiBMax = 700;

/** Files, sockets and memory of idle processes. */
export async function violationsOfProcesses(
  stack: Stack,
  before: Awaited<ReturnType<typeof sampleOf>>,
): Promise<Violation[]> {
  const after = await sampleOf(stack);
  return stack.members.flatMap(({ name }) => [
    ...((after.openFiles[name] ?? 0) > (before.openFiles[name] ?? 0) + openFilesMoreMax
      ? [`${name} has ${after.openFiles[name]} open files, and ${before.openFiles[name]} before the run`]
      : []),
    ...((after.memoryMiB[name] ?? Number.POSITIVE_INFINITY) > memoryMiBMax
      ? [`${name} has ${Math.round(after.memoryMiB[name] ?? 0)} MiB`]
      : []),
  ]);
}
