/** Text in tokens: `length` pieces that make up the text when joined. */
export interface Pieces {
  length: number;
  /** Of an index below `length`; the same at each call. */
  at(index: number): string;
}

const words =
  "the stream runs over stone and moss then turns to the wide slow river where reeds lean and herons wait for rain while boats drift under old bridges".split(
    " ",
  );

/** At most a word of eight characters with the space before it; characters are never split. */
const token = /\s*\S{1,8}|\s+$/gu;

export function piecesOf(text: string): Pieces {
  const pieces = text.match(token) ?? [];
  return { length: pieces.length, at: (index) => pieces[index] ?? "" };
}

/** Words without meaning, in an order that the seed chooses; of `tokenBytes` bytes each (ASCII), if given. */
export function fillerOf(length: number, seed: number, tokenBytes?: number): Pieces {
  const variants =
    tokenBytes === undefined
      ? words.map((word) => ` ${word}`)
      : words
          .slice(0, 8)
          .map((word) => `${word} `.repeat(Math.ceil(tokenBytes / (word.length + 1))).slice(0, tokenBytes));
  return { length, at: (index) => variants[(index + seed) % variants.length] ?? "" };
}

export const noPieces: Pieces = { length: 0, at: () => "" };

/** The first `length` pieces, or all there are. */
export const firstOf = (pieces: Pieces, length: number): Pieces => ({
  length: Math.max(0, Math.min(pieces.length, length)),
  at: pieces.at,
});

/** `text` first and then `filler`, `length` pieces in all. */
export function extended(text: Pieces, filler: (length: number) => Pieces, length: number): Pieces {
  if (length <= text.length) return firstOf(text, length);
  const more = filler(length - text.length);
  return { length, at: (index) => (index < text.length ? text.at(index) : more.at(index - text.length)) };
}

export function joined(pieces: Pieces): string {
  let text = "";
  for (let index = 0; index < pieces.length; index++) text += pieces.at(index);
  return text;
}

/** What a text counts for in a prompt: a token for four bytes. */
export const promptTokensOf = (text: string) => Math.ceil(Buffer.byteLength(text) / 4);

/** 32 bits of a text (FNV-1a over its first 4,096 units). */
export function seedOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < Math.min(text.length, 4_096); index++)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
