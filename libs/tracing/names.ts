/**
 * The names of attributes. Those of generative AI: https://github.com/open-telemetry/semantic-conventions-genai; they are in development there. None is for content.
 */
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Usage } from "#dialects/usage.ts";
import type { OperationName } from "#operations/operations.ts";
import type { SpanAttributes } from "./span.ts";

export const names = {
  errorType: "error.type",
  serverAddress: "server.address",
  serverPort: "server.port",
  status: "http.response.status_code",
  messagingSystem: "messaging.system",
  messagingQueue: "messaging.destination.name",
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  requestModel: "gen_ai.request.model",
  requestStream: "gen_ai.request.stream",
  responseFinishReasons: "gen_ai.response.finish_reasons",
  responseTimeToFirstChunk: "gen_ai.response.time_to_first_chunk",
  usageInput: "gen_ai.usage.input_tokens",
  usageOutput: "gen_ai.usage.output_tokens",
  usageCacheRead: "gen_ai.usage.cache_read.input_tokens",
  usageCacheCreation: "gen_ai.usage.cache_creation.input_tokens",
  usageReasoning: "gen_ai.usage.reasoning.output_tokens",
} as const;

/** The gateway's own names, for what no convention covers. */
export const ownNames = {
  request: "sluice.request_id",
  generation: "sluice.generation_id",
  key: "sluice.key_id",
  group: "sluice.group",
  account: "sluice.account",
  queue: "sluice.queue",
  operation: "sluice.operation",
  dialect: "sluice.dialect",
  model: "sluice.model",
  modelAnswered: "sluice.model_answered",
  outcome: "sluice.outcome",
  attempt: "sluice.attempt",
  calls: "sluice.calls",
  call: "sluice.call",
  upstream: "sluice.upstream",
  upstreamRequest: "sluice.upstream_request_id",
  credential: "sluice.credential",
  cause: "sluice.cause",
} as const;

/** `gen_ai.operation.name`: the convention's where it has one, or else ours. */
export function operationNameOf(operation: OperationName, dialect: ConversationDialect): string {
  if (operation === "answer") return dialect === "gemini" ? "generate_content" : "chat";
  if (operation === "completion") return "text_completion";
  return operation === "embedding" ? "embeddings" : operation;
}

/** Counts of zero are left out, except the two that every answer has. */
export const usageAttributesOf = (usage: Usage | undefined): SpanAttributes =>
  usage === undefined
    ? {}
    : {
        [names.usageInput]: usage.inputTokens,
        [names.usageOutput]: usage.outputTokens,
        [names.usageCacheRead]: usage.cachedInputTokens || undefined,
        [names.usageCacheCreation]: usage.cacheWriteTokens || undefined,
        [names.usageReasoning]: usage.reasoningTokens || undefined,
      };
