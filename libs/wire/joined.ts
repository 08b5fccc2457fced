/** The bytes of all parts; those of a single part are not copied. */
export const joined = (parts: readonly Buffer[]): Buffer =>
  parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
