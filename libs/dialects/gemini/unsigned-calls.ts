/**
 * Calls without a signature in a caller's conversation, for models that require Google's signature
 * on each turn's first call.
 */
import { jsonBytesOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { elementSpansOf, withElements, withMembers, withValues } from "#wire/json/spans.ts";

const callMarks = ['"functionCall"', '"function_call"'];
const signatureNames = ["thoughtSignature", "thought_signature"] as const;

/**
 * The body with `unsigned` as the signature of each model turn's first call that has none, such as
 * one made by another vendor's model. Every other byte stays.
 * https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
 */
export function withSignedCalls(bytes: Buffer, unsigned: string): Buffer {
  if (!callMarks.some((mark) => bytes.includes(mark))) return bytes;
  return withMembers(bytes, "contents", (contents) => withItems(contents, (content) => signedTurn(content, unsigned)));
}

/** The format also allows a single item in place of a list. */
const withItems = (bytes: Buffer, change: (item: Buffer) => Buffer): Buffer =>
  elementSpansOf(bytes) === undefined ? change(bytes) : withElements(bytes, change);

function signedTurn(content: Buffer, unsigned: string): Buffer {
  if (parsedObject(content)?.role !== "model") return content;
  let hasCall = false;
  return withMembers(content, "parts", (parts) =>
    withItems(parts, (part) => {
      const { functionCall, function_call: otherCall, ...others } = parsedObject(part) ?? {};
      if (hasCall || (functionCall ?? otherCall ?? null) === null) return part;
      hasCall = true;
      if (signatureNames.some((name) => textOf(others[name]) !== undefined)) return part;
      const name = signatureNames.find((spelling) => spelling in others) ?? "thoughtSignature";
      return withValues(part, { [name]: jsonBytesOf(unsigned) });
    }),
  );
}
