/** Authenticates a caller by its API key. */
import { credentialsMax, hashesMax } from "./bounds.ts";
import { hashOf, looksLikeKey } from "./key.ts";
import { type KeyRecord, stateOf } from "./record.ts";

export type Authentication = { kind: "admitted"; record: KeyRecord; apiKey: string } | { kind: "refused" };

/** The hashes of those among the credentials that may be keys. */
export const hashesOf = (credentials: readonly string[]): string[] =>
  credentials.slice(0, credentialsMax).filter(looksLikeKey).map(hashOf);

/**
 * The hashes of keys that were valid, so that not each of their requests costs a digest. Others
 * cannot fill it.
 */
const hashes = new Map<string, string>();

/**
 * Finds the first live key among the credentials, which are in order of precedence: an expired or
 * foreign credential does not hide a valid one. Keys are looked up by their hash, so secrets are
 * never compared. `now` in epoch milliseconds.
 */
export function authenticate(
  credentials: readonly string[],
  keys: { find(hash: string): KeyRecord | undefined },
  now: number,
): Authentication {
  for (const credential of credentials.slice(0, credentialsMax)) {
    const kept = hashes.get(credential);
    const hash = kept ?? (looksLikeKey(credential) ? hashOf(credential) : undefined);
    const record = hash === undefined ? undefined : keys.find(hash);
    if (hash === undefined || record === undefined || stateOf(record, now) !== "live") continue;
    if (kept === undefined) {
      if (hashes.size >= hashesMax) hashes.clear();
      hashes.set(credential, hash);
    }
    return { kind: "admitted", record, apiKey: credential };
  }
  return { kind: "refused" };
}
