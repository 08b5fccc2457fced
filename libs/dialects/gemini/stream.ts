/**
 * Writes streamed answers in Google's Gemini format:
 * https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
 */

import { jsonOf } from "#wire/json/parse.ts";
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import type { ContentEvent } from "../neutral/neutral.ts";
import { identityOf, responseOf } from "./answer.ts";
import { PartWriter } from "./part-writer.ts";

export class GeminiEncoder implements StreamEncoder {
  readonly #context: AnswerContext;
  /** The members that follow the candidates of every response, in JSON. */
  readonly #identity: string;
  readonly #writer: PartWriter;
  readonly #frame: Frames;

  constructor(context: AnswerContext) {
    this.#context = context;
    this.#identity = jsonOf(identityOf(context)).slice(1);
    this.#writer = new PartWriter(context);
    this.#frame = new Frames(context.framing === "array");
  }

  push(event: ContentEvent): string {
    if (event.kind !== "finish") {
      const parts = this.#writer.push(event);
      return parts.length === 0 ? "" : this.#frame.next(this.#chunk(parts));
    }
    const { finish, usage } = event;
    const left = this.#writer.end();
    // Google's client drops a turn from its conversation if one of the responses has no part:
    // https://github.com/googleapis/js-genai/blob/main/src/chats.ts
    const parts = left.length === 0 ? [{ text: "" }] : left;
    return (
      this.#frame.next(jsonOf(responseOf(parts, this.#context, { finish, usage, writer: this.#writer }))) +
      this.#frame.end()
    );
  }

  /** A response with some parts, built as text, because it is the most frequent event. */
  #chunk(parts: readonly object[]): string {
    return `{"candidates":[{"content":{"role":"model","parts":${jsonOf(parts)}},"index":0}],${this.#identity}`;
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
