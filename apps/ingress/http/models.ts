/**
 * The list of models in each dialect, with the limits from the catalogue.
 * https://platform.openai.com/docs/api-reference/models, https://docs.anthropic.com/en/api/models-list, https://ai.google.dev/api/models
 */
import type { CatalogueModel } from "#catalogue/catalogue.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";

const anthropicPageMax = 1_000;
const anthropicPage = 20;
const googlePageMax = 1_000;
const googlePage = 50;

/** One model, in the dialect. */
export function modelBodyOf(
  dialect: ConversationDialect,
  { id, name, created, ownedBy, contextWindow, outputTokensMax, capabilities }: CatalogueModel,
): object {
  switch (dialect) {
    case "openai-chat":
    case "openai-responses":
      return {
        id,
        object: "model",
        created,
        owned_by: ownedBy,
        ...(contextWindow !== undefined && { context_window: contextWindow }),
        ...(outputTokensMax !== undefined && { max_output_tokens: outputTokensMax }),
      };
    case "anthropic-messages":
      return {
        type: "model",
        id,
        display_name: name,
        created_at: new Date(created * 1_000).toISOString().replace(".000Z", "Z"),
        max_input_tokens: contextWindow ?? null,
        max_tokens: outputTokensMax ?? null,
      };
    case "gemini":
      return {
        name: `models/${id}`,
        version: "001",
        displayName: name,
        description: `${name}, by ${ownedBy}`,
        ...(contextWindow !== undefined && { inputTokenLimit: contextWindow }),
        ...(outputTokensMax !== undefined && { outputTokenLimit: outputTokensMax }),
        supportedGenerationMethods: methodsOf(capabilities),
        thinking: capabilities.includes("reasoning"),
      };
    default:
      return dialect satisfies never;
  }
}

const methodsOf = (capabilities: readonly string[]) =>
  capabilities.includes("embedding")
    ? ["embedContent", "batchEmbedContents"]
    : ["generateContent", "streamGenerateContent", "countTokens"];

/** The list of models, or the page of it that the query asks for. */
export function modelListOf(
  dialect: ConversationDialect,
  models: readonly CatalogueModel[],
  query: URLSearchParams,
): object {
  const bodies = (page: readonly CatalogueModel[]) => page.map((model) => modelBodyOf(dialect, model));
  switch (dialect) {
    case "openai-chat":
    case "openai-responses":
      return { object: "list", data: bodies(models) };
    case "anthropic-messages": {
      const { page, more } = anthropicPageOf(models, query);
      return { data: bodies(page), has_more: more, first_id: page[0]?.id ?? null, last_id: page.at(-1)?.id ?? null };
    }
    case "gemini": {
      const size = sizeOf(query.get("pageSize"), googlePage, googlePageMax);
      const from = indexAfter(models, query.get("pageToken"));
      const page = models.slice(from, from + size);
      // An empty token would make Google's clients ask forever.
      return { models: bodies(page), ...(from + size < models.length && { nextPageToken: page.at(-1)?.id }) };
    }
    default:
      return dialect satisfies never;
  }
}

function anthropicPageOf(
  models: readonly CatalogueModel[],
  query: URLSearchParams,
): { page: readonly CatalogueModel[]; more: boolean } {
  const size = sizeOf(query.get("limit"), anthropicPage, anthropicPageMax);
  const before = query.get("before_id");
  if (before !== null) {
    const end = Math.max(
      0,
      models.findIndex(({ id }) => id === before),
    );
    return { page: models.slice(Math.max(0, end - size), end), more: end > size };
  }
  const from = indexAfter(models, query.get("after_id"));
  return { page: models.slice(from, from + size), more: from + size < models.length };
}

const indexAfter = (models: readonly CatalogueModel[], id: string | null) =>
  id === null ? 0 : models.findIndex((model) => model.id === id) + 1;

function sizeOf(text: string | null, fallback: number, max: number): number {
  const size = Number(text);
  return text !== null && Number.isInteger(size) && size >= 1 ? Math.min(size, max) : fallback;
}
