/**
 * Whole answers in OpenAI's chat-completions format, and the parts shared with streamed answers:
 * https://platform.openai.com/docs/api-reference/chat/object
 */

import { isObject, isPresent, type JsonObject, jsonOf, listOf, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import { JsonProgress } from "#wire/json/progress.ts";
import type { AnswerContext } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import { type CitedText, citedTextOf, openaiCitationOf, openaiCitationsIn, sourcesIn } from "../neutral/citations.ts";
import {
  emptyAnswer,
  endingFor,
  endingWithCalls,
  isFailure,
  isMalformedCall,
  reasonIn,
  stoppedBy,
} from "../neutral/finish.ts";
import {
  type Answer,
  type AnswerEvent,
  type Block,
  type CallBlock,
  type Citation,
  endWith,
  eventsOf,
  type Finish,
  failed,
  type ImageBlock,
  type Signature,
  textsIn,
} from "../neutral/neutral.ts";
import { calledTool, inputOfText, inputTextOf, newCallId, textOfCall, wholeInputOf } from "../neutral/tools.ts";
import { pictureOf } from "../neutral/unshown.ts";
import { openaiUsageOf } from "../openai/parts.ts";
import { isErrorBody, upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { countedUsage, type Usage } from "../usage.ts";
import { asksForFunctions } from "./legacy-functions.ts";
import { reasoningDetailOf } from "./messages.ts";
import { callSignatureOf, ReasoningReader, reasoningFieldsOf } from "./reasoning.ts";

const finishes: Record<Finish, string> = {
  stop: "stop",
  "stop-sequence": "stop",
  length: "length",
  "context-full": "length",
  calls: "tool_calls",
  "content-filter": "content_filter",
  paused: "length",
};

/** `isLegacy`: for a request with `functions`. */
export const finishNameOf = (finish: Finish, isLegacy: boolean) =>
  isLegacy && finish === "calls" ? "function_call" : finishes[finish];

/**
 * The error of the first choice that failed.
 * https://openrouter.ai/docs/api/reference/errors-and-debugging
 */
export function failureIn(choices: readonly JsonObject[]): UpstreamError | undefined {
  for (const { error, finish_reason: reason, native_finish_reason: vendors } of choices) {
    if (isPresent(error)) return upstreamErrorOf(error);
    if (isFailure(reason)) return stoppedBy(reason);
    // OpenRouter's own reason is a stop: https://github.com/vellum-ai/vellum-assistant/pull/43134
    if (isMalformedCall(vendors)) return stoppedBy(vendors);
  }
  return undefined;
}

/**
 * The stop sequence that ended an answer, from servers that report it: vLLM in `stop_reason`,
 * SGLang in `matched_stop`, where a number is a token.
 * https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
 */
export function stopSequenceOf({
  finish_reason: reason,
  stop_reason: vllm,
  matched_stop: sglang,
}: JsonObject): string | undefined {
  return reason === "stop" ? (textOf(vllm) ?? textOf(sglang)) : undefined;
}

/** The `finish` event of an answer. */
export const endOf = (finish: Finish, stopSequence: string | undefined, usage: Usage | undefined) =>
  finish === "stop" && stopSequence !== undefined
    ? endWith("stop-sequence", { stopSequence, usage })
    : endWith(finish, { usage });

/** The usage in a whole answer; undefined if it has none. */
export const usageOf = (answer: JsonObject): Usage | undefined => countedUsage(reportIn(answer));

/**
 * The report in an answer or a chunk, counted or not; undefined if it has none. Groq reports it in
 * `x_groq` (https://console.groq.com/docs/api-reference#chat-create), Moonshot in the choice that
 * ends (https://platform.moonshot.ai/docs/api/chat).
 */
export function reportIn(answer: JsonObject): Usage | undefined {
  const { usage, x_groq: groq, choices } = answer;
  if (isObject(usage)) return openaiUsageOf(usage, answer);
  if (groq !== undefined && isObject(objectOf(groq).usage)) return reportIn({ usage: objectOf(groq).usage });
  if (!Array.isArray(choices)) return undefined;
  for (const choice of choices) if (isObject(choice?.usage)) return reportIn({ ...answer, usage: choice.usage });
  return undefined;
}

/** The error in an answer or a chunk; undefined if it has none. */
export function errorIn(body: JsonObject): UpstreamError | undefined {
  const { error, choices, x_groq: groq } = body;
  const groqError = groq === undefined ? undefined : textOf(objectOf(groq).error);
  if (groqError !== undefined) return upstreamErrorOf(groqError);
  const isError = isPresent(error) || (listOf(choices).length === 0 && isErrorBody(body));
  return isError ? upstreamErrorOf(body) : undefined;
}

export const usageBodyOf = ({
  inputTokens,
  cachedInputTokens,
  cacheWriteTokens,
  outputTokens,
  reasoningTokens,
  audioInputTokens = 0,
  audioOutputTokens = 0,
  units,
}: Usage) => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
  prompt_tokens_details: {
    cached_tokens: cachedInputTokens,
    cache_write_tokens: cacheWriteTokens,
    audio_tokens: audioInputTokens + (units?.cachedAudioTokens ?? 0),
    image_tokens: units?.imageInputTokens,
  },
  completion_tokens_details: {
    reasoning_tokens: reasoningTokens,
    audio_tokens: audioOutputTokens,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
    image_tokens: units?.imageOutputTokens,
  },
  server_tool_use: units?.webSearches === undefined ? undefined : { web_search_requests: units.webSearches },
});

