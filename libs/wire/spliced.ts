/**
 * An answer that may go on from another upstream when its own dies in the middle. What was delivered is remembered in the neutral form; the next stream
 * either continues it (its request ended in the text so far) or repeats it, and is held back for as long as it does.
 */
import type { StreamDecoder, StreamEncoder, StreamRelay } from "./codec.ts";
import type { UpstreamError } from "./errors.ts";
import type { AnswerEvent } from "./neutral.ts";
import type { SseEvent } from "./sse.ts";
import type { Usage } from "./usage.ts";

/** Characters of an answer that are remembered at most; a longer one is not spliced. */
const deliveredMax = 1 << 20;

interface Delivered {
  /** Of its start: what has to be the same when it is repeated. */
  what: string;
  pieces: string[];
  length: number;
  ended: boolean;
}

/** How a stream stands to what was delivered before it. */
export type SpliceMode = "first" | "continue" | "repeat";

/** One answer over all of its streams. */
export class SplicedAnswer {
  readonly encoder: StreamEncoder;
  readonly answerId: string | undefined;
  readonly blocks: Delivered[] = [];
  committed = false;
  ended = false;
  #length = 0;

  constructor(encoder: StreamEncoder, answerId: string | undefined) {
    this.encoder = encoder;
    this.answerId = answerId;
  }

  /** Not too long to be remembered. */
  get canBeSpliced(): boolean {
    return !this.ended && this.#length <= deliveredMax;
  }

  /** The text so far, if that is all there is and it is open: what an assistant's turn can be begun with. */
  get text(): string | undefined {
    const [only, ...others] = this.blocks;
    return only !== undefined && others.length === 0 && only.what === "text" && !only.ended ? only.pieces.join("") : undefined;
  }

  /** What the caller gets for an event that is new. */
  deliver(event: Exclude<AnswerEvent, { kind: "error" }>): string {
    const open = this.blocks.at(-1);
    if (event.kind === "block") this.blocks.push({ what: whatOf(event), pieces: [], length: 0, ended: false });
    else if (event.kind === "delta" && open !== undefined) {
      if (this.#length <= deliveredMax) open.pieces.push(event.text);
      open.length += event.text.length;
      this.#length += event.text.length;
    } else if (event.kind === "block-end" && open !== undefined) open.ended = true;
    else if (event.kind === "finish") this.ended = true;
    return this.encoder.push(event);
  }
}

const whatOf = ({ block }: Extract<AnswerEvent, { kind: "block" }>): string => (block.kind === "call" ? `call ${block.name}` : block.kind);

const differs: UpstreamError = { message: "The next upstream of this model answered differently.", status: 502 };

/** One stream of such an answer. */
export class SplicedStream implements StreamRelay {
  error: UpstreamError | undefined;
  usage: Usage | undefined;
  pieces = 0;
  readonly #answer: SplicedAnswer;
  readonly #decoder: StreamDecoder;
  #held = "";
  /** Where in what was delivered the stream is; past the end when all it says is new. */
  #block: number;
  #offset = 0;
  #repeated: string | undefined;
  /** White space at the end of the text so far, which a request can't end in and the stream may say again. */
  #space: string;
  #mode: SpliceMode;

  constructor(answer: SplicedAnswer, decoder: StreamDecoder, mode: SpliceMode) {
    this.#answer = answer;
    this.#decoder = decoder;
    this.#mode = mode;
    this.#block = mode === "repeat" ? -1 : answer.blocks.length;
    this.#space = mode === "continue" ? (/\s*$/.exec(answer.text ?? "")?.[0] ?? "") : "";
  }

  get committed(): boolean {
    return this.#answer.committed;
  }

  get ended(): boolean {
    return this.#answer.ended;
  }

  get complete(): boolean {
    return this.ended;
  }

  get finished(): boolean {
    return this.#decoder.finished;
  }

