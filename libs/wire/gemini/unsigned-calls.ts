/** Calls without a signature in a caller's conversation, as models demand them that Google has sign each turn's first call. */
import { elementSpansOf, isNull, objectSpansOf, readSpan, replaceSpans, type Span } from "../json.ts";

const callMarks = ['"functionCall"', '"function_call"'];
const partNames = ["functionCall", "function_call", "thoughtSignature", "thought_signature"] as const;

type Edit = Span & { by: Buffer };

/**
 * The body with `unsigned` as the signature of each model turn's first call that bears none, as after an answer of another vendor's model. Every other byte stays.
 * https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
 */
export function withSignedCalls(bytes: Buffer, unsigned: string): Buffer {
  if (!callMarks.some((mark) => bytes.includes(mark))) return bytes;
  const contents = objectSpansOf(bytes, ["contents"])?.members.contents;
  const edits = contents === undefined ? [] : itemSpansOf(bytes, contents).flatMap((content) => editOf(bytes, content, unsigned) ?? []);
  return edits.length === 0 ? bytes : replaceSpans(bytes, edits);
}

/** Where one item stands for a list of one, as it may in this format, that item. */
const itemSpansOf = (bytes: Buffer, span: Span): Span[] => elementSpansOf(bytes, span) ?? [span];

function editOf(bytes: Buffer, content: Span, unsigned: string): Edit | undefined {
  const { role, parts } = membersOf(bytes, content, ["role", "parts"]);
  if (parts === undefined || role === undefined || readSpan(bytes, role) !== "model") return undefined;
  for (const part of itemSpansOf(bytes, parts)) {
    const spans = objectSpansOf(bytes.subarray(part.start, part.end), partNames);
    if (spans === undefined) return undefined;
    const members = shifted(spans.members, part.start);
    const call = [members.functionCall, members.function_call].find((span) => span !== undefined && !isNull(bytes, span));
    if (call === undefined) continue;
    const signatures = [members.thoughtSignature, members.thought_signature].filter((span) => span !== undefined);
    if (signatures.some((span) => (readSpan(bytes, span) ?? "") !== "")) return undefined;
    const [empty] = signatures;
    const value = JSON.stringify(unsigned);
    const close = part.start + spans.close;
    return empty === undefined ? { start: close, end: close, by: Buffer.from(`,"thoughtSignature":${value}`) } : { ...empty, by: Buffer.from(value) };
  }
  return undefined;
}

function membersOf<Name extends string>(bytes: Buffer, { start, end }: Span, names: readonly Name[]): Partial<Record<Name, Span>> {
  return shifted(objectSpansOf(bytes.subarray(start, end), names)?.members ?? {}, start);
}

/** Spans within a value as spans within the bytes that it stands in. */
const shifted = <Name extends string>(members: Partial<Record<Name, Span>>, by: number): Partial<Record<Name, Span>> =>
  Object.fromEntries((Object.entries(members) as [Name, Span][]).map(([name, { start, end }]) => [name, { start: start + by, end: end + by }])) as Partial<
    Record<Name, Span>
  >;
