/** The number of tokens of a prompt, in the dialects that have an endpoint for it. */
import { conversationDialects } from "#dialects/dialect.ts";
import { profiles } from "#dialects/profiles.ts";
import { conversationDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";

export const tokenCount: Operation = {
  endpoints: conversationDialects.flatMap((dialect) => profiles[dialect].endpoints["token-count"] ?? []),
  bills: "nothing",
  isRepeatable: true,
  demandOf: conversationDemandOf,
};
