/** Rankings by upstreams of Cohere's or Jina's format, which share their requests. */
import { randomUUID } from "node:crypto";
import { plainUsageOf, tokensOf } from "#dialects/usage.ts";
import { isObject, type JsonObject, jsonOf, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { type CallExchange, ownCall, refusedFor } from "../exchange.ts";
import { errorIn, reportedUsageOf, requestFor } from "../openai-call.ts";

interface Context {
  /** The id of an answer whose upstream gives it none. */
  id: string;
  /** The catalogue's id of the model. */
  model: string;
  /** How many documents were sent, and how many of them the answer ranks. */
  count: number;
  ranked: number;
  /** The documents that the answer repeats; undefined for none. */
  documents: readonly unknown[] | undefined;
}

const exchangeOf = (hasDocuments: boolean): CallExchange<Context> => ({
  wantedOf: () => "openai-chat",
  async prepare({ body, spoken, target, model }) {
    if (spoken !== "openai-chat") return refusedFor("rankings");
    const { documents: documentList, top_n: top, return_documents: wanted } = parsedObject(body) ?? {};
    const documents = listOf(documentList);
    const context: Context = {
      id: `rerank-${randomUUID()}`,
      model,
      count: documents.length,
      ranked: Math.min(documents.length, tokensOf(top) || documents.length),
      documents: (wanted ?? hasDocuments) === true ? documents : undefined,
    };
    return ownCall(requestFor("/rerank", body, target.model), context);
  },
  read(context, bytes) {
    const answer = parsedObject(bytes);
    // Voyage's results are `data`: https://docs.voyageai.com/reference/reranker-api
    const { data, results: list = data, usage, meta, ...others } = answer ?? {};
    const results = listOf(list).map(objectOf);
    const isRanking =
      results.length > 0 && results.length <= context.count && results.every((one) => isResult(one, context));
    if (!isRanking) return errorIn(answer);
    const { tokens, billed_units: billed } = objectOf(meta);
    const used = reportedUsageOf(usage) ?? reportedUsageOf(tokens);
    const searchUnits = tokensOf(objectOf(billed).search_units);
    const body = jsonOf({
      ...others,
      id: textOf(others.id) ?? context.id,
      model: context.model,
      // Some servers neither sort nor cut: https://github.com/mudler/LocalAI/issues/7189
      results: results
        .toSorted((one, other) => scoreOf(other) - scoreOf(one))
        .slice(0, context.ranked)
        .map((result) => resultOf(result, context)),
      usage: isObject(usage) ? usage : { total_tokens: used?.inputTokens ?? 0 },
      meta: isObject(meta) ? meta : { api_version: { version: "2" } },
    });
    return {
      kind: "answer",
      body: Buffer.from(body),
      usage: searchUnits === 0 ? used : { ...(used ?? plainUsageOf(0)), units: { searchUnits } },
    };
  },
});

const scoreOf = ({ relevance_score: score }: JsonObject) => score as number;

const isResult = ({ index, relevance_score: score }: JsonObject, { count }: Context) =>
  typeof index === "number" && Number.isInteger(index) && index >= 0 && index < count && typeof score === "number";

function resultOf({ document, ...result }: JsonObject, { documents }: Context): object {
  if (documents === undefined) return result;
  const ranked = document ?? documents[result.index as number];
  return { ...result, document: typeof ranked === "string" ? { text: ranked } : ranked };
}

/**
 * Cohere's `/v2/rerank` and Jina's `/v1/rerank` differ in whether the answer repeats the documents
 * by default.
 */
export const rerankExchange = exchangeOf(false);
export const rerankWithDocumentsExchange = exchangeOf(true);
