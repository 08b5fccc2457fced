/**
 * An answer that another upstream can resume if its own fails midway. The delivered part is kept in
 * the neutral form. The next stream either continues it (its request ended with the text so far) or
 * repeats it; the repeated part is dropped.
 */

import { SseReader } from "#wire/sse.ts";
import { resumableLengthMax } from "../bounds.ts";
import type { StreamDecoder, StreamEncoder } from "../codec.ts";
import type { AnswerEvent, ContentEvent } from "../neutral/neutral.ts";
import { bytesPerToken, type Usage } from "../usage.ts";
import { WrappedDecoder } from "./event-decoder.ts";

interface Delivered {
  /** The part of a block's start that must be equal when it is repeated. */
  what: string;
  chunks: string[];
  length: number;
  citations: number;
  signed: boolean;
  ended: boolean;
}

/** The relation of a stream to what was delivered before it. */
export type ResumeMode = "first" | "continue" | "repeat";

/** Writes one answer over all of its streams, and keeps a copy to resume from. */
export class ResumedAnswer implements StreamEncoder {
  readonly blocks: Delivered[] = [];
  /** The caller may not have seen all of the thinking. */
  isResumed = false;
  readonly #encoder: StreamEncoder;
  #ended = false;
  #length = 0;

  constructor(encoder: StreamEncoder) {
    this.#encoder = encoder;
  }

  /** False once the answer is too long to keep. */
  get canResume(): boolean {
    return !this.#ended && this.#length <= resumableLengthMax;
  }

