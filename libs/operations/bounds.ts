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
/** Workers parse these bodies completely. 300,000 tokens (https://platform.openai.com/docs/api-reference/embeddings/create) take half of this size. */
export const embeddingsBodyBytesMax = 4 << 20;
/** Workers parse these bodies completely. */
export const rerankBodyBytesMax = 4 << 20;
/** Documents of one request for a ranking, ten times as many as Cohere recommends. */
export const rankedDocumentsMax = 10_000;
/** Bytes of a request for speech: far more than the text and the instructions that any model reads. */
export const speechBodyBytesMax = 1 << 20;
/** Texts of one request for embeddings, as at OpenAI. */
export const embeddedTextsMax = 2_048;
/** A response with a success status is read as an error only up to this size. */
export const embeddingsErrorBytesMax = 64 * 1024;

/** The longest warning for a caller, in characters: it is a header. */
export const warningLengthMax = 1_000;
