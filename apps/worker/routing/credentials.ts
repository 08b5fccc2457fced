/** An upstream's credentials: taken in turn, and cooled down one by one when the upstream refuses them or limits their rate. */
import { credentialNamesOf } from "#catalogue/environment.ts";
import type { Candidate } from "./route.ts";

/** The first cooldown after a refusal. It doubles with each further refusal in a row, so that one odd answer costs little. */
const firstCooldownMs: Record<Refusal, number> = { credential: 1_000, quota: 5_000, missing: 1_000 };
const cooldownMsMax: Record<Refusal, number> = { credential: 60_000, quota: 300_000, missing: 60_000 };
/** The cooldown of a rate-limited credential whose upstream names no time, where there are other credentials. */
const rateLimitedMs = 5_000;
/** An upstream that names a longer time is asked again after this one. */
const retryAfterMsMax = 3_600_000;
const cooldownsMax = 10_000;

/** `credential` is the name of one; undefined for an upstream that wants none. */
export type Chosen =
  | { kind: "chosen"; credential: string | undefined }
  | { kind: "blocked"; by: "credential" | "rate-limit"; forMs: number };

/** Why an upstream refused: the credential, its empty account, or the target's model, which this credential does not have. */
export type Refusal = "credential" | "quota" | "missing";

type Place = Pick<Candidate, "upstream" | "key">;

interface Cooldown {
  until: number;
  by: "credential" | "rate-limit";
  /** Refusals in a row. */
  refusals: number;
}

/**
 * A cooldown belongs to a credential at one target. Vendors limit each model by itself, and an upstream may be a gateway with accounts of its own behind
 * each model, so nothing is concluded from one target about another.
 */
export class Credentials {
  readonly #cooldowns = new Map<string, Cooldown>();
  readonly #turns = new Map<string, number>();

  /** The next credential that does not cool down. */
  choose({ upstream, key }: Place, now: number): Chosen {
    const names = credentialNamesOf(upstream);
    const turn = this.#turns.get(upstream.name) ?? 0;
    if (names.length > 1) this.#turns.set(upstream.name, (turn + 1) % names.length);
    let soonest: { by: Cooldown["by"]; forMs: number } | undefined;
    for (let place = 0; place < Math.max(1, names.length); place++) {
      const credential = names[(turn + place) % names.length];
      const cooldown = this.#cooldowns.get(idOf(key, credential));
      if (cooldown === undefined || cooldown.until <= now) return { kind: "chosen", credential };
      const forMs = cooldown.until - now;
      if (soonest === undefined || forMs < soonest.forMs) soonest = { by: cooldown.by, forMs };
    }
    return { kind: "blocked", ...(soonest as { by: Cooldown["by"]; forMs: number }) };
  }

  /** The upstream refused the credential for this target. */
  refused(
    { key }: Place,
    credential: string | undefined,
    why: Refusal,
    retryAfterMs: number | undefined,
    now: number,
  ): void {
    const id = idOf(key, credential);
    const refusals = (this.#cooldowns.get(id)?.refusals ?? 0) + 1;
    const cooldownMs = retryAfterMs ?? Math.min(cooldownMsMax[why], firstCooldownMs[why] * 2 ** (refusals - 1));
    this.#set(id, { until: now + Math.min(retryAfterMsMax, cooldownMs), by: "credential", refusals });
  }

  /** The upstream limits the rate. Where it names no time and there is no other credential, only the generation's own retries wait. */
  rateLimited(
    { upstream, key }: Place,
    credential: string | undefined,
    retryAfterMs: number | undefined,
    now: number,
  ): void {
    const cooldownMs = retryAfterMs ?? (credentialNamesOf(upstream).length > 1 ? rateLimitedMs : undefined);
    if (cooldownMs !== undefined)
      this.#set(idOf(key, credential), {
        until: now + Math.min(retryAfterMsMax, cooldownMs),
        by: "rate-limit",
        refusals: 0,
      });
  }

  /** The upstream took the credential for this target. */
  accepted({ key }: Place, credential: string | undefined): void {
    if (this.#cooldowns.size > 0) this.#cooldowns.delete(idOf(key, credential));
  }

  /** The credentials that cool down, each with its target. */
  cooling(now: number): string[] {
    return [...this.#cooldowns].filter(([, { until }]) => until > now).map(([id]) => id);
  }

  #set(id: string, cooldown: Cooldown): void {
    if (this.#cooldowns.size >= cooldownsMax) this.#cooldowns.clear();
    this.#cooldowns.set(id, cooldown);
  }
}

const idOf = (key: string, credential = "no credential"): string => `${key}: ${credential}`;
