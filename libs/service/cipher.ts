/** AES-256-GCM (NIST SP 800-38D) with a random nonce: nonce, ciphertext, tag. */
import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";

const cipher = "aes-256-gcm";
const nonceBytes = 12;
const tagBytes = 16;

/**
 * 28 bytes longer than the value. The secret has 32 bytes; Node takes three times as long with a
 * key in a Buffer.
 */
export function encrypt(secret: KeyObject, value: Buffer): Buffer {
  const nonce = randomBytes(nonceBytes);
  const sealing = createCipheriv(cipher, secret, nonce);
  return Buffer.concat([nonce, sealing.update(value), sealing.final(), sealing.getAuthTag()]);
}

/** The value that was encrypted with this secret; undefined for anything else. */
export function decrypt(secret: KeyObject, sealed: Buffer): Buffer | undefined {
  if (sealed.length < nonceBytes + tagBytes) return undefined;
  const opening = createDecipheriv(cipher, secret, sealed.subarray(0, nonceBytes));
  opening.setAuthTag(sealed.subarray(-tagBytes));
  try {
    return Buffer.concat([opening.update(sealed.subarray(nonceBytes, -tagBytes)), opening.final()]);
  } catch {
    return undefined;
  }
}
