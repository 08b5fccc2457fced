/**
 * The credentials of upstreams. They take turns, and each cools down by itself when its upstream
 * refuses it or limits its rate.
 */

import { randomUUID } from "node:crypto";
import { credentialNamesOf } from "#catalogue/environment.ts";
import { setNewest } from "#service/newest.ts";
import {
  cooldownAskedMsMax,
  cooldownMsMax,
  cooldownsMax,
  firstCooldownMs,
  rateLimitedMs,
  refusalKnownMs,
  refusedCallersMax,
} from "../bounds.ts";
import type { Candidate } from "./route.ts";

/** `credential` is a name; undefined for an upstream without credentials. */
export type Chosen =
  | { kind: "chosen"; credential: string | undefined }
  | { kind: "blocked"; by: "credential" | "rate-limit"; forMs: number };

/**
 * Why an upstream refused: the credential is invalid, its account has no quota left, or it has no
 * access to the target's model.
 */
export type Refusal = "credential" | "quota" | "missing";

type TargetRef = Pick<Candidate, "upstream" | "key" | "name">;

/** A call that its upstream refused, as workers tell each other. */
interface RefusedCall {
  key: string;
  name: string;
  credential: string | undefined;
  by: Cooldown["by"];
  caller: string;
  forMs: number;
}

/** Turns are counted up to a number that all numbers of credentials up to 16 divide. */
const turnsMax = 720_720;

/** Why and until when callers do not get a credential at a target. */
interface Cooldown {
  /** `<target>: <credential>`, with the name of the target that logs and metrics have. */
  shownAs: string;
  by: "credential" | "rate-limit";
  /** For all callers. */
  until: number;
  /** For those that it was refused to lately, by the account or the key of each. */
  callers: Map<string, number>;
  /** Refusals in a row. */
  refusals: number;
}

/**
 * A cooldown belongs to a credential at one target. Vendors limit each model separately, and an
 * upstream may be a gateway with its own account behind each model, so one target says nothing
 * about another.
 *
 * A request can make an upstream refuse a good credential, so a refusal concerns its caller alone,
 * until another caller's request is refused as well.
 */
export class Credentials {
  readonly #self = randomUUID();
  readonly #announce: (text: string) => void;
  readonly #cooldowns = new Map<string, Cooldown>();
  readonly #turns = new Map<string, number>();

  /** `announce` tells all workers, this one too, what an upstream refused. */
  constructor(announce: (text: string) => void = () => {}) {
    this.#announce = announce;
  }

  /**
   * The next credential in turn that does not cool down for this caller. `groups` are preferred in
   * their order; by default all credentials are one.
   */
  choose(
    { upstream, key }: TargetRef,
    caller: string,
    now: number,
    groups: readonly (readonly string[])[] = [credentialNamesOf(upstream)],
  ): Chosen {
    const turn = this.#turns.get(upstream.name) ?? 0;
    if (groups.some(({ length }) => length > 1)) this.#turns.set(upstream.name, (turn + 1) % turnsMax);
    let soonest: { by: Cooldown["by"]; forMs: number } | undefined;
    for (const names of groups)
      for (let index = 0; index < Math.max(1, names.length); index++) {
        const credential = names[(turn + index) % names.length];
        const cooldown = this.#cooldowns.get(idOf(key, credential));
        const until = cooldown === undefined ? 0 : Math.max(cooldown.until, cooldown.callers.get(caller) ?? 0);
        if (cooldown === undefined || until <= now) return { kind: "chosen", credential };
        const forMs = until - now;
        if (soonest === undefined || forMs < soonest.forMs) soonest = { by: cooldown.by, forMs };
      }
    return { kind: "blocked", ...(soonest as { by: Cooldown["by"]; forMs: number }) };
  }

