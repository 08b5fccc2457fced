/**
 * The bounds of reading and writing any dialect. Limits of a vendor's API are in its dialect's
 * folder.
 */
/** Bytes of an event that may be `[DONE]` or a keep-alive; longer data is neither. */
export const markLengthMax = 64;
/** The most events without content that are held back. With one more, the answer is committed. */
export const uncommittedEventsMax = 32;
/** Patterns of events that no event of the stream matched; then no further one is made. */
export const patternsMax = 8;
/** Longer than any address; longer strings are taken as base64. */
export const addressLengthMax = 16_384;
/** Tools of one request: more than any upstream accepts. */
export const toolsMax = 4_096;
/** Levels of objects and arrays in a call's arguments: deeper ones could not be written again. */
export const argumentsDepthMax = 200;
/** Arguments of one call that are read as JSON; any others stay the text that they are. */
export const argumentsBounds = {
  depthMax: argumentsDepthMax,
  containersMax: 20_000,
  membersMax: 20_000,
  valuesMax: 100_000,
};
/** References between definitions of a schema in a row. A longer chain counts as recursion. */
export const definitionChainMax = 100;
/**
 * Tokens of one answer, in or out, that an upstream may report: ten times the largest context
 * window on offer, because answers with hosted tools count their prompt several times.
 */
export const reportedTokensMax = 100_000_000;
/** Images of one answer that are billed: more than any upstream makes. */
export const reportedImagesMax = 1_000;
/** Units of one kind in one answer that are billed, such as searches or seconds. */
export const reportedUnitsMax = 1_000_000;
/** The longest answer that is kept, in characters; a longer one cannot be resumed. */
export const resumableLengthMax = 1 << 20;
/** Characters of a field's path in an error. A path may contain the caller's own names. */
export const pathLengthMax = 300;
/** Characters of an upstream's message that a caller receives. */
export const upstreamMessageLengthMax = 2_000;
/** Characters of an upstream error's code, its type and the field it names. */
export const upstreamNameLengthMax = 200;
/** Levels of nested error objects. */
export const upstreamErrorDepthMax = 8;
/** Characters of a text in an error that are parsed as JSON. */
export const embeddedErrorLengthMax = 65_536;
/** Violations that an error's message lists. */
export const violationsMax = 3;
/** Stop sequences that the gateway searches an answer for, and their characters together. */
export const stopSequencesMax = 256;
export const stopCharactersMax = 16_384;
/** Levels of a schema that are read; deeper ones allow everything. Far more than models heed. */
export const schemaDepthMax = 24;
/**
 * Schemas within a tool's schema, with inlined references: this many, or four times its own if
 * these are more, up to the second bound.
 */
export const schemaNodesMin = 200;
export const schemaNodesMax = 20_000;
/** Alternatives at the root of a tool's schema that its description lists. */
export const schemaAlternativesMax = 20;
/** Characters of a keyword's value that a description repeats. */
export const schemaNoteLengthMax = 500;
/** Names of models whose traits are remembered. */
export const rememberedModelsMax = 1_000;
