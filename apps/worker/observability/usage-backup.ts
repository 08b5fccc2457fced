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
  event: WorkerEvents["settled"];
  /** By `clock.now()`, and in epoch milliseconds. */
  endedAt: number;
  endedAtEpoch: number;
  /** In force at the end: its prices apply. */
  catalogue: Catalogue;
}

export class UsageBackup {
  readonly #options: UsageBackupOptions;
  /** Oldest first. Records are made when they are written, because hardly any is. */
  #unconfirmed: Unconfirmed[] = [];
  /** By the owner's mailbox. */
  readonly #heardAt = new Map<string, number>();

  constructor(options: UsageBackupOptions) {
    this.#options = options;
  }

  get subscriber(): Subscriber<WorkerEvents> {
    return { settled: (event) => this.#settled(event) };
  }

  /** The owner lives, so it has written what ended a while ago. Call it for each envelope. */
  heard(owner: string, now: number): void {
    this.#heardAt.set(owner, now);
  }

  /** Writes the records of owners that were not heard in time. Call it every second or so. */
  tick(now: number): void {
    this.#unconfirmed = this.#unconfirmed.filter((unconfirmed) => {
      const { event, endedAt } = unconfirmed;
      const heardAt = this.#heardAt.get(event.attempt.owner) ?? 0;
      if (heardAt - endedAt >= recordedWithinMs) return false;
      const isDue = now - endedAt >= unheardMs;
      if (isDue) this.#write(unconfirmed);
      return !isDue;
    });
    for (const [owner, at] of this.#heardAt) if (now - at > unheardMs) this.#heardAt.delete(owner);
  }

  /** Writes all that is not confirmed. */
  close(): void {
    for (const unconfirmed of this.#unconfirmed) this.#write(unconfirmed);
    this.#unconfirmed = [];
  }

  #settled(event: WorkerEvents["settled"]): void {
    const { catalogue, clock } = this.#options;
    const ended = { event, endedAt: clock.now(), endedAtEpoch: clock.epoch(), catalogue: catalogue() };
    if (event.isOrphaned || this.#unconfirmed.length >= unheardRecordsMax) this.#write(ended);
    else this.#unconfirmed.push(ended);
  }

  #write(unconfirmed: Unconfirmed): void {
    this.#options.write(recordOf(unconfirmed));
  }
}

function recordOf({ event, endedAtEpoch, catalogue }: Unconfirmed): UsageRecord {
  const { attempt, outcome, model: id, upstream, target, calls, usage, failure } = event;
  const model = catalogue.models.find((model) => model.id === id);
  const isBilled = usage !== undefined && failure === undefined && model !== undefined;
  return {
    ...nothingKnown,
    ...(isBilled
      ? billedFields(priced(catalogue, attempt.group, model, usage, attempt.receivedAt), undefined)
      : nothingBilled),
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
    durationMs: Math.max(0, Math.round(endedAtEpoch - attempt.receivedAt)),
    bodyBytes: 0,
    traceId: attempt.trace?.traceId ?? null,
  };
}
