/**
 * Compaction: one item replaces a conversation
 * (https://platform.openai.com/docs/guides/compaction). The gateway asks the request's model for a
 * summary, whatever dialect its upstream speaks, and seals the summary in the item. Any model can
 * continue from it.
 */
import { type JsonObject, jsonBytesOf, jsonOf, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { objectSpansOf, replaceSpans, withMembers } from "#wire/json/spans.ts";

/** The prefix of the content of the gateway's own items. Items of a vendor have other content. */
const ownContent = "sluice1.";

const task = [
  "Write a summary of this conversation that replaces it: the assistant that goes on will see the summary and nothing before it.",
  "State the user's goals, requirements and preferences; what was done and found, with exact names, paths, identifiers, numbers and quotations that matter;",
  "decisions and their reasons; the current state; open problems; and the next steps.",
  "Leave out what is settled and no longer of use. Answer with the summary alone. Call no tools.",
].join(" ");

const messageOf = (text: string): Buffer =>
  jsonBytesOf({ type: "message", role: "user", content: [{ type: "input_text", text }] });

const mark = '"compaction';

const typeOf = (item: Buffer) => (item.includes(mark) ? parsedObject(item)?.type : undefined);

/** True for an item that requests the compaction of everything before it. */
export const isTrigger = (item: Buffer | undefined) => item !== undefined && typeOf(item) === "compaction_trigger";

export const isCompaction = (item: Buffer) => typeOf(item) === "compaction";

/** The sealed content of an item that the gateway made; undefined for any other item. */
export function ownContentOf(item: Buffer): Buffer | undefined {
  const content = isCompaction(item) ? textOf(parsedObject(item)?.encrypted_content) : undefined;
  return content?.startsWith(ownContent) === true
    ? Buffer.from(content.slice(ownContent.length), "base64url")
    : undefined;
}

/** The item that replaces a conversation. */
export const compactionItemOf = (id: string, sealed: Buffer): object => ({
  id,
  type: "compaction",
  encrypted_content: `${ownContent}${sealed.toString("base64url")}`,
});

/** A summary as an upstream receives it. */
export const summaryItemOf = (summary: string) =>
  messageOf(`Summary of the conversation so far, which it replaces:\n\n${summary}`);

/** The item that asks for a summary. */
export const summaryTask: Buffer = messageOf(task);

/** Settings for an answer that do not apply to a summary. */
const removed = ["text", "max_output_tokens", "max_tool_calls", "context_management", "tool_choice"] as const;

/** The body without settings that could prevent an answer in text. */
export function withoutAnswerSettings(body: Buffer): Buffer {
  const bare = removed.reduce((bytes, name) => withMembers(bytes, name, () => undefined), body);
  const spans = objectSpansOf(bare, ["tools"]);
  const tools = spans?.members.tools;
  // Upstreams require the tools that a conversation has used, and reject `tool_choice` without
  // tools.
  if (
    spans === undefined ||
    tools === undefined ||
    !/^\[\s*\{/.test(bare.toString("utf8", tools.start, tools.start + 64))
  )
    return bare;
  return replaceSpans(bare, [{ start: spans.close, end: spans.close, by: Buffer.from(',"tool_choice":"none"') }]);
}

/** The text of a whole answer; undefined if there is none. */
export function summaryIn(response: JsonObject): string | undefined {
  const parts = listOf(response.output).flatMap((item) => listOf(objectOf(item).content));
  return textOf(parts.map((part) => textOf(objectOf(part).text) ?? "").join(""));
}

/**
 * The answer to POST /responses/compact: the user's own messages, and the item.
 * https://platform.openai.com/docs/api-reference/responses/compact
 */
export function compactedBodyOf(response: JsonObject, item: object, messages: readonly object[]): object {
  const { id, created_at, usage } = response;
  return { id, object: "response.compaction", created_at, output: [...messages, item], usage };
}

/** The events of a streamed response that consists of this item. */
export function compactionEventsOf(response: JsonObject, item: object): string {
  const begun = { ...response, status: "in_progress", output: [], usage: null };
  const place = { output_index: 0, item };
  const events = [
    { type: "response.created", response: begun },
    { type: "response.in_progress", response: begun },
    { type: "response.output_item.added", ...place },
    { type: "response.output_item.done", ...place },
    { type: "response.completed", response: { ...response, output: [item] } },
  ];
  return events
    .map(
      ({ type, ...rest }, number) => `event: ${type}\ndata: ${jsonOf({ type, sequence_number: number, ...rest })}\n\n`,
    )
    .join("");
}
