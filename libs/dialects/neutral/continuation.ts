/**
 * The state of a stream that was relayed unchanged, so that another upstream's answer can continue
 * it in the caller's dialect: the text, and the ids and numbers that its next events must have.
 * Only for plain text, which every dialect can continue.
 */

import { type JsonObject, listOf, textOf } from "#wire/json/parse.ts";
import type { ConversationDialect } from "../dialect.ts";

/** An answer of nothing but text, whose text is still open. */
export interface RelayedText {
  text: string;
  /** The data of the last event. */
  last: Readonly<JsonObject>;
}

/** Members of an answer's next events. */
export interface Continuation {
  /** The id of each event (chat completions, Gemini). */
  id?: string | undefined;
  /** Whole seconds since 1970. */
  createdAt?: number | undefined;
  /** The message's id (Responses). */
  itemId?: string;
  /** The number of the next event (Responses). */
  sequence?: number;
}

/** By the caller's dialect. Undefined if the text is not the first and open part of the answer. */
export const continuationsOf: Record<ConversationDialect, (last: Readonly<JsonObject>) => Continuation | undefined> = {
  "openai-chat": ({ id, created, choices }) =>
    listOf(choices).length > 1
      ? undefined
      : { id: textOf(id), createdAt: typeof created === "number" ? created : undefined },
  "openai-responses": ({ type, item_id: itemId, output_index: item, content_index: part, sequence_number: number }) =>
    type === "response.output_text.delta" &&
    item === 0 &&
    part === 0 &&
    typeof itemId === "string" &&
    Number.isSafeInteger(number)
      ? { itemId, sequence: Number(number) + 1 }
      : undefined,
  "anthropic-messages": ({ type, index }) => (type === "content_block_delta" && index === 0 ? {} : undefined),
  gemini: ({ responseId }) => ({ id: textOf(responseId) }),
};
