/** Decides whether a target may be called now, and applies the outcomes of calls. */

import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { credentialNamesOf } from "#catalogue/environment.ts";
import type { Usage } from "#dialects/usage.ts";
import type { Clock } from "#service/clock.ts";
import { countsMaxTokensAt } from "#wire/rate-limit-headers.ts";
import { absencesMax, absentMs, busyMs } from "../bounds.ts";
import type { UpstreamHeaders } from "../upstream/pooled-call.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import type { CircuitBreakers } from "./circuit-breakers.ts";
import { type Chosen, type Credentials, idOf, type Refusal } from "./credentials.ts";
import type { Candidate } from "./route.ts";
import { type FullSlots, freeSlot, isLimit, type LimitScope, type Slot, type Slots } from "./slots.ts";
import type { VendorCall, VendorLimits } from "./vendor-limits.ts";

export type BlockedBy = "circuit breaker" | "concurrency" | "credential" | "rate-limit";

/**
 * Permission for one call. Call `leave` once, when the call is over, with its outcome for the
 * target, if any.
 */
export interface Permit {
  kind: "permitted";
  credential: string | undefined;
  caller: string;
  /** The target's circuit breaker waits for this call's outcome and lets no other call pass. */
  isProbe: boolean;
  /** The response's headers arrived, which may state limits. */
  answered(headers: UpstreamHeaders): void;
  leave(outcome: CallOutcome | undefined, usage?: Usage): void;
}

export interface Block {
  kind: "blocked";
  by: BlockedBy;
  forMs: number;
  /** Set where a limit of the catalogue is used up. */
  whenFull?: CatalogueUpstream["whenFull"];
}

export type Permission = Permit | Block;

export interface CallRequest {
  /** Names the call and is unique. */
  holder: string;
  /** The account or the key of its request. */
  caller: string;
  /** The target's, in the order of its session. */
  credentials?: readonly (readonly string[])[] | undefined;
  /** An estimate. */
  inputTokens: number;
  /** Reads the most tokens that the answer may have from the request. */
  outputTokensMax(): number | undefined;
}

/**
 * The outcome of a call for its target and credential. `answered` includes responses that reject
 * the caller's request.
 */
export type CallOutcome = "answered" | "capacity" | "transient" | Refusal;

export interface RoutingDeps {
  circuitBreakers: CircuitBreakers;
  slots: Slots;
  credentials: Credentials;
  vendorLimits: VendorLimits;
  upstreams: Upstreams;
  clock: Clock;
}

export class Routing {
  readonly #deps: RoutingDeps;
  readonly #absences = new Map<string, number>();

  constructor(deps: RoutingDeps) {
    this.#deps = deps;
  }