  get answerId(): string | undefined {
    return this.#answer.answerId;
  }

  get malformedEvents(): number {
    return this.#decoder.malformedEvents;
  }

  push(event: SseEvent, out: Buffer[]): void {
    this.#read(this.#decoder.push(event), out);
  }

  end(out: Buffer[]): void {
    this.#read(this.#decoder.end(), out);
  }

  #read(events: readonly AnswerEvent[], out: Buffer[]): void {
    let text = this.#held;
    for (const event of events) {
      if (this.ended || this.error !== undefined) break;
      if (event.kind === "error") {
        this.error = event.error;
        break;
      }
      if (event.kind === "finish") this.usage = event.usage;
      if (event.kind === "delta") this.pieces++;
      const fresh = this.#newIn(event);
      if (fresh === undefined) continue;
      if (fresh.kind === "finish" || fresh.kind === "delta" || (fresh.kind === "block" && fresh.block.kind === "call")) this.#answer.committed = true;
      text += this.#answer.deliver(fresh);
    }
    this.#held = this.committed ? "" : text;
    if (this.committed && text !== "") out.push(Buffer.from(text));
  }

  /** The event, as far as it was not delivered before; undefined when it was, or when it differs, which is an error. */
  #newIn(event: Exclude<AnswerEvent, { kind: "error" }>): Exclude<AnswerEvent, { kind: "error" }> | undefined {
    switch (this.#mode) {
      case "first":
        return event.kind === "delta" && this.#space !== "" ? this.#withoutSpace(event.text) : event;
      case "continue":
        return this.#continued(event);
      case "repeat":
        return this.#repeats(event);
      default:
        return this.#mode satisfies never;
    }
  }

  #continued(event: Exclude<AnswerEvent, { kind: "error" }>): Exclude<AnswerEvent, { kind: "error" }> | undefined {
    // The text's block is open already; thoughts before it are the next upstream's own.
    if (event.kind === "block" && event.block.kind === "text") {
      this.#mode = "first";
      return undefined;
    }
    if (event.kind === "finish") return event;
    if (event.kind === "block" && event.block.kind === "call") return this.#fail();
    return undefined;
  }

  #repeats(event: Exclude<AnswerEvent, { kind: "error" }>): Exclude<AnswerEvent, { kind: "error" }> | undefined {
    const { blocks } = this.#answer;
    const last = this.#block === blocks.length - 1;
    switch (event.kind) {
      case "block": {
        const next = blocks[++this.#block];
        this.#offset = 0;
        this.#repeated = next?.pieces.join("");
        if (next === undefined) {
          this.#mode = "first";
          return event;
        }
        return next.what === whatOf(event) ? undefined : this.#fail();
      }
      case "delta": {
        const repeated = (this.#repeated ?? "").slice(this.#offset, this.#offset + event.text.length);
        if (!event.text.startsWith(repeated)) return this.#fail();
        this.#offset += repeated.length;
        const rest = event.text.slice(repeated.length);
        if (rest === "") return undefined;
        if (!last || blocks[this.#block]?.ended === true) return this.#fail();
        this.#mode = "first";
        return { kind: "delta", text: rest };
      }
      case "signature":
        return undefined;
      case "block-end": {
        if (this.#offset < (blocks[this.#block]?.length ?? 0)) return this.#fail();
        if (!last || blocks[this.#block]?.ended === true) return undefined;
        this.#mode = "first";
        return event;
      }
      case "finish":
        return last || blocks.length === 0 ? event : this.#fail();
      default:
        return event satisfies never;
    }
  }

  #withoutSpace(text: string): AnswerEvent & { kind: "delta" } {
    const said = this.#space;
    this.#space = "";
    let from = 0;
    while (from < said.length && text[from] === said[from]) from++;
    return { kind: "delta", text: text.slice(from) };
  }

  #fail(): undefined {
    this.error = differs;
    return undefined;
  }
}
