/** Encryption of texts in the database, with keys that are derived from a secret (HKDF, RFC 5869). */
import { createSecretKey, hkdfSync } from "node:crypto";
import { decrypt, encrypt } from "#service/cipher.ts";

/** What the key is derived from. */
export interface SealingKey {
  secret: string;
  /** What is sealed, such as the id of a row: a text opens only where it was sealed. */
  salt: string;
  /** The kind of text. */
  purpose: string;
}

const keyOf = ({ secret, salt, purpose }: SealingKey) =>
  createSecretKey(Buffer.from(hkdfSync("sha256", secret, salt, purpose, 32)));

export const seal = (key: SealingKey, text: string): string =>
  encrypt(keyOf(key), Buffer.from(text)).toString("base64");

/** Throws for a text that was sealed with another key. */
export function unseal(key: SealingKey, sealed: string): string {
  const opened = decrypt(keyOf(key), Buffer.from(sealed, "base64"));
  if (opened === undefined) throw new Error("a sealed text cannot be opened");
  return opened.toString();
}
