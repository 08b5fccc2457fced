/** Decides whether a target may be called now, and applies the outcomes of calls. */

import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import type { Clock } from "#service/clock.ts";
import { absencesMax, absentMs, busyMs } from "../bounds.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { CircuitBreakers } from "./circuit-breakers.ts";
import type { Credentials, Refusal } from "./credentials.ts";
import type { Candidate } from "./route.ts";
import type { Slots } from "./slots.ts";

export type BlockedBy = "circuit breaker" | "concurrency" | "credential" | "rate-limit";

/**
 * Permission for one call. Call `leave` once, when the call is over, with its outcome for the
 * target, if any.
 */
export interface Permit {
  kind: "permitted";
  credential: string | undefined;
  caller: string;
  leave(outcome: CallOutcome | undefined): void;
}

export type Permission = Permit | { kind: "blocked"; by: BlockedBy; forMs: number };

/**
 * The outcome of a call for its target and credential. `answered` includes responses that reject
 * the caller's request.
 */
export type CallOutcome = "answered" | "capacity" | "transient" | Refusal;

export interface RoutingDeps {
  circuitBreakers: CircuitBreakers;
  slots: Slots;
  credentials: Credentials;
  upstreams: Upstreams;
  clock: Clock;
}

export class Routing {
  readonly #circuitBreakers: CircuitBreakers;
  readonly #slots: Slots;
  readonly #credentials: Credentials;
  readonly #upstreams: Upstreams;
  readonly #clock: Clock;
  readonly #absences = new Map<string, number>();

  constructor({ circuitBreakers, slots, credentials, upstreams, clock }: RoutingDeps) {
    this.#clock = clock;
    this.#upstreams = upstreams;
    this.#circuitBreakers = circuitBreakers;
    this.#slots = slots;
    this.#credentials = credentials;
  }

  /**
   * `holder` names the call and is unique; `caller` the account or the key of its request.
   * `credentials` are those of the target in the order of its session.
   */
  async permit(
    candidate: Candidate,
    holder: string,
    caller: string,
    credentials?: readonly (readonly string[])[],
  ): Promise<Permission> {
    const { upstream, name: key } = candidate;
    const now = this.#clock.now();
    const chosen = this.#credentials.choose(candidate, caller, now, credentials);
    if (chosen.kind === "blocked") return chosen;
    const isProbe = this.#circuitBreakers.stateOf(key, now) !== "closed";
    const openMs = isProbe ? await this.#circuitBreakers.enter(key, holder, now) : 0;
    if (openMs > 0) return { kind: "blocked", by: "circuit breaker", forMs: openMs };
    if (isProbe && (await this.#seemsAbsent(upstream, key, chosen.credential))) {
      this.#circuitBreakers.failed(key, upstream.circuitBreakerFailuresMax);
      return { kind: "blocked", by: "circuit breaker", forMs: absentMs };
    }
    const { concurrencyMax } = upstream;
    if (concurrencyMax !== undefined && !(await this.#slots.take(upstream.name, holder, concurrencyMax))) {
      if (isProbe) this.#circuitBreakers.unproven(key);
      return { kind: "blocked", by: "concurrency", forMs: busyMs * (0.5 + Math.random()) };
    }
    return {
      kind: "permitted",
      credential: chosen.credential,
      caller,
      leave: (outcome) => {
        this.#slots.release(upstream.name, holder);
        if (isProbe && outcome !== "answered" && outcome !== "transient") this.#circuitBreakers.unproven(key);
      },
    };
  }

  /**
   * True if the upstream answers no request at all. It is still called now and then, because only
   * its model list may be broken.
   */
  async #seemsAbsent(upstream: CatalogueUpstream, key: string, credential: string | undefined): Promise<boolean> {
    const absences = (this.#absences.get(key) ?? 0) + 1;
    if (absences < absencesMax && !(await this.#upstreams.isPresent(upstream, credential))) {
      this.#absences.set(key, absences);
      return true;
    }
    this.#absences.delete(key);
    return false;
  }

  /** Updates the circuit breaker and the credential's cooldown after a call. */
  ended(
    candidate: Candidate,
    { credential, caller }: Permit,
    outcome: CallOutcome,
    retryAfterMs: number | undefined,
  ): void {
    const { upstream, name: key } = candidate;
    const now = this.#clock.now();
    switch (outcome) {
      case "answered":
        this.#circuitBreakers.succeeded(key);
        this.#credentials.accepted(candidate, credential);
        return;
      case "transient":
        if (upstream.circuitBreakerFailuresMax > 0)
          this.#circuitBreakers.failed(key, upstream.circuitBreakerFailuresMax);
        return;
      case "capacity":
        this.#credentials.rateLimited(candidate, credential, retryAfterMs, caller, now);
        return;
      case "credential":
      case "quota":
      case "missing":
        this.#credentials.refused(candidate, credential, outcome, retryAfterMs, caller, now);
        return;
      default:
        outcome satisfies never;
    }
  }
}
