/** Text in tokens: joining all `length` chunks gives the text. */
export interface Chunks {
  length: number;
  /** For an index below `length`; the same at each call. */
  at(index: number): string;
}

const words =
  "the stream runs over stone and moss then turns to the wide slow river where reeds lean and herons wait for rain while boats drift under old bridges".split(
    " ",
  );

/** At most a word of eight characters with the space before it; characters are never split. */
const token = /\s*\S{1,8}|\s+$/gu;

export function chunksOf(text: string): Chunks {
  const chunks = text.match(token) ?? [];
  return { length: chunks.length, at: (index) => chunks[index] ?? "" };
}

/**
 * Words without meaning, in an order that the seed determines; each of `tokenBytes` bytes (ASCII),
 * if given.
 */
export function fillerOf(length: number, seed: number, tokenBytes?: number): Chunks {
  const variants =
    tokenBytes === undefined
      ? words.map((word) => ` ${word}`)
      : words
          .slice(0, 8)
          .map((word) => `${word} `.repeat(Math.ceil(tokenBytes / (word.length + 1))).slice(0, tokenBytes));
  return { length, at: (index) => variants[(index + seed) % variants.length] ?? "" };
}

export const noChunks: Chunks = { length: 0, at: () => "" };

/** At most the first `length` chunks. */
export const firstOf = (chunks: Chunks, length: number): Chunks => ({
  length: Math.max(0, Math.min(chunks.length, length)),
  at: chunks.at,
});

/** `text` followed by `filler`, `length` chunks in all. */
export function extended(text: Chunks, filler: (length: number) => Chunks, length: number): Chunks {
  if (length <= text.length) return firstOf(text, length);
  const more = filler(length - text.length);
  return { length, at: (index) => (index < text.length ? text.at(index) : more.at(index - text.length)) };
}

export function* eachOf(chunks: Chunks): Generator<string> {
  for (let index = 0; index < chunks.length; index++) yield chunks.at(index);
}

export const joined = (chunks: Chunks): string => [...eachOf(chunks)].join("");

/** The prompt tokens of a text: one for every four bytes. */
export const promptTokensOf = (text: string) => Math.ceil(Buffer.byteLength(text) / 4);

/** A 32-bit hash of a text (FNV-1a over its first 4,096 UTF-16 units). */
export function seedOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < Math.min(text.length, 4_096); index++)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
