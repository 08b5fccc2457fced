/** Hashes in place of the names that callers give their users and sessions. */
import { createHmac, hkdfSync } from "node:crypto";
import { otherLabels } from "#api/vocabulary.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";

/**
 * The same name has the same hash in all accounts, as long as the secret stays. A name that looks
 * like a hash has one too.
 */
export function pseudonymsOf(secret: string): (name: string) => string {
  const key = Buffer.from(hkdfSync("sha256", secret, "", "names in usage records", 32));
  return (name) => `h_${createHmac("sha256", key).update(name).digest("base64url").slice(0, 22)}`;
}

/** Whether a filter has what records have, and not the name that a caller gave. */
export const isStored = (name: string): boolean => /^h_[\w-]{22}$/.test(name) || name === otherLabels;

export const withPseudonyms = (record: UsageRecord, pseudonymOf: (name: string) => string): UsageRecord => ({
  ...record,
  user: record.user && pseudonymOf(record.user),
  session: record.session && pseudonymOf(record.session),
});
