/** A model's answer to a conversation, in each dialect. */
import { conversationDialects } from "#dialects/dialect.ts";
import { profiles } from "#dialects/profiles.ts";
import { conversationDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";

export const answer: Operation = {
  endpoints: conversationDialects.flatMap((dialect) => profiles[dialect].endpoints.answer),
  bills: "input and output",
  isRepeatable: true,
  demandOf: conversationDemandOf,
};
