/** The fields of forms with a recording. */

/** Texts that spell a number. */
const numbers = ["temperature"];

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
    } else if (name.endsWith("[]")) add(name.slice(0, -2), value);
    else values.set(name, fieldValueOf(name, value));
  }
  return Object.fromEntries(values);
}

function fieldValueOf(name: string, text: string): unknown {
  if (name === "stream" && (text === "true" || text === "false")) return text === "true";
  return numbers.includes(name) && /^\d{1,3}(\.\d{1,20})?$/.test(text) ? Number(text) : text;
}
