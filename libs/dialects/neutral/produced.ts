/**
 * Counts the tokens that an upstream has produced of a streamed answer: its own count as of its
 * last report, plus an estimate of later content. The estimate takes a token for every
 * `bytesPerToken` bytes and at least one for each event with content. Thinking counts whether or
 * not the caller sees it.
 */

import { isObject, isPresent, type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { resumableLengthMax } from "../bounds.ts";
import { bytesPerToken, plausible, type Usage } from "../usage.ts";
import { finishOf, reasonIn } from "./finish.ts";
import { type Answer, type AnswerEvent, type BlockStart, eventsOf, type Finish } from "./neutral.ts";

/**
 * Tokens of one image in a conversation, at the highest quality of 1024 × 1024 pixels:
 * https://platform.openai.com/docs/guides/image-generation#cost-and-latency.
 */
const pictureTokens = 4_160;
/**
 * Characters of base64 speech per token: 16 bits, 24,000 samples a second, 25 tokens a second
 * (https://ai.google.dev/gemini-api/docs/tokens#multimodal-tokens).
 */
const base64PerSpeechToken = 2_560;
/** Encrypted text is base64, which takes 4 characters for 3 bytes. */
const sealedPerToken = (bytesPerToken * 4) / 3;
/** A report below this share of the estimate that also does not grow is a placeholder. */
const reportShareMin = 1 / 8;

/**
 * Tokens delivered to the caller by earlier streams. `isCounted`: this stream's upstream repeats
 * them, so it counts them too.
 */
export interface Delivered {
  tokens: number;
  isCounted: boolean;
}

/** The counts of an upstream's answer so far. */
export interface ProducedCounts extends Pick<Produced, "outputTokens" | "reasoningTokens" | "reported"> {
  /** For a session: an estimate of the usage that its upstream has not reported. */
  readonly unreported?: Usage;
}

export class Produced {
  readonly #delivered: Delivered;
  /** The estimate. */
  #tokens: number;
  #thoughtTokens = 0;
  #sealedTokens = 0;
  #otherParts = 0;
  /** The text so far, while it is kept and the answer has nothing else. */
  #plain: string[] | undefined;
  #plainLength = 0;
  #repeatedParts = 0;
  #reported: Usage | undefined;
  /** The estimate as of the last accepted report. */
  #tokensReported: number;
  #open: BlockStart["kind"] | undefined;
  /** The answer is complete: an upstream that reports usage has counted all of it. */
  #isWhole = false;
  #finish: Finish | undefined;

  constructor(delivered: Delivered = { tokens: 0, isCounted: false }) {
    this.#delivered = delivered;
    this.#tokens = delivered.tokens;
    this.#tokensReported = delivered.tokens;
  }

  /**
   * Grows with each part of the content, whether or not it has tokens to count. Keep-alives and
   * empty parts are none.
   */
  get parts(): number {
    return this.#tokens + this.#thoughtTokens + this.#sealedTokens + this.#otherParts + this.#repeatedParts;
  }

  /**
   * A part without tokens to count, such as a step of the upstream's own tools. `isPlain`: it only
   * opens a text.
   */
  other(isPlain = false): void {
    if (!isPlain) this.#plain = undefined;
    this.#otherParts++;
  }

  /** How much the upstream has sent so far of what the caller has already. */
  repeated(parts: number): void {
    this.#repeatedParts = parts;
  }

  /**
   * Keeps the text of an answer that is nothing but text: another target may go on with it. Call it
   * before the first part.
   */
  keepPlain(): void {
    this.#plain = [];
  }

  /** Plain text of an answer. */
  plainText(text: unknown): void {
    if (typeof text !== "string" || text === "") return;
    this.#tokens += tokensIn(text);
    if (this.#plain === undefined) return;
    this.#plain.push(text);
    this.#plainLength += text.length;
    if (this.#plainLength > resumableLengthMax) this.#plain = undefined;
  }

  /** The answer so far, if it was kept, is nothing but text, and is not too long. */
  get plain(): string | undefined {
    return this.#plainLength > 0 ? this.#plain?.join("") : undefined;
  }

  /** Text of an answer that is not plain, or a call. */
  text(text: unknown): void {
    if (typeof text !== "string" || text === "") return;
    this.#plain = undefined;
    this.#tokens += tokensIn(text);
  }

  thought(text: unknown): void {
    if (typeof text !== "string" || text === "") return;
    this.#plain = undefined;
    this.#thoughtTokens += tokensIn(text);
  }

  /** Encrypted thinking, or its signature. Thinking that was also shown counts once. */
  sealed(data: unknown): void {
    if (typeof data !== "string") return;
    this.#plain = undefined;
    this.#sealedTokens += Math.ceil(data.length / sealedPerToken);
  }

  picture(): void {
    this.#plain = undefined;
    this.#tokens += pictureTokens;
  }

  speech(base64: unknown): void {
    if (typeof base64 !== "string") return;
    this.#plain = undefined;
    this.#tokens += Math.ceil(base64.length / base64PerSpeechToken);
  }

  event(event: AnswerEvent): void {
    switch (event.kind) {
      case "block":
        this.#open = event.block.kind;
        if (event.block.kind === "image") this.picture();
        else if (event.block.kind === "call") this.text(event.block.name);
        return;
      case "delta":
        if (this.#open === "reasoning") this.thought(event.text);
        else this.text(event.text);
        return;
      case "signature":
        this.sealed(event.signature.data);
        return;
      case "finish":
        this.#isWhole = true;
        this.#finish = event.finish;
        return;
      default:
        return;
    }
  }

  /** The upstream's finish reason, if `reason` is one that is known. */
  finished(reason: unknown): void {
    const text = reasonIn(reason);
    if (text !== undefined) this.#finish = finishOf(text, false) ?? this.#finish;
  }

  /** Why the model stopped; undefined while it goes on, and for an unknown reason. */
  get finish(): Finish | undefined {
    return this.#finish;
  }

  /**
   * The upstream's own count, which includes everything counted here before. The same object again
   * is not a new report.
   */
  report(usage: Usage | undefined): void {
    if (usage === undefined || usage === this.#reported) return;
    const isCount =
      usage.outputTokens > (this.#reported?.outputTokens ?? 0) ||
      usage.outputTokens >= (this.#estimate - this.#delivered.tokens) * reportShareMin;
    this.#reported = usage;
    if (isCount) this.#tokensReported = this.#estimate;
  }

  /** The upstream's own count, if it reported one. */
  get reported(): Usage | undefined {
    return this.#reported;
  }

  get outputTokens(): number {
    const { tokens, isCounted } = this.#delivered;
    const since = this.#estimate - this.#tokensReported;
    const counted = this.#reported?.outputTokens ?? 0;
    if (isCounted && counted > 0) return this.#isWhole ? counted + since : Math.max(tokens, counted + since);
    return tokens + counted + since;
  }

  get reasoningTokens(): number {
    return Math.max(this.#reported?.reasoningTokens ?? 0, Math.min(this.outputTokens, this.#thinkingTokens));
  }

  /** Undefined if the upstream has counted nothing. */
  get usage(): Usage | undefined {
    const reported = this.#reported;
    const { outputTokens } = this;
    if (reported === undefined || outputTokens === reported.outputTokens) return reported;
    return {
      ...plausible({ ...reported, outputTokens, reasoningTokens: this.reasoningTokens }),
      isEstimated: true,
    };
  }

  get #thinkingTokens(): number {
    return Math.max(this.#thoughtTokens, this.#sealedTokens);
  }

  get #estimate(): number {
    return this.#tokens + this.#thinkingTokens;
  }
}

/** The counts of a whole answer whose upstream reported no usage; undefined for any other. */
export const unreportedCountsOf = (answer: Answer): ProducedCounts | undefined =>
  answer.usage === undefined ? countsOf(eventsOf(answer)) : undefined;

/** The counts of a whole answer by its events, as plain data. */
export function countsOf(events: readonly AnswerEvent[]): ProducedCounts {
  const produced = new Produced();
  for (const event of events) produced.event(event);
  return plainCountsOf(produced);
}

/** The same counts as plain data, for another thread. */
export const plainCountsOf = ({ outputTokens, reasoningTokens, reported }: Produced): ProducedCounts => ({
  outputTokens,
  reasoningTokens,
  reported,
});

const tokensIn = (text: string) => Math.max(1, Math.floor(Buffer.byteLength(text) / bytesPerToken));

/** A choice's delta in a chunk of OpenAI's chat-completions format. */
export function chatDelta(delta: JsonObject, produced: Produced): void {
  const {
    content,
    refusal,
    reasoning_content: thinking,
    reasoning,
    reasoning_text: thought,
    reasoning_details: details,
    tool_calls: calls,
    images,
    audio,
    annotations,
    function_call: legacyCall,
  } = delta;
  if (typeof content === "string") produced.plainText(content);
  else
    for (const part of listOf(content)) {
      produced.text(objectOf(part).text);
      const { thinking: words, summary } = objectOf(part);
      for (const one of [...listOf(words), ...listOf(summary)]) produced.thought(objectOf(one).text);
    }
  produced.text(refusal);
  const shown = textOf(thinking) ?? textOf(reasoning) ?? textOf(thought);
  produced.thought(shown);
  for (const value of listOf(details)) {
    const { data, signature, text, summary } = objectOf(value);
    produced.sealed(data ?? signature);
    if (shown === undefined) produced.thought(textOf(text) ?? summary);
  }
  for (const call of listOf(calls)) {
    const { function: named, custom } = objectOf(call);
    for (const called of [objectOf(named), objectOf(custom)])
      for (const text of [called.name, called.arguments, called.input]) produced.text(text);
  }
  for (const _ of listOf(images)) produced.picture();
  if (listOf(annotations).length > 0 || isPresent(objectOf(legacyCall).arguments)) produced.other();
  produced.text(objectOf(audio).transcript);
  produced.speech(objectOf(audio).data);
}

/** An Anthropic Messages event with a block's start or a delta. */
export function messagesChunk({ content_block: block, delta }: JsonObject, produced: Produced): void {
  const { type, text, thinking, data, name, input } = objectOf(block);
  produced.text(text);
  produced.thought(thinking);
  produced.sealed(data);
  produced.text(name);
  if (type !== undefined && Object.keys(objectOf(input)).length > 0) produced.text(JSON.stringify(input));
  if (type !== undefined && type !== "text" && type !== "thinking") produced.other();
  const { text: more, partial_json: json, thinking: thought, signature, citation } = objectOf(delta);
  if (citation !== undefined) produced.other();
  produced.plainText(more);
  produced.text(json);
  produced.thought(thought);
  produced.sealed(signature);
}

/** A part of a candidate in Google's Gemini format. */
export function geminiPart(part: JsonObject, produced: Produced): void {
  const {
    text,
    thought,
    thoughtSignature: signature,
    functionCall: call,
    inlineData: media,
    executableCode: code,
    codeExecutionResult: ran,
  } = part;
  if (ran !== undefined) produced.other();
  if (thought === true) produced.thought(text);
  else produced.plainText(text);
  produced.sealed(signature);
  produced.text(objectOf(code).code);
  if (isObject(call)) produced.text(JSON.stringify(call));
  const { mimeType, data } = objectOf(media);
  if (String(mimeType).startsWith("audio/")) produced.speech(data);
  else if (textOf(data) !== undefined) produced.picture();
}

/**
 * Events of a response before its first item; all others that are no deltas are steps of an item.
 */
const lifecycle = /^response\.(?:created|queued|in_progress)$/;

/**
 * An event of OpenAI's Responses format. `done` events repeat what was streamed, so their tokens
 * are not counted.
 */
export function responsesChunk(type: string, { delta, item, ...event }: JsonObject, produced: Produced): void {
  // Nearly all events.
  if (type === "response.output_text.delta") {
    produced.plainText(delta);
    return;
  }
  if (type.startsWith("response.") && !type.endsWith(".delta") && !lifecycle.test(type))
    produced.other(
      type === "response.content_part.added" ||
        (type === "response.output_item.added" && objectOf(item).type === "message"),
    );
  if (type === "response.output_item.done") produced.sealed(objectOf(item).encrypted_content);
  else if (type === "response.output_item.added") produced.text(objectOf(item).name);
  else if (type.startsWith("response.image_generation_call.partial_image") && event.partial_image_b64 !== undefined)
    produced.picture();
  else if (type === "response.audio.delta") produced.speech(delta);
  else if (type.startsWith("response.reasoning") && type.endsWith(".delta")) produced.thought(delta);
  else if (type.endsWith(".delta")) produced.text(delta);
}
