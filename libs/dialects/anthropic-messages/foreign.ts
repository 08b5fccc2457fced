/** What earlier answers of a conversation hold of other vendors' thinking: of no use to an upstream of this dialect, which refuses what it did not sign. */

import { isEmptyArray, objectOf, parsedObject, withElements, withMembers } from "../json.ts";
import { isWrappedSignature, unwrappedSignature } from "../wrapped-signature.ts";
import { dialect, thinkingBlockOf } from "./blocks.ts";
import { isBegunWithoutThinking } from "./thinking.ts";

/** The caller's messages without other vendors' thoughts, and with this vendor's unwrapped, byte for byte; a message of which nothing is left is left out. */
export const withoutForeignThoughts = (messages: Buffer): Buffer =>
  withElements(messages, (message) => {
    let isEmpty = false;
    const kept = withMembers(message, "content", (content) => {
      const blocks = withElements(content, keptBlock);
      isEmpty ||= blocks !== content && isEmptyArray(blocks);
      return blocks;
    });
    return isEmpty ? undefined : kept;
  });

/** Thinking that can't go on from these messages, where it is demanded; undefined when it can. */
export const thinkingInstead = (thinking: unknown, messages: readonly unknown[]): object | undefined =>
  objectOf(thinking).type === "enabled" && isBegunWithoutThinking(messages.map(objectOf))
    ? { type: "disabled" }
    : undefined;

const sealOf = (block: unknown): string =>
  String(objectOf(block)[objectOf(block).type === "thinking" ? "signature" : "data"]);

/** In an envelope, or shown without a signature, as callers of this dialect are shown what others think: their maker refuses both. */
const isWrapped = (block: unknown): boolean => {
  const { type, signature } = objectOf(block);
  return (
    (/^(redacted_)?thinking$/.test(String(type)) && isWrappedSignature(sealOf(block))) ||
    (type === "thinking" && signature === "")
  );
};

function keptBlock(bytes: Buffer): Buffer | undefined {
  const block = parsedObject(bytes);
  if (block === undefined || !isWrapped(block)) return bytes;
  const envelope = unwrappedSignature(sealOf(block));
  if (envelope?.signature.dialect !== dialect) return undefined;
  return Buffer.from(
    JSON.stringify(thinkingBlockOf(String(block.thinking ?? envelope.text ?? ""), envelope.signature)),
  );
}
