/** Encryption of texts in the database (HKDF, RFC 5869; AES-256-GCM, NIST SP 800-38D). */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const cipher = "aes-256-gcm";
const nonceBytes = 12;
const tagBytes = 16;

/** What the key is derived from. */
export interface SealingKey {
  secret: string;
  /** What is sealed, such as the id of a row: a text opens only where it was sealed. */
  salt: string;
  /** The kind of text. */
  purpose: string;
}

const keyOf = ({ secret, salt, purpose }: SealingKey) => Buffer.from(hkdfSync("sha256", secret, salt, purpose, 32));

export function seal(key: SealingKey, text: string): string {
  const nonce = randomBytes(nonceBytes);
  const sealing = createCipheriv(cipher, keyOf(key), nonce);
  return Buffer.concat([nonce, sealing.update(text), sealing.final(), sealing.getAuthTag()]).toString("base64");
}

/** Throws for a text that was sealed with another key. */
export function unseal(key: SealingKey, sealed: string): string {
  const bytes = Buffer.from(sealed, "base64");
  const opening = createDecipheriv(cipher, keyOf(key), bytes.subarray(0, nonceBytes));
  opening.setAuthTag(bytes.subarray(-tagBytes));
  return Buffer.concat([opening.update(bytes.subarray(nonceBytes, -tagBytes)), opening.final()]).toString();
}
