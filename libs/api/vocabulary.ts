/**
 * Lists of values that the console shows as well. They stand apart from the operations, whose
 * schemas would be a large part of what a browser loads.
 */

/** The paths of requests of OpenAI's batches. */
export const batchEndpoints = [
  "/v1/chat/completions",
  "/v1/responses",
  "/v1/embeddings",
  "/v1/completions",
  "/v1/images/generations",
  "/v1/moderations",
] as const;

/** https://platform.openai.com/docs/api-reference/webhook-events */
export const webhookEvents = [
  "batch.completed",
  "batch.failed",
  "batch.expired",
  "batch.cancelled",
  "response.completed",
  "response.failed",
  "response.incomplete",
  "response.cancelled",
] as const;

/** Names that callers give, by which usage is summed. Sums know one of them at a time. */
export const usageLabels = ["user", "session", "tag"] as const;
/** The value of labels beyond those that the ledger keeps apart. */
export const otherLabels = "(other)";
