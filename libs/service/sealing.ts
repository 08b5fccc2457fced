/**
 * Encryption of texts in the database and in Redis, with keys that are derived from a secret (HKDF,
 * RFC 5869).
 */
import { createSecretKey, hkdfSync } from "node:crypto";
import { decrypt, encrypt } from "./cipher.ts";

/** The key is derived from these. */
export interface SealingKey {
  secret: string;
  /** The subject, such as the id of a row: a text opens only where it was sealed. */
  salt: string;
  /** The kind of text. */
  purpose: string;
}

const keyOf = ({ secret, salt, purpose }: SealingKey) =>
  createSecretKey(Buffer.from(hkdfSync("sha256", secret, salt, purpose, 32)));

export const seal = (key: SealingKey, text: string): string =>
  encrypt(keyOf(key), Buffer.from(text)).toString("base64");

/**
 * Undefined for a text that was sealed with another key. Older texts may be in base64url, which
 * Node reads too.
 */
export const unseal = (key: SealingKey, sealed: string): string | undefined =>
  decrypt(keyOf(key), Buffer.from(sealed, "base64"))?.toString();
