/** A shorter form of a conversation, which its upstream can read: https://platform.openai.com/docs/api-reference/responses/compact */
import { conversationDialects } from "#dialects/dialect.ts";
import { profiles } from "#dialects/profiles.ts";
import { conversationDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";

export const compaction: Operation = {
  endpoints: conversationDialects.flatMap((dialect) => profiles[dialect].endpoints.compaction ?? []),
  bills: "input and output",
  isRepeatable: true,
  demandOf: conversationDemandOf,
};
