/** Formats of an answer that an upstream cannot enforce. */

/** The instruction to the model if the format cannot be enforced. */
export const formatInstructionOf = (schema: Record<string, unknown> | undefined) =>
  schema === undefined
    ? "Answer with one JSON object and nothing else: no words around it, no code fence."
    : `Answer with one JSON value that fits the following JSON schema and nothing else: no words around it, no code fence.\n${JSON.stringify(schema)}`;
