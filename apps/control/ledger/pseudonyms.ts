/** Hashes in place of the names that callers give their users and sessions. */
import { createHmac, hkdfSync } from "node:crypto";
import type { UsageRecord } from "#ledger/usage-record.ts";

const form = /^h_[\w-]{22}$/;

/**
 * The same name has the same hash in all accounts, as long as the secret stays. A hash stays as it
 * is.
 */
export function pseudonymsOf(secret: string): (name: string) => string {
  const key = Buffer.from(hkdfSync("sha256", secret, "", "names in usage records", 32));
  return (name) =>
    form.test(name) ? name : `h_${createHmac("sha256", key).update(name).digest("base64url").slice(0, 22)}`;
}

export const withPseudonyms = (record: UsageRecord, pseudonymOf: (name: string) => string): UsageRecord => ({
  ...record,
  user: record.user && pseudonymOf(record.user),
  session: record.session && pseudonymOf(record.session),
});
