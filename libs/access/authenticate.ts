/** Who a caller is. */
import { hashOf, looksLikeKey } from "./key.ts";
import { type KeyRecord, stateOf } from "./record.ts";

/** More places than callers have to put a key in. */
const credentialsMax = 8;

/** All refusals are the same: missing, malformed, unknown, expired and revoked keys cannot be told apart. */
export type Authentication = { kind: "admitted"; record: KeyRecord } | { kind: "refused" };

/**
 * The first live key among the credentials, which stand in order of precedence: a stale or foreign one does not hide a good one.
 * Keys are found by their hash, so no secret is compared. `now` in epoch milliseconds.
 */
export function authenticate(
  credentials: readonly string[],
  keys: { find(hash: string): KeyRecord | undefined },
  now: number,
): Authentication {
  for (const credential of credentials.slice(0, credentialsMax)) {
    const record = looksLikeKey(credential) ? keys.find(hashOf(credential)) : undefined;
    if (record && stateOf(record, now) === "live") return { kind: "admitted", record };
  }
  return { kind: "refused" };
}
