/** The refusals for ids of stored objects, as OpenAI words them for its clients. */

import { Refusal, refusalOf } from "../common/refusal.ts";

const reasons = "It was not stored, was deleted, has expired, or belongs to another key";

const shown = (id: string): string => id.slice(0, 200).replaceAll(/[^\x20-\x7e]/g, "?");

export const notFoundOf = (what: "Response" | "Conversation" | "Item", id: string): Refusal =>
  new Refusal({ code: "not_found", message: `${what} with id '${shown(id)}' not found. ${reasons}.` });

export const unknownPrevious = (id: string): Refusal =>
  new Refusal({
    code: "invalid_request",
    upstreamCode: "previous_response_not_found",
    message: `Previous response with id '${shown(id)}' not found. ${reasons}: send the whole input instead.`,
    param: "previous_response_id",
  });

export const previousNotOver = (id: string): Refusal =>
  refusalOf(
    `Previous response with id '${shown(id)}' is still in progress: wait until it is completed.`,
    "previous_response_id",
  );

/** Clients recognize the second sentence. */
export const unknownItem = (id: string): Refusal =>
  new Refusal({
    code: "not_found",
    message: `Item with id '${shown(id)}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`,
    param: "input",
  });

/** Clients recognize the first sentence. */
export const repeatedItem = (id: string, param: string): Refusal =>
  refusalOf(`Duplicate item found with id ${shown(id)}. Remove duplicate items from your input and try again.`, param);

export const foreignCompaction = (): Refusal =>
  refusalOf(
    "The input has a compaction item that can't be read: it was made for another API key, or it was changed. Begin a new conversation, or send the items that it replaces.",
    "input",
  );

export const storesNothing = (param: string): Refusal =>
  refusalOf(
    `'${param}' refers to something stored, and the gateway stores no responses and conversations for this key: send the whole input with every request, with \`store\` set to false.`,
    param,
  );
