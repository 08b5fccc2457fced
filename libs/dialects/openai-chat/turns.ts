/**
 * The order of turns for models whose servers are strict about it, because their chat templates
 * are: https://huggingface.co/docs/transformers/chat_templating,
 * https://docs.mistral.ai/api/#tag/chat
 */
import { markedInstruction, openingTurn } from "../neutral/history.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import { type Message, type Part, turnsOf } from "../neutral/neutral.ts";

/** The turns of a conversation as the model accepts them. */
export function arrangedTurns(messages: readonly Message[], { turns }: ModelTraits): Message[] {
  if (turns === "free") return turnsOf(messages, true);
  const spoken = messages.map(withoutSystem);
  if (turns === "instructions-first") return turnsOf(spoken, true);
  const alternating = turnsOf(spoken);
  const [first] = alternating;
  return first?.role === "assistant" ? [openingTurn(first.path), ...alternating] : alternating;
}

/** An instruction in the middle becomes a part of the user's turn. */
const withoutSystem = (message: Message): Message =>
  message.role === "system" ? { ...message, role: "user", parts: message.parts.map(marked) } : message;

const marked = (part: Part) =>
  part.kind === "text" && part.text !== "" ? { ...part, text: markedInstruction(part.text) } : part;

export interface WireMessage {
  role: string;
  content?: unknown;
  [name: string]: unknown;
}

/**
 * Messages for a model that accepts no user's message directly after a result, and no lists of
 * texts.
 */
export const alternatingMessages = (messages: readonly WireMessage[]) =>
  messages.flatMap((message, place) =>
    message.role === "user" && messages[place - 1]?.role === "tool"
      ? [{ role: "assistant", content: "Understood." }, withOneText(message)]
      : [withOneText(message)],
  );

function withOneText(message: WireMessage): WireMessage {
  const { content } = message;
  const isText =
    Array.isArray(content) && content.every((part) => part.type === "text" && part.cache_control === undefined);
  return isText ? { ...message, content: content.map(({ text }) => text).join("\n\n") } : message;
}
