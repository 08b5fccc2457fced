/**
 * The format of an API key: a prefix for secret scanners, randomness, and a checksum that saves
 * look-ups of malformed keys.
 */
import { hash, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";

const prefix = "sk-sluice-";
const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const randomLength = 32;
/** 62⁶ > 2³². */
const checksumLength = 6;
const keyLength = prefix.length + randomLength + checksumLength;
const keyPattern = new RegExp(`^${prefix}[0-9A-Za-z]{${randomLength + checksumLength}}$`);

export interface NewKey {
  /** The secret. Shown once and stored nowhere. */
  key: string;
  /** Stored in place of the key. */
  hash: string;
  /** The last four characters, by which people recognize the key. */
  hint: string;
}

/** A key with 190 random bits. */
export function createKey(): NewKey {
  const random = Array.from({ length: randomLength }, () => digits[randomInt(digits.length)]).join("");
  const key = prefix + random + checksumOf(prefix + random);
  return { key, hash: hashOf(key), hint: key.slice(-4) };
}

/** SHA-256 in hex. It needs no salt, because a random key cannot be guessed from it. */
export function hashOf(key: string): string {
  return hash("sha256", key);
}

/**
 * Whether a text has the format and checksum of a key. Takes bounded time for a text of any length.
 */
export function looksLikeKey(text: string): boolean {
  return (
    text.length === keyLength &&
    keyPattern.test(text) &&
    checksumOf(text.slice(0, -checksumLength)) === text.slice(-checksumLength)
  );
}

/** CRC-32 of the text in base62, most significant digit first. */
function checksumOf(text: string): string {
  let rest = crc32(text);
  let encoded = "";
  for (let place = 0; place < checksumLength; place++) {
    encoded = digits[rest % digits.length] + encoded;
    rest = Math.floor(rest / digits.length);
  }
  return encoded;
}
