/**
 * Encodes streamed answers for callers in OpenAI's Responses format:
 * https://platform.openai.com/docs/api-reference/responses-streaming
 */

import { type JsonObject, jsonOf } from "#wire/json/parse.ts";
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import type { Block, BlockStart, ContentEvent, Finish } from "../neutral/neutral.ts";
import type { Usage } from "../usage.ts";
import {
  annotationsOf,
  calledNameOf,
  endingOf,
  type ItemStatus,
  itemOf,
  messagePartOf,
  responseBodyOf,
} from "./answer.ts";
import { FreeTextReader } from "./free-text.ts";

/** The open item. */
interface OpenItem {
  block: Block;
  index: number;
  /** The members with which its events say their place, in JSON. */
  place: string;
  /** The text or the input so far. */
  chunks: string[];
  /** Extracts the text from the input of a call with free text. */
  freeText: FreeTextReader | undefined;
  /** The item is written only once its call is complete: its type has no events for parts of it. */
  isWaiting: boolean;
}

type TextBlock = Extract<Block, { text: string }>;

/** The events of a text, by its kind. */
const textEvents = {
  text: {
    name: "output_text",
    part: "content_part",
    index: "content_index",
    whole: (text: string) => ({ text, logprobs: [] }),
  },
  refusal: {
    name: "refusal",
    part: "content_part",
    index: "content_index",
    whole: (refusal: string) => ({ refusal }),
  },
  reasoning: {
    name: "reasoning_summary_text",
    part: "reasoning_summary_part",
    index: "summary_index",
    whole: (text: string) => ({ text }),
  },
} as const;

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
  /** The number of the first event. */
  readonly #firstSequence: number;

  constructor(context: AnswerContext) {
    this.#context = context;
    const { sequence } = context.continues ?? {};
    this.#firstSequence = sequence === undefined ? 0 : sequence - eventsBeforeText;
  }

  push(event: ContentEvent): string {
    const lifecycle = this.#sequence === 0 ? this.#lifecycle("created") + this.#lifecycle("in_progress") : "";
    return lifecycle + this.#eventsOf(event);
  }

  /**
   * A block's end is written with the event after it, which tells whether the answer was cut off
   * inside the block.
   */
  #eventsOf(event: ContentEvent): string {
    switch (event.kind) {
      case "block":
        return this.#close("completed") + this.#start(event.block);
      case "delta":
        return this.#open === undefined || event.text === "" ? "" : this.#delta(this.#open, event.text);
      case "citation":
        if (this.#open?.block.kind === "text") {
          this.#open.block.citations ??= [];
          this.#open.block.citations.push(event.citation);
        }
        return "";
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
    const isText = block.kind !== "call" && block.kind !== "image";
    const open: OpenItem = {
      block,
      index,
      place: jsonOf({
        item_id: String(item.id),
        output_index: index,
        ...(isText && { [textEvents[block.kind].index]: 0 }),
      }).slice(1, -1),
      chunks: [],
      freeText: called?.takesText === true ? new FreeTextReader() : undefined,
      isWaiting: called?.clientType !== undefined,
    };
    this.#open = open;
    if (open.isWaiting) return "";
    const added = this.#event("output_item.added", { output_index: index, item });
    if (block.kind === "image") return added + this.#part(open, "image_generation_call.in_progress");
    return block.kind === "text" || block.kind === "refusal" ? added + this.#textPart(open, block, "added") : added;
  }

  #delta(open: OpenItem, text: string): string {
    open.chunks.push(text);
    const { block } = open;
    switch (block.kind) {
      case "text":
        return this.#part(open, "output_text.delta", `,"delta":${jsonOf(text)},"logprobs":[]`);
      case "refusal":
        return this.#part(open, "refusal.delta", `,"delta":${jsonOf(text)}`);
      case "reasoning": {
        const added = open.chunks.length === 1 ? this.#textPart(open, block, "added") : "";
        return added + this.#part(open, "reasoning_summary_text.delta", `,"delta":${jsonOf(text)}`);
      }
      case "call":
        if (open.isWaiting) return "";
        return open.freeText === undefined
          ? this.#part(open, "function_call_arguments.delta", `,"delta":${jsonOf(text)}`)
          : this.#freeText(open, open.freeText.push(text));
      case "image":
        return "";
      default:
        return block satisfies never;
    }
  }

  #freeText(open: OpenItem, delta: string): string {
    return delta === "" ? "" : this.#part(open, "custom_tool_call_input.delta", `,"delta":${jsonOf(delta)}`);
  }

  #close(status: ItemStatus): string {
    const open = this.#open;
    if (open === undefined) return "";
    this.#open = undefined;
    const { block, index, chunks } = open;
    const whole = chunks.join("");
    if (block.kind === "call") block.input = whole;
    else if (block.kind !== "image") block.text = whole;
    const item = itemOf(block, this.#context, index, status);
    this.#items.push(item);
    const ending = open.isWaiting
      ? this.#event("output_item.added", { output_index: index, item: { ...item, status: "in_progress" } })
      : this.#ending(open, item);
    return ending + this.#event("output_item.done", { output_index: index, item });
  }

  /** The events that end the parts of an item. */
  #ending(open: OpenItem, item: JsonObject): string {
    const { block, freeText } = open;
    switch (block.kind) {
      case "text":
      case "refusal":
      case "reasoning": {
        if (block.kind === "reasoning" && block.text === "") return "";
        const { name, whole } = textEvents[block.kind];
        const annotations = block.kind === "text" ? this.#annotations(open, block) : "";
        return (
          annotations +
          this.#part(open, `${name}.done`, membersOf(whole(block.text))) +
          this.#textPart(open, block, "done")
        );
      }
      case "call": {
        if (freeText !== undefined)
          return (
            this.#freeText(open, freeText.end()) +
            this.#part(open, "custom_tool_call_input.done", membersOf({ input: item.input }))
          );
        const missing =
          block.input === ""
            ? this.#part(open, "function_call_arguments.delta", membersOf({ delta: item.arguments }))
            : "";
        const call = { name: item.name, arguments: item.arguments };
        return missing + this.#part(open, "function_call_arguments.done", membersOf(call));
      }
      case "image":
        return this.#part(open, "image_generation_call.completed");
      default:
        return block satisfies never;
    }
  }

  #annotations(open: OpenItem, block: Extract<Block, { kind: "text" }>): string {
    return annotationsOf(block)
      .map((annotation, index) =>
        this.#part(open, "output_text.annotation.added", membersOf({ annotation_index: index, annotation })),
      )
      .join("");
  }

  #finish(finish: Finish, usage: Usage | undefined): string {
    const ending = endingOf(finish);
    const closed = this.#close(ending.status);
    const response = responseBodyOf(this.#context, this.#items, ending, usage);
    return closed + this.#event(ending.status, { response });
  }

  #lifecycle(name: "created" | "in_progress"): string {
    return this.#event(name, { response: responseBodyOf(this.#context, [], { status: "in_progress" }, null) });
  }

  /** Begins or ends the part of an item that has its text. */
  #textPart(open: OpenItem, block: TextBlock, step: "added" | "done"): string {
    const part = block.kind === "reasoning" ? { type: "summary_text", text: block.text } : messagePartOf(block);
    return this.#part(open, `${textEvents[block.kind].part}.${step}`, membersOf({ part }));
  }

  /** An event of an item. `members` are in JSON, because most events are deltas. */
  #part({ place }: OpenItem, name: string, members = ""): string {
    return this.#eventText(name, `${place}${members}`);
  }

  #event(name: string, fields: object): string {
    return this.#eventText(name, jsonOf(fields).slice(1, -1));
  }

  #eventText(name: string, members: string): string {
    const number = this.#firstSequence + this.#sequence++;
    return `event: response.${name}\ndata: {"type":"response.${name}","sequence_number":${number},${members}}\n\n`;
  }
}

/** Members of an event behind others, in JSON. */
const membersOf = (members: object) => `,${jsonOf(members).slice(1, -1)}`;
