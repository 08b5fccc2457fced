/**
 * Reports the outcomes of an attempt's calls to the routing, which updates circuit breakers and
 * cooldowns.
 */
import type { CallOutcome, Routing } from "../routing/routing.ts";
import type { TargetCall } from "./target-call.ts";

export class TargetReports {
  readonly #routing: Pick<Routing, "ended">;
  readonly #failedTargets = new Set<string>();

  constructor(routing: Pick<Routing, "ended">) {
    this.#routing = routing;
  }

  /**
   * Content arrived, which proves the target to all requests that wait for it. The answer itself
   * may go on for minutes.
   */
  proven(call: TargetCall): void {
    call.isProven = true;
    if (call.isReplayed) return;
    this.#routing.ended(call.candidate, call.permit, "answered", undefined);
  }

  /**
   * The call is over: frees its slot. `outcome` is undefined if the call says nothing about its
   * target.
   */
  ended(call: TargetCall, outcome: CallOutcome | undefined): void {
    const { candidate, permit, isProven, isReplayed, retryAfterMs, usage } = call;
    permit.leave(outcome, usage);
    if (isReplayed) return;
    const isReported = outcome === undefined || (outcome === "answered" && isProven);
    if (!isReported && !this.#isRepeated(outcome, call)) this.#routing.ended(candidate, permit, outcome, retryAfterMs);
  }

  /**
   * All failures of one target count once; otherwise a single request that no target can answer
   * would open circuit breakers for all requests. A failed probe always counts: the circuit breaker
   * is open already, and no other call may probe the target until this one's outcome is known.
   */
  #isRepeated(outcome: CallOutcome, { candidate: { key }, permit }: TargetCall): boolean {
    if (outcome !== "transient") return false;
    const isRepeated = this.#failedTargets.has(key);
    this.#failedTargets.add(key);
    return isRepeated && !permit.isProbe;
  }
}
