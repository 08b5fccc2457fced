/**
 * Reasoning and citations of other vendors in earlier answers of a conversation. An upstream of
 * this dialect rejects what it did not sign.
 */
import { jsonBytesOf, listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { isEmptyArray, withElements, withMembers } from "#wire/json/spans.ts";
import { isForeignCitation } from "../neutral/citations.ts";
import { markedInstruction } from "../neutral/history.ts";
import { isWrappedSignature, unwrappedSignature } from "../neutral/wrapped-signature.ts";
import { dialect, thinkingBlockOf } from "./blocks.ts";
import { isBegunWithoutThinking } from "./thinking.ts";

/**
 * The caller's messages without other vendors' reasoning and citations, and with this vendor's
 * reasoning unwrapped, byte for byte. A message that becomes empty is left out.
 */
export const withoutForeignParts = (messages: Buffer) => withBlocks(messages, keptBlock);

/** The caller's messages without any reasoning. */
export const withoutThoughts = (messages: Buffer) =>
  withBlocks(messages, (block) => (isThought(parsedObject(block)) ? undefined : block));

/**
 * The caller's messages with instructions among them as messages of the user, marked as
 * instructions.
 */
export const withoutSystemTurns = (messages: Buffer) =>
  withElements(messages, (message) => {
    const { role, content } = parsedObject(message) ?? {};
    if (role !== "system") return message;
    const texts =
      typeof content === "string" ? [content] : listOf(content).map((block) => String(objectOf(block).text));
    return jsonBytesOf({ role: "user", content: [{ type: "text", text: markedInstruction(texts.join("\n")) }] });
  });

const withBlocks = (messages: Buffer, change: (block: Buffer) => Buffer | undefined) =>
  withElements(messages, (message) => {
    let isEmpty = false;
    const kept = withMembers(message, "content", (content) => {
      const blocks = withElements(content, change);
      isEmpty ||= blocks !== content && isEmptyArray(blocks);
      return blocks;
    });
    return isEmpty ? undefined : kept;
  });

/**
 * The `thinking` to send instead, if the requested one cannot continue from these messages;
 * undefined if it can.
 */
export const thinkingInstead = (thinking: unknown, messages: readonly unknown[]): object | undefined =>
  objectOf(thinking).type === "enabled" && isBegunWithoutThinking(messages.map(objectOf))
    ? { type: "disabled" }
    : undefined;

const isThought = (block: unknown) => /^(redacted_)?thinking$/.test(String(objectOf(block).type));

const sealOf = (block: unknown) => String(objectOf(block)[objectOf(block).type === "thinking" ? "signature" : "data"]);

/**
 * A wrapped signature, or thinking without a signature, which is how callers of this dialect see
 * other vendors' reasoning. This vendor rejects both.
 */
const isWrapped = (block: unknown): boolean => {
  const { type, signature } = objectOf(block);
  return (isThought(block) && isWrappedSignature(sealOf(block))) || (type === "thinking" && signature === "");
};

function keptBlock(bytes: Buffer): Buffer | undefined {
  const block = parsedObject(bytes);
  if (block?.type === "text" && listOf(block.citations).some(isForeignCitation))
    return withMembers(bytes, "citations", () => undefined);
  if (block === undefined || !isWrapped(block)) return bytes;
  const envelope = unwrappedSignature(sealOf(block));
  if (envelope?.signature.dialect !== dialect) return undefined;
  return Buffer.from(
    JSON.stringify(thinkingBlockOf(String(block.thinking ?? envelope.text ?? ""), envelope.signature)),
  );
}