  /** The approximate number of delivered tokens. */
  get tokens(): number {
    return Math.ceil(this.#length / bytesPerToken);
  }

  /**
   * The text so far, if it is the only block and open: the beginning for the next upstream's turn.
   */
  get text(): string | undefined {
    const [only, ...others] = this.blocks;
    return only !== undefined && others.length === 0 && only.what === "text" && !only.ended
      ? only.chunks.join("")
      : undefined;
  }

  push(event: ContentEvent, usage?: Usage): string {
    const open = this.blocks.at(-1);
    if (event.kind === "block")
      this.blocks.push({ what: whatOf(event), chunks: [], length: 0, citations: 0, signed: false, ended: false });
    else if (event.kind === "delta" && open !== undefined) {
      if (this.#length <= resumableLengthMax) open.chunks.push(event.text);
      open.length += event.text.length;
      this.#length += event.text.length;
    } else if (event.kind === "citation" && open !== undefined) open.citations++;
    else if (event.kind === "signature" && open !== undefined) open.signed = true;
    else if (event.kind === "block-end" && open !== undefined) open.ended = true;
    else if (event.kind === "finish") this.#ended = true;
    return this.#encoder.push(event, usage);
  }
}

/**
 * `answer`, still empty, brought to the state after its caller received these events of its own
 * dialect. Undefined if the events ended it, or lack the information to continue byte for byte.
 * `nameOf` gives the neutral name of a tool.
 */
export function resumed(
  answer: ResumedAnswer,
  decoder: StreamDecoder,
  delivered: string,
  nameOf: (callerName: string) => string,
): ResumedAnswer | undefined {
  let written = "";
  for (const sent of new SseReader(Number.POSITIVE_INFINITY).push(Buffer.from(delivered)))
    for (const event of decoder.push(sent)) {
      if (event.kind === "error") return undefined;
      const { block } = event as Partial<Extract<AnswerEvent, { kind: "block" }>>;
      written += answer.push(
        block?.kind === "call" ? { kind: "block", block: { ...block, name: nameOf(block.name) } } : event,
        decoder.usage,
      );
    }
  answer.isResumed = true;
  return answer.canResume && written === delivered ? answer : undefined;
}

/** `answer`, still empty, brought to the state after its caller received this text. */
export function resumedText(answer: ResumedAnswer, text: string): ResumedAnswer {
  answer.push({ kind: "block", block: { kind: "text" } });
  answer.push({ kind: "delta", text });
  answer.isResumed = true;
  return answer;
}

const whatOf = ({ block }: Extract<AnswerEvent, { kind: "block" }>) =>
  block.kind === "call" ? `call ${block.name}` : block.kind;

const differs: AnswerEvent = {
  kind: "error",
  error: { message: "The next upstream of this model answered differently.", status: 502 },
};

/** Reads one stream of a resumed answer and returns only new content. */
export class ResumedDecoder extends WrappedDecoder {
  readonly #answer: ResumedAnswer;
  /** The stream's position in the delivered blocks; past the end once all content is new. */
  #block: number;
  #offset = 0;
  #citations = 0;
  #repeated: string | undefined;
  /** Inside thinking that the caller did not see. */
  #isUnseen = false;
  /**
   * White space at the end of the text so far. A request cannot end with it, so the stream may
   * repeat it.
   */
  #space: string;
  /** The code points of the block that this stream continues, and does not know. */
  #unknownPoints: number;
  #mode: ResumeMode;
  repeatedParts = 0;

  constructor(answer: ResumedAnswer, decoder: StreamDecoder, mode: ResumeMode) {
    super(decoder);
    this.#answer = answer;
    this.#mode = mode;
    this.#block = mode === "repeat" ? -1 : answer.blocks.length;
    this.#unknownPoints = mode === "continue" ? [...(answer.text ?? "")].length : 0;
    this.#space = mode === "continue" ? (/\s*$/.exec(answer.text ?? "")?.[0] ?? "") : "";
  }

  /** The new part of these events. */
  protected override changed(events: AnswerEvent[]): AnswerEvent[] {
    return events.flatMap((event) => {
      if (event.kind === "error") return event;
      if (event.kind === "delta") this.repeatedParts += event.text.length;
      return this.#newIn(event) ?? [];
    });
  }

  /** The new part of the event; undefined if all of it was delivered, an error if it differs. */
  #newIn(event: ContentEvent): AnswerEvent | undefined {
    switch (this.#mode) {
      case "first":
        if (event.kind === "delta" && this.#space !== "") return this.#withoutSpace(event.text);
        return this.#unknownPoints > 0 ? this.#placed(event) : event;
      case "continue":
        return this.#continued(event);
      case "repeat":
        return this.#repeats(event);
      default:
        return this.#mode satisfies never;
    }
  }

  #continued(event: ContentEvent): AnswerEvent | undefined {
    // The text block is already open; thinking before it belongs to the next upstream.
    if (event.kind === "block" && event.block.kind === "text") {
      this.#mode = "first";
      return undefined;
    }
    if (event.kind === "finish") return event;
    if (event.kind === "block" && event.block.kind === "call") return differs;
    return undefined;
  }

  #repeats(event: ContentEvent): AnswerEvent | undefined {
    const { blocks } = this.#answer;
    const last = this.#block === blocks.length - 1;
    if (this.#isUnseen) {
      if (event.kind === "block-end") this.#isUnseen = false;
      return undefined;
    }
    switch (event.kind) {
      case "block": {
        if (
          this.#answer.isResumed &&
          event.block.kind === "reasoning" &&
          blocks[this.#block + 1]?.what !== "reasoning" &&
          this.#block + 1 < blocks.length
        ) {
          this.#isUnseen = true;
          return undefined;
        }
        const next = blocks[++this.#block];
        this.#offset = 0;
        this.#citations = 0;
        this.#repeated = next?.chunks.join("");
        if (next === undefined) {
          this.#mode = "first";
          return event;
        }
        return next.what === whatOf(event) ? undefined : differs;
      }
      case "delta": {
        const repeated = (this.#repeated ?? "").slice(this.#offset, this.#offset + event.text.length);
        if (!event.text.startsWith(repeated)) return differs;
        this.#offset += repeated.length;
        const rest = event.text.slice(repeated.length);
        if (rest === "") return undefined;
        if (!last || blocks[this.#block]?.ended === true) return differs;
        this.#mode = "first";
        return { kind: "delta", text: rest };
      }
      case "citation": {
        const isNew = last && this.#citations++ >= (blocks[this.#block]?.citations ?? 0);
        return isNew && !blocks[this.#block]?.ended ? event : undefined;
      }
      case "signature":
        return last && !blocks[this.#block]?.signed && !blocks[this.#block]?.ended ? event : undefined;
      case "block-end": {
        if (this.#offset < (blocks[this.#block]?.length ?? 0)) return differs;
        if (!last || blocks[this.#block]?.ended === true) return undefined;
        this.#mode = "first";
        return event;
      }
      case "finish":
        return last || blocks.length === 0 ? event : differs;
      default:
        return event satisfies never;
    }
  }

  #withoutSpace(text: string): AnswerEvent & { kind: "delta" } {
    const space = this.#space;
    this.#space = "";
    let from = 0;
    while (from < space.length && text[from] === space[from]) from++;
    this.#unknownPoints -= from;
    return { kind: "delta", text: text.slice(from) };
  }

  /** A citation counts from the beginning of its block, of which the stream has the rest. */
  #placed(event: ContentEvent): ContentEvent {
    const before = this.#unknownPoints;
    if (event.kind === "block-end") this.#unknownPoints = 0;
    if (event.kind !== "citation" || event.citation.span === undefined) return event;
    const { start, end } = event.citation.span;
    return { ...event, citation: { ...event.citation, span: { start: before + start, end: before + end } } };
  }
}
