/**
 * Composes the answer to a question. The same question always gets the same answer, and the text
 * depends only on the user's words, not on the model's name.
 */
import { answerBytesMax, type Settings } from "../settings.ts";
import { type Call, callsOf } from "./calls.ts";
import { type Chunks, chunksOf, extended, fillerOf, firstOf, joined, noChunks, seedOf } from "./chunks.ts";
import { exampleOf } from "./example.ts";
import type { Question } from "./question.ts";

export interface Choice {
  reasoning: Chunks;
  /** Undefined if the answer has only calls. */
  text: Chunks | undefined;
  calls: Call[];
  finish: "stop" | "length" | "calls" | "filtered";
  /** The stop sequence that ended the text. */
  stopped: string | undefined;
}

export interface Usage {
  promptTokens: number;
  /** Part of the prompt tokens. */
  cachedTokens: number;
  /** The tokens of all choices, including reasoning. */
  completionTokens: number;
  /** Part of the completion tokens. */
  reasoningTokens: number;
}

export interface Composition {
  choices: Choice[];
  usage: Usage;
}

/**
 * Refuses a question that cannot be answered, in the dialect of its caller; `of` says what of it is
 * at fault.
 */
type RefuseQuestion = (fault: string, of: "format" | "length") => never;

const reasoningTokensByEffort: Record<string, number> = {
  minimal: 4,
  low: 8,
  medium: 16,
  high: 32,
  xhigh: 64,
  max: 128,
};

/**
 * The smallest cached prompt, and the step of cached tokens, as OpenAI documents its prompt
 * caching.
 */
const cacheTokensMin = 1_024;
const cacheTokensStep = 128;

const echoCharactersMax = 400;

/** The tokens of a choice; a call's name counts as one. */
export const tokensOf = ({ reasoning, text, calls }: Choice) =>
  reasoning.length + (text?.length ?? 0) + calls.reduce((sum, call) => sum + 1 + call.input.length, 0);

export function compose(question: Question, settings: Settings, refuse: RefuseQuestion): Composition {
  if (question.choices * (settings.tokens ?? 0) * (settings.tokenBytes ?? 8) > answerBytesMax)
    refuse(`So many choices of ${settings.tokens} tokens are more than ${answerBytesMax} bytes.`, "length");
  const structured = structuredTextOf(question, refuse);
  const choices = Array.from({ length: question.choices }, (_, index) =>
    choiceOf(question, settings, index, structured),
  );
  const completionTokens = choices.reduce((sum, choice) => sum + tokensOf(choice), 0);
  const reasoningTokens = choices.reduce((sum, choice) => sum + choice.reasoning.length, 0);
  return {
    choices,
    usage: {
      promptTokens: question.promptTokens,
      cachedTokens: cachedTokensOf(question, settings),
      completionTokens,
      reasoningTokens,
    },
  };
}

function choiceOf(question: Question, settings: Settings, index: number, structured: string | undefined): Choice {
  const seed = seedOf(question.userText) + index;
  const budget = question.outputTokensMax ?? Number.POSITIVE_INFINITY;
  const thought = fillerOf(reasoningTokensOf(question, settings), seed);
  const reasoning = firstOf(thought, budget);
  const calls = settings.filterTokens === undefined ? callsOf(question, index) : [];
  if (calls.length > 0) {
    const kept = callsWithin(calls, budget - reasoning.length);
    return {
      reasoning,
      text: undefined,
      calls: kept.calls,
      finish: kept.whole ? "calls" : "length",
      stopped: undefined,
    };
  }
  const whole = structured === undefined ? textOf(question, settings, index, seed) : chunksOf(structured);
  const { text: stoppable, stopped } = untilStop(whole, question.stops);
  const text = firstOf(stoppable, budget - reasoning.length);
  if (settings.filterTokens !== undefined)
    return { reasoning, text: firstOf(text, settings.filterTokens), calls: [], finish: "filtered", stopped: undefined };
  const finished = text.length === stoppable.length && reasoning.length === thought.length;
  return { reasoning, text, calls: [], finish: finished ? "stop" : "length", stopped: finished ? stopped : undefined };
}

