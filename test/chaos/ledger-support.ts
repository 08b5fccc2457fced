/** The shared part of the tests of the ledger while processes die. */
import assert from "node:assert/strict";
import { nanoOf } from "#ledger/money.ts";
import type { TestControl } from "../support/control.ts";
import type { Gateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

type Reading = Pick<TestControl, "get">;

export interface LedgerRecord {
  id: string;
  requestId: string;
  outcome: string;
  /** That the caller got; 0 in a worker's record. */
  status: number | null;
  key: string;
  model: string;
  attempts: number;
  cost: string;
  tokens: { input: number; output: number };
  /** The upstream's id of the call that answered. */
  upstreamRequestId: string | null;
}

/** All records of the log, and that the totals say the same. */
export async function recordsOf(control: Reading): Promise<LedgerRecord[]> {
  const records: LedgerRecord[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: { items: LedgerRecord[]; nextCursor: string | null } = await control.get(
      `/usage/records?limit=500${cursor && `&cursor=${cursor}`}`,
    );
    records.push(...page.items);
    cursor = page.nextCursor;
  }
  return records;
}

export async function assertTotals(control: Reading, records: readonly LedgerRecord[]): Promise<void> {
  const { total } = await control.get<{ total: { requests: number; cost: string; outputTokens: number } }>("/usage");
  const cost = records.reduce((sum, record) => sum + Math.round(Number(record.cost) * 1e9), 0);
  assert.deepEqual(
    [total.requests, Math.round(Number(total.cost) * 1e9), total.outputTokens],
    [records.length, cost, records.reduce((sum, { tokens }) => sum + tokens.output, 0)],
  );
}

/**
 * Sends requests one after the other from several clients until told to stop; resolves to what they
 * cost, by request.
 */
export function startLoad(gateway: Gateway, clients: number, urlOf: (client: number) => string) {
  const costs = new Map<string, number>();
  let isOver = false;
  const running = Array.from({ length: clients }, async (_, client) => {
    while (!isOver) {
      const answer = await gateway
        .client({ url: urlOf(client) })
        .chat.completions.create({ model: "fast", messages: [{ role: "user", content: "Hello" }] })
        .withResponse()
        .catch(() => undefined);
      const usage = answer?.data.usage;
      if (answer === undefined || usage === undefined) continue;
      costs.set(answer.response.headers.get("x-request-id") as string, nanoCostOf(usage));
    }
  });
  return {
    costs,
    async stop() {
      isOver = true;
      await Promise.all(running);
    },
    /** For a test that fails before it stops the load. */
    [Symbol.dispose]() {
      isOver = true;
    },
  };
}

/** Nobody pays for an answer that its ingress did not confirm, even if the caller has it. */
export const isUnconfirmed = ({ outcome, cost }: LedgerRecord) => outcome === "left" && Number(cost) === 0;

/**
 * Every answer that a caller got is in the ledger once, at its cost, and the totals are the sum of
 * the records. `mayBeUnconfirmed`: an ingress was killed.
 */
export async function assertComplete(
  control: Reading,
  costs: ReadonlyMap<string, number>,
  { mayBeUnconfirmed = false } = {},
): Promise<void> {
  let records: LedgerRecord[] = [];
  await until(
    "every answer is in the ledger",
    async () => {
      records = await recordsOf(control);
      const requestIds = new Set(records.map(({ requestId }) => requestId));
      return [...costs.keys()].every((id) => requestIds.has(id));
    },
    60_000,
  );
  const byRequest = Map.groupBy(records, ({ requestId }) => requestId);
  for (const [requestId, nano] of costs) {
    const ownRecords = byRequest.get(requestId) ?? [];
    const isFree = mayBeUnconfirmed && ownRecords.some(isUnconfirmed);
    assert.deepEqual(ownRecords.map(nanoOfRecord), [isFree ? 0 : nano], `${requestId}: ${JSON.stringify(ownRecords)}`);
  }
  await assertTotals(control, records);
}

/** By the prices of `catalogueOf`. */
export const nanoCostOf = (usage: { prompt_tokens: number; completion_tokens: number }): number =>
  (usage.prompt_tokens * nanoOf(1) + usage.completion_tokens * nanoOf(2)) / 1_000_000;

export const nanoOfRecord = ({ cost }: LedgerRecord): number => Math.round(Number(cost) * 1e9);
