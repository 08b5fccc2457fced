/** Reads the parts of an upstream's answer in Google's Gemini format into neutral events. */
import { isObject, type JsonObject, objectOf, textOf } from "#wire/json/parse.ts";
import { geminiCitationsIn, TextPlaces } from "../neutral/citations.ts";
import type { AnswerEvent } from "../neutral/neutral.ts";
import { newCallId, wholeInputOf } from "../neutral/tools.ts";
import { unshownText } from "../neutral/unshown.ts";
import { dialect } from "./parts.ts";

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
  readonly #events: AnswerEvent[];
  #open: "text" | "reasoning" | undefined;
  readonly #places = new TextPlaces();
  /** Where the open text begins. */
  #start = 0;
  /** The citations so far: responses may repeat those of earlier ones. */
  readonly #citations = new Set<string>();

  /** The neutral events are appended to `events`. */
  constructor(events: AnswerEvent[]) {
    this.#events = events;
  }

  /** Reads one part, and the grounding of the texts up to it; unknown kinds have no events. */
  read(part: JsonObject, grounding?: unknown): void {
    const data = textOf(part.thoughtSignature);
    const isThought = part.thought === true;
    const text = textOf(part.text);
    const name = textOf(objectOf(part.functionCall).name);
    if (name !== undefined) {
      if (data !== undefined) this.#sign(data);
      this.#call(name, objectOf(part.functionCall));
      return;
    }
    if (text !== undefined) this.#say(isThought ? "reasoning" : "text", text);
    else if (!isThought) this.#show(objectOf(part.inlineData));
    if (isObject(grounding)) this.cite(objectOf(grounding));
    if (data === undefined) return;
    if (!isThought || this.#open !== "reasoning") this.#sign(data);
    else {
      this.#events.push({ kind: "signature", signature: { dialect, data } });
      this.close();
    }
  }

  /** Adds the citations of the open text. */
  cite(grounding: JsonObject): void {
    if (this.#open !== "text") return;
    for (const { span, ...page } of geminiCitationsIn(grounding, this.#places)) {
      const key = JSON.stringify([page.url, span]);
      if (this.#citations.has(key)) continue;
      this.#citations.add(key);
      const own = span && { start: Math.max(0, span.start - this.#start), end: span.end - this.#start };
      const citation = { ...page, ...(own !== undefined && own.start < own.end && { span: own }) };
      this.#events.push({ kind: "citation", citation });
    }
  }

  close(): void {
    if (this.#open !== undefined) this.#events.push({ kind: "block-end" });
    this.#open = undefined;
  }

  #say(kind: "text" | "reasoning", text: string): void {
    this.empty = false;
    this.hasContent ||= kind === "text";
    if (this.#open !== kind) {
      this.close();
      this.#open = kind;
      this.#start = this.#places.points;
      this.#events.push({ kind: "block", block: { kind } });
    }
    if (kind === "text") this.#places.add(text);
    this.#events.push({ kind: "delta", text });
  }

  #sign(data: string): void {
    this.close();
    this.empty = false;
    this.#events.push(
      { kind: "block", block: { kind: "reasoning" } },
      { kind: "signature", signature: { dialect, data } },
      { kind: "block-end" },
    );
  }

  #call(name: string, { id, args }: JsonObject): void {
    this.close();
    this.called = true;
    this.empty = false;
    this.hasContent = true;
    this.#events.push(
      { kind: "block", block: { kind: "call", id: textOf(id) ?? newCallId(), name } },
      { kind: "delta", text: wholeInputOf(args) || "{}" },
      { kind: "block-end" },
    );
  }

  #show({ mimeType, data }: JsonObject): void {
    if (typeof mimeType !== "string" || textOf(data) === undefined) return;
    if (!mimeType.startsWith("image/")) {
      this.#say("text", unshownText(mimeType));
      return;
    }
    this.close();
    this.empty = false;
    this.hasContent = true;
    this.#events.push(
      { kind: "block", block: { kind: "image", mimeType, data: data as string } },
      { kind: "block-end" },
    );
  }
}
