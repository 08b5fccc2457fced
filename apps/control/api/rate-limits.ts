/** Limits of calls and of attempts, each with what its caller is told. */
import type { TokenBuckets } from "#service/token-buckets.ts";
import { Fault } from "./faults.ts";

/** Takes one from the bucket of the key. Throws a Fault with the time to wait when it is empty. */
export function takeFrom(buckets: TokenBuckets, key: string, detail: string): void {
  const retryAfterSeconds = buckets.take(key);
  if (retryAfterSeconds > 0) throw new Fault("too_many_requests", detail, { retryAfterSeconds });
}
