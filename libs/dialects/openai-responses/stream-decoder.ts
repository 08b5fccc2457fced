/**
 * Decodes streamed answers of upstreams in OpenAI's Responses format:
 * https://platform.openai.com/docs/api-reference/responses-streaming
 */

import { type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { openaiCitationsIn } from "../neutral/citations.ts";
import { type Block, endWith, eventsOf } from "../neutral/neutral.ts";
import { EventDecoder, type TextPlace } from "../relay/event-decoder.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import type { Usage } from "../usage.ts";
import { blocksOf, failureIn, finishOf, isForeignError, otherEnd, usageOf } from "./answer.ts";
import { ItemReader, partOf, textPartOf } from "./item-reader.ts";

/** Items that overlap come out one after the other, in the order in which they began. */
export class ResponsesDecoder extends EventDecoder {
  finished = false;
  usage: Usage | undefined;
  /** The last item of each output index. Some servers give all items one index, or none. */
  readonly #items = new Map<number, ItemReader>();
  readonly #itemsById = new Map<string, ItemReader>();
  readonly #itemsByCallId = new Map<string, ItemReader>();
  #lastCall: ItemReader | undefined;
  /** Text without an item of its own. */
  #apart: ItemReader | undefined;
  /** Items in order; only the first one's events come out. */
  readonly #queue: ItemReader[] = [];
  #lastIndex = 0;
  /** The kinds of the blocks so far, and the ids of the calls among them. */
  readonly #kinds = new Set<Block["kind"]>();
  readonly #callIds = new Set<string>();

  protected override textPlaceIn(event: JsonObject): TextPlace {
    return { holder: event, name: "delta" };
  }

  protected override read(event: JsonObject, name: string | undefined): undefined {
    event.type ??= name;
    const { type, item } = event;
    switch (type) {
      case "response.output_item.added":
        this.#begin(event);
        break;
      case "response.output_item.done":
        this.#newOr(event, ({ done }) => done).end(objectOf(item));
        break;
      case "response.completed":
      case "response.incomplete":
      case otherEnd:
        return this.#readEnd(event);
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        this.#callOf(event).input(textOf(event.delta) ?? "");
        break;
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
        this.#callOf(event).wholeInput(textOf(event.arguments) ?? textOf(event.input) ?? "");
        break;
      case "response.output_text.annotation.added":
        this.#itemOf(event)?.cite(textPartOf(event), openaiCitationsIn([event.annotation]));
        break;
      case "error":
      case "response.failed":
      case "response.cancelled":
        return this.fail(upstreamErrorOf(event));
      default:
        if (isForeignError(event, type)) return this.fail(upstreamErrorOf(event));
        this.#readText(event);
    }
    this.#drain();
  }

  #readText(event: JsonObject): void {
    const place = partOf(event);
    if (place === undefined) return;
    const { kind, part } = place;
    if (typeof event.delta === "string") this.#textOf(event).text(kind, part, event.delta);
    else this.#textOf(event).wholeText(kind, part, textOf(event.text) ?? textOf(event.refusal) ?? "");
  }

  /**
   * The item of an event: by its id, or else by its index, because some servers give an item
   * another id in each event.
   */
  #itemOf({ output_index: index, item_id: id }: JsonObject): ItemReader | undefined {
    if (typeof index === "number") this.#lastIndex = index;
    const [byId, byIndex] = [this.#itemsById.get(String(id)), this.#items.get(this.#lastIndex)];
    return [byId, byIndex].find((item) => item?.done === false) ?? byIndex ?? byId;
  }

  /**
   * The item of an event with a whole item; a new one if this was said of the known one already.
   */
  #newOr(event: JsonObject, isRead: (item: ItemReader) => boolean): ItemReader {
    const id = textOf(objectOf(event.item).id);
    const lastItem = this.#itemOf({ ...event, item_id: id });
    const isRepeated =
      id !== undefined && lastItem === this.#itemsById.get(id) && lastItem === this.#items.get(this.#lastIndex);
    const item = lastItem === undefined || (isRead(lastItem) && !isRepeated) ? this.#newItem() : lastItem;
    if (id !== undefined) this.#itemsById.set(id, item);
    return item;
  }

  #begin(event: JsonObject): void {
    const item = this.#newOr(event, ({ isBegun }) => isBegun);
    const whole = objectOf(event.item);
    item.begin(whole);
    if (!item.isCall) return;
    this.#lastCall = item;
    const callId = textOf(whole.call_id);
    if (callId !== undefined) this.#itemsByCallId.set(callId, item);
  }

  #newItem(): ItemReader {
    const item = new ItemReader();
    this.#items.set(this.#lastIndex, item);
    this.#queue.push(item);
    return item;
  }

  /** The call that an event adds to: the open one, if the event names an item that is no call. */
  #callOf(event: JsonObject): ItemReader {
    const item = this.#itemOf(event);
    if (item?.isCall === true) this.#lastCall = item;
    else if (this.#lastCall?.done === false) return this.#lastCall;
    return item ?? this.#newItem();
  }

  /** The item that an event's text adds to. Text that names a call is apart from it. */
  #textOf(event: JsonObject): ItemReader {
    const item = this.#itemOf(event);
    if (item?.isCall !== true) return item ?? this.#newItem();
    if (this.#apart?.done !== false) {
      this.#apart = new ItemReader();
      this.#queue.push(this.#apart);
    }
    return this.#apart;
  }

  /** The events of the first item, and of the next ones if it is complete. */
  #drain(): void {
    for (let item = this.#queue[0]; item !== undefined; item = this.#queue[0]) {
      for (const event of item.take()) {
        if (event.kind === "block") {
          this.#kinds.add(event.block.kind);
          if (event.block.kind === "call") this.#callIds.add(event.block.id);
        }
        this.events.push(event);
      }
      if (!item.done) break;
      this.#queue.shift();
    }
  }

  #readEnd({ type, response: value }: JsonObject): undefined {
    const response = objectOf(value);
    const failure = failureIn(response);
    if (failure !== undefined) return this.fail(failure);
    const output = listOf(response.output).map(objectOf);
    for (const item of output)
      (this.#itemsById.get(String(item.id)) ?? this.#itemsByCallId.get(String(item.call_id)))?.end(item);
    for (const item of this.#queue) item.end();
    this.#drain();
    const missing = this.#missingOf(output.flatMap(blocksOf));
    for (const { kind } of missing) this.#kinds.add(kind);
    this.events.push(...eventsOf({ blocks: missing, finish: "stop" }).slice(0, -1));
    this.usage = usageOf(response);
    const status = type === "response.incomplete" ? "incomplete" : response.status;
    const end = endWith(finishOf(status, response.incomplete_details, this.#kinds.has("call")), this);
    this.events.push({ kind: "finish", ...end });
    this.finished = true;
    this.over = true;
  }

  /**
   * The blocks of the whole response that were not streamed. A call with another id than its
   * streamed one is not missing. https://github.com/anomalyco/opencode/pull/44893,
   * https://github.com/vllm-project/vllm/pull/47916
   */
  #missingOf(blocks: readonly Block[]): Block[] {
    if (this.#kinds.size === 0) return [...blocks];
    const calls = blocks.filter((block) => block.kind === "call");
    const unknownCalls = calls.filter(({ id }) => !this.#callIds.has(id));
    const renamed = this.#callIds.size - (calls.length - unknownCalls.length);
    const missingCalls = new Set<Block>(unknownCalls.slice(Math.max(0, renamed)));
    return blocks.filter((block) =>
      block.kind === "call" ? missingCalls.has(block) : block.kind !== "reasoning" && !this.#kinds.has(block.kind),
    );
  }
}