  /** The upstream refused the credential for this target. */
  refused(
    target: TargetRef,
    credential: string | undefined,
    why: Refusal,
    retryAfterMs: number | undefined,
    caller: string,
    now: number,
  ): void {
    const { key, name } = target;
    const refusals = (this.#cooldowns.get(idOf(key, credential))?.refusals ?? 0) + 1;
    const ownMs = Math.min(cooldownMsMax[why], firstCooldownMs[why] * 2 ** (refusals - 1));
    this.#refuse({ key, name, credential, by: "credential", caller, forMs: retryAfterMs ?? ownMs }, now);
  }

  /**
   * The upstream limits the rate. Without a time from the upstream and without other credentials,
   * only this attempt's retries wait. A short time holds for everybody, because limits are mostly
   * those of the credential.
   */
  rateLimited(
    target: TargetRef,
    credential: string | undefined,
    retryAfterMs: number | undefined,
    caller: string,
    now: number,
  ): void {
    const cooldownMs = retryAfterMs ?? (credentialNamesOf(target.upstream).length > 1 ? rateLimitedMs : undefined);
    if (cooldownMs === undefined) return;
    const { key, name } = target;
    this.#refuse({ key, name, credential, by: "rate-limit", caller, forMs: cooldownMs }, now);
  }

  #refuse(refused: RefusedCall, now: number): void {
    this.#apply(refused, now);
    this.#announce(JSON.stringify([this.#self, refused]));
  }

  /**
   * A worker announced a refusal, or, with only a key and a credential, that this one is accepted.
   */
  hear(text: string, ageMs: number, now: number): void {
    const [worker, refused] = JSON.parse(text) as [string, RefusedCall | { key: string; credential?: string }];
    if (worker === this.#self) return;
    if (!("by" in refused)) this.#cooldowns.delete(idOf(refused.key, refused.credential));
    else if (refused.forMs > ageMs) this.#apply({ ...refused, forMs: refused.forMs - ageMs }, now);
  }

  #apply({ by, caller, forMs, ...target }: RefusedCall, now: number): void {
    const cooldown = this.#of(target, target.credential, by);
    if (by === "credential") cooldown.refusals++;
    else {
      cooldown.refusals = 0;
      cooldown.until = Math.max(cooldown.until, now + Math.min(rateLimitedMs, forMs));
    }
    coolDown(cooldown, caller, now, forMs);
  }

  /** The upstream accepted the credential for this target. */
  accepted({ key }: TargetRef, credential: string | undefined): void {
    if (this.#cooldowns.size === 0 || !this.#cooldowns.delete(idOf(key, credential))) return;
    this.#announce(JSON.stringify([this.#self, { key, credential }]));
  }

  /** A credential has another value, of which no refusal says anything. */
  replaced(credential: string): void {
    for (const id of this.#cooldowns.keys()) if (id.endsWith(idOf("", credential))) this.#cooldowns.delete(id);
  }

  /** The credentials that cool down for some caller, as `<target>: <credential>`. */
  cooling(now: number): string[] {
    const isCooling = ({ until, callers }: Cooldown) => Math.max(until, ...callers.values()) > now;
    return [...new Set([...this.#cooldowns.values()].filter(isCooling).map(({ shownAs }) => shownAs))];
  }

  #of({ key, name }: Pick<TargetRef, "key" | "name">, credential: string | undefined, by: Cooldown["by"]): Cooldown {
    const id = idOf(key, credential);
    const present = this.#cooldowns.get(id);
    if (present !== undefined) {
      present.by = by;
      return present;
    }
    if (this.#cooldowns.size >= cooldownsMax) this.#cooldowns.clear();
    const cooldown = { shownAs: idOf(name, credential), by, until: 0, callers: new Map<string, number>(), refusals: 0 };
    this.#cooldowns.set(id, cooldown);
    return cooldown;
  }
}

/** For the caller, and for all if another caller was refused a while ago or still is. */
function coolDown(cooldown: Cooldown, caller: string, now: number, askedMs: number): void {
  const { callers } = cooldown;
  const until = Math.max(callers.get(caller) ?? 0, now + Math.min(cooldownAskedMsMax, askedMs));
  for (const [other, at] of callers) if (at < now - refusalKnownMs) callers.delete(other);
  const isShared = callers.size > (callers.has(caller) ? 1 : 0);
  setNewest(callers, caller, until, refusedCallersMax);
  if (isShared) cooldown.until = Math.max(cooldown.until, until);
}

export const idOf = (key: string, credential = "no credential"): string => `${key}: ${credential}`;
