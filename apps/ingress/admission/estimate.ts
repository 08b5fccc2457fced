/** The estimated usage of a request, before its usage is known. */

import type { KeyRecord } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import { inputTokensOf } from "#dialects/attached-tokens.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { plainUsageOf, type Usage } from "#dialects/usage.ts";
import type { GenerationFacts } from "#events/ingress-events.ts";
import { answerBytesMax, probabilityBytes, tokenBytes, usualAnswerBytesMax } from "#operations/bounds.ts";
import type { Demand } from "#operations/demand.ts";
import { type OperationName, operations } from "#operations/operations.ts";
import { estimatedOutputTokensMax } from "../common/bounds.ts";
import type { Labels } from "../common/labels.ts";
import type { Admitted } from "./generation-request.ts";

/** The estimate of an answer's length when the caller does not bound it. */
const outputTokensDefault = 1_000;

/** A request, as far as its limits depend on it. */
export interface LimitedRequest {
  request: {
    http: { caller: KeyRecord };
    endpoint: { dialect: ConversationDialect; operation: OperationName };
    demand: Demand;
    labels: Pick<Labels, "tags">;
  };
  admitted: Pick<Admitted, "id" | "model" | "maxWaitMs"> & { catalogue: Pick<Catalogue, "groups" | "version"> };
  /** The other models that may answer. */
  fallbacks: readonly CatalogueModel[];
  bodyBytes: number;
  facts: Pick<GenerationFacts, "receivedAt">;
  /** On the ingress's clock. */
  startedAt: number;
  /** How often its caller's limits were asked, this time included. */
  admissions: number;
  /** It waits for its limits, until this time at most. */
  awaitLimits(until: number): void;
}

/**
 * The estimate of what a request uses if this model answers, as far as it bears a price: counting
 * tokens bears none.
 */
export function estimatedUsageOf(
  { request: { endpoint, demand }, admitted, bodyBytes }: Pick<LimitedRequest, "request" | "admitted" | "bodyBytes">,
  model: CatalogueModel = admitted.model,
): Usage {
  const { bills, inputTokensMax = Number.POSITIVE_INFINITY } = operations[endpoint.operation];
  if (bills === "nothing") return plainUsageOf(0);
  const inputTokens = inputTokensOf(bodyBytes, demand, inputTokensMax);
  const eachMax = model.outputTokensMax ?? model.contextWindow ?? estimatedOutputTokensMax;
  const each = Math.min(demand.outputTokensMax ?? demand.mediaTokens ?? outputTokensDefault, eachMax);
  const usage = plainUsageOf(
    Math.min(inputTokens, model.contextWindow ?? Number.POSITIVE_INFINITY),
    bills === "input" ? 0 : demand.choices * each,
  );
  return {
    ...usage,
    ...(demand.images && { images: demand.images }),
    ...(demand.audioSeconds && { units: { audioSeconds: demand.audioSeconds } }),
    isEstimated: true,
  };
}

/**
 * The most bytes of a whole answer to this request, if that is more than usual; undefined
 * otherwise.
 */
export function answerBytesMaxOf(
  model: CatalogueModel,
  { outputTokensMax = model.outputTokensMax ?? 0, choices, dataBytes = 0, listedTokens = 0 }: Demand,
): number | undefined {
  const tokens = choices * Math.min(outputTokensMax, model.outputTokensMax ?? outputTokensMax);
  const bytes = dataBytes + tokens * (tokenBytes + listedTokens * probabilityBytes);
  return bytes <= usualAnswerBytesMax ? undefined : Math.min(answerBytesMax, usualAnswerBytesMax + bytes);
}
