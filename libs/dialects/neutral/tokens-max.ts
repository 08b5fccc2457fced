/** The most tokens that a request to an upstream allows for its answer, read from its bytes. */

/** The limit's paths in the dialects' requests. */
export const tokensMaxPaths = [
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "generationConfig.maxOutputTokens",
];
/** The names in quotes, which are escaped in a text of the request. */
const fields = tokensMaxPaths.map((path) => `"${path.replace(/^.*\./, "")}"`);
/** Behind the name: the colon and the number. */
const valueBytesMax = 24;

/** Undefined where the request names none. The largest of several. */
export function tokensMaxIn(body: Buffer): number | undefined {
  let most: number | undefined;
  for (const field of fields)
    for (let at = body.indexOf(field); at >= 0; at = body.indexOf(field, at + field.length)) {
      const value = body.toString("latin1", at + field.length, at + field.length + valueBytesMax);
      const [, digits] = /^\s*:\s*(\d{1,9})(?=[\s,}])/.exec(value) ?? [];
      if (digits !== undefined) most = Math.max(most ?? 0, Number(digits));
    }
  return most;
}