export const chatIdOf = ({ id, continues }: Pick<AnswerContext, "id" | "continues">) =>
  continues?.id ?? `chatcmpl-${id}`;

/** The text of an answer's content, which some servers send in parts. */
export const contentTextOf = (content: unknown) =>
  Array.isArray(content) ? textOf(content.map((part) => textOf(objectOf(part).text) ?? "").join("")) : textOf(content);

/**
 * The message or delta with its content as text. Mistral's reasoning models write a list of texts
 * and thinking (https://docs.mistral.ai/capabilities/reasoning), where clients expect
 * `reasoning_content` (https://github.com/microsoft/agent-framework/issues/6978,
 * https://github.com/symfony/ai/issues/2422). The same one if its content is none of these:
 * Databricks' reasoning has a signature and must come back as it is.
 */
export function withPlainContent(message: JsonObject): JsonObject {
  const { content } = message;
  if (!Array.isArray(content)) return message;
  const parts = content.map(objectOf);
  if (!parts.every(({ type }) => plainTypes.includes(String(type)))) return message;
  const reasoning = new ReasoningReader().read(message);
  const images = parts.filter(({ type }) => type === "image_url");
  return {
    ...message,
    content: contentTextOf(content) ?? (reasoning === undefined ? "" : null),
    ...(reasoning !== undefined && { reasoning_content: reasoning }),
    ...(images.length > 0 && { images: [...listOf(message.images), ...images] }),
  };
}

/** A reference names a document that Mistral's own tools found: it has no text. */
const plainTypes = ["text", "thinking", "image_url", "reference"];

/** False for a member of a message or a delta that adds nothing to the answer. */
export const isContent = (name: string, value: unknown) =>
  name !== "role" && isPresent(value) && value !== "" && !(Array.isArray(value) && value.length === 0);

const textNames = ["content", "reasoning_content", "reasoning"];

/** The member with the text of a delta that adds nothing else; undefined for another delta. */
export function onlyTextIn(delta: JsonObject): string | undefined {
  const [name, ...others] = Object.keys(delta).filter((key) => isContent(key, delta[key]));
  const isOnly = name !== undefined && others.length === 0 && textNames.includes(name);
  return isOnly && typeof delta[name] === "string" ? name : undefined;
}

