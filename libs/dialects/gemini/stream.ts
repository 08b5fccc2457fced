/**
 * Streamed answers in Google's Gemini format, both ways: https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
 * Every event is a response with some parts of the whole; none has a name, and nothing marks the end.
 */
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import { EventDecoder } from "../event-decoder.ts";
import { jsonOf } from "../json.ts";
import type { AnswerEvent } from "../neutral.ts";
import type { Usage } from "../usage.ts";
import { AnswerReader, responseOf } from "./answer.ts";
import { PartWriter } from "./part-writer.ts";

export class GeminiDecoder extends EventDecoder {
  readonly #reader = new AnswerReader();

  get finished(): boolean {
    return this.#reader.finished;
  }

  get usage(): Usage | undefined {
    return this.#reader.usage;
  }

  protected override read(response: Record<string, unknown>): AnswerEvent[] {
    const events = this.#reader.read(response);
    this.over = this.#reader.over;
    return events;
  }

  end(): AnswerEvent[] {
    return this.over || !this.finished ? [] : this.#reader.end();
  }
}

export class GeminiEncoder implements StreamEncoder {
  readonly #context: AnswerContext;
  readonly #writer: PartWriter;
  readonly #frame: Frames;

  constructor(context: AnswerContext) {
    this.#context = context;
    this.#writer = new PartWriter(context);
    this.#frame = new Frames(context.framing === "array");
  }

  push(event: Exclude<AnswerEvent, { kind: "error" }>): string {
    if (event.kind !== "finish") {
      const parts = this.#writer.push(event);
      return parts.length === 0 ? "" : this.#frame.next(jsonOf(responseOf(parts, this.#context)));
    }
    const { finish, usage } = event;
    const left = this.#writer.end();
    // A client that keeps the conversation forgets a turn of which one response has no part: https://github.com/googleapis/js-genai/blob/main/src/chats.ts
    const parts = left.length === 0 ? [{ text: "" }] : left;
    return (
      this.#frame.next(jsonOf(responseOf(parts, this.#context, { finish, usage, malformed: this.#writer.malformed }))) +
      this.#frame.end()
    );
  }
}

/** How responses follow each other: as events, or as the elements of a list, between which there is an empty line as well. */
export class Frames {
  readonly #isList: boolean;
  #begun = false;

  constructor(isList: boolean) {
    this.#isList = isList;
  }

  /** What stands before a response's JSON. */
  before(): string {
    const mark = this.#isList ? (this.#begun ? "," : "[") : "data: ";
    this.#begun = true;
    return mark;
  }

  next(json: string): string {
    return `${this.before()}${json}\n\n`;
  }

  /** What ends the answer; nothing, for events. */
  end(): string {
    if (!this.#isList) return "";
    return this.#begun ? "]" : "[]";
  }
}
