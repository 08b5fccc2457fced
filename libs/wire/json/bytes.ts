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
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) {
      at = endOfString(bytes, at) - 1;
      if (at < 0) return -1;
    } else if (byte === openBrace || byte === openBracket) depth++;
    else if ((byte === closeBrace || byte === closeBracket) && --depth === 0) return at + 1;
  }
  return -1;
}