function reasoningTokensOf({ effort }: Question, { reasoningTokens }: Settings): number {
  if (reasoningTokens !== undefined) return reasoningTokens;
  return effort === undefined ? 0 : (reasoningTokensByEffort[effort] ?? 0);
}

/** The calls that fit into the budget of tokens; the last may be truncated. */
function callsWithin(calls: Call[], budget: number): { calls: Call[]; whole: boolean } {
  const kept: Call[] = [];
  let left = budget;
  for (const call of calls) {
    if (left < 1) return { calls: kept, whole: false };
    const input = firstOf(call.input, left - 1);
    kept.push({ ...call, input });
    if (input.length < call.input.length) return { calls: kept, whole: false };
    left -= 1 + input.length;
  }
  return { calls: kept, whole: true };
}

function structuredTextOf({ format, userText }: Question, refuse: RefuseQuestion): string | undefined {
  if (format.kind === "text") return undefined;
  if (format.kind === "json") return JSON.stringify({ answer: shortened(userText), simulated: true });
  const example = exampleOf(format.schema, { seed: seedOf(userText), texts: [] });
  if (example.kind === "none")
    return refuse(`The simulator finds no value for the response schema: ${example.fault}.`, "format");
  return format.bare && typeof example.value === "string" ? example.value : JSON.stringify(example.value);
}

function textOf(question: Question, { tokens, tokenBytes }: Settings, index: number, seed: number): Chunks {
  const filler = (length: number) => fillerOf(length, seed, tokenBytes);
  const natural = tokenBytes === undefined ? chunksOf(proseOf(question, index)) : noChunks;
  return extended(natural, filler, tokens ?? (tokenBytes === undefined ? natural.length : 16));
}

function proseOf({ userText, images, documents = [], toolResults }: Question, index: number): string {
  const sentences = index === 0 ? [] : [`Answer ${index + 1}.`];
  for (const { name, text, failed } of toolResults)
    sentences.push(`The tool ${name} ${failed ? "failed" : "returned"}: ${shortened(text)}`);
  if (images.length > 0)
    sentences.push(`I see ${images.length} image${images.length === 1 ? "" : "s"} (${images.join("; ")}).`);
  if (documents.length > 0)
    sentences.push(
      `I read ${documents.length} document${documents.length === 1 ? "" : "s"} (${documents.join("; ")}).`,
    );
  if (toolResults.length === 0 && userText !== "") sentences.push(`You said: ${shortened(userText)}`);
  sentences.push("This is the simulator: the same words always get the same answer.");
  return sentences.join("\n");
}

/** Never splits a surrogate pair. */
const shortened = (text: string) =>
  text.length <= echoCharactersMax ? text : `${text.slice(0, echoCharactersMax).replace(/[\uD800-\uDBFF]$/, "")}…`;

function untilStop(text: Chunks, stops: string[]): { text: Chunks; stopped: string | undefined } {
  if (stops.length === 0) return { text, stopped: undefined };
  const whole = joined(text);
  const firstStop = stops
    .filter((stop) => stop !== "" && whole.includes(stop))
    .sort((one, other) => whole.indexOf(one) - whole.indexOf(other))[0];
  return firstStop === undefined
    ? { text, stopped: undefined }
    : { text: chunksOf(whole.slice(0, whole.indexOf(firstStop))), stopped: firstStop };
}

function cachedTokensOf({ promptTokens, earlierTokens }: Question, { cachedTokens }: Settings): number {
  if (cachedTokens !== undefined) return Math.min(cachedTokens, promptTokens);
  return promptTokens < cacheTokensMin ? 0 : Math.floor(earlierTokens / cacheTokensStep) * cacheTokensStep;
}
