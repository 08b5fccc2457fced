/**
 * The common part of operations on conversations, for the ingress: each dialect has its own
 * endpoints for them.
 */
import { conversationDialects } from "#dialects/dialect.ts";
import type { Profile } from "#dialects/profile.ts";
import { profiles } from "#dialects/profiles.ts";
import { conversationDemandOf } from "./demand.ts";
import type { Operation } from "./operation.ts";

export const conversationOperation = (name: keyof Profile["endpoints"], bills: Operation["bills"]): Operation => ({
  endpoints: conversationDialects.flatMap((dialect) => profiles[dialect].endpoints[name] ?? []),
  bills,
  isRepeatable: true,
  demandOf: conversationDemandOf,
});
