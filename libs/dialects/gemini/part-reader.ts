/** Reads the parts of an upstream's answer in Google's Gemini format into neutral events. */
import { objectOf, textOf } from "#wire/json/parse.ts";
import type { AnswerEvent } from "../neutral/neutral.ts";
import { inputTextOf, newCallId } from "../neutral/tools.ts";
import { unshownText } from "../neutral/unshown.ts";
import { dialect } from "./parts.ts";

type Json = Record<string, unknown>;

/**
 * Consecutive texts are one block. A signature of a call or a text becomes a separate block: before
 * the call, after the text.
 */
export class PartReader {
  /** The model made a call. */
  called = false;
  /** No content so far, and no thinking. */
  empty = true;
  /** There is text, a call or an image. */
  hasContent = false;
  #open: "text" | "reasoning" | undefined;

  /** Appends the events of one part; unknown kinds have none. */
  read(part: Json, events: AnswerEvent[]): void {
    const data = textOf(part.thoughtSignature);
    const isThought = part.thought === true;
    const text = textOf(part.text);
    const name = textOf(objectOf(part.functionCall).name);
    if (name !== undefined) {
      if (data !== undefined) this.#sign(data, events);
      this.#call(name, objectOf(part.functionCall), events);
      return;
    }
    if (text !== undefined) this.#say(isThought ? "reasoning" : "text", text, events);
    else if (!isThought) this.#show(objectOf(part.inlineData), events);
    if (data === undefined) return;
    if (!isThought || this.#open !== "reasoning") this.#sign(data, events);
    else {
      events.push({ kind: "signature", signature: { dialect, data } });
      this.close(events);
    }
  }

  close(events: AnswerEvent[]): void {
    if (this.#open !== undefined) events.push({ kind: "block-end" });
    this.#open = undefined;
  }

  #say(kind: "text" | "reasoning", text: string, events: AnswerEvent[]): void {
    this.empty = false;
    this.hasContent ||= kind === "text";
    if (this.#open !== kind) {
      this.close(events);
      this.#open = kind;
      events.push({ kind: "block", block: { kind } });
    }
    events.push({ kind: "delta", text });
  }

  #sign(data: string, events: AnswerEvent[]): void {
    this.close(events);
    this.empty = false;
    events.push(
      { kind: "block", block: { kind: "reasoning" } },
      { kind: "signature", signature: { dialect, data } },
      { kind: "block-end" },
    );
  }

  #call(name: string, { id, args }: Json, events: AnswerEvent[]): void {
    this.close(events);
    this.called = true;
    this.empty = false;
    this.hasContent = true;
    events.push(
      { kind: "block", block: { kind: "call", id: textOf(id) ?? newCallId(), name } },
      { kind: "delta", text: inputTextOf(args) || "{}" },
      { kind: "block-end" },
    );
  }

  #show({ mimeType, data }: Json, events: AnswerEvent[]): void {
    if (typeof mimeType !== "string" || textOf(data) === undefined) return;
    if (!mimeType.startsWith("image/")) {
      this.#say("text", unshownText(mimeType), events);
      return;
    }
    this.close(events);
    this.empty = false;
    this.hasContent = true;
    events.push({ kind: "block", block: { kind: "image", mimeType, data: data as string } }, { kind: "block-end" });
  }
}
