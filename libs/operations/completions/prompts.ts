/**
 * The number of prompts of a request: a text and a list of token ids are one, any other list has
 * one in each element.
 */
export const promptsIn = (prompt: unknown) =>
  Array.isArray(prompt) && typeof prompt[0] !== "number" ? Math.max(1, prompt.length) : 1;
