/** The fields of forms with a recording. */

/** Texts that spell a number. */
const numbers = ["temperature"];

/**
 * The fields as values for a schema check: the file as its name, type and size, other files as a value that no field allows; texts as a number or a boolean where the
 * field is one. Fields that are repeated, or whose name ends with `[]`, are lists without the `[]`.
 */
export function transcriptionValuesOf(form: FormData): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, value] of form) {
    if (value instanceof File) {
      const { type, size } = value;
      values[name] = name === "file" ? { name: value.name, type, size } : {};
    } else if (name.endsWith("[]")) {
      const list = name.slice(0, -2);
      values[list] = [...[values[list] ?? []].flat(), value];
    } else if (name === "stream" && (value === "true" || value === "false")) values[name] = value === "true";
    else values[name] = numbers.includes(name) && /^\d{1,3}(\.\d{1,20})?$/.test(value) ? Number(value) : value;
  }
  return values;
}
