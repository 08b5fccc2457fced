/**
 * Streamed answers in Google's Gemini format, in both directions:
 * https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent Every event is a
 * response with some of the parts. Events have no names, and nothing marks the end.
 */

import { jsonOf } from "#wire/json/parse.ts";
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import type { AnswerEvent } from "../neutral/neutral.ts";
import { EventDecoder } from "../relay/event-decoder.ts";
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
    // Google's client drops a turn from its conversation if one of the responses has no part:
    // https://github.com/googleapis/js-genai/blob/main/src/chats.ts
    const parts = left.length === 0 ? [{ text: "" }] : left;
    return (
      this.#frame.next(jsonOf(responseOf(parts, this.#context, { finish, usage, malformed: this.#writer.malformed }))) +
      this.#frame.end()
    );
  }
}

/** The framing of responses: as events, or as elements of a list with empty lines between them. */
export class Frames {
  readonly #isList: boolean;
  #begun = false;

  constructor(isList: boolean) {
    this.#isList = isList;
  }

  /** The text before a response's JSON. */
  before(): string {
    const mark = this.#isList ? (this.#begun ? "," : "[") : "data: ";
    this.#begun = true;
    return mark;
  }

  next(json: string): string {
    return `${this.before()}${json}\n\n`;
  }

  /** The text after the last response; empty for events. */
  end(): string {
    if (!this.#isList) return "";
    return this.#begun ? "]" : "[]";
  }
}
