/** The bounds of what callers ask for, whatever the dialect. */
/** Answers to one request: more than any upstream gives. */
export const choicesMax = 1_000;
/** Addresses of attachments in one request: more than any upstream accepts. */
export const addressesMax = 4_096;
/** Characters of one prompt that are tokenized, evenly spread; the rest is estimated from them. */
export const tokenizedLengthMax = 60_000;
/** Prompts of one request for completions, as at OpenAI. */
export const promptsMax = 2_048;
/** Bytes of a request for an image without its attachments: far more than a prompt has. */
export const imagePromptBytesMax = 1 << 20;
/**
 * Workers parse these bodies completely. 300,000 tokens
 * (https://platform.openai.com/docs/api-reference/embeddings/create) take half of this size.
 */
export const embeddingsBodyBytesMax = 4 << 20;
/** Workers parse these bodies completely. */
export const rerankBodyBytesMax = 4 << 20;
/** Documents of one request for a ranking, ten times as many as Cohere recommends. */
export const rankedDocumentsMax = 10_000;
/**
 * Bytes of a request for speech: far more than the text and the instructions that any model reads.
 */
export const speechBodyBytesMax = 1 << 20;
/** Texts of one request for embeddings, as at OpenAI. */
export const embeddedTextsMax = 2_048;
/** A response with a success status is read as an error only up to this size. */
export const embeddingsErrorBytesMax = 64 * 1024;

/** Bytes of an answer whose request asks for nothing unusual. */
export const usualAnswerBytesMax = 32 << 20;
/**
 * Bytes of the largest answer: a little less than V8's longest string, and a few seconds of a
 * thread.
 */
export const answerBytesMax = 480 << 20;
/** Bytes of one image in base64 whose size is not asked for. */
export const imageBytes = 16 << 20;
/** Bytes of a pixel in base64: four channels of eight bits that do not compress. */
export const pixelBytes = 6;
/** Bytes of a number in a vector: a double, its comma and white space. */
export const numberBytes = 24;
/**
 * Numbers of a vector whose length is not asked for: as many as the largest models give by default.
 */
export const numbersDefault = 4_096;
/** Bytes of a token in an answer: long words, escaped. */
export const tokenBytes = 64;
/** Bytes of a token with its log probability, as a text and as a list of bytes. */
export const probabilityBytes = 300;

/**
 * Tokens of a model's window or answer that its catalogue entry does not state: as many as the
 * largest models have.
 */
export const unknownWindowTokens = 2_000_000;
/** How often a vendor's own tools read a conversation for one answer. */
export const hostedRoundsMax = 32;
/**
 * Searches and the like for one answer, with tools of the vendor and without: some models search
 * without being asked.
 */
export const hostedUnitsMax = 1_000;
export const searchesMax = 100;
/** Seconds of audio in one answer to a request without a recording: the longest session. */
export const heardSecondsMax = 7_200;
/**
 * How much longer a recording may be than its size lets expect: Opus at 6 kbit/s in place of MP3 at
 * 128.
 */
export const secondsRatioMax = 24;

/** The longest warning for a caller, in characters: it is a header. */
export const warningLengthMax = 1_000;
