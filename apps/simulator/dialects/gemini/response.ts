/** A whole answer, and the candidates that it shares with the stream. */
import type { Call } from "../../answer/calls.ts";
import { type Chunks, eachOf, joined, noChunks } from "../../answer/chunks.ts";
import type { Choice, Usage } from "../../answer/compose.ts";
import { type Whole, wholeOf } from "../dialect.ts";
import { callSignatureOf, textSignatureOf } from "./rules.ts";

/** The tokens of a generated image. */
const imageOutputTokens = 272;

export interface Candidate {
  /** Unique among all answers. */
  id: string;
  reasoning: Chunks;
  showsThoughts: boolean;
  text: Chunks;
  /** Without a truncated call. */
  calls: Call[];
  /** A PNG or a recording, in base64. */
  media: { mimeType: string; data: string } | undefined;
  /** Thinking models sign their thoughts, and give their calls an id. */
  isThinking: boolean;
  finish: Choice["finish"];
}

export interface ContentAnswer {
  id: string;
  model: string;
  candidates: Candidate[];
  usage: Pick<Usage, "promptTokens" | "cachedTokens">;
  withUsage: boolean;
  /** If true, there are no candidates. */
  isPromptBlocked: boolean;
}

export interface Produced {
  thoughts: number;
  /** Tokens of the candidates without thoughts. */
  shown: number;
}

export function candidateOf(
  choice: Choice,
  extra: Pick<Candidate, "id" | "showsThoughts" | "media" | "isThinking"> & { hasText: boolean },
): Candidate {
  const { hasText, media, ...rest } = extra;
  return {
    ...rest,
    media: choice.calls.length === 0 && choice.finish !== "filtered" ? media : undefined,
    reasoning: choice.reasoning,
    text: hasText ? (choice.text ?? noChunks) : noChunks,
    calls: choice.calls,
    finish: choice.finish,
    isThinking: extra.isThinking || choice.reasoning.length > 0,
  };
}

const callTokensOf = ({ input }: Call) => 1 + input.length;

/** In tokens: thoughts, text, calls, media, in this order. */
export const lengthOf = ({ reasoning, text, calls, media }: Candidate) =>
  reasoning.length +
  text.length +
  calls.reduce((sum, call) => sum + callTokensOf(call), 0) +
  (media === undefined ? 0 : imageOutputTokens);

/**
 * The part that each token adds to a stream, if any: calls and images come whole with their last
 * token. Counts the tokens in `produced`.
 */
export function* tokenPartsOf(candidate: Candidate, produced: Produced): Generator<object | undefined> {
  const { reasoning, showsThoughts, text, calls, media } = candidate;
  for (const thought of eachOf(reasoning)) {
    produced.thoughts++;
    yield showsThoughts ? { text: thought, thought: true } : undefined;
  }
  for (const part of eachOf(text)) {
    produced.shown++;
    yield { text: part };
  }
  const wholes = [
    ...calls.entries().map(([index, call]) => [callTokensOf(call), callPartOf(candidate, index)] as const),
  ];
  if (media !== undefined) wholes.push([imageOutputTokens, mediaPartOf(media)]);
  for (const [length, part] of wholes)
    for (let left = length; left > 0; left--) {
      produced.shown++;
      yield left === 1 ? part : undefined;
    }
}

/** All parts of a whole answer. */
export function partsOf(candidate: Candidate): object[] {
  const { reasoning, showsThoughts, text, calls, media } = candidate;
  const parts: object[] = [];
  if (showsThoughts && reasoning.length > 0) parts.push({ text: joined(reasoning), thought: true });
  if (text.length > 0) parts.push({ text: joined(text), ...textProofOf(candidate) });
  for (const index of calls.keys()) {
    const part = callPartOf(candidate, index);
    if (part !== undefined) parts.push(part);
  }
  if (media !== undefined) parts.push(mediaPartOf(media));
  return parts;
}

/** The signature goes on the last text part. */
export const textProofOf = ({ isThinking, text, id }: Candidate) =>
  isThinking && text.length > 0 ? { thoughtSignature: textSignatureOf(id) } : {};

const mediaPartOf = (inlineData: Candidate["media"]) => ({ inlineData });

/** The first call of an answer has the signature. */
function callPartOf({ calls, isThinking, id }: Candidate, index: number): object | undefined {
  const call = calls[index] as Call;
  let args: unknown;
  try {
    args = JSON.parse(joined(call.input));
  } catch {
    return undefined;
  }
  const proof = isThinking && index === 0 ? { thoughtSignature: callSignatureOf(call.tool.name, id) } : {};
  return { functionCall: { id: isThinking ? call.id : undefined, name: call.tool.name, args }, ...proof };
}

const finishReasons = { stop: "STOP", calls: "STOP", length: "MAX_TOKENS", filtered: "SAFETY" } as const;
const blockedRatings = [{ category: "HARM_CATEGORY_DANGEROUS_CONTENT", probability: "HIGH", blocked: true }];

/** A candidate with its last parts; one without parts has no `parts` member. */
export const finishedOf = ({ finish }: Candidate, index: number, parts: object[]) => ({
  content: { role: "model", parts: parts.length > 0 ? parts : undefined },
  finishReason: finishReasons[finish],
  index,
  ...(finish === "filtered" && { finishMessage: "The simulator was told to refuse.", safetyRatings: blockedRatings }),
});

export const promptBlocked = { promptFeedback: { blockReason: "SAFETY", safetyRatings: blockedRatings } };

export const producedOf = (candidates: Candidate[]): Produced => {
  const thoughts = candidates.reduce((sum, { reasoning }) => sum + reasoning.length, 0);
  return { thoughts, shown: candidates.reduce((sum, candidate) => sum + lengthOf(candidate), -thoughts) };
};

/** The members after the candidates of each chunk, with the tokens so far. */
export function tailOf(
  { id, model, usage: { promptTokens, cachedTokens }, withUsage }: ContentAnswer,
  { thoughts, shown }: Produced,
) {
  const usageMetadata = {
    promptTokenCount: promptTokens,
    cachedContentTokenCount: cachedTokens || undefined,
    candidatesTokenCount: shown,
    totalTokenCount: promptTokens + shown + thoughts,
    promptTokensDetails: [{ modality: "TEXT", tokenCount: promptTokens }],
    thoughtsTokenCount: thoughts || undefined,
  };
  return { ...(withUsage && { usageMetadata }), modelVersion: model, responseId: id };
}

export function contentWholeOf(answer: ContentAnswer): Whole {
  const { candidates, isPromptBlocked } = answer;
  const produced = producedOf(candidates);
  const result = isPromptBlocked
    ? promptBlocked
    : { candidates: candidates.map((candidate, index) => finishedOf(candidate, index, partsOf(candidate))) };
  return wholeOf({ ...result, ...tailOf(answer, produced) }, produced.thoughts + produced.shown);
}
