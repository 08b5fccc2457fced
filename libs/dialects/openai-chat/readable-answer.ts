/**
 * Answers that pass unchanged, in the form that clients can read. Servers of this format leave out
 * members that OpenAI's always have, and write others in forms of their own; strict clients fail at
 * them, and others lose what they do not know.
 * https://platform.openai.com/docs/api-reference/chat/object,
 * https://platform.openai.com/docs/api-reference/chat/streaming
 */
import { isObject, isPresent, type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import type { AnswerIdentity } from "../codec.ts";
import { chatIdOf, isCut, withPlainContent } from "./answer.ts";
import { callsFor, type Names, withEnding } from "./custom-calls.ts";

/** Members of every answer and of every chunk, for one that lacks them. */
export interface Envelope {
  id: string;
  object: string;
  created: number;
  model: string;
}

/** The members of an answer with this identity. `object` names its kind. */
export const envelopeOf = ({ id, createdAt = 0, model }: AnswerIdentity, object: string): Envelope => ({
  id: chatIdOf({ id }),
  object,
  created: createdAt,
  model,
});

/**
 * The members that an answer or a chunk lacks, or has in another type
 * (https://github.com/spring-projects/spring-ai/issues/6928,
 * https://github.com/64bit/async-openai/pull/408, https://github.com/anomalyco/opencode/issues/39606),
 * with its usage if that lacks counts (https://github.com/livekit/agents/issues/6595,
 * https://github.com/theopenco/llmgateway/pull/2861).
 */
export function missingIn(answer: JsonObject, own: Envelope): JsonObject {
  const { id, object, created, model } = answer;
  const missing: JsonObject = {};
  if (typeof id !== "string") missing.id = typeof id === "number" ? String(id) : own.id;
  if (typeof object !== "string") missing.object = own.object;
  if (!Number.isInteger(created)) missing.created = typeof created === "number" ? Math.floor(created) : own.created;
  if (typeof model !== "string") missing.model = own.model;
  const usage = isObject(answer.usage) ? usageFor(answer.usage) : answer.usage;
  if (usage !== answer.usage) missing.usage = usage;
  return missing;
}

const countNames = ["prompt_tokens", "completion_tokens", "total_tokens"];

/** The usage with all counts; the same one if it has them, and null for one without any. */
function usageFor(usage: JsonObject): JsonObject | null {
  const counts = countNames.map((name) => usage[name]);
  if (counts.every((count) => typeof count === "number")) return usage;
  if (!counts.some((count) => typeof count === "number")) return null;
  const [prompt, completion, total] = counts.map((count) => (typeof count === "number" ? count : 0)) as [
    number,
    number,
    number,
  ];
  return {
    ...usage,
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: Math.max(total, prompt + completion),
  };
}

/**
 * The chunk with its members, a list of choices, and in each an index and a delta whose role and
 * content clients know; the same chunk if its server sent it so. Some servers write null in place
 * of the list or the delta (https://github.com/pydantic/pydantic-ai/issues/5165), no choices beside
 * the usage, a blank role (https://github.com/langchain-ai/langchainjs/pull/11470), or a whole
 * message, which counts unless content `isBegun` (https://github.com/Amm1rr/WebAI-to-API/issues/55).
 */
export function readableChunkOf(chunk: JsonObject, own: Envelope, isBegun: boolean): JsonObject {
  const missing = missingIn(chunk, own);
  const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
  const readable = choices.map((choice, place) => readableDeltaOf(choice, place, isBegun));
  const isReadable = readable.every((choice, place) => choice === choices[place]) && choices === chunk.choices;
  if (isReadable && Object.keys(missing).length === 0) return chunk;
  return { ...chunk, ...missing, choices: isReadable ? choices : readable };
}

function readableDeltaOf(value: unknown, place: number, isBegun: boolean): unknown {
  const choice = objectOf(value);
  const sent = objectOf(choice.delta ?? (isBegun ? undefined : choice.message));
  const plain = withPlainContent(sent);
  const delta = plain.role === "" ? { ...plain, role: "assistant" } : plain;
  if (delta === choice.delta && typeof choice.index === "number") return value;
  const { message: _, ...others } = choice;
  return { ...others, index: typeof choice.index === "number" ? choice.index : place, delta };
}

/** The choices of a whole answer as its caller gets them; undefined if none changes. */
export function readableChoices(choices: unknown, identity: AnswerIdentity): unknown[] | undefined {
  const sent = listOf(choices);
  const readable = sent.map((choice, place) => readableChoiceOf(choice, place, identity));
  return readable.every((choice, place) => choice === sent[place]) ? undefined : readable;
}

function readableChoiceOf(value: unknown, place: number, { customNames, namesTool }: AnswerIdentity): unknown {
  const choice = objectOf(value);
  const message = readableMessageOf(objectOf(choice.message), customNames);
  const calls = listOf(message.tool_calls);
  const reason = textOf(choice.finish_reason) ?? (calls.length > 0 ? "tool_calls" : "stop");
  const indexed = typeof choice.index === "number" ? choice : { ...choice, index: place };
  const whole = message === choice.message ? indexed : { ...indexed, message };
  const ended = reason === choice.finish_reason ? whole : { ...whole, finish_reason: reason };
  const own = withEnding(ended, {
    hasCalls: calls.length > 0 || isPresent(message.function_call),
    isCut: () => calls.map(objectOf).some(isCut),
    mayStop: namesTool === true || calls.length === 0,
  });
  return own === choice ? value : own;
}

function readableMessageOf(sent: JsonObject, names: Names | undefined): JsonObject {
  const plain = withPlainContent(sent);
  const calls = listOf(plain.tool_calls);
  const own = callsFor(calls, names);
  const isSpoken = textOf(plain.role) !== undefined && plain.content !== undefined;
  if (isSpoken && own === calls) return plain;
  return {
    ...plain,
    role: textOf(plain.role) ?? "assistant",
    content: plain.content ?? null,
    ...(own !== calls && { tool_calls: own }),
  };
}
