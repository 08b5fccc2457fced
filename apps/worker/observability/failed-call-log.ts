/**
 * A log line for each failed call of an upstream, with what follows from it. An outage fails many
 * calls: a few lines a minute for each target are enough, and one more counts the rest.
 */
import type { Logger } from "pino";
import type { AttemptInfo, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import type { Clock } from "#service/clock.ts";
import { failedCallLinesEveryMs, failedCallLinesMax } from "../bounds.ts";

type FailedCall = WorkerEvents["upstreamCallFailed"];

export const traceFieldOf = ({ trace }: AttemptInfo) => trace && { traceId: trace.traceId };

interface TargetLines {
  /** When the first one was written. */
  since: number;
  written: number;
  omitted: number;
}

export class FailedCallLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  /** The last failed call of each attempt, until the next call starts or the attempt ends. */
  readonly #pending = new Map<AttemptInfo, FailedCall>();
  /** By target, so as many as the catalogue has. */
  readonly #lines = new Map<string, TargetLines>();

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  failed(event: FailedCall): void {
    this.#pending.set(event.attempt, { ...event, diagnosis: { ...event.diagnosis } });
  }

  called(attempt: AttemptInfo, next: CallInfo): void {
    const event = this.#take(attempt);
    if (event === undefined) return;
    const { call, repair } = event;
    if (repair !== undefined) this.#write(event, "repair");
    else if (next.target === call.target) this.#write(event, "retry");
    else this.#write(event, next.model === call.model ? "next target" : "fallback", next.target);
  }

  ended({ attempt, outcome, failure }: WorkerEvents["ended"]): void {
    const event = this.#take(attempt);
    if (event === undefined) return;
    const isLeft = outcome === "cancelled" || outcome === "dropped";
    this.#write(event, isLeft ? outcome : failure === undefined ? "own answer" : "failure");
  }

  #take(attempt: AttemptInfo): FailedCall | undefined {
    if (this.#pending.size === 0) return undefined;
    const event = this.#pending.get(attempt);
    this.#pending.delete(attempt);
    return event;
  }

  #write(
    { attempt, call, durationMs, diagnosis, failure, reason, repair }: FailedCall,
    next: string,
    to?: string,
  ): void {
    if (!this.#hasLine(call.target)) return;
    const { status, requestId, cause } = diagnosis;
    const { code, operatorFault } = failure;
    const line = {
      requestId: attempt.generation.replace("gen_", "req_"),
      generation: attempt.generation,
      ...traceFieldOf(attempt),
      attempt: attempt.attempt,
      target: call.target,
      credential: call.credential,
      status,
      upstreamRequestId: requestId,
      cause,
      failure: code,
      durationMs: Math.round(durationMs),
      next,
      nextTarget: to,
    };
    const log = this.#log;
    if (repair !== undefined && next === "repair")
      log.info(
        { ...line, repair: repair.kind, ...(repair.kind === "omit" && { fields: repair.fields }) },
        "an upstream refused a request, which is repaired and repeated",
      );
    // The message of an unclear rejection may quote the request, so it is not logged.
    else if (operatorFault === "unclear") log.error({ ...line, operatorFault }, "an upstream refused the gateway");
    else if (operatorFault !== undefined)
      log.error({ ...line, operatorFault, reason }, "an upstream refused the gateway");
    else if (cause === "redirect")
      log.error(line, "an upstream answered with a redirect: its base URL must be the final address");
    else log.info(line, "a call of an upstream failed");
  }

  #hasLine(target: string): boolean {
    const now = this.#clock.now();
    const lines = this.#lines.get(target);
    if (lines === undefined || now - lines.since >= failedCallLinesEveryMs) {
      this.#lines.set(target, { since: now, written: 1, omitted: 0 });
      return true;
    }
    if (lines.written < failedCallLinesMax) {
      lines.written++;
      return true;
    }
    if (lines.omitted++ === 0) {
      const countAt = lines.since + failedCallLinesEveryMs;
      setTimeout(() => this.#count(target, lines), countAt - now).unref();
    }
    return false;
  }

  #count(target: string, { omitted }: TargetLines): void {
    this.#log.info({ target, omitted }, "more calls of an upstream failed than have a line");
  }
}
