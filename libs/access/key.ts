/** What a caller's key looks like: a prefix that scanners find, randomness, and a checksum that spares a look-up. */
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
  /** The secret: shown once, stored nowhere. */
  key: string;
  /** What is stored in its stead. */
  hash: string;
  /** Its last four characters, by which its owner knows it again. */
  hint: string;
}

/** A key of 190 bits of randomness. */
export function createKey(): NewKey {
  const random = Array.from({ length: randomLength }, () => digits[randomInt(digits.length)]).join("");
  const key = prefix + random + checksumOf(prefix + random);
  return { key, hash: hashOf(key), hint: key.slice(-4) };
}

/** SHA-256 in hex. A key is too random to be guessed from it, so it needs no salt and can be looked up. */
export function hashOf(key: string): string {
  return hash("sha256", key);
}

/** Whether a text has a key's form and checksum: without a look-up, in bounded time whatever its length. */
export function looksLikeKey(text: string): boolean {
  return (
    text.length === keyLength &&
    keyPattern.test(text) &&
    checksumOf(text.slice(0, -checksumLength)) === text.slice(-checksumLength)
  );
}

/** CRC-32 of what precedes it, as base62 digits, the highest first. */
function checksumOf(text: string): string {
  let rest = crc32(text);
  let encoded = "";
  for (let place = 0; place < checksumLength; place++) {
    encoded = digits[rest % digits.length] + encoded;
    rest = Math.floor(rest / digits.length);
  }
  return encoded;
}
