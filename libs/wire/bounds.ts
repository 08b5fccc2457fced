/** The bounds of reading bytes and text. */
/**
 * Data lines of an unfinished event. Each is a buffer, which takes some 100 bytes however short the
 * line is.
 */
export const dataLinesMax = 16_384;
/** More chunks of an unfinished line are joined to one, for the same reason. */
export const loosePartsMax = 256;
/** Strings nested deeper are ignored: no dialect nests half as deep. */
export const namedLevelsMax = 40;
/** Longest name that is searched, in bytes with its quotes. */
export const knownNameBytesMax = 64;
/** Fields of a form, far more than any endpoint has. */
export const formFieldsMax = 1_000;
