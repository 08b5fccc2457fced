/**
 * Relays a stream between an upstream and a caller of the same dialect: every byte is kept except
 * what identifies the answer. The dialect's watcher interprets the events.
 */

import { type JsonObject, parsedObject } from "#wire/json/parse.ts";
import { chunksOf, type Edit, replaceSpans, withMembers } from "#wire/json/spans.ts";
import { lineFeed, type SseEvent } from "#wire/sse.ts";
import { uncommittedEventsMax } from "../bounds.ts";
import type { StreamRelay } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import type { RelayedText } from "../neutral/continuation.ts";
import { unreadableEvent } from "../neutral/finish.ts";
import { Produced } from "../neutral/produced.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import type { Usage } from "../usage.ts";
import { contentOf } from "./event.ts";
import { EventPatterns, eventHeadOf, eventTail, type TextDelta } from "./event-pattern.ts";

/**
 * The treatment of an event. `terminator` is the upstream's own end of its answer, `relay` any
 * other event. With a `delta`, the watcher relays every event that differs only in this text in the
 * same way, and counts nothing but the text.
 */
export type Passing =
  | { kind: "relay"; bytes: Buffer; content: boolean; delta?: TextDelta | undefined }
  | { kind: "terminator"; bytes: Buffer }
  | { kind: "hidden" }
  | Failed;

type Failed = { kind: "error"; error: UpstreamError };

export const failedWith = (error: UpstreamError): Failed => ({ kind: "error", error });

/** Interprets the events of a stream of its own dialect. */
export abstract class Watcher {
  /** Content followed the finish: see StreamRelay.settled. */
  contradicted = false;
  /** The whole answer has arrived, perhaps without its terminator. */
  abstract readonly finished: boolean;
  abstract readonly usage: Usage | undefined;

  /** `value` is the event's data, parsed. Its content counts in `produced`. */
  abstract look(event: SseEvent, value: JsonObject, produced: Produced): Passing;

  /** Reads the body of an event named `error`. */
  errorOf(body: unknown): UpstreamError {
    return upstreamErrorOf(body);
  }

  /**
   * The terminator of a finished answer whose upstream sent none; undefined if the dialect has
   * none.
   */
  terminator(): Buffer | undefined {
    return undefined;
  }

  /** `[DONE]` ends an answer that has content, with or without a reason. */
  get endsWithDone(): boolean {
    return false;
  }

  /** `finished`, and no event that a caller would miss can follow. */
  get complete(): boolean {
    return false;
  }

  /** No later event can contain content, so an unreadable event does not fail the answer. */
  get hasAllContent(): boolean {
    return this.finished;
  }
}

export class VerbatimStream implements StreamRelay {
  error: UpstreamError | undefined;
  committed = false;
  ended = false;
  malformedEvents = 0;
  readonly produced = new Produced();
  readonly #watcher: Watcher;
  #waiting: Buffer[] = [];
  #hasContent = false;
  /** The data of the last event that is neither a keep-alive nor an error; or its bytes. */
  #last: JsonObject | Buffer | undefined;
  readonly #patterns = new EventPatterns();

  constructor(watcher: Watcher) {
    this.#watcher = watcher;
  }

  get finished(): boolean {
    return this.#watcher.finished;
  }

  get settled(): boolean {
    return this.finished && !this.#watcher.contradicted;
  }

  get complete(): boolean {
    return this.#watcher.complete;
  }

  get usage(): Usage | undefined {
    return this.produced.usage;
  }

  get relayedText(): RelayedText | undefined {
    const text = this.produced.plain;
    const last = Buffer.isBuffer(this.#last) ? parsedObject(this.#last) : this.#last;
    return text !== undefined && last !== undefined && !this.finished ? { text, last } : undefined;
  }

  push(event: SseEvent, out: Buffer[]): void {
    if (this.ended || this.error !== undefined || this.#repeats(event, out)) return;
    const content = contentOf(event);
    switch (content.kind) {
      case "value": {
        const passing = this.#watcher.look(event, content.value, this.produced);
        this.#pass(passing, out);
        this.#patterns.learn(
          event,
          content.value,
          passing.kind === "relay" && this.committed ? passing.delta : undefined,
        );
        if (content.value.type !== "ping" && this.error === undefined) this.#last = content.value;
        this.produced.report(this.#watcher.usage);
        return;
      }
      case "error":
        this.error = this.#watcher.errorOf(content.body);
        return;
      case "done":
        if (this.#watcher.endsWithDone && this.#mayEnd) this.end(out);
        return;
      case "keep-alive":
        return;
      case "unreadable":
        this.malformedEvents++;
        if (!this.#watcher.hasAllContent) this.error = unreadableEvent;
        return;
      default:
        content satisfies never;
    }
  }

  /** A terminator alone is not an answer. */
  get #mayEnd(): boolean {
    return this.finished || this.#hasContent;
  }

  /** Relays an event that differs from an earlier one only in its text. False if it does not. */
  #repeats(event: SseEvent, out: Buffer[]): boolean {
    const pattern = this.#patterns.match(event);
    if (pattern === undefined) return false;
    if (pattern.isThought) this.produced.thought(pattern.text);
    else this.produced.plainText(pattern.text);
    out.push(pattern.relayed);
    this.#last = event.data;
    return true;
  }

  #pass(passing: Passing, out: Buffer[]): void {
    switch (passing.kind) {
      case "relay":
        this.#hasContent ||= passing.content;
        if (this.committed) out.push(passing.bytes);
        else {
          this.#waiting.push(passing.bytes);
          if (passing.content || this.#waiting.length > uncommittedEventsMax) this.#commit(out);
        }
        return;
      case "terminator":
        if (!this.#mayEnd) return;
        this.#commit(out);
        out.push(passing.bytes);
        this.ended = true;
        return;
      case "error":
        this.error = passing.error;
        return;
      case "hidden":
        return;
      default:
        passing satisfies never;
    }
  }

  end(out: Buffer[]): void {
    if (this.ended) return;
    this.#commit(out);
    const terminator = this.#watcher.terminator();
    if (terminator !== undefined) out.push(terminator);
    this.ended = true;
  }

  #commit(out: Buffer[]): void {
    this.committed = true;
    out.push(...this.#waiting);
    this.#waiting = [];
  }
}

/**
 * An event as the upstream sent it, with its name if it had one, and with the given spans replaced.
 * `data` may be JSON over several lines.
 */
export function eventBytesOf(name: string | undefined, data: Buffer, replacements: readonly Edit[] = []): Buffer {
  const chunks = data.includes(lineFeed)
    ? [Buffer.from(replaceSpans(data, replacements).toString("utf8").replaceAll("\n", "\ndata: "))]
    : chunksOf(data, replacements);
  return Buffer.concat([eventHeadOf(name), ...chunks, eventTail]);
}

/**
 * The JSON object with the value of one member replaced, also where it is repeated. `path` leads to
 * the member through objects, such as `["message", "model"]`. The same bytes if there is none.
 */
export function withMember(json: Buffer, [name, next, ...others]: readonly [string, ...string[]], by: Buffer): Buffer {
  return withMembers(json, name, (value) => (next === undefined ? by : withMember(value, [next, ...others], by)));
}
