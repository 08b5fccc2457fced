/** The fields of forms for images. */

const integers = ["n", "output_compression", "partial_images", "frame_count", "frame_duration_ms"];

/** The images of a form: `image`, or several `image[]`. */
export const imagesOf = (form: FormData): File[] =>
  [...form.getAll("image"), ...form.getAll("image[]")].filter((value) => value instanceof File);

/**
 * The fields as values for a schema check: images and masks as their MIME types, other files as a value that no field allows; texts as numbers and booleans
 * where they spell one.
 */
export function valuesOf(form: FormData): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, value] of form) {
    if ((name === "image" || name === "image[]") && value instanceof File) continue;
    if (value instanceof File) values[name] = name === "mask" ? value.type : {};
    else if (name === "stream" && (value === "true" || value === "false")) values[name] = value === "true";
    else values[name] = integers.includes(name) && /^\d{1,9}$/.test(value) ? Number(value) : value;
  }
  const images = imagesOf(form).map(({ type }) => type);
  if (images.length > 0) values.image = images;
  return values;
}
