/**
 * References of a request to objects stored for its caller: an earlier response, a conversation, or
 * items of them; and the request with the references replaced by their content.
 * https://platform.openai.com/docs/guides/conversation-state
 */
import { type JsonObject, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { elementSpansOf, objectSpansOf, removalsOf, replaceSpans } from "#wire/json/spans.ts";

export interface StoredReferences {
  /** `previous_response_id`. */
  responseId: string | undefined;
  conversationId: string | undefined;
  /** Items of the input that refer to a stored item. `place` is the index in `input`. */
  items: readonly { place: number; id: string }[];
  /** The input may have compaction items, or a request for one (compaction.ts). */
  hasCompaction: boolean;
}

export const noReferences: StoredReferences = {
  responseId: undefined,
  conversationId: undefined,
  items: [],
  hasCompaction: false,
};

/** Undefined for a request without references. */
export function storedReferencesIn(body: JsonObject): StoredReferences | undefined {
  const responseId = textOf(body.previous_response_id);
  const conversationId = textOf(body.conversation) ?? textOf(objectOf(body.conversation).id);
  const items = listOf(body.input).flatMap((value, place) => {
    const id = referencedIdOf(objectOf(value));
    return id === undefined ? [] : [{ place, id }];
  });
  const hasCompaction = listOf(body.input).some((value) => String(objectOf(value).type).startsWith("compaction"));
  return responseId === undefined && conversationId === undefined && items.length === 0 && !hasCompaction
    ? undefined
    : { responseId, conversationId, items, hasCompaction };
}

/** The type of a reference may be absent: `{ "id": "msg_1" }` is one. */
function referencedIdOf({ type, role, id }: JsonObject): string | undefined {
  if (type === "item_reference") return typeof id === "string" ? id : "";
  return typeof type !== "string" && role === undefined ? textOf(id) : undefined;
}

const quote = 0x22;
const messageOf = (text: Buffer): Buffer =>
  Buffer.concat([Buffer.from('{"type":"message","role":"user","content":'), text, Buffer.from("}")]);

const emptyList = Buffer.from("[]");
const comma = Buffer.from(",");

/** These values as a JSON array. */
export const jsonListOf = (values: readonly Buffer[]): Buffer =>
  values.length === 0
    ? emptyList
    : Buffer.concat([
        emptyList.subarray(0, 1),
        ...values.flatMap((value, index) => (index === 0 ? [value] : [comma, value])),
        emptyList.subarray(1),
      ]);

/**
 * The elements of a JSON array, each as its own bytes; none for anything else. They share the
 * memory of `list`.
 */
export const elementsOf = (list: Buffer) =>
  (elementSpansOf(list) ?? []).map(({ start, end }) => list.subarray(start, end));

/**
 * The input of a body as a JSON array of items. A text is one message of the user. May share the
 * body's memory.
 */
export function inputListOf(body: Buffer): Buffer {
  const span = objectSpansOf(body, ["input"])?.members.input;
  if (span === undefined) return emptyList;
  const input = body.subarray(span.start, span.end);
  return input[0] === quote ? jsonListOf([messageOf(input)]) : input;
}

/**
 * The input of a body as a list of items. A text is one message of the user. The items may share
 * the body's memory.
 */
export const inputItemsOf = (body: Buffer) => elementsOf(inputListOf(body));

/**
 * The body with these items as its input, and without the members that refer to stored objects.
 * Every other byte stays.
 */
export function withInput(body: Buffer, items: readonly Buffer[]): Buffer {
  const input = jsonListOf(items);
  const names = ["input", "previous_response_id", "conversation"] as const;
  const spans = objectSpansOf(body, names);
  if (spans === undefined) return body;
  const last = spans.all.findLast(({ name }) => name === "input");
  const removed = removalsOf(
    body,
    spans.all.filter((member) => member !== last),
  );
  const replaced =
    last === undefined
      ? { start: spans.close, end: spans.close, by: Buffer.concat([Buffer.from(',"input":'), input]) }
      : { start: last.start, end: last.end, by: input };
  return replaceSpans(
    body,
    [...removed, replaced].sort((one, other) => one.start - other.start),
  );
}

const callMark = "_call";
const callTypes = ["function_call", "custom_tool_call"];
const resultTypes = callTypes.map((type) => `${type}_output`);

/** Counts the calls with one id, and their results. */
interface CallCount {
  calls: number;
  results: number;
}

/**
 * `items` without the calls that are also in `before`, and without the results of calls that have
 * theirs in `before`: some clients repeat both beside `previous_response_id` or `conversation`.
 */
export function withoutRepeated(before: readonly Buffer[], items: readonly Buffer[]): Buffer[] {
  const counts = new Map<string, CallCount>();
  for (const item of before) {
    const { callId, kind } = callIn(item);
    if (callId === undefined || kind === undefined) continue;
    const count = counts.get(callId) ?? { calls: 0, results: 0 };
    counts.set(callId, { ...count, [kind]: count[kind] + 1 });
  }
  return items.filter((item) => {
    const { callId = "", kind } = counts.size === 0 ? {} : callIn(item);
    const count = counts.get(callId);
    if (count === undefined || kind === undefined) return true;
    if (kind === "calls") return false;
    return count.results++ < count.calls;
  });
}

/** The id of the call that the item is, or whose result it is; empty for any other item. */
function callIn(item: Buffer): { callId?: string | undefined; kind?: keyof CallCount } {
  if (!item.includes(callMark)) return {};
  const { type, call_id: id } = parsedObject(item) ?? {};
  const callId = textOf(id);
  if (callTypes.includes(String(type))) return { callId, kind: "calls" };
  return resultTypes.includes(String(type)) ? { callId, kind: "results" } : {};
}
