/**
 * Answers in Google's Gemini format, and the parts that whole and streamed ones share:
 * https://ai.google.dev/api/generate-content#generatecontentresponse
 */

import { isObject, isPresent, type JsonObject, jsonOf, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import type { AnswerContext } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import { emptyAnswer, endingFor, explanationLengthMax, isFailure, stoppedBy } from "../neutral/finish.ts";
import { type Answer, type AnswerEvent, endWith, eventsOf, type Finish, failed } from "../neutral/neutral.ts";
import { EventDecoder } from "../relay/event-decoder.ts";
import { isErrorBody, upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import {
  countedUnits,
  countedUsage,
  laterUsage,
  modalityTokensOf,
  plausible,
  serviceTierOf,
  tokensOf,
  type Units,
  type Usage,
} from "../usage.ts";
import { PartReader } from "./part-reader.ts";
import { PartWriter } from "./part-writer.ts";

const finishes: Record<Finish, string> = {
  stop: "STOP",
  "stop-sequence": "STOP",
  length: "MAX_TOKENS",
  "context-full": "MAX_TOKENS",
  calls: "STOP",
  "content-filter": "SAFETY",
  paused: "CONTINUATION",
};

/** True if a candidate's finish reason ends it. */
export const isFinish = (reason: unknown): reason is string =>
  textOf(reason) !== undefined && reason !== "FINISH_REASON_UNSPECIFIED";

/** True if the prompt was blocked, so no candidate follows. */
export const isBlocked = (promptFeedback: unknown): boolean => {
  const reason = textOf(objectOf(promptFeedback).blockReason);
  return reason !== undefined && reason !== "BLOCK_REASON_UNSPECIFIED";
};

/**
 * The error of the first candidate that failed. The words are not Google's: they are those that its
 * clients know.
 */
export function failureIn(candidates: readonly JsonObject[]): UpstreamError | undefined {
  const reason = candidates.map(({ finishReason }) => finishReason).find(isFailure);
  return reason === undefined ? undefined : stoppedBy(reason);
}

/**
 * Undefined if the value is not an object. Google counts the input of hosted tools and the thinking
 * separately from prompt and answer; some servers count the thinking as a part of the answer, so
 * that the total is right without it. `searches` are those of `searchesIn`. Live names the answer's
 * counters `responseTokenCount` and `responseTokensDetails`, embeddings the prompt's details
 * `promptTokenDetails` (https://github.com/maximhq/bifrost/pull/7295).
 */
export function usageOf(value: unknown, searches: Units = {}): Usage | undefined {
  if (!isObject(value)) return undefined;
  const usage = objectOf(value);
  const reasoningTokens = tokensOf(usage.thoughtsTokenCount);
  const inputTokens = tokensOf(usage.promptTokenCount) + tokensOf(usage.toolUsePromptTokenCount);
  const answered = tokensOf(usage.candidatesTokenCount ?? usage.responseTokenCount);
  const isInside = reasoningTokens <= answered && tokensOf(usage.totalTokenCount) === inputTokens + answered;
  const { toolUsePromptTokensDetails: tools, cacheTokensDetails: cached } = usage;
  const prompt = usage.promptTokensDetails ?? usage.promptTokenDetails;
  const output = usage.candidatesTokensDetails ?? usage.responseTokensDetails;
  const uncached = (modality: Parameters<typeof modalityTokensOf>[1]) =>
    Math.max(0, modalityTokensOf(prompt, modality) - modalityTokensOf(cached, modality)) +
    modalityTokensOf(tools, modality);
  const report = plausible({
    inputTokens,
    cachedInputTokens: tokensOf(usage.cachedContentTokenCount),
    cacheWriteTokens: 0,
    outputTokens: isInside ? answered : answered + reasoningTokens,
    reasoningTokens,
    audioInputTokens: uncached("AUDIO"),
    audioOutputTokens: modalityTokensOf(output, "AUDIO"),
    ...countedUnits({
      cachedAudioTokens: modalityTokensOf(cached, "AUDIO"),
      imageInputTokens: uncached("IMAGE"),
      imageOutputTokens: modalityTokensOf(output, "IMAGE"),
      ...searches,
    }),
    ...serviceTierOf(usage.serviceTier ?? tierOf(usage.trafficType)),
  });
  return countedUsage(report);
}

/**
 * https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse#TrafficType
 */
const tierOf = (traffic: unknown) =>
  /^(?:ON_DEMAND_)?(PRIORITY|FLEX|PROVISIONED)/.exec(String(traffic))?.[1]?.toLowerCase();

/**
 * The searches for an answer, as far as this response and those `before` say. Models up to 2.5 are
 * billed for each prompt that was answered with results, newer ones for each query:
 * https://ai.google.dev/gemini-api/docs/google-search#pricing
 */
export function searchesIn({ candidates, modelVersion }: JsonObject, before: Units = {}): Units {
  let searches = before;
  for (const { groundingMetadata: metadata } of listOf(candidates).map(objectOf)) {
    if (!isObject(metadata)) continue;
    const { webSearchQueries: queries, groundingChunks } = objectOf(metadata);
    const searched = listOf(queries).length;
    const isGrounded = listOf(groundingChunks).some((chunk) => isPresent(objectOf(chunk).maps));
    searches = {
      webSearches: /gemini-[12]\b/.test(String(modelVersion)) ? Math.min(1, searched) : searched,
      mapSearches: isGrounded ? 1 : 0,
    };
  }
  return searches;
}

/** Google leaves out counts of zero, except those of the prompt, the answer and both together. */
function usageBodyOf(usage: Usage): object {
  const { inputTokens, cachedInputTokens, outputTokens, reasoningTokens, units } = usage;
  const { audioInputTokens = 0, audioOutputTokens = 0 } = usage;
  const answered = Math.max(0, outputTokens - reasoningTokens);
  return {
    promptTokenCount: inputTokens,
    cachedContentTokenCount: cachedInputTokens || undefined,
    candidatesTokenCount: answered,
    thoughtsTokenCount: reasoningTokens || undefined,
    totalTokenCount: inputTokens + outputTokens,
    promptTokensDetails: detailsOf(
      inputTokens,
      audioInputTokens + (units?.cachedAudioTokens ?? 0),
      units?.imageInputTokens ?? 0,
    ),
    candidatesTokensDetails:
      answered > 0 ? detailsOf(answered, audioOutputTokens, units?.imageOutputTokens ?? 0) : undefined,
  };
}

const detailsOf = (all: number, audio: number, images: number): object[] =>
  [
    { modality: "TEXT", tokenCount: Math.max(0, all - audio - images) },
    { modality: "AUDIO", tokenCount: audio },
    { modality: "IMAGE", tokenCount: images },
  ].filter(({ modality, tokenCount }) => modality === "TEXT" || tokenCount > 0);

/** The error in a whole response or a chunk; undefined if it has none. */
export const errorIn = (response: JsonObject): UpstreamError | undefined =>
  isPresent(response.error) || (response.candidates === undefined && isErrorBody(response))
    ? upstreamErrorOf(response)
    : undefined;

/**
 * Reads an answer, whole or in chunks: every chunk is a response with some of the parts. Events
 * have no names, and nothing marks the end.
 */
export class GeminiDecoder extends EventDecoder {
  usage: Usage | undefined;
  readonly #parts = new PartReader(this.events);
  #finish: Finish | undefined;
  #searches: Units = {};

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  protected override read(response: JsonObject): undefined {
    const error = errorIn(response);
    if (error !== undefined) return this.fail(error);
    this.#searches = searchesIn(response, this.#searches);
    this.usage = laterUsage(usageOf(response.usageMetadata, this.#searches), this.usage);
    if (isBlocked(response.promptFeedback)) {
      this.#finish = "content-filter";
      this.#explain(objectOf(response.promptFeedback).blockReasonMessage);
    }
    for (const { index, content, finishReason, finishMessage, groundingMetadata } of listOf(response.candidates).map(
      objectOf,
    )) {
      if (isPresent(index) && index !== 0) continue;
      const parts = listOf(objectOf(content).parts);
      for (const [place, part] of parts.entries())
        this.#parts.read(objectOf(part), place === parts.length - 1 ? groundingMetadata : undefined);
      if (parts.length === 0 && isObject(groundingMetadata)) this.#parts.cite(groundingMetadata);
      if (!isFinish(finishReason)) continue;
      const hasContent = this.#parts.hasContent;
      const finish = endingFor(finishReason, { called: false, hasContent }, finishMessage);
      if (typeof finish !== "string") return this.fail(finish);
      if (finish === "content-filter") this.#explain(finishMessage);
      this.#finish = finish;
    }
  }

  /** Google's own sentence about a filtered answer, as a refusal. */
  #explain(message: unknown): void {
    const text = textOf(message);
    if (text === undefined) return;
    this.#parts.close();
    this.events.push(
      { kind: "block", block: { kind: "refusal" } },
      { kind: "delta", text: text.slice(0, explanationLengthMax) },
      { kind: "block-end" },
    );
  }

  protected override finish(): void {
    const finish = this.#finish ?? "stop";
    this.#parts.close();
    this.events.push({ kind: "finish", ...endWith(finish === "stop" && this.#parts.called ? "calls" : finish, this) });
  }

  /** The events of a whole answer, which counts as complete without a finish reason. */
  whole(body: JsonObject): AnswerEvent[] {
    this.read(body);
    const last = this.events.at(-1);
    if (last?.kind === "error") return [last];
    const { finishReason } = objectOf(listOf(body.candidates)[0]);
    if (!this.finished && textOf(finishReason) !== undefined) return failed(stoppedBy(String(finishReason)));
    if (!this.finished && this.#parts.empty)
      return failed(body.candidates === undefined ? upstreamErrorOf(body) : emptyAnswer);
    this.finish();
    return this.events;
  }
}

export const decodeAnswer = (body: JsonObject) => new GeminiDecoder().whole(body);

export const identityOf = ({ id, model, continues }: AnswerContext) => ({
  modelVersion: model,
  responseId: continues?.id ?? id,
});

/** The last response, or a whole one, with these parts. */
export function responseOf(
  parts: readonly object[],
  context: AnswerContext,
  { finish, usage, writer }: { finish: Finish; usage: Usage | undefined; writer: PartWriter },
): object {
  const { malformed, grounding } = writer;
  const reason = malformed && finishes[finish] === "STOP" ? "MALFORMED_FUNCTION_CALL" : finishes[finish];
  return {
    candidates: [
      {
        content: { role: "model", parts },
        finishReason: reason,
        index: 0,
        finishMessage:
          reason === "MALFORMED_FUNCTION_CALL"
            ? "The model made a call whose arguments are not a JSON object."
            : undefined,
        groundingMetadata: grounding,
      },
    ],
    usageMetadata: usage && usageBodyOf(usage),
    ...identityOf(context),
  };
}

export function encodeAnswer(answer: Answer, context: AnswerContext): string {
  const writer = new PartWriter(context);
  const parts = eventsOf(answer).flatMap((event) =>
    event.kind === "error" || event.kind === "finish" ? [] : writer.push(event),
  );
  const { finish, usage } = answer;
  return jsonOf(responseOf(writer.endOn(parts), context, { finish, usage, writer }));
}
