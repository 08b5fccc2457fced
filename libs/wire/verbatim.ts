/** An upstream's stream on its way to a caller of the same dialect: bytes stay as they are, but for the model's name. What an event means is its dialect's to say. */
import type { StreamRelay } from "./codec.ts";
import type { UpstreamError } from "./errors.ts";
import { objectSpansOf, piecesOf, replaceSpans, type Span } from "./json.ts";
import type { SseEvent } from "./sse.ts";
import type { Usage } from "./usage.ts";

/** How many events without content are held back before the answer is committed all the same. */
const heldEventsMax = 32;

/** What becomes of one event: `terminator` is the upstream's own end of its answer, `relay` any other event. */
export type Passing =
  | { kind: "relay"; bytes: Buffer; content: boolean }
  | { kind: "terminator"; bytes: Buffer }
  | { kind: "hidden" }
  | { kind: "malformed" }
  | { kind: "error"; error: UpstreamError };

/** A dialect's eye on one of its own streams. */
export interface Watcher {
  look(event: SseEvent): Passing;
  /** What ends a finished answer whose upstream did not: terminator events, or nothing. */
  terminator(): Buffer | undefined;
  /** All is there but, perhaps, the terminator. */
  readonly finished: boolean;
  /** `finished`, and nothing else is to come that a caller would miss. */
  readonly complete: boolean;
  readonly usage: Usage | undefined;
  readonly answerId: string | undefined;
}

export class VerbatimStream implements StreamRelay {
  error: UpstreamError | undefined;
  committed = false;
  ended = false;
  malformedEvents = 0;
  pieces = 0;
  readonly #watcher: Watcher;
  #held: Buffer[] = [];

  constructor(watcher: Watcher) {
    this.#watcher = watcher;
  }

  get finished(): boolean {
    return this.#watcher.finished;
  }

  get complete(): boolean {
    return this.#watcher.complete;
  }

  get usage(): Usage | undefined {
    return this.#watcher.usage;
  }

  get answerId(): string | undefined {
    return this.#watcher.answerId;
  }

  push(event: SseEvent, out: Buffer[]): void {
    if (this.ended || this.error !== undefined) return;
    const passing = this.#watcher.look(event);
    switch (passing.kind) {
      case "relay":
        this.pieces++;
        if (this.committed) out.push(passing.bytes);
        else {
          this.#held.push(passing.bytes);
          if (passing.content || this.#held.length > heldEventsMax) this.#commit(out);
        }
        return;
      case "terminator":
        if (!this.finished && !this.committed) return;
        this.#commit(out);
        out.push(passing.bytes);
        this.ended = true;
        return;
      case "malformed":
        this.malformedEvents++;
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
    out.push(...this.#held);
    this.#held = [];
  }
}

const dataPrefix = Buffer.from("data: ");
const eventEnd = Buffer.from("\n\n");
const lineFeed = 0x0a;

/** An event as the upstream sent it, with its name if it had one, but for the spans that are replaced. `data` may be JSON over several lines. */
export function eventBytesOf(name: string | undefined, data: Buffer, replacements: readonly (Span & { by: Buffer })[] = []): Buffer {
  const pieces = data.includes(lineFeed)
    ? [Buffer.from(replaceSpans(data, replacements).toString("utf8").replaceAll("\n", "\ndata: "))]
    : piecesOf(data, replacements);
  return Buffer.concat([...(name === undefined ? [] : [Buffer.from(`event: ${name}\n`)]), dataPrefix, ...pieces, eventEnd]);
}

/**
 * The JSON object with the value of one member replaced, wherever the object repeats it; `path` leads to it through objects, such as
 * `["message", "model"]`. The same bytes when there is none.
 */
export function withMember(json: Buffer, path: readonly [string, ...string[]], by: Buffer): Buffer {
  const [name, ...rest] = path;
  const spans = objectSpansOf(json, [name]);
  if (spans === undefined) return json;
  const [next, ...others] = rest;
  return replaceSpans(
    json,
    spans.all.map(({ start, end }) => ({ start, end, by: next === undefined ? by : withMember(json.subarray(start, end), [next, ...others], by) })),
  );
}