  async permit(candidate: Candidate, request: CallRequest): Promise<Permission> {
    const { upstream, name: key } = candidate;
    const { holder, caller, credentials } = request;
    const now = this.#deps.clock.now();
    const chosen = this.#deps.credentials.choose(candidate, caller, now, credentials);
    if (chosen.kind === "blocked") return { ...chosen, ...(chosen.by === "rate-limit" && whenFullOf(upstream)) };
    const isProbe = this.#deps.circuitBreakers.stateOf(key, now) !== "closed";
    const openMs = isProbe ? await this.#deps.circuitBreakers.enter(key, holder, now) : 0;
    if (openMs > 0) return { kind: "blocked", by: "circuit breaker", forMs: openMs };
    if (isProbe && (await this.#seemsAbsent(upstream, key, chosen.credential))) {
      this.#deps.circuitBreakers.failed(key, upstream.circuitBreakerFailuresMax);
      return { kind: "blocked", by: "circuit breaker", forMs: absentMs };
    }
    const { credential } = chosen;
    const taken =
      this.#takeUnlimited(candidate, request, credential) ?? (await this.#takeSlot(candidate, request, credential));
    if (taken.kind === "blocked") {
      if (isProbe) this.#deps.circuitBreakers.unproven(key);
      return taken;
    }
    return {
      kind: "permitted",
      credential: taken.credential,
      caller,
      isProbe,
      answered: (headers) => taken.call?.answered(headers),
      leave: (outcome, usage) => {
        taken.slot.release(usage);
        taken.call?.over(usage);
        if (isProbe && outcome !== "answered" && outcome !== "transient") this.#deps.circuitBreakers.unproven(key);
      },
    };
  }

  /** At once, where neither the catalogue nor the vendor limits the calls; otherwise undefined. */
  #takeUnlimited(
    { upstream, key, host, isLimited }: Candidate,
    { inputTokens }: CallRequest,
    credential: string | undefined,
  ): Taken | undefined {
    if (isLimited) return undefined;
    if (upstream.rateLimitHeaders === "ignore") return { kind: "taken", credential, slot: freeSlot, call: undefined };
    const call = this.#deps.vendorLimits.takeUnlimited(idOf(key, credential), host, {
      inputTokens,
      outputTokensMax: undefined,
    });
    return call && { kind: "taken", credential, slot: freeSlot, call };
  }

  /** With this credential, or the next one that has a slot and is within its vendor's limits. */
  async #takeSlot(candidate: Candidate, request: CallRequest, first: string | undefined): Promise<Block | Taken> {
    const { upstream } = candidate;
    let left = request.credentials ?? [credentialNamesOf(upstream)];
    let chosen: Chosen = { kind: "chosen", credential: first };
    let block: Block | undefined;
    while (chosen.kind === "chosen") {
      const { credential } = chosen;
      const taken = await this.#takeWith(candidate, request, credential);
      if (!("by" in taken)) return taken;
      const forMs = taken.by === "concurrency" ? busyMs * (0.5 + Math.random()) : taken.forMs;
      if (block === undefined || forMs < block.forMs)
        block = { kind: "blocked", by: taken.by, forMs, ...whenFullOf(upstream) };
      left = left.map((names) => names.filter((name) => name !== credential)).filter(({ length }) => length > 0);
      if (taken.scope === "" || left.length === 0) break;
      chosen = this.#deps.credentials.choose(candidate, request.caller, this.#deps.clock.now(), left);
    }
    return block as Block;
  }

  async #takeWith(
    candidate: Candidate,
    { holder, inputTokens, outputTokensMax }: CallRequest,
    credential: string | undefined,
  ): Promise<Taken | FullSlots> {
    const { upstream, name: target, key, host } = candidate;
    const scopes = scopesOf(candidate, credential);
    const id = idOf(key, credential);
    const countsMaxTokens =
      (scopes.length > 0 || this.#deps.vendorLimits.has(id)) && (upstream.countsMaxTokens ?? countsMaxTokensAt(host));
    const need = { inputTokens, outputTokensMax: countsMaxTokens ? outputTokensMax() : undefined };
    const obtained = upstream.rateLimitHeaders === "ignore" ? undefined : this.#deps.vendorLimits.take(id, host, need);
    const call = obtained instanceof Promise ? await obtained : obtained;
    if (typeof call === "number") return { scope: id, by: "rate-limit", forMs: call };
    const slot = await this.#deps.slots.take({ upstream: upstream.name, target, holder, scopes, ...need });
    if (!("by" in slot)) return { kind: "taken", credential, slot, call };
    call?.giveBack();
    return slot;
  }

  /**
   * True if the upstream answers no request at all. It is still called now and then, because only
   * its model list may be broken.
   */
  async #seemsAbsent(upstream: CatalogueUpstream, key: string, credential: string | undefined): Promise<boolean> {
    const absences = (this.#absences.get(key) ?? 0) + 1;
    if (absences < absencesMax && !(await this.#deps.upstreams.isPresent(upstream, credential))) {
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
    const now = this.#deps.clock.now();
    switch (outcome) {
      case "answered":
        this.#deps.circuitBreakers.succeeded(key);
        this.#deps.credentials.accepted(candidate, credential);
        return;
      case "transient":
        if (upstream.circuitBreakerFailuresMax > 0)
          this.#deps.circuitBreakers.failed(key, upstream.circuitBreakerFailuresMax);
        return;
      case "capacity":
        this.#deps.credentials.rateLimited(candidate, credential, retryAfterMs, caller, now);
        return;
      case "credential":
      case "quota":
      case "missing":
        this.#deps.credentials.refused(candidate, credential, outcome, retryAfterMs, caller, now);
        return;
      default:
        outcome satisfies never;
    }
  }
}

interface Taken {
  kind: "taken";
  credential: string | undefined;
  slot: Slot;
  call: VendorCall | undefined;
}

const whenFullOf = ({ whenFull }: CatalogueUpstream) => ({ whenFull });

/** The limits that apply to a call. */
function scopesOf({ upstream, target, key }: Candidate, credential = ""): LimitScope[] {
  const scopes: LimitScope[] = [{ name: "", limits: upstream }];
  if (upstream.credentialLimits !== undefined)
    scopes.push({ name: `credential:${credential}`, limits: upstream.credentialLimits });
  scopes.push({ name: `target:${credential}:${key}`, limits: target });
  return scopes.filter(({ limits }) => isLimit(limits));
}
