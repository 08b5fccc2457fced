/**
 * Writes the usage records of ingresses that vanished. An ingress writes the record of a generation within a moment of its end, so an ingress that is heard
 * later than that has written it. The record of any other is written here as well: the ledger counts a generation once, and prefers the record of the ingress.
 */
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { priced } from "#ledger/bill.ts";
import { billedFields, nothingBilled, nothingKnown } from "#ledger/record-fields.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import type { Clock } from "#service/clock.ts";
import { recordedWithinMs, unheardMs, unheardRecordsMax } from "../bounds.ts";

export interface UsageBackupOptions {
  write(record: UsageRecord): void;
  catalogue(): Catalogue;
  clock: Clock;
}

interface Unconfirmed {
  record: UsageRecord;
  endedAt: number;
}

export class UsageBackup {
  readonly #options: UsageBackupOptions;
  /** By the owner's mailbox, oldest first. */
  readonly #unconfirmed = new Map<string, Unconfirmed[]>();
  #count = 0;

  constructor(options: UsageBackupOptions) {
    this.#options = options;
  }

  get subscriber(): Subscriber<WorkerEvents> {
    return { settled: (event) => this.#settled(event) };
  }

  /** The owner lives, so it has written what ended a while ago. Call it for each envelope. */
  heard(owner: string, now: number): void {
    const records = this.#unconfirmed.get(owner);
    if (records === undefined) return;
    const first = records.findIndex(({ endedAt }) => now - endedAt < recordedWithinMs);
    this.#forget(owner, records, first === -1 ? records.length : first);
  }

  /** Writes the records of owners that were not heard in time. Call it every second or so. */
  tick(now: number): void {
    for (const [owner, records] of this.#unconfirmed) {
      const first = records.findIndex(({ endedAt }) => now - endedAt < unheardMs);
      const due = first === -1 ? records.length : first;
      for (const { record } of records.slice(0, due)) this.#options.write(record);
      this.#forget(owner, records, due);
    }
  }

  /** Writes all that is not confirmed. */
  close(): void {
    for (const records of this.#unconfirmed.values()) for (const { record } of records) this.#options.write(record);
    this.#unconfirmed.clear();
  }

  #settled(event: WorkerEvents["settled"]): void {
    const record = this.#recordOf(event);
    if (event.isOrphaned || this.#count >= unheardRecordsMax) {
      this.#options.write(record);
      return;
    }
    const { owner } = event.attempt;
    const unconfirmed = { record, endedAt: this.#options.clock.now() };
    const records = this.#unconfirmed.get(owner);
    if (records === undefined) this.#unconfirmed.set(owner, [unconfirmed]);
    else records.push(unconfirmed);
    this.#count++;
  }

  #forget(owner: string, records: Unconfirmed[], count: number): void {
    this.#count -= count;
    if (count === records.length) this.#unconfirmed.delete(owner);
    else records.splice(0, count);
  }

  #recordOf({
    attempt,
    outcome,
    model: id,
    upstream,
    target,
    calls,
    usage,
    failure,
  }: WorkerEvents["settled"]): UsageRecord {
    const { catalogue, clock } = this.#options;
    const current = catalogue();
    const model = current.models.find((model) => model.id === id);
    const isBilled = usage !== undefined && failure === undefined && model !== undefined;
    return {
      ...nothingKnown,
      ...(isBilled ? billedFields(priced(current, attempt.group, model, usage), undefined) : nothingBilled),
      generationId: attempt.generation,
      requestId: attempt.generation.replace("gen_", "req_"),
      attempt: attempt.attempt,
      isOwner: false,
      receivedAt: attempt.receivedAt,
      account: attempt.account ?? null,
      keyId: attempt.keyId,
      group: attempt.group,
      model: attempt.requestedModel,
      modelAnswered: id,
      upstream: upstream ?? null,
      target: target ?? null,
      calls,
      operation: attempt.operation,
      dialect: attempt.dialect,
      queue: attempt.queue,
      isStreamed: attempt.isStreamed,
      status: 0,
      outcome: failure !== undefined ? "failed" : outcome === "done" ? "complete" : "left",
      errorCode: failure?.code ?? null,
      durationMs: Math.max(0, Math.round(clock.epoch() - attempt.receivedAt)),
      bodyBytes: 0,
    };
  }
}
