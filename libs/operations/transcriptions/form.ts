/** The fields of forms with a recording. */

import { flagIn, numberIn } from "#wire/form.ts";

/** OpenAI takes these without `[]`, too: https://github.com/BerriAI/litellm/pull/36036 */
const lists = ["include", "timestamp_granularities"];

/**
 * The fields as values for a schema check: the file as its name, type and size (several as a list),
 * other files as a value that no field allows; texts as a number or a boolean where the field is
 * one. Fields whose name ends with `[]` are lists without the `[]`. Every field whose name begins
 * with `known_speaker_references` is one of that list, since upstreams differ in the spellings that
 * they accept.
 */
export function transcriptionValuesOf(form: FormData): Record<string, unknown> {
  const values = new Map<string, unknown>();
  for (const [name, value] of form) {
    const add = (list: string, item: unknown) => values.set(list, [...[values.get(list) ?? []].flat(), item]);
    if (/^known_speaker_references/i.test(name)) add("known_speaker_references", value);
    else if (name === "file" && values.has(name)) add(name, value);
    else if (value instanceof File) {
      const { type, size } = value;
      values.set(name, name === "file" ? { name: value.name, type, size } : {});
    } else if (name.endsWith("[]") || lists.includes(name)) add(name.replace(/\[\]$/, ""), value);
    else if (name === "stream") values.set(name, flagIn(value));
    else values.set(name, name === "temperature" ? numberIn(value) : value);
  }
  return Object.fromEntries(values);
}
