/**
 * The characters of a text to speak (Unicode code points). Each is billed as one input token where
 * the upstream reports no usage, as in a response of audio.
 */
export function charactersIn(text: unknown): number {
  let count = 0;
  for (const _ of String(text ?? "")) count++;
  return count;
}
