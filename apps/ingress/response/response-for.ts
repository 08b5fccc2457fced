/**
 * The layers of a response, from its caller up to its generation. A layer that a request does not
 * need is not there and costs nothing.
 */
import { type CompactionOptions, compactedResponse } from "./compacted-response.ts";
import { ContentResponse, type ContentResponseOptions } from "./content-response.ts";
import type { DetachedResponse } from "./logged-response.ts";
import { RecordedResponse, type RecordingOptions } from "./recorded-response.ts";
import type { AnswerResponse } from "./response.ts";
import type { SharedResponse } from "./shared-response.ts";
import { TranslatedResponse, type TranslationOptions } from "./translated-response.ts";

export interface ResponseLayers {
  /** The caller: an HTTP response, a turn on a WebSocket, a session, or nobody. */
  sink: AnswerResponse;
  /** Into the format of Ollama or of Gemini's Interactions. */
  translation?: TranslationOptions;
  /** To all callers with the same Idempotency-Key. */
  idempotency?: SharedResponse | undefined;
  /** The generation goes on without its caller, and its answer is stored as it comes. */
  detached?: DetachedResponse;
  /** The answer is stored before its caller has the end, if Redis takes it within two seconds. */
  recording?: RecordingOptions | undefined;
  /** The answer is a summary, and becomes a compaction item. */
  compaction?: CompactionOptions | undefined;
  /** The account keeps the answer for people. */
  content?: ContentResponseOptions | undefined;
}

/** The generation writes to the last layer; each one passes on to the one before it. */
export function responseFor(layers: ResponseLayers): AnswerResponse {
  const { sink, translation, idempotency, detached, recording, compaction, content } = layers;
  let response = sink;
  if (translation !== undefined) response = new TranslatedResponse(response, translation);
  if (idempotency !== undefined) response = idempotency.over(response);
  if (detached !== undefined) response = detached.over(response);
  if (recording !== undefined) response = new RecordedResponse(response, recording);
  if (compaction !== undefined) response = compactedResponse(response, compaction);
  if (content !== undefined) response = new ContentResponse(response, content);
  return response;
}
