/**
 * Items of stored responses and conversations, as JSON:
 * https://platform.openai.com/docs/api-reference/responses/input-items
 */
import { createHash, randomBytes } from "node:crypto";
import { elementsOf, jsonListOf } from "#dialects/openai-responses/stored-references.ts";
import { isPresent, jsonBytesOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { objectSpansOf, replaceSpans, withMembers, withValues } from "#wire/json/spans.ts";
import { type Result, refusalOf } from "./refusal.ts";

export interface Item {
  id: string;
  bytes: Buffer;
}

const prefixes: Record<string, string> = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
  custom_tool_call: "ctc",
};
/** Ids that the gateway assigned, which no upstream knows. */
const ownId = /^[a-z]+_item_[0-9a-f]{24}$/;

const randomTail = () => randomBytes(12).toString("hex");

/**
 * The item with its id; an item without an id receives one that ends in `tail`: 24 hexadecimal
 * digits.
 */
export function itemOf(bytes: Buffer, tail = randomTail()): Item {
  const { id, type } = parsedObject(bytes) ?? {};
  const textId = textOf(id);
  if (textId !== undefined) return { id: textId, bytes };
  const own = `${prefixes[textOf(type) ?? "message"] ?? "item"}_item_${tail}`;
  const bare = withMembers(bytes, "id", () => undefined);
  const { close = bare.length, empty = true } = objectSpansOf(bare, []) ?? {};
  const typed = type === undefined ? ',"type":"message"' : "";
  const by = Buffer.from(`${empty ? "" : ","}"id":"${own}"${typed}`);
  return { id: own, bytes: replaceSpans(bare, [{ start: close, end: close, by }]) };
}

/** The items of a response's input. An item without an id receives the same one each time. */
export const inputItemsIn = (responseId: string, list: Buffer): Item[] =>
  elementsOf(list).map((bytes, place) =>
    itemOf(bytes, createHash("sha256").update(`${responseId} ${place}`).digest("hex").slice(0, 24)),
  );

/** The item as in its request: without an id that the gateway assigned. */
export function asSent(bytes: Buffer): Buffer {
  if (!bytes.includes("_item_")) return bytes;
  return withMembers(bytes, "id", (id) => (ownId.test(id.subarray(1, -1).toString("utf8")) ? undefined : id));
}

const type = jsonBytesOf("message");
const status = jsonBytesOf("completed");

/**
 * The item as its caller reads it: OpenAI returns a message with its type and status, and its
 * content as a list of parts, also where the request left them out or had a text.
 * https://platform.openai.com/docs/api-reference/conversations/list-items-object
 */
export function shownOf({ bytes }: Item): Buffer {
  if ((valueIn(bytes, "type") ?? "message") !== "message") return bytes;
  const isAnswer = valueIn(bytes, "role") === "assistant";
  const inParts = withMembers(bytes, "content", (content) => {
    if (content[0] !== 0x22) return content;
    const more = isAnswer ? ',"annotations":[],"logprobs":[]' : "";
    return Buffer.from(`[{"type":"${isAnswer ? "output" : "input"}_text","text":${content}${more}}]`);
  });
  return withValues(inParts, { type, ...(!isPresent(valueIn(bytes, "status")) && { status }) });
}

/**
 * The finished items of a streamed answer, which are kept by their `output_index`, in that order.
 */
export const outputOf = <Value>(items: ReadonlyMap<number, Value>): Value[] =>
  [...items].sort(([one], [other]) => one - other).map(([, item]) => item);

/** The elements of a list that is a member of an object. */
export function listIn(bytes: Buffer, name: string): Buffer[] {
  const span = objectSpansOf(bytes, [name])?.members[name];
  return span === undefined ? [] : elementsOf(bytes.subarray(span.start, span.end));
}

/** A member's value, parsed; undefined if there is none. */
export function valueIn(bytes: Buffer, name: string): unknown {
  const span = objectSpansOf(bytes, [name])?.members[name];
  return span === undefined ? undefined : JSON.parse(bytes.toString("utf8", span.start, span.end));
}

const pageSizeDefault = 20;
const pageSizeMax = 100;

/** The page of items that a query asks for with `limit`, `order` and `after`, as JSON. */
export function pageOf(items: readonly Item[], query: Record<string, unknown>): Result<Buffer> {
  const limit = query.limit === undefined ? pageSizeDefault : Number(query.limit);
  if (!Number.isInteger(limit) || limit < 1 || limit > pageSizeMax)
    return refused("limit", `must be a whole number from 1 to ${pageSizeMax}`);
  const { order = "desc", after } = query;
  if (order !== "asc" && order !== "desc") return refused("order", "must be asc or desc");
  const ordered = order === "asc" ? items : items.toReversed();
  const before = after === undefined ? -1 : ordered.findIndex(({ id }) => id === after);
  if (after !== undefined && before < 0) return refused("after", "does not name an item of this list");
  const page = ordered.slice(before + 1, before + 1 + limit);
  const rest = {
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
    has_more: before + 1 + limit < ordered.length,
  };
  const body = [
    Buffer.from('{"object":"list","data":'),
    jsonListOf(page.map(shownOf)),
    Buffer.from(`,${JSON.stringify(rest).slice(1)}`),
  ];
  return Buffer.concat(body);
}

const refused = (param: string, what: string) => refusalOf(`'${param}' ${what}.`, param);
