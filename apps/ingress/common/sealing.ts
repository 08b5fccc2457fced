/**
 * Encrypts the stored values of a caller. Each value has its own key, derived from the caller's API
 * key, which the gateway does not keep: a copy of Redis reveals nothing, and nobody else can read
 * the value (HKDF, RFC 5869; AES-256-GCM, NIST SP 800-38D).
 */
import { createSecretKey, hkdfSync, type KeyObject } from "node:crypto";
import { decrypt, encrypt } from "#service/cipher.ts";

const keyBytes = 32;

/** The key for the value with this name. */
type KeyOf = (name: string) => Buffer;

/** Seals and opens the values of one API key. */
export class Sealing {
  readonly #keyOf: KeyOf;

  private constructor(keyOf: KeyOf) {
    this.#keyOf = keyOf;
  }

  static of(apiKey: string, keyId: string): Sealing {
    return new Sealing((name) => Buffer.from(hkdfSync("sha256", apiKey, keyId, `sluice stored ${name}`, keyBytes)));
  }

  /**
   * Seals and opens the values with these names alone, for a process that does not have the API
   * key. `keys` is what `keysFor` returned.
   */
  static limited(keys: Readonly<Record<string, string>>): Sealing {
    return new Sealing((name) => {
      const key = keys[name];
      if (key === undefined) throw new Error("no key for this name");
      return Buffer.from(key, "base64url");
    });
  }

  /** The keys of the values with these names. They are secrets. */
  keysFor(names: readonly string[]): Record<string, string> {
    return Object.fromEntries(names.map((name) => [name, this.#keyOf(name).toString("base64url")]));
  }

  #secretOf(name: string): KeyObject {
    return createSecretKey(this.#keyOf(name));
  }

  /** The encrypted value, to be stored under this name; 28 bytes longer. */
  seal(name: string, value: Buffer): Buffer {
    return encrypt(this.#secretOf(name), value);
  }

  /** The value that was sealed under this name; undefined for anything else. */
  open(name: string, sealed: Buffer): Buffer | undefined {
    return decrypt(this.#secretOf(name), sealed);
  }
}
