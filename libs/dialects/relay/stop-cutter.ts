/**
 * Ends an answer at stop sequences that its upstream does not know. The text is delayed only by its
 * shortest end that may begin a sequence. An upstream that streams is not read further, so its
 * usage is estimated from there on.
 */

import { stopCharactersMax, stopSequencesMax } from "../bounds.ts";
import type { Codec, Cut, StreamDecoder } from "../codec.ts";
import { type AnswerEvent, endWith } from "../neutral/neutral.ts";
import { Produced } from "../neutral/produced.ts";
import { plainUsageOf, type Usage } from "../usage.ts";
import { WrappedDecoder } from "./event-decoder.ts";

/** True if the sequences are few and short enough to search for. */
export const canCut = (sequences: readonly string[]) =>
  sequences.length <= stopSequencesMax &&
  sequences.reduce((length, sequence) => length + sequence.length, 0) <= stopCharactersMax;

type AnswerReader = Pick<Codec, "streamDecoder" | "decodeAnswer">;

/**
 * Reads a dialect's answers up to the first of the sequences. Without sequences it is the codec
 * itself.
 */
export const answersOf = (codec: AnswerReader, cut: Cut | undefined): AnswerReader =>
  cut === undefined
    ? codec
    : {
        streamDecoder: () => new CutDecoder(codec.streamDecoder(), cut),
        decodeAnswer: (body) => wholeUpTo(codec.decodeAnswer(body), cut),
      };

/** A whole answer up to the sequence. The upstream produced all of it, so its usage stays. */
function wholeUpTo(events: AnswerEvent[], { sequences }: Cut): AnswerEvent[] {
  const end = events.at(-1);
  const cutter = new StopCutter(sequences);
  const kept = events.flatMap((event) => cutter.push(event));
  const stop = cutter.matched;
  if (stop === undefined || end?.kind !== "finish") return stop === undefined ? kept : events;
  return [...kept, { kind: "finish", ...endWith("stop-sequence", { stopSequence: stop, usage: end.usage }) }];
}

class CutDecoder extends WrappedDecoder {
  readonly #cutter: StopCutter;
  readonly #inputTokens: number;
  readonly #produced = new Produced();

  constructor(decoder: StreamDecoder, { sequences, inputTokens }: Cut) {
    super(decoder);
    this.#cutter = new StopCutter(sequences);
    this.#inputTokens = inputTokens;
  }

  override get finished(): boolean {
    return this.#cutter.matched !== undefined || super.finished;
  }

  override get usage(): Usage | undefined {
    const { usage } = this.decoder;
    if (this.#cutter.matched === undefined) return usage;
    this.#produced.report(usage);
    const { outputTokens } = this.#produced;
    return this.#produced.usage ?? { ...plainUsageOf(this.#inputTokens, outputTokens), isEstimated: true };
  }

  protected override changed(events: AnswerEvent[]): AnswerEvent[] {
    if (this.#cutter.matched !== undefined) return [];
    const kept: AnswerEvent[] = [];
    for (const event of events) {
      this.#produced.event(event);
      kept.push(...this.#cutter.push(event));
      if (this.#cutter.matched === undefined) continue;
      const { matched: stopSequence, usage } = { matched: this.#cutter.matched, usage: this.usage };
      kept.push({ kind: "finish", ...endWith("stop-sequence", { stopSequence, usage }) });
      break;
    }
    this.#produced.report(this.decoder.usage);
    return kept;
  }
}

/** One sequence, and how much of it the end of the text matches (Knuth, Morris and Pratt). */
interface Search {
  sequence: string;
  /**
   * For each position, the length of the longest beginning of the sequence that ends there and is
   * not the whole of it.
   */
  fallbacks: readonly number[];
  matched: number;
}

class StopCutter {
  /** The sequence that ended the answer. Events after it are dropped. */
  matched: string | undefined;
  readonly #searches: Search[];
  /** The text block whose first character is not out yet. */
  #start: AnswerEvent | undefined;
  #waiting = "";
  #isText = false;

  constructor(sequences: readonly string[]) {
    this.#searches = sequences.map((sequence) => ({ sequence, fallbacks: fallbacksOf(sequence), matched: 0 }));
  }

  /** The events that the caller may see so far. After a match, all but the finish. */
  push(event: AnswerEvent): AnswerEvent[] {
    if (this.matched !== undefined) return [];
    if (event.kind === "block") {
      this.#isText = event.block.kind === "text";
      for (const search of this.#searches) search.matched = 0;
      if (!this.#isText) return [event];
      this.#start = event;
      return [];
    }
    if (!this.#isText) return [event];
    if (event.kind === "delta") return this.#read(event.text);
    if (event.kind === "citation") return [...this.#opened(), event];
    const before = this.#flushed(this.#waiting);
    if (event.kind === "block-end") {
      this.#isText = false;
      return [...before, ...this.#opened(), event];
    }
    return [...before, event];
  }

  #read(text: string): AnswerEvent[] {
    const whole = this.#waiting + text;
    for (let at = 0; at < text.length; at++)
      for (const search of this.#searches)
        if (isCompletedBy(search, text[at] as string)) {
          const end = this.#waiting.length + at + 1;
          this.matched = search.sequence;
          const shown = this.#flushed(whole.slice(0, end - search.sequence.length));
          return this.#start === undefined ? [...shown, { kind: "block-end" }] : [];
        }
    const waitingLength = this.#searches.reduce((length, { matched }) => Math.max(length, matched), 0);
    const shown = this.#flushed(whole.slice(0, whole.length - waitingLength));
    this.#waiting = whole.slice(whole.length - waitingLength);
    return shown;
  }

  #flushed(text: string): AnswerEvent[] {
    this.#waiting = "";
    return text === "" ? [] : [...this.#opened(), { kind: "delta", text }];
  }

  #opened(): AnswerEvent[] {
    const opened = this.#start === undefined ? [] : [this.#start];
    this.#start = undefined;
    return opened;
  }
}

/** True if this character completes the sequence. */
function isCompletedBy(search: Search, character: string): boolean {
  const { sequence, fallbacks } = search;
  while (search.matched > 0 && sequence[search.matched] !== character)
    search.matched = fallbacks[search.matched - 1] as number;
  if (sequence[search.matched] === character) search.matched++;
  return search.matched === sequence.length;
}

function fallbacksOf(sequence: string): number[] {
  const fallbacks = [0];
  for (let at = 1; at < sequence.length; at++) {
    let length = fallbacks[at - 1] as number;
    while (length > 0 && sequence[length] !== sequence[at]) length = fallbacks[length - 1] as number;
    fallbacks.push(sequence[length] === sequence[at] ? length + 1 : length);
  }
  return fallbacks;
}
