/**
 * Reads one item of an upstream's streamed answer into blocks. Content that was not streamed is
 * taken from the whole item at its end.
 */
import { type JsonObject, jsonOf, textOf } from "#wire/json/parse.ts";
import { type AnswerEvent, type Citation, eventsOf } from "../neutral/neutral.ts";
import { blocksOf, callIdOf, inputOfItem } from "./answer.ts";

type TextKind = "text" | "refusal" | "reasoning";

export class ItemReader {
  /** Events of its blocks that were not taken yet. */
  readonly #events: AnswerEvent[] = [];
  #kind: TextKind | "function" | "custom" | undefined;
  /** The streamed parts so far; the last one is open. */
  readonly #parts: string[] = [];
  /** A call's input, as far as it was streamed. */
  #input = "";
  #blockSeen = false;
  #isCited = false;
  done = false;
  /** The item was announced. */
  isBegun = false;
  isCall = false;

  take(): AnswerEvent[] {
    return this.#events.splice(0);
  }

  /** A call opens its block once its name is known, other items with their first text. */
  begin(item: JsonObject): void {
    this.isBegun = true;
    const isCustom = item.type === "custom_tool_call";
    const name = textOf(item.name);
    if (this.#kind !== undefined || name === undefined || !(isCustom || item.type === "function_call")) return;
    this.#kind = isCustom ? "custom" : "function";
    this.isCall = true;
    this.#write({ kind: "block", block: { kind: "call", id: callIdOf(item.call_id), name } });
  }

  /**
   * A chunk of one of the item's parts. The parts of reasoning are one block, with a blank line
   * between them.
   */
  text(kind: TextKind, part: string, text: string): void {
    if (text === "" || this.done) return;
    const isNew = this.#parts.at(-1) !== part;
    if (isNew && this.#kind === "reasoning" && kind === "reasoning") this.#write({ kind: "delta", text: "\n\n" });
    else if (isNew) {
      this.#close();
      this.#kind = kind;
      this.#write({ kind: "block", block: { kind } });
    }
    if (isNew) this.#parts.push(part);
    this.#write({ kind: "delta", text });
  }

  /** The text of a complete part; used only if none of it was streamed. */
  wholeText(kind: TextKind, part: string, text: string): void {
    if (!this.#parts.includes(part)) this.text(kind, part, text);
  }

  /** Citations of one of the item's parts, while it is open. */
  cite(part: string, citations: readonly Citation[]): void {
    if (this.#kind !== "text" || this.#parts.at(-1) !== part) return;
    this.#isCited ||= citations.length > 0;
    for (const citation of citations) this.#write({ kind: "citation", citation });
  }

  /** A chunk of a call's input. A custom tool's text becomes the only member of a JSON object. */
  input(chunk: string): void {
    if (chunk === "" || this.done || (this.#kind !== "function" && this.#kind !== "custom")) return;
    if (this.#kind === "function") this.#write({ kind: "delta", text: chunk });
    else {
      const start = this.#input === "" ? '{"input":"' : "";
      this.#write({ kind: "delta", text: `${start}${jsonOf(chunk).slice(1, -1)}` });
    }
    this.#input += chunk;
  }

  /** The whole input, of which the part that was not streamed is used. */
  wholeInput(input: string): void {
    if (input.startsWith(this.#input)) this.input(input.slice(this.#input.length));
  }

  /** Ends the item; `item` is the whole item, if the upstream sends it. */
  end(item: JsonObject = {}): void {
    if (this.done) return;
    this.begin(item);
    if (this.#kind === "function") this.wholeInput(inputOfItem(item));
    if (this.#kind === "custom") {
      this.wholeInput(textOf(item.input) ?? "");
      this.#write({ kind: "delta", text: this.#input !== "" ? '"}' : '{"input":""}' });
    }
    const blocks = blocksOf(item);
    const [whole, ...others] = blocks;
    const last = blocks.findLast(({ kind }) => kind === "text");
    if (!this.#isCited && last?.kind === "text") this.cite(this.#parts.at(-1) ?? "", last.citations ?? []);
    if (whole?.kind === "reasoning" && whole.signature !== undefined && this.#kind === "reasoning")
      this.#write({ kind: "signature", signature: whole.signature });
    this.#close();
    if (!this.#blockSeen && whole !== undefined)
      this.#events.push(...eventsOf({ blocks: [whole, ...others], finish: "stop" }).slice(0, -1));
    this.done = true;
  }

  #close(): void {
    if (this.#kind !== undefined) this.#write({ kind: "block-end" });
    this.#kind = undefined;
  }

  #write(event: AnswerEvent): void {
    this.#blockSeen = true;
    this.#events.push(event);
  }
}

/** The name of the part with text that an upstream's event belongs to. */
export const textPartOf = ({ content_index: content }: JsonObject) => `text ${content}`;

/** The name of the part that an upstream's event belongs to, and the kind of its block. */
export function partOf(event: JsonObject): { kind: TextKind; part: string } | undefined {
  const name = /^response\.(output_text|refusal|reasoning_summary_text|reasoning_text)\.(?:delta|done)$/.exec(
    String(event.type),
  )?.[1];
  const { content_index: content, summary_index: summary } = event;
  switch (name) {
    case "output_text":
      return { kind: "text", part: textPartOf(event) };
    case "refusal":
      return { kind: "refusal", part: `refusal ${content}` };
    case "reasoning_summary_text":
      return { kind: "reasoning", part: `summary ${summary}` };
    case "reasoning_text":
      return { kind: "reasoning", part: `thinking ${content}` };
    default:
      return undefined;
  }
}
