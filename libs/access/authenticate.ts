/** Authenticates a caller by its API key. */
import { credentialsMax } from "./bounds.ts";
import { hashOf, looksLikeKey } from "./key.ts";
import { type KeyRecord, stateOf } from "./record.ts";

/** A refusal does not distinguish missing, malformed, unknown, expired and revoked keys. */
export type Authentication = { kind: "admitted"; record: KeyRecord; apiKey: string } | { kind: "refused" };

/** The hashes of those among the credentials that may be keys. */
export const hashesOf = (credentials: readonly string[]): string[] =>
  credentials.slice(0, credentialsMax).filter(looksLikeKey).map(hashOf);

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
    const record = looksLikeKey(credential) ? keys.find(hashOf(credential)) : undefined;
    if (record && stateOf(record, now) === "live") return { kind: "admitted", record, apiKey: credential };
  }
  return { kind: "refused" };
}
