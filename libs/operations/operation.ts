/** An operation as the ingress sees it: its endpoints, the format of its requests, and what they are estimated to use. */
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Endpoint } from "#dialects/profile.ts";
import type { Demand } from "./demand.ts";

export interface Operation {
  endpoints: readonly Endpoint[];
  /** Set if requests are forms: the values of a form that the endpoints' schema describes. Requests are JSON otherwise. */
  formValuesOf?(form: FormData): Record<string, unknown>;
  /** What a caller pays for. */
  bills: "nothing" | "input" | "input and output";
  /** The most input tokens that the bytes of a body are estimated at. Set for forms, which are mostly files. */
  inputTokensMax?: number;
  /** Whether another target may get the request after one that accepted it did not answer. It may not if that could do the work twice. */
  isRepeatable: boolean;
  /** What a request asks for, beyond the length of its body. */
  demandOf(body: Record<string, unknown>, dialect: ConversationDialect): Demand;
}
