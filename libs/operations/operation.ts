/**
 * The ingress's part of an operation: its endpoints, the format of its requests, and the estimate
 * of their usage.
 */

import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Endpoint } from "#dialects/profile.ts";
import type { JsonObject } from "#wire/json/parse.ts";
import type { Demand } from "./demand.ts";

export interface Operation {
  endpoints: readonly Endpoint[];
  /**
   * Set if requests are forms: the values of a form that the endpoints' schema describes. Requests
   * are JSON otherwise.
   */
  formValuesOf?(form: FormData): JsonObject | Promise<JsonObject>;
  /** The form for a request that came as JSON; undefined if it must not. Throws Refusal. */
  formOfJson?(body: JsonObject): FormData;
  /** The part of a request that its caller is billed for. */
  bills: "nothing" | "input" | "input and output";
  /**
   * The most input tokens that the bytes of a body are estimated at. Set for forms, which are
   * mostly files.
   */
  inputTokensMax?: number;
  /**
   * Whether another target may get the request after one that accepted it did not answer. It may
   * not if that could do the work twice.
   */
  isRepeatable: boolean;
  /**
   * Upstreams cache the prompts of later requests' beginnings, so that the requests of a session
   * belong to one target. A session of messages has a connection instead.
   */
  cachesPrompts?: boolean;
  /**
   * The answer is a stream of text: a caller who leaves is billed for the produced part. Otherwise
   * it is billed for the estimate.
   */
  reportsProgress?: boolean;
  /**
   * Messages in both directions until one side ends it. It is billed what its upstream reported,
   * however it ends.
   */
  isSession?: boolean;
  /** The demand of a request, beyond the length of its body. */
  demandOf(body: JsonObject, dialect: ConversationDialect): Demand;
}