/** The images of a message or a delta: beside its content, or among the parts of it. */
export const picturesIn = ({ images, content }: JsonObject) =>
  [...listOf(images), ...(Array.isArray(content) ? content : [])].flatMap((value) => {
    const { image_url: image } = objectOf(value);
    const url = textOf(image) ?? textOf(objectOf(image).url);
    return url === undefined ? [] : [pictureOf(url)];
  });

/** The id of a call; undefined if its server gave it none, or a blank one. */
export const idOf = ({ id }: JsonObject): string | undefined =>
  typeof id === "number" ? String(id) : textOf(id)?.trim() === "" ? undefined : textOf(id);

/** The name and JSON input of a call, from a message or a delta with the whole call. */
export function callOf(call: JsonObject): { name: string; input: string } {
  const { name, arguments: input } = objectOf(call.function);
  if (call.function !== undefined || call.custom === undefined)
    return {
      name: textOf(name) ?? "",
      input: inputTextOf(input),
    };
  const custom = objectOf(call.custom);
  return { name: textOf(custom.name) ?? "", input: inputOfText(textOf(custom.input) ?? "") };
}

/** True for a call whose arguments are incomplete. */
export function isCut(call: JsonObject): boolean {
  const progress = new JsonProgress();
  progress.push(callOf(call).input);
  return progress.isIncomplete;
}

/** The citations of a message in an answer that may name its sources beside it. */
function citationsIn({ annotations }: JsonObject, answer: JsonObject): Citation[] {
  const own = openaiCitationsIn(annotations);
  return own.length > 0 ? own : sourcesIn(answer);
}

export const annotationsOf = ({ citations }: CitedText) =>
  citations.map((citation) => ({ type: "url_citation", url_citation: openaiCitationOf(citation) }));

/**
 * A translated request asks for one choice, so several are parts of one answer: Copilot sends the
 * text and the calls of Claude in choices of their own.
 * https://github.com/HKUDS/nanobot/issues/1481,
 * https://github.com/ericc-ch/copilot-api/blob/master/src/routes/messages/non-stream-translation.ts
 */
export function decodeAnswer(body: JsonObject): AnswerEvent[] {
  const choices = listOf(body.choices).map(objectOf);
  const error = errorIn(body);
  if (error !== undefined) return failed(error);
  if (choices.length === 0) return failed(body.choices === undefined ? upstreamErrorOf(body) : emptyAnswer);
  const failure = failureIn(choices);
  if (failure !== undefined) return failed(failure);
  const events: AnswerEvent[] = [];
  const calls: JsonObject[] = [];
  const thought = (thoughtText: string, signature: Signature | undefined) => {
    if (signature === undefined) return;
    events.push({ kind: "block", block: { kind: "reasoning" } });
    if (thoughtText !== "") events.push({ kind: "delta", text: thoughtText });
    events.push({ kind: "signature", signature }, { kind: "block-end" });
  };
  const text = (kind: "text" | "refusal", value: unknown, citations: readonly Citation[] = []) => {
    if (textOf(value) === undefined) return;
    events.push({ kind: "block", block: { kind } }, { kind: "delta", text: value as string });
    for (const citation of citations) events.push({ kind: "citation", citation });
    events.push({ kind: "block-end" });
  };
  for (const message of choices.map((choice) => objectOf(choice.message))) {
    const reader = new ReasoningReader();
    thought(reader.read(message) ?? "", reader.take());
    text("text", contentTextOf(message.content), citationsIn(message, body));
    for (const picture of picturesIn(message))
      events.push(...eventsOf({ blocks: [picture], finish: "stop" }).slice(0, -1));
    text("refusal", message.refusal);
    calls.push(...listOf(message.tool_calls).map(objectOf));
  }
  for (const call of calls) {
    const { name, input } = callOf(call);
    thought("", callSignatureOf(call));
    events.push(
      { kind: "block", block: { kind: "call", id: idOf(call) ?? newCallId(), name } },
      { kind: "delta", text: wholeInputOf(input) },
      { kind: "block-end" },
    );
  }
  const reason = choices.map((choice) => reasonIn(choice.finish_reason)).find((one) => one !== undefined);
  if (reason === undefined && events.length === 0) return failed(emptyAnswer);
  const hasContent = events.some((event) => event.kind === "block" && event.block.kind !== "reasoning");
  const finish = endingFor(reason ?? "stop", { called: calls.length > 0, hasContent });
  if (typeof finish !== "string") return failed(finish);
  const ending = endingWithCalls(finish, { called: calls.length > 0, isCut: calls.some(isCut) });
  events.push({ kind: "finish", ...endOf(ending, choices.map(stopSequenceOf).find(isPresent), usageOf(body)) });
  return events;
}

