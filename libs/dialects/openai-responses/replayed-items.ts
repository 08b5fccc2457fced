/**
 * Items of earlier answers that a caller sends back to an upstream that stored none of them.
 * Reasoning needs its encrypted content; its id alone cannot be resolved.
 * https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items
 */

import { type JsonObject, jsonBytesOf, listOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { withElements, withMembers, withValues } from "#wire/json/spans.ts";
import { isWrappedSignature, unwrappedSignature } from "../neutral/wrapped-signature.ts";
import { foreignThoughtId } from "./answer.ts";
import { dialect } from "./items.ts";
import { unreadableCompaction } from "./stateless.ts";

const reasoningMark = '"reasoning"';
/** Items that may follow the reasoning in a model's answer, with optional ids. */
const answered = ["message", "function_call", "custom_tool_call"];

/**
 * A body whose `input` has only reasoning that an upstream can resolve; the same bytes if nothing
 * changes. Reasoning of other dialects' models and reasoning without content is left out, this
 * dialect's own is unwrapped. Items after removed reasoning lose their ids: an upstream that knows
 * such an id requires the reasoning before it. Every other byte stays.
 */
export const withResolvableReasoning = (bytes: Buffer) => withReasoning(bytes, resolvedReasoning);

/**
 * A body whose `input` has no reasoning, and a message in place of each compaction item, whose
 * content is encrypted in the same way.
 */
export const withoutReasoning = (bytes: Buffer) =>
  withMembers(
    withReasoning(bytes, () => undefined),
    "input",
    (input) => withElements(input, (item) => (isVendorCompaction(item) ? unreadableMessage : item)),
  );

/** In any of the spellings of Codex: see `decodeInput`. */
const isVendorCompaction = (item: Buffer) =>
  item.includes("compaction") && /^(?:context_)?compaction(?:_summary)?$/.test(String(parsedObject(item)?.type));

const unreadableMessage = jsonBytesOf({ type: "message", role: "developer", content: unreadableCompaction });

/** Items that need no id: an upstream has all of them in their other members. */
const whole = ["reasoning", ...answered, "function_call_output", "custom_tool_call_output"];

/** A body whose items have no ids, except those that say something by it. */
export const withoutItemIds = (bytes: Buffer) =>
  withMembers(bytes, "input", (input) =>
    withElements(input, (bytesOfItem) => {
      const { type, role } = parsedObject(bytesOfItem) ?? {};
      const isWhole = whole.includes(String(type)) || role !== undefined;
      return isWhole ? withMembers(bytesOfItem, "id", () => undefined) : bytesOfItem;
    }),
  );

function withReasoning(bytes: Buffer, change: (bytes: Buffer, item: JsonObject) => Buffer | undefined): Buffer {
  if (!bytes.includes(reasoningMark)) return bytes;
  return withMembers(bytes, "input", (input) => {
    /** Reasoning was removed from the answer that these items belong to. */
    let isLost = false;
    return withElements(input, (bytesOfItem) => {
      const item = parsedObject(bytesOfItem) ?? {};
      if (item.type === "reasoning") {
        const resolved = change(bytesOfItem, item);
        isLost = resolved === undefined;
        return resolved;
      }
      if (isOfCaller(item)) isLost = false;
      return isLost && answered.includes(typeOf(item)) ? withMembers(bytesOfItem, "id", () => undefined) : bytesOfItem;
    });
  });
}

const typeOf = ({ type }: JsonObject) => String(type ?? "message");

const isOfCaller = (item: JsonObject) =>
  (typeOf(item) === "message" && item.role !== "assistant") || typeOf(item).endsWith("_output");

/**
 * Undefined for reasoning that the upstream cannot resolve. Open-weight models put theirs in
 * `content` and have no encrypted content.
 */
function resolvedReasoning(
  bytes: Buffer,
  { id, encrypted_content: encrypted, content }: JsonObject,
): Buffer | undefined {
  const data = textOf(encrypted);
  if (!(String(id).startsWith(foreignThoughtId) || isWrappedSignature(data ?? "")))
    return data !== undefined || listOf(content).length > 0 ? bytes : undefined;
  const signature = unwrappedSignature(data ?? "")?.signature;
  if (signature?.dialect !== dialect) return undefined;
  const { itemId } = signature;
  const unwrapped = withValues(bytes, { encrypted_content: jsonBytesOf(signature.data) });
  return itemId === undefined
    ? withMembers(unwrapped, "id", () => undefined)
    : withValues(unwrapped, { id: jsonBytesOf(itemId) });
}
