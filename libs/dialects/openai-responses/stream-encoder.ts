/**
 * Encodes streamed answers for callers in OpenAI's Responses format:
 * https://platform.openai.com/docs/api-reference/responses-streaming
 */

import { jsonOf } from "#wire/json/parse.ts";
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import type { AnswerEvent, Block, BlockStart, Finish } from "../neutral/neutral.ts";
import type { Usage } from "../usage.ts";
import {
  argumentsTextOf,
  calledNameOf,
  endingOf,
  type ItemStatus,
  itemOf,
  messagePartOf,
  responseBodyOf,
  usageBodyOf,
} from "./answer.ts";
import { FreeTextReader } from "./free-text.ts";

/** The open item. */
interface OpenItem {
  block: Block;
  id: string;
  index: number;
  /** The text or the input so far. */
  chunks: string[];
  /** Extracts the text from the input of a call with free text. */
  freeText: FreeTextReader | undefined;
  /** The item is written only once its call is complete: its type has no events for parts of it. */
  isWaiting: boolean;
}

/**
 * Events that bring an encoder to an answer's first text, and that text in one: two of the
 * response, two of the item, and the delta.
 */
const eventsBeforeText = 5;

/**
 * Writes every event of an item's life: clients reject an item's event out of order, and text that
 * is not repeated at its end.
 */
export class ResponsesEncoder implements StreamEncoder {
  readonly #context: AnswerContext;
  readonly #items: object[] = [];
  #open: OpenItem | undefined;
  #sequence = 0;
  /** What the numbers of events begin with. */
  readonly #firstSequence: number;

  constructor(context: AnswerContext) {
    this.#context = context;
    const { sequence } = context.continues ?? {};
    this.#firstSequence = sequence === undefined ? 0 : sequence - eventsBeforeText;
  }

  push(event: Exclude<AnswerEvent, { kind: "error" }>): string {
    const beginning = this.#sequence === 0 ? this.#lifecycle("created") + this.#lifecycle("in_progress") : "";
    return beginning + this.#eventsOf(event);
  }

  /**
   * A block's end is written with the event after it, which tells whether the answer was cut off
   * inside the block.
   */
  #eventsOf(event: Exclude<AnswerEvent, { kind: "error" }>): string {
    switch (event.kind) {
      case "block":
        return this.#close("completed") + this.#start(event.block);
      case "delta":
        return this.#open === undefined || event.text === "" ? "" : this.#delta(this.#open, event.text);
      case "signature":
        if (this.#open?.block.kind === "reasoning") this.#open.block.signature = event.signature;
        return "";
      case "block-end":
        return "";
      case "finish":
        return this.#finish(event.finish, event.usage);
      default:
        return event satisfies never;
    }
  }

  #start(start: BlockStart): string {
    const index = this.#items.length;
    const block: Block =
      start.kind === "image" ? start : start.kind === "call" ? { ...start, input: "" } : { ...start, text: "" };
    const item = itemOf(block, this.#context, index, "in_progress");
    const called = block.kind === "call" ? calledNameOf(block.name, this.#context) : undefined;
    const open: OpenItem = {
      block,
      id: String(item.id),
      index,
      chunks: [],
      freeText: called?.takesText === true ? new FreeTextReader() : undefined,
      isWaiting: called?.clientType !== undefined,
    };
    this.#open = open;
    if (open.isWaiting) return "";
    const added = this.#event("response.output_item.added", { output_index: index, item });
    switch (block.kind) {
      case "text":
      case "refusal":
        return added + this.#part(open, "content_part.added", { content_index: 0, part: messagePartOf(block) });
      case "image":
        return added + this.#part(open, "image_generation_call.in_progress", {});
      default:
        return added;
    }
  }

  #delta(open: OpenItem, text: string): string {
    open.chunks.push(text);
    switch (open.block.kind) {
      case "text":
        return this.#part(open, "output_text.delta", { content_index: 0, delta: text, logprobs: [] });
      case "refusal":
        return this.#part(open, "refusal.delta", { content_index: 0, delta: text });
      case "reasoning": {
        const part = { summary_index: 0, part: { type: "summary_text", text: "" } };
        const added = open.chunks.length === 1 ? this.#part(open, "reasoning_summary_part.added", part) : "";
        return added + this.#part(open, "reasoning_summary_text.delta", { summary_index: 0, delta: text });
      }
      case "call":
        if (open.isWaiting) return "";
        return open.freeText === undefined
          ? this.#part(open, "function_call_arguments.delta", { delta: text })
          : this.#freeText(open, open.freeText.push(text));
      case "image":
        return "";
      default:
        return open.block satisfies never;
    }
  }

