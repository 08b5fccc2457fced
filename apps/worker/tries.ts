/** How a generation goes through its targets before its first content: what is tried again, what is moved on, what is given up. Pure; times in ms. */
import { credentialNamesOf } from "#catalogue/environment.ts";
import type { Failure } from "#wire/errors.ts";
import type { Candidate } from "./route.ts";
import type { CallOutcome, Hindrance } from "./routing.ts";

/**
 * What a failed call says: `caller` is passed on at once, `context` moves to a model with a larger window, `credential` to the next credential or
 * target, `quota` as well: the credential's account has nothing left. `capacity` (this account's, not the target's) and `transient` are tried again, best
 * elsewhere, `silent` and `missing` never at the same target.
 */
export type FailureSort = "caller" | "context" | "credential" | "quota" | "capacity" | "transient" | "silent" | "missing";

/** Sorts a call's failure. `status` is the upstream's; undefined when it sent none. */
export function sortOf({ code, operatorFault }: Failure, status: number | undefined): FailureSort {
  if (operatorFault !== undefined) return operatorFault === "model" ? "missing" : operatorFault;
  switch (code) {
    case "context_too_long":
      return "context";
    case "invalid_request":
    case "content_filter":
    case "unprocessable":
    case "body_too_large":
      return "caller";
    case "rate_limited":
      return "capacity";
    case "upstream_timeout":
      return status === undefined || status === 200 ? "silent" : "transient";
    default:
      return "transient";
  }
}

/** What such a failure means to the target's circuit and credential. */
export function outcomeOf(sort: FailureSort): CallOutcome {
  switch (sort) {
    case "caller":
    case "context":
    case "missing":
      return "answered";
    case "silent":
      return "transient";
    default:
      return sort;
  }
}

const backOffMs = 200;
const backOffMsMax = 5_000;
/** A longer wait than this for the only targets left is the caller's to decide on: it is told when to come back. */
const waitMsMax = 5_000;
/** How long a generation waits for a place at an upstream that is full. */
const patienceMs = 60_000;

export class Tries {
  readonly #candidates: readonly Candidate[];
  readonly #retries: number;
  readonly #random: () => number;
  readonly #givenUp = new Set<Candidate>();
  readonly #notBefore = new Map<Candidate, number>();
  readonly #startedAt: number;
  #calls = 0;
  #failure: Failure | undefined;
  /** Why nobody could be called, when nobody was. */
  #hindrance: { by: Hindrance; forMs: number } | undefined;

  constructor(candidates: readonly Candidate[], retries: number, now: number, random: () => number) {
    this.#candidates = candidates;
    this.#retries = retries;
    this.#startedAt = now;
    this.#random = random;
  }

  get calls(): number {
    return this.#calls;
  }

  /** Those that may be asked now, in order: the ones that failed already come last. */
  ready(now: number): Candidate[] {
    const left = this.#candidates.filter((candidate) => !this.#givenUp.has(candidate) && (this.#notBefore.get(candidate) ?? 0) <= now);
    return left.toSorted((one, other) => (this.#notBefore.get(one) ?? 0) - (this.#notBefore.get(other) ?? 0));
  }

  /** How long until one may be asked again; undefined when nobody is left, or not in time. */
  waitMs(now: number): number | undefined {
    const left = this.#candidates.filter((candidate) => !this.#givenUp.has(candidate));
    const until = Math.min(...left.map((candidate) => this.#notBefore.get(candidate) ?? 0));
    const mayWait = this.#failure !== undefined || this.#hindrance?.by === "concurrency";
    if (!mayWait || !(until - now <= waitMsMax) || until - this.#startedAt > patienceMs) return undefined;
    return Math.max(0, until - now);
  }

  began(): void {
    this.#calls++;
  }

  /** The request can't be put to this target. */
  unsuitable(candidate: Candidate, failure: Failure): void {
    this.#givenUp.add(candidate);
    this.#failure ??= failure;
  }

  hindered(candidate: Candidate, by: Hindrance, forMs: number, now: number): void {
    this.#hindrance = { by, forMs };
    this.#notBefore.set(candidate, now + forMs);
  }

  /** A call failed before its content. May there be another? */
  failed(candidate: Candidate, sort: FailureSort, failure: Failure, retryAfterMs: number | undefined, now: number): boolean {
    this.#failure = failure;
    if (sort === "caller" || this.#calls > this.#retries) return false;
    switch (sort) {
      case "context": {
        const window = candidate.model.contextWindow ?? 0;
        for (const other of this.#candidates) if ((other.model.contextWindow ?? 0) <= window) this.#givenUp.add(other);
        break;
      }
      case "silent":
      case "missing":
        this.#givenUp.add(candidate);
        break;
      case "credential":
      case "quota":
        if (credentialNamesOf(candidate.upstream).length > 1) this.#notBefore.set(candidate, now);
        else this.#givenUp.add(candidate);
        break;
      default: {
        const backOff = Math.min(backOffMsMax, backOffMs * 2 ** (this.#calls - 1)) * (0.5 + this.#random());
        this.#notBefore.set(candidate, now + Math.max(backOff, retryAfterMs ?? 0));
      }
    }
    return this.#candidates.some((other) => !this.#givenUp.has(other));
  }

  /** What the caller is told when nobody is left. */
  get failure(): Failure {
    if (this.#failure !== undefined) return this.#failure;
    const retryAfterSeconds = Math.min(60, Math.max(1, Math.ceil((this.#hindrance?.forMs ?? 1_000) / 1_000)));
    const busy = this.#hindrance?.by === "concurrency";
    return {
      code: busy ? "overloaded" : "unavailable",
      message: busy
        ? "The upstream of this model is full; try again in a moment."
        : "No upstream of this model can take requests at the moment; try again in a moment.",
      retryAfterSeconds,
    };
  }
}
