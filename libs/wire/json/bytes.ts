/** Walks over the bytes of JSON (RFC 8259) without parsing it: where strings and values end. */

export const quote = 0x22;
export const backslash = 0x5c;
export const comma = 0x2c;
export const colon = 0x3a;
export const openBrace = 0x7b;
export const closeBrace = 0x7d;
export const openBracket = 0x5b;
export const closeBracket = 0x5d;

/** Strings up to this length are read byte by byte. */
const shortBytes = 32;
/** Stretches without a quote or a bracket are read byte by byte up to this length. */
const nearBytes = 128;
const partBytes = 1_024;
export const isSpace = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

export function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  while (isSpace(bytes[at])) at++;
  return at;
}

/**
 * Offset after the closing quote of the string that opens at `from`; -1 if it never closes. A
 * native search is only faster for long stretches, so bytes are read one by one where quotes are
 * close together, as in short strings and in those with many escaped quotes.
 */
export function endOfString(bytes: Buffer, from: number): number {
  let at = from + 1;
  for (;;) {
    for (const near = Math.min(at + shortBytes, bytes.length); at < near; at++) {
      if (bytes[at] === quote) return at + 1;
      if (bytes[at] === backslash) at++;
    }
    at = bytes.indexOf(quote, at);
    if (at < 0) return -1;
    let slashes = 0;
    while (bytes[at - 1 - slashes] === backslash) slashes++;
    if (slashes % 2 === 0) return at + 1;
    at++;
  }
}

const stopBytes = [quote, openBrace, openBracket, closeBrace, closeBracket];
const isStop = new Uint8Array(256);
for (const byte of stopBytes) isStop[byte] = 1;

/**
 * Offset of the next quote or bracket, or of the end. Long stretches without one, such as a list of
 * numbers, are searched natively, and in parts, so that the time is linear in them.
 */
function nextStop(bytes: Buffer, from: number): number {
  let at = from;
  for (const near = Math.min(from + nearBytes, bytes.length); at < near; at++)
    if (isStop[bytes[at] as number] === 1) return at;
  for (; at < bytes.length; at += partBytes) {
    let part = bytes.subarray(at, at + partBytes);
    for (const byte of stopBytes) {
      const place = part.indexOf(byte);
      if (place >= 0) part = part.subarray(0, place);
    }
    if (part.length < partBytes) return at + part.length;
  }
  return bytes.length;
}

/** Offset after the value that starts at `from`; -1 if it breaks off. */
export function endOfValue(bytes: Buffer, from: number): number {
  const first = bytes[from];
  if (first === quote) return endOfString(bytes, from);
  if (first !== openBrace && first !== openBracket) {
    let at = from;
    while (
      at < bytes.length &&
      bytes[at] !== comma &&
      bytes[at] !== closeBrace &&
      bytes[at] !== closeBracket &&
      !isSpace(bytes[at])
    )
      at++;
    return at > from ? at : -1;
  }
  let depth = 0;
  for (let at = nextStop(bytes, from); at < bytes.length; at = nextStop(bytes, at)) {
    const byte = bytes[at];
    if (byte === quote) {
      at = endOfString(bytes, at);
      if (at < 0) return -1;
      continue;
    }
    at++;
    if (byte === openBrace || byte === openBracket) depth++;
    else if (--depth === 0) return at;
  }
  return -1;
}