export function encodeAnswer({ blocks, finish, usage }: Answer, context: AnswerContext): string {
  const { fields, thinking, ofCalls } = reasoningFieldsOf(blocks, undefined);
  const isLegacy = asksForFunctions(context.body);
  const calls = blocks
    .filter((block) => block.kind === "call")
    .map((block, place) => ({ ...callBodyOf(block, context), extra_content: ofCalls[place] }));
  const images = blocks.flatMap((block) => (block.kind === "image" ? [imageBodyOf(block)] : []));
  const details = reasoningDetailsOf(blocks, context);
  const content = textsIn(blocks).join("");
  const refusal = textsIn(blocks, "refusal").join("");
  const reasoning = textsIn(blocks, "reasoning").join("");
  const plainContent = content === "" && (calls.length > 0 || refusal !== "") ? null : content;
  const message = {
    role: "assistant",
    content: thinking.length > 0 ? [...thinking, { type: "text", text: content }] : plainContent,
    refusal: refusal === "" ? null : refusal,
    ...fields,
    ...(reasoning !== "" && { reasoning_content: reasoning }),
    ...(details.length > 0 && { reasoning_details: details }),
    images: someOf(images),
    annotations: someOf(annotationsOf(citedTextOf(blocks))),
    ...(calls.length > 0 && (isLegacy ? { function_call: calls[0]?.function } : { tool_calls: calls })),
  };
  return jsonOf({
    id: chatIdOf(context),
    object: "chat.completion",
    created: context.createdAt,
    model: context.model,
    choices: [
      { index: 0, message: withPlainContent(message), logprobs: null, finish_reason: finishNameOf(finish, isLegacy) },
    ],
    usage: usage && usageBodyOf(usage),
  });
}

/** A call as the caller sees it; the caller may have offered the tool as one with free text. */
export function callBodyOf({ id, name, input }: CallBlock, { request }: AnswerContext) {
  const tool = calledTool(request, name);
  const callerName = tool?.callerName ?? name;
  if (tool?.textAsArguments === true)
    return { id, type: "function", function: { name: callerName, arguments: textOfCall(input) } };
  return tool?.takesText === true
    ? { id, type: "custom", custom: { name: callerName, input: textOfCall(input) } }
    : { id, type: "function", function: { name: callerName, arguments: input === "" ? "{}" : input } };
}

/** An extension: the field that servers with image models of this format agree on. */
export const imageBodyOf = ({ mimeType, data }: ImageBlock) => ({
  type: "image_url",
  image_url: { url: `data:${mimeType};base64,${data}` },
});

/**
 * The signed reasoning of an answer of another dialect. One without text directly before a call
 * belongs to that call.
 */
export function reasoningDetailsOf(blocks: readonly Block[], context: AnswerContext): object[] {
  const details: object[] = [];
  for (const [place, block] of blocks.entries()) {
    if (block.kind !== "reasoning" || block.signature === undefined || block.signature.dialect === "openai-chat")
      continue;
    const next = blocks[place + 1];
    details.push(
      reasoningDetailOf(
        { text: block.text, signature: block.signature },
        context,
        details.length,
        next?.kind === "call" ? next.id : undefined,
      ),
    );
  }
  return details;
}
