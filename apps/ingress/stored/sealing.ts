/**
 * Encrypts the stored values of a caller. Each value has its own key, derived from the caller's API key, which the gateway does not keep:
 * a copy of Redis reveals nothing, and nobody else can read the value (HKDF, RFC 5869; AES-256-GCM, NIST SP 800-38D).
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const cipher = "aes-256-gcm";
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;

/** Seals and opens the values of one API key. */
export class Sealing {
  readonly #apiKey: string;
  readonly #keyId: string;

  constructor(apiKey: string, keyId: string) {
    this.#apiKey = apiKey;
    this.#keyId = keyId;
  }

  /** The encrypted value, to be stored under this name; 28 bytes longer. */
  seal(name: string, value: Buffer): Buffer {
    const nonce = randomBytes(nonceBytes);
    const sealing = createCipheriv(cipher, this.#keyOf(name), nonce);
    return Buffer.concat([nonce, sealing.update(value), sealing.final(), sealing.getAuthTag()]);
  }

  /** The value that was sealed under this name; undefined for anything else. */
  open(name: string, sealed: Buffer): Buffer | undefined {
    if (sealed.length < nonceBytes + tagBytes) return undefined;
    const opening = createDecipheriv(cipher, this.#keyOf(name), sealed.subarray(0, nonceBytes));
    opening.setAuthTag(sealed.subarray(-tagBytes));
    try {
      return Buffer.concat([opening.update(sealed.subarray(nonceBytes, -tagBytes)), opening.final()]);
    } catch {
      return undefined;
    }
  }

  #keyOf(name: string): Buffer {
    return Buffer.from(hkdfSync("sha256", this.#apiKey, this.#keyId, `sluice stored ${name}`, keyBytes));
  }
}
