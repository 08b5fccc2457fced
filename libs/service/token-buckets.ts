/**
 * Token buckets in memory: each key may do `max` things at once, and another every `everyMs`. A
 * restart fills them.
 */
import ipaddr from "ipaddr.js";
import { setNewest } from "./newest.ts";

interface Bucket {
  tokens: number;
  at: number;
}

export interface BucketOptions {
  max: number;
  everyMs: number;
  /** Keys that are remembered; the one that was used longest ago is forgotten first. */
  keysMax: number;
  clock?: () => number;
}

export class TokenBuckets {
  readonly #options: Required<BucketOptions>;
  /** In the order of their last use. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(options: BucketOptions) {
    this.#options = { clock: Date.now, ...options };
  }

  /** Returns 0, or the seconds to wait when the bucket of the key is empty. */
  take(key: string): number {
    const { everyMs, keysMax } = this.#options;
    const bucket = this.#filled(key);
    setNewest(this.#buckets, key, bucket, keysMax);
    if (bucket.tokens < 1) return Math.max(1, Math.ceil(((1 - bucket.tokens) * everyMs) / 1_000));
    bucket.tokens -= 1;
    return 0;
  }

  /** Takes back one `take`. */
  giveBack(key: string): void {
    const bucket = this.#buckets.get(key);
    if (bucket !== undefined) bucket.tokens = Math.min(this.#options.max, bucket.tokens + 1);
  }

  /** As if the key had never been used. */
  reset(key: string): void {
    this.#buckets.delete(key);
  }

  #filled(key: string): Bucket {
    const { max, everyMs, clock } = this.#options;
    const now = clock();
    const { tokens, at } = this.#buckets.get(key) ?? { tokens: max, at: now };
    return { tokens: Math.min(max, tokens + Math.max(0, now - at) / everyMs), at: now };
  }
}

/**
 * The address that counts as one caller: an IPv4 address, or the network of 64 bits of an IPv6
 * address.
 */
export function callerOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(":") : parsed.toString();
}
