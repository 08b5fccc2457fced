/**
 * The registry of operations for workers, and its entry points; operations.ts has the part for
 * ingresses.
 */

import { Refusal, refuse } from "#dialects/neutral/field-support.ts";
import { withoutFields } from "#dialects/repairs/omitted-fields.ts";
import { answerExchange } from "./answer/exchange.ts";
import { addressesMax } from "./bounds.ts";
import { completionExchange } from "./completions/exchange.ts";
import { embeddingExchange } from "./embeddings/exchange.ts";
import {
  type CallExchange,
  type OperationExchange,
  type PreparationTask,
  type Prepared,
  type ResolveAddresses,
  refused,
} from "./exchange.ts";
import { imageEditExchange, imageGenerationExchange, imageVariationExchange } from "./images/exchange.ts";
import { moderationExchange } from "./moderations/exchange.ts";
import type { OperationName } from "./operations.ts";
import { withPromptCache } from "./prompt-cache.ts";
import { realtimeExchange } from "./realtime/exchange.ts";
import { rerankExchange, rerankWithDocumentsExchange } from "./rerank/exchange.ts";
import { speechExchange } from "./speech/exchange.ts";
import { tokenCountExchange } from "./token-count/exchange.ts";
import { transcriptionExchange, translationExchange } from "./transcriptions/exchange.ts";

/** All operations except conversations, which the worker can resume. */
export const callExchanges: Record<Exclude<OperationName, "answer">, CallExchange> = {
  completion: completionExchange,
  "token-count": tokenCountExchange,
  embedding: embeddingExchange,
  "image-generation": imageGenerationExchange,
  "image-edit": imageEditExchange,
  "image-variation": imageVariationExchange,
  moderation: moderationExchange,
  realtime: realtimeExchange,
  speech: speechExchange,
  transcription: transcriptionExchange,
  translation: translationExchange,
  rerank: rerankExchange,
  "rerank-with-documents": rerankWithDocumentsExchange,
};

const exchanges: Record<OperationName, OperationExchange> = { answer: answerExchange, ...callExchanges };

export const isEstimated = (task: PreparationTask) => exchanges[task.operation].isEstimated?.(task) === true;

/** The request for an upstream. */
export async function prepare(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  const bounded: ResolveAddresses = (addresses) => {
    const surplus = addresses[addressesMax];
    if (surplus !== undefined)
      refuse(surplus.path, `is one address too many: a request may name at most ${addressesMax} addresses`);
    return resolve(addresses);
  };
  try {
    const prepared = withPromptCache(await exchanges[task.operation].prepare(task, bounded), task);
    return withoutRefused(prepared, task.omits);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return refused(error.message, error.param);
  }
}

function withoutRefused(prepared: Prepared, omits: readonly string[] = []): Prepared {
  if (omits.length === 0 || (prepared.kind !== "conversation" && prepared.kind !== "call")) return prepared;
  return { ...prepared, request: { ...prepared.request, body: withoutFields(prepared.request.body, omits) } };
}

/** How a whole response is read: `context` comes from the operation's `prepare`. */
export interface WholeTask {
  operation: OperationName;
  context: unknown;
}

export const readWhole = ({ operation, context }: WholeTask, bytes: Buffer) =>
  exchanges[operation].read(context, bytes);
