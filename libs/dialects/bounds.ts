/** The bounds of reading and writing any dialect. What a vendor's API itself allows stands with its dialect. */
/** Data lines of an unfinished event. Each is held as a buffer of its own, which takes some 100 bytes however short the line is. */
export const dataLinesMax = 16_384;
/** So many parts of an unfinished line are joined to one, for the same reason. */
export const loosePartsMax = 256;
/** Bytes of an event that may be `[DONE]` or a keep-alive; longer data is neither. */
export const markLengthMax = 64;
/** Events without content that are kept back. With one more, the answer is committed. */
export const uncommittedEventsMax = 32;
/** Longer than any address: what may also be base64 without more is then not looked at. */
export const addressLengthMax = 16_384;
/** Levels of objects and arrays around a string that is looked at: no dialect knows half as many. */
export const namedLevelsMax = 40;
/** Bytes of a name, with its quotes, that may be one that a dialect knows. */
export const knownNameBytesMax = 64;
/** Tools of one request, more than any upstream takes. */
export const toolsMax = 4_096;
/** Levels of objects and arrays in a call's arguments, which are a text of their own: what is nested deeper could not be written again. */
export const argumentsDepthMax = 200;
/** Definitions of a schema that lead to each other in a row: more are taken for recursion. */
export const definitionChainMax = 100;
/** Fields of a form, far more than any endpoint has. */
export const formFieldsMax = 1_000;
/**
 * Tokens of one answer, in or out, that an upstream may report: ten times the largest context window on offer, for answers with hosted tools count
 * their prompt several times.
 */
export const reportedTokensMax = 100_000_000;
/** Characters of an answer that are remembered; a longer one is not resumed. */
export const resumableLengthMax = 1 << 20;
/** Characters of a field's path in an error, which may hold names of the caller's own. */
export const pathLengthMax = 300;
/** Characters of an upstream's message that a caller gets. */
export const upstreamMessageLengthMax = 2_000;
/** Characters of an upstream error's code, its type and the field it names. */
export const upstreamNameLengthMax = 200;
/** How deep error objects may be nested in one another. */
export const upstreamErrorDepthMax = 8;
/** Characters of a text in an error that are parsed as JSON. */
export const embeddedErrorLengthMax = 65_536;
/** Violations that an error's message lists. */
export const violationsMax = 3;
