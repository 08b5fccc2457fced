/** The most tokens that a request to an upstream allows for its answer, read from its bytes. */

/** As the dialects name it. In a text of the request the quotes are escaped. */
const fields = ['"max_tokens"', '"max_completion_tokens"', '"max_output_tokens"', '"maxOutputTokens"'];
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
