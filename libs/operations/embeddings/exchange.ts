/** Embeddings from upstreams of either format. */
import type { UpstreamDialect } from "#dialects/dialect.ts";
import { profiles } from "#dialects/profiles.ts";
import { plainUsageOf, type Usage } from "#dialects/usage.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { embeddingsErrorBytesMax } from "../bounds.ts";
import { isConversation, ownBytesOf } from "../conversation.ts";
import { type CallExchange, refusedFor } from "../exchange.ts";
import { textTokensOf } from "../token-estimate.ts";
import { errorReaderOf, foreignErrorReaderOf } from "../upstream-errors.ts";
import {
  type EmbeddingFormat,
  embeddingAnswerOf,
  embeddingRequestOf,
  type RequestedEmbeddings,
  withEmbeddingUsage,
} from "./formats.ts";

/** `from` is the caller's format, `to` the upstream's. */
interface Context {
  from: EmbeddingFormat;
  to: EmbeddingFormat;
  spoken: UpstreamDialect;
  requested: RequestedEmbeddings;
  /** The catalogue's id. */
  model: string;
  /** The gateway's own estimate, if the upstream does not count. */
  tokens: number | undefined;
}

const formatOf = (dialect: UpstreamDialect): EmbeddingFormat | undefined =>
  isConversation(dialect) ? profiles[dialect].embeddings : undefined;

export const embeddingExchange: CallExchange<Context> = {
  wantedOf: (dialect) => dialect,
  isEstimated: ({ dialect, spoken }) => formatOf(spoken) === "gemini" && formatOf(dialect) !== "gemini",
  async prepare(task, resolve) {
    const { dialect, spoken, model, target } = task;
    const from = formatOf(dialect);
    const to = formatOf(spoken);
    if (from === undefined || to === undefined) return refusedFor("embeddings");
    const body = from === "gemini" && to === "gemini" ? await ownBytesOf(task, resolve) : task.body;
    const { request, texts, requested } = embeddingRequestOf(from, to, body, target.model);
    const isEstimated = to === "gemini" && texts.length > 0;
    const tokens = isEstimated ? Math.ceil(await textTokensOf(texts)) : undefined;
    const context: Context = { from, to, spoken, requested, model, tokens };
    return { kind: "call", request, context, errors: from === to ? "own" : "foreign" };
  },
  read({ from, to, spoken, requested, model, tokens }, bytes) {
    const answer = embeddingAnswerOf(from, to, requested, model, bytes);
    if (answer !== undefined) {
      if (tokens === undefined) return { kind: "answer", ...answer };
      const usage: Usage = answer.usage ?? { ...plainUsageOf(tokens), isEstimated: true };
      return { kind: "answer", body: withEmbeddingUsage(answer.body, usage.inputTokens), usage };
    }
    const body = bytes.length > embeddingsErrorBytesMax ? undefined : parsedObject(bytes);
    if (body?.error === undefined || body.error === null) return { kind: "malformed" };
    const errorOf = from === to ? errorReaderOf(spoken) : foreignErrorReaderOf(spoken, undefined);
    return { kind: "error", error: errorOf(body) };
  },
};
