/**
 * Items of earlier answers that a caller sends back, as an upstream takes them that has stored none of them: reasoning counts by its encrypted content, and
 * its id alone leads to nothing. https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items
 */
import { isEnvelope, opened } from "../envelope.ts";
import { elementSpansOf, listOf, objectSpansOf, readSpan, removalsOf, replaceSpans, type Span, textOf } from "../json.ts";
import { foreignThoughtId } from "./answer.ts";
import { dialect } from "./items.ts";

const reasoningMark = '"reasoning"';
const itemNames = ["type", "role", "id", "encrypted_content", "content"] as const;
/** Items that a model's answer may hold behind its reasoning, and whose ids are optional. */
const answered = ["message", "function_call", "custom_tool_call"];

type ItemSpans = NonNullable<ReturnType<typeof objectSpansOf<(typeof itemNames)[number]>>>;

/**
 * A body with the reasoning in its `input` that an upstream can resolve; the same bytes when that is all of it. Reasoning of other dialects' models and reasoning
 * without content is left out, this dialect's own is unwrapped. Items behind reasoning that is left out lose their ids: an upstream that knows such an id demands
 * the reasoning before it. Every other byte stays.
 */
export function withResolvableReasoning(bytes: Buffer): Buffer {
  if (!bytes.includes(reasoningMark)) return bytes;
  const input = objectSpansOf(bytes, ["input"])?.members.input;
  const elements = input === undefined ? undefined : elementSpansOf(bytes, input);
  if (input === undefined || elements === undefined) return bytes;
  const edits: (Span & { by: Buffer })[] = [];
  const removed: Span[] = [];
  /** Reasoning was left out of the answer that these items belong to. */
  let isLost = false;
  for (const { start, end } of elements) {
    const item = bytes.subarray(start, end);
    const spans = objectSpansOf(item, itemNames);
    if (spans === undefined) return bytes;
    const type = memberOf(item, spans, "type") ?? "message";
    const by: Buffer | undefined = type === "reasoning" ? resolvedReasoning(item, spans) : isLost ? withoutId(item, spans, type) : item;
    if (by === undefined) removed.push({ start, end });
    else edits.push({ start, end, by });
    if (type === "reasoning") isLost = by === undefined;
    else if (isOfCaller(item, spans, type)) isLost = false;
  }
  for (const removal of removalsOf(bytes, removed)) edits.push(removal);
  return replaceSpans(
    bytes,
    edits.sort((one, other) => one.start - other.start),
  );
}

function memberOf(item: Buffer, { members }: ItemSpans, name: (typeof itemNames)[number]): unknown {
  const span = members[name];
  return span === undefined ? undefined : (readSpan(item, span) ?? undefined);
}

const isOfCaller = (item: Buffer, spans: ItemSpans, type: unknown): boolean =>
  (type === "message" && memberOf(item, spans, "role") !== "assistant") || String(type).endsWith("_output");

/** Undefined for reasoning that the upstream could not resolve. Models with open weights say theirs in `content`, and have nothing encrypted. */
function resolvedReasoning(item: Buffer, spans: ItemSpans): Buffer | undefined {
  const data = textOf(memberOf(item, spans, "encrypted_content"));
  if (String(memberOf(item, spans, "id")).startsWith(foreignThoughtId) || isEnvelope(data ?? "")) return unwrapped(item, spans, data ?? "");
  return data !== undefined || listOf(memberOf(item, spans, "content")).length > 0 ? item : undefined;
}

function unwrapped(item: Buffer, { all }: ItemSpans, data: string): Buffer | undefined {
  const signature = opened(data)?.signature;
  if (signature?.dialect !== dialect) return undefined;
  const { itemId } = signature;
  const ids = all.filter(({ name }) => name === "id");
  const edits: (Span & { by: Buffer })[] = all.flatMap(({ name, start, end }) => {
    const value = name === "encrypted_content" ? signature.data : name === "id" ? itemId : undefined;
    return value === undefined ? [] : [{ start, end, by: Buffer.from(JSON.stringify(value)) }];
  });
  if (itemId === undefined) for (const removal of removalsOf(item, ids)) edits.push(removal);
  return replaceSpans(
    item,
    edits.sort((one, other) => one.start - other.start),
  );
}

function withoutId(item: Buffer, spans: ItemSpans, type: unknown): Buffer {
  if (!answered.includes(String(type)) || isOfCaller(item, spans, type)) return item;
  const ids = spans.all.filter(({ name }) => name === "id");
  return ids.length === 0 ? item : replaceSpans(item, removalsOf(item, ids));
}
