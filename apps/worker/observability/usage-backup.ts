/**
 * Writes the usage records of ingresses that vanished. An ingress writes the record of a generation
 * within a moment of its end, so an ingress that is heard later than that has written it. The
 * record of any other is written here as well: at once if a message to it reaches nobody, because
 * this process may die too. The ledger counts a generation once, and prefers the record of the
 * ingress. An answer that its ingress did not confirm may never have reached the caller, who pays
 * nothing for it; what the operator pays is recorded.
 */
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import { upstreamCostOf } from "#catalogue/upstream-cost.ts";
import { plausible, type Usage } from "#dialects/usage.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { priced, withBatchTier } from "#ledger/bill.ts";
import { billedFields, emptyFields, nothingBilled } from "#ledger/record-fields.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import { operations } from "#operations/operations.ts";
import { unpackedBoundsOf } from "#operations/usage-bounds.ts";
import type { Clock } from "#service/clock.ts";
import { reachedMs, recordedWithinMs, unheardMs, unheardRecordsMax, usageCheckMs } from "../bounds.ts";

export interface UsageBackupOptions {
  write(record: UsageRecord): void;
  /**
   * The catalogue with this version, or the current one where the worker does not know it any more.
   */
  catalogue(version: string | undefined): Catalogue;
  clock: Clock;
  /** Sends the owner an empty message. `unreachable` follows if nobody gets it. */
  reach(owner: string): void;
}

interface Unconfirmed {
  event: WorkerEvents["settled"];
  /** By `clock.now()`, and in epoch milliseconds. */
  endedAt: number;
  endedAtEpoch: number;
  /** In force at the admission: its prices apply. */
  catalogue: Catalogue;
}

interface Owner {
  heardAt: number;
  /** Oldest first. Records are made when they are written, because hardly any is. */
  unconfirmed: Unconfirmed[];
}

export class UsageBackup {
  readonly #options: UsageBackupOptions;
  /** By mailbox. */
  readonly #owners = new Map<string, Owner>();
  #size = 0;

  constructor(options: UsageBackupOptions) {
    this.#options = options;
  }

  get subscriber(): Subscriber<WorkerEvents> {
    return { settled: (event) => this.#settled(event), witnessed: (event) => this.#settled(event) };
  }

  /** The owner lives, so it has written what ended a while ago. Call it for each envelope. */
  heard(owner: string, now: number): void {
    this.#ownerOf(owner).heardAt = now;
  }

  /** The owner is gone, or has no link to Redis. */
  unreachable(owner: string): void {
    const records = this.#owners.get(owner);
    if (records !== undefined) this.#settleUntil(Number.POSITIVE_INFINITY, records);
  }

  /**
   * Writes the records of owners that were not heard in time, and sends a message to those that
   * have just become silent. Call it every `usageCheckMs`.
   */
  tick(now: number): void {
    for (const [mailbox, owner] of this.#owners) {
      this.#settleUntil(Math.max(confirmedUntil(owner), now - unheardMs), owner);
      const silentMs = now - owner.heardAt;
      if (owner.unconfirmed.length === 0) {
        if (silentMs > unheardMs) this.#owners.delete(mailbox);
      } else if (silentMs >= usageCheckMs && silentMs < reachedMs) this.#options.reach(mailbox);
    }
  }

  /** Writes all that is not confirmed. */
  close(): void {
    for (const owner of this.#owners.values()) this.#settleUntil(Number.POSITIVE_INFINITY, owner);
  }

  #settled(event: WorkerEvents["settled"]): void {
    const { catalogue, clock } = this.#options;
    const ended = {
      event,
      endedAt: clock.now(),
      endedAtEpoch: clock.epoch(),
      catalogue: catalogue(event.attempt.priceVersion),
    };
    if (event.isOrphaned || this.#size >= unheardRecordsMax) this.#write(ended);
    else {
      this.#ownerOf(event.attempt.owner).unconfirmed.push(ended);
      this.#size++;
    }
  }

  #ownerOf(mailbox: string): Owner {
    const owner = this.#owners.get(mailbox) ?? { heardAt: 0, unconfirmed: [] };
    this.#owners.set(mailbox, owner);
    return owner;
  }

  /** Drops what ended until this time, and writes what its owner has not confirmed. */
  #settleUntil(time: number, owner: Owner): void {
    const { unconfirmed } = owner;
    const later = unconfirmed.findIndex(({ endedAt }) => endedAt > time);
    const dropped = unconfirmed.splice(0, later < 0 ? unconfirmed.length : later);
    this.#size -= dropped.length;
    for (const each of dropped) if (each.endedAt > confirmedUntil(owner)) this.#write(each);
  }

  #write(unconfirmed: Unconfirmed): void {
    this.#options.write(recordOf(unconfirmed));
  }
}

/** The owner has written what ended until then. */
const confirmedUntil = ({ heardAt }: Owner): number => heardAt - recordedWithinMs;

/**
 * With the fields and the prices that the ingress would have written, as far as a worker knows
 * them.
 */
function recordOf({ event, endedAtEpoch, catalogue }: Unconfirmed): UsageRecord {
  const { attempt, outcome, model: id, source, upstreamRequestId, bodyBytes, usage, failure, isOrphaned } = event;
  const { recorded = attempt, user, sessionName, tags = [], batch, usageMax, receivedAt } = attempt;
  const model = catalogue.modelWith(id);
  const isSession = operations[attempt.operation].isSession === true;
  const isCharged = failure === undefined || failure.isPaid === true || isSession;
  const charged =
    usage !== undefined && model !== undefined && isCharged
      ? chargedFieldsOf(
          event,
          catalogue,
          model,
          isSession ? usage : plausible(usage, unpackedBoundsOf(model, usageMax)),
        )
      : nothingBilled;
  return {
    ...emptyFields,
    ...(isOrphaned ? { ...nothingBilled, upstreamCost: charged.upstreamCost } : charged),
    generationId: recorded.generation,
    requestId: recorded.generation.replace("gen_", "req_"),
    attempt: recorded.attempt,
    isOwner: false,
    receivedAt,
    account: attempt.account ?? null,
    user: user ?? null,
    session: sessionName ?? null,
    tags: [...tags],
    batch: batch ?? null,
    keyId: attempt.keyId,
    group: attempt.group,
    model: attempt.requestedModel,
    modelAnswered: id,
    ...(source && {
      upstream: source.upstream,
      target: source.target,
      upstreamDialect: source.dialect,
      calls: source.calls,
      ...(source.callLog && { callLog: source.callLog.map((each) => [...each]) }),
    }),
    operation: attempt.operation,
    dialect: attempt.dialect,
    queue: attempt.queue,
    isStreamed: attempt.isStreamed,
    status: 0,
    outcome: failure !== undefined ? "failed" : outcome === "done" && !isOrphaned ? "complete" : "left",
    errorCode: failure?.code ?? null,
    durationMs: Math.max(0, Math.round(endedAtEpoch - receivedAt)),
    bodyBytes,
    upstreamRequestId: upstreamRequestId ?? null,
    traceId: attempt.trace?.traceId ?? null,
  };
}

function chargedFieldsOf(
  { attempt: { group, receivedAt, batch }, source }: WorkerEvents["settled"],
  catalogue: Catalogue,
  model: CatalogueModel,
  usage: Usage,
): ReturnType<typeof billedFields> {
  const billed = withBatchTier(usage, batch);
  const cost = source && upstreamCostOf(model, source, billed, receivedAt);
  return billedFields(priced(catalogue, group, model, billed, receivedAt), cost);
}
