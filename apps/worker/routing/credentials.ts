/** The credentials of upstreams. They take turns, and each cools down by itself when its upstream refuses it or limits its rate. */

import { credentialNamesOf } from "#catalogue/environment.ts";
import { cooldownAskedMsMax, cooldownMsMax, cooldownsMax, firstCooldownMs, rateLimitedMs } from "../bounds.ts";
import type { Candidate } from "./route.ts";

/** `credential` is a name; undefined for an upstream without credentials. */
export type Chosen =
  | { kind: "chosen"; credential: string | undefined }
  | { kind: "blocked"; by: "credential" | "rate-limit"; forMs: number };

/** Why an upstream refused: the credential is invalid, its account has no quota left, or it has no access to the target's model. */
export type Refusal = "credential" | "quota" | "missing";

type TargetRef = Pick<Candidate, "upstream" | "key">;

interface Cooldown {
  until: number;
  by: "credential" | "rate-limit";
  /** Refusals in a row. */
  refusals: number;
}

/**
 * A cooldown belongs to a credential at one target. Vendors limit each model separately, and an upstream may be a gateway with its own
 * account behind each model, so one target says nothing about another.
 */
export class Credentials {
  readonly #cooldowns = new Map<string, Cooldown>();
  readonly #turns = new Map<string, number>();

  /** The next credential in turn that does not cool down. */
  choose({ upstream, key }: TargetRef, now: number): Chosen {
    const names = credentialNamesOf(upstream);
    const turn = this.#turns.get(upstream.name) ?? 0;
    if (names.length > 1) this.#turns.set(upstream.name, (turn + 1) % names.length);
    let soonest: { by: Cooldown["by"]; forMs: number } | undefined;
    for (let index = 0; index < Math.max(1, names.length); index++) {
      const credential = names[(turn + index) % names.length];
      const cooldown = this.#cooldowns.get(idOf(key, credential));
      if (cooldown === undefined || cooldown.until <= now) return { kind: "chosen", credential };
      const forMs = cooldown.until - now;
      if (soonest === undefined || forMs < soonest.forMs) soonest = { by: cooldown.by, forMs };
    }
    return { kind: "blocked", ...(soonest as { by: Cooldown["by"]; forMs: number }) };
  }

  /** The upstream refused the credential for this target. */
  refused(
    { key }: TargetRef,
    credential: string | undefined,
    why: Refusal,
    retryAfterMs: number | undefined,
    now: number,
  ): void {
    const id = idOf(key, credential);
    const refusals = (this.#cooldowns.get(id)?.refusals ?? 0) + 1;
    const cooldownMs = retryAfterMs ?? Math.min(cooldownMsMax[why], firstCooldownMs[why] * 2 ** (refusals - 1));
    this.#set(id, { until: now + Math.min(cooldownAskedMsMax, cooldownMs), by: "credential", refusals });
  }

  /** The upstream limits the rate. Without a time from the upstream and without other credentials, only this attempt's retries wait. */
  rateLimited(
    { upstream, key }: TargetRef,
    credential: string | undefined,
    retryAfterMs: number | undefined,
    now: number,
  ): void {
    const cooldownMs = retryAfterMs ?? (credentialNamesOf(upstream).length > 1 ? rateLimitedMs : undefined);
    if (cooldownMs !== undefined)
      this.#set(idOf(key, credential), {
        until: now + Math.min(cooldownAskedMsMax, cooldownMs),
        by: "rate-limit",
        refusals: 0,
      });
  }

  /** The upstream accepted the credential for this target. */
  accepted({ key }: TargetRef, credential: string | undefined): void {
    if (this.#cooldowns.size > 0) this.#cooldowns.delete(idOf(key, credential));
  }

  /** The credentials that cool down, as `<target>: <credential>`. */
  cooling(now: number): string[] {
    return [...this.#cooldowns].filter(([, { until }]) => until > now).map(([id]) => id);
  }

  #set(id: string, cooldown: Cooldown): void {
    if (this.#cooldowns.size >= cooldownsMax) this.#cooldowns.clear();
    this.#cooldowns.set(id, cooldown);
  }
}

const idOf = (key: string, credential = "no credential"): string => `${key}: ${credential}`;
