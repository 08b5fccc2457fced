/** What earlier answers of a conversation hold of other vendors' thinking: of no use to an upstream of this dialect, which refuses what it did not sign. */
import { isEnvelope, opened } from "../envelope.ts";
import { objectOf } from "../json.ts";
import { dialect, thinkingBlockOf } from "./blocks.ts";
import { isBegunWithoutThinking } from "./thinking.ts";

/** The caller's messages without other vendors' thoughts, and with this vendor's unwrapped; a message of which nothing is left is left out. */
export function withoutForeignThoughts(messages: readonly unknown[]): unknown[] {
  return messages.flatMap((value) => {
    const message = objectOf(value);
    if (!Array.isArray(message.content) || !message.content.some(isWrapped)) return [value];
    const content = message.content.flatMap((block: unknown) => (isWrapped(block) ? unwrapped(block) : [block]));
    return content.length === 0 ? [] : [{ ...message, content }];
  });
}

/** Thinking that can't go on from these messages, where it is demanded; undefined when it can. */
export const thinkingInstead = (thinking: unknown, messages: readonly unknown[]): object | undefined =>
  objectOf(thinking).type === "enabled" && isBegunWithoutThinking(messages.map(objectOf)) ? { type: "disabled" } : undefined;

const sealOf = (block: unknown): string => String(objectOf(block)[objectOf(block).type === "thinking" ? "signature" : "data"]);

/** In an envelope, or shown without a signature, as callers of this dialect are shown what others think: their maker refuses both. */
const isWrapped = (block: unknown): boolean => {
  const { type, signature } = objectOf(block);
  return (/^(redacted_)?thinking$/.test(String(type)) && isEnvelope(sealOf(block))) || (type === "thinking" && signature === "");
};

function unwrapped(block: unknown): object[] {
  const envelope = opened(sealOf(block));
  return envelope?.signature.dialect === dialect ? [thinkingBlockOf(String(objectOf(block).thinking ?? envelope.text ?? ""), envelope.signature)] : [];
}
