/**
 * Rankings in Jina's format, POST /v1/rerank, and in Cohere's, POST /v2/rerank. The score of a
 * document is the share of the query's words that it has.
 */
import { promptTokensOf } from "../../answer/chunks.ts";
import { wholeOf } from "../dialect.ts";
import { openaiDialect } from "../openai.ts";
import { anyOf, compiled, filledText, list, nullableFlag, nullableInteger, object, shaped, text } from "../shape.ts";

const rerankRequest = compiled(
  object({
    model: filledText,
    query: filledText,
    documents: list(anyOf([text, object({ text })]), { minItems: 1, maxItems: 10_000 }),
    top_n: nullableInteger(1),
    return_documents: nullableFlag,
  }),
);

export const rerank = openaiDialect("rerank", ["/v1/rerank", "/v2/rerank"], ({ path, body, digest, settings }) => {
  const { model, query, documents, top_n: top, return_documents: wanted } = shaped(rerankRequest, body);
  const isCohere = path.startsWith("/v2/");
  const texts = documents.map((document) => (typeof document === "string" ? document : document.text));
  const results = texts
    .map((document, index) => ({
      index,
      ...(!isCohere && wanted !== false && { document: { text: document } }),
      relevance_score: scoreOf(document, query),
    }))
    .toSorted((left, right) => right.relevance_score - left.relevance_score)
    .slice(0, top ?? undefined);
  const tokens = promptTokensOf(query) + texts.reduce((sum, document) => sum + promptTokensOf(document), 0);
  const counted = settings.usage === "never" ? {} : { usage: { prompt_tokens: tokens, total_tokens: tokens } };
  return wholeOf(
    isCohere
      ? {
          id: `rr_${digest.slice(0, 24)}`,
          results,
          meta: { api_version: { version: "2" }, billed_units: { search_units: 1 } },
        }
      : { id: `rerank-${digest.slice(0, 24)}`, model, results, ...counted },
  );
});

const wordsOf = (words: string) => new Set(words.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);

function scoreOf(document: string, query: string): number {
  const queryWords = wordsOf(query);
  const documentWords = wordsOf(document);
  const matches = [...queryWords].filter((word) => documentWords.has(word)).length;
  return Math.round(((matches + 0.01) / (queryWords.size + 0.02)) * 10_000) / 10_000;
}
