import type { ConversationDialect } from "#dialects/dialect.ts";
import type { OperationName } from "#operations/operations.ts";

/**
 * `gen_ai.operation.name`: the convention's name where it has one, or else ours.
 * https://github.com/open-telemetry/semantic-conventions-genai
 */
export function operationNameOf(operation: OperationName, dialect: ConversationDialect): string {
  if (operation === "answer") return dialect === "gemini" ? "generate_content" : "chat";
  if (operation === "completion") return "text_completion";
  return operation === "embedding" ? "embeddings" : operation;
}