  #freeText(open: OpenItem, delta: string): string {
    return delta === "" ? "" : this.#part(open, "custom_tool_call_input.delta", { delta });
  }

  #close(status: ItemStatus): string {
    const open = this.#open;
    if (open === undefined) return "";
    this.#open = undefined;
    const { block, index, chunks, freeText } = open;
    const whole = chunks.join("");
    if (block.kind === "call") block.input = whole;
    else if (block.kind !== "image") block.text = whole;
    const item = itemOf(block, this.#context, index, status);
    this.#items.push(item);
    if (open.isWaiting)
      return (
        this.#event("response.output_item.added", { output_index: index, item: { ...item, status: "in_progress" } }) +
        this.#event("response.output_item.done", { output_index: index, item })
      );
    return this.#ending(open, item, freeText) + this.#event("response.output_item.done", { output_index: index, item });
  }

  /** The events that end the parts of an item. */
  #ending(open: OpenItem, item: Record<string, unknown>, freeText: FreeTextReader | undefined): string {
    const { block } = open;
    switch (block.kind) {
      case "text":
        return (
          this.#part(open, "output_text.done", { content_index: 0, text: block.text, logprobs: [] }) +
          this.#part(open, "content_part.done", { content_index: 0, part: messagePartOf(block) })
        );
      case "refusal":
        return (
          this.#part(open, "refusal.done", { content_index: 0, refusal: block.text }) +
          this.#part(open, "content_part.done", { content_index: 0, part: messagePartOf(block) })
        );
      case "reasoning": {
        if (block.text === "") return "";
        const done = this.#part(open, "reasoning_summary_text.done", { summary_index: 0, text: block.text });
        return (
          done +
          this.#part(open, "reasoning_summary_part.done", {
            summary_index: 0,
            part: { type: "summary_text", text: block.text },
          })
        );
      }
      case "call": {
        if (freeText !== undefined)
          return (
            this.#freeText(open, freeText.end()) +
            this.#part(open, "custom_tool_call_input.done", { input: item.input })
          );
        const missing =
          block.input === "" ? this.#part(open, "function_call_arguments.delta", { delta: argumentsTextOf("") }) : "";
        return (
          missing + this.#part(open, "function_call_arguments.done", { name: item.name, arguments: item.arguments })
        );
      }
      case "image":
        return this.#part(open, "image_generation_call.completed", {});
      default:
        return block satisfies never;
    }
  }

  #finish(finish: Finish, usage: Usage | undefined): string {
    const ending = endingOf(finish);
    const closed = this.#close(ending.status);
    const response = responseBodyOf(this.#context, this.#items, ending, usageBodyOf(usage));
    return closed + this.#event(`response.${ending.status}`, { response });
  }

  #lifecycle(name: "created" | "in_progress"): string {
    return this.#event(`response.${name}`, {
      response: responseBodyOf(this.#context, [], { status: "in_progress" }, null),
    });
  }

  #part({ id, index }: OpenItem, name: string, fields: object): string {
    return this.#event(`response.${name}`, { item_id: id, output_index: index, ...fields });
  }

  #event(type: string, fields: object): string {
    return `event: ${type}\ndata: ${jsonOf({ type, sequence_number: this.#firstSequence + this.#sequence++, ...fields })}\n\n`;
  }
}
