/** An upstream's credentials: taken in turn, and rested one by one when they are refused or used up. */
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { credentialNamesOf } from "#catalogue/environment.ts";

/** How long a credential rests that an upstream refused. */
const refusedMs = 30_000;
/** How long one rests that is used up, when its upstream does not say. */
const usedUpMs = 5_000;
const restMsMax = 300_000;

/** `credential` is the name of one; undefined for an upstream that wants none. */
export type Chosen = { kind: "chosen"; credential: string | undefined } | { kind: "resting"; forMs: number };

export class Credentials {
  readonly #restUntil = new Map<string, number>();
  readonly #turns = new Map<string, number>();

  /** The next one that does not rest. */
  choose(upstream: CatalogueUpstream, now: number): Chosen {
    const names = credentialNamesOf(upstream);
    if (names.length === 0) return { kind: "chosen", credential: undefined };
    const turn = this.#turns.get(upstream.name) ?? 0;
    this.#turns.set(upstream.name, (turn + 1) % names.length);
    const inTurn = names.map((_name, place) => names[(turn + place) % names.length] as string);
    const rested = inTurn.find((name) => (this.#restUntil.get(name) ?? 0) <= now);
    if (rested !== undefined) return { kind: "chosen", credential: rested };
    return { kind: "resting", forMs: Math.min(...names.map((name) => (this.#restUntil.get(name) ?? 0) - now)) };
  }

  /** The upstream refused it. The only one never rests: nothing would be gained by it. */
  refused(upstream: CatalogueUpstream, credential: string, now: number): void {
    this.#rest(upstream, credential, now + refusedMs);
  }

  /** It is used up. */
  usedUp(upstream: CatalogueUpstream, credential: string, retryAfterMs: number | undefined, now: number): void {
    this.#rest(upstream, credential, now + Math.min(restMsMax, retryAfterMs ?? usedUpMs));
  }

  #rest(upstream: CatalogueUpstream, credential: string, until: number): void {
    if (credentialNamesOf(upstream).length > 1) this.#restUntil.set(credential, until);
  }

  /** The names of those that rest. */
  resting(now: number): string[] {
    return [...this.#restUntil].filter(([, until]) => until > now).map(([name]) => name);
  }
}
