/**
 * Decodes streamed answers of upstreams in OpenAI's Responses format:
 * https://platform.openai.com/docs/api-reference/responses-streaming
 */

import { isPresent, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { type AnswerEvent, endWith, eventsOf } from "../neutral/neutral.ts";
import { EventDecoder } from "../relay/event-decoder.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import type { Usage } from "../usage.ts";
import { blocksOf, failureIn, finishOf, usageOf } from "./answer.ts";
import { ItemReader, partOf } from "./item-reader.ts";

/** Items that overlap come out one after the other, in the order in which they began. */
export class ResponsesDecoder extends EventDecoder {
  finished = false;
  usage: Usage | undefined;
  /** The last item of each output index. Some servers give all items one index, or none. */
  readonly #items = new Map<number, ItemReader>();
  readonly #itemsById = new Map<string, ItemReader>();
  #lastCall: ItemReader | undefined;
  /** Text without an item of its own. */
  #apart: ItemReader | undefined;
  /** Items in order; only the first one's events come out. */
  readonly #queue: ItemReader[] = [];
  #lastIndex = 0;
  #called = false;
  #anyBlock = false;

  /** An answer without its last event is incomplete. */
  end(): AnswerEvent[] {
    this.over = true;
    return [];
  }

  protected override read(event: Record<string, unknown>, name: string | undefined): AnswerEvent[] {
    event.type ??= name;
    const { type, item } = event;
    switch (type) {
      case "response.output_item.added":
        this.#begin(event);
        return this.#drained();
      case "response.output_item.done":
        this.#newOr(event, ({ done }) => done).end(objectOf(item));
        return this.#drained();
      case "response.completed":
      case "response.incomplete":
        return this.#finish(event);
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        this.#callOf(event).input(textOf(event.delta) ?? "");
        return this.#drained();
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
        this.#callOf(event).wholeInput(textOf(event.arguments) ?? textOf(event.input) ?? "");
        return this.#drained();
      case "error":
      case "response.failed":
      case "response.cancelled":
        return this.fail(upstreamErrorOf(event));
      default:
        break;
    }
    const place = partOf(event);
    if (place !== undefined) {
      const { kind, part } = place;
      if (typeof event.delta === "string") this.#textOf(event).text(kind, part, event.delta);
      else this.#textOf(event).wholeText(kind, part, textOf(event.text) ?? textOf(event.refusal) ?? "");
      return this.#drained();
    }
    return type === undefined && isPresent(event.error) ? this.fail(upstreamErrorOf(event)) : [];
  }

  /**
   * The item of an event: by its id, or else by its index, because some servers give an item
   * another id in each event.
   */
  #itemOf({ output_index: index, item_id: id }: Record<string, unknown>): ItemReader | undefined {
    if (typeof index === "number") this.#lastIndex = index;
    const [byId, byIndex] = [this.#itemsById.get(String(id)), this.#items.get(this.#lastIndex)];
    return [byId, byIndex].find((item) => item?.done === false) ?? byIndex ?? byId;
  }

  /**
   * The item of an event with a whole item; a new one if this was said of the known one already.
   */
  #newOr(event: Record<string, unknown>, wasSaid: (item: ItemReader) => boolean): ItemReader {
    const id = textOf(objectOf(event.item).id);
    const known = this.#itemOf({ ...event, item_id: id });
    const isRepeated =
      id !== undefined && known === this.#itemsById.get(id) && known === this.#items.get(this.#lastIndex);
    const item = known === undefined || (wasSaid(known) && !isRepeated) ? this.#newItem() : known;
    if (id !== undefined) this.#itemsById.set(id, item);
    return item;
  }

  #begin(event: Record<string, unknown>): void {
    const item = this.#newOr(event, ({ isBegun }) => isBegun);
    item.begin(objectOf(event.item));
    if (item.isCall) this.#lastCall = item;
  }

  #newItem(): ItemReader {
    const item = new ItemReader();
    this.#items.set(this.#lastIndex, item);
    this.#queue.push(item);
    return item;
  }

  /** The call that an event adds to: the open one, if the event names an item that is no call. */
  #callOf(event: Record<string, unknown>): ItemReader {
    const item = this.#itemOf(event);
    if (item?.isCall === true) this.#lastCall = item;
    else if (this.#lastCall?.done === false) return this.#lastCall;
    return item ?? this.#newItem();
  }

  /** The item that an event's text adds to. Text that names a call is apart from it. */
  #textOf(event: Record<string, unknown>): ItemReader {
    const item = this.#itemOf(event);
    if (item?.isCall !== true) return item ?? this.#newItem();
    if (this.#apart?.done !== false) {
      this.#apart = new ItemReader();
      this.#queue.push(this.#apart);
    }
    return this.#apart;
  }

  /** The events of the first item, and of the next ones if it is complete. */
  #drained(): AnswerEvent[] {
    const events: AnswerEvent[] = [];
    for (let item = this.#queue[0]; item !== undefined; item = this.#queue[0]) {
      events.push(...item.take());
      if (!item.done) break;
      this.#queue.shift();
    }
    this.#anyBlock ||= events.length > 0;
    this.#called ||= events.some((event) => event.kind === "block" && event.block.kind === "call");
    return events;
  }

  #finish({ type, response: value }: Record<string, unknown>): AnswerEvent[] {
    const response = objectOf(value);
    const failure = failureIn(response);
    if (failure !== undefined) return this.fail(failure);
    for (const item of this.#queue) item.end();
    const events = this.#drained();
    if (!this.#anyBlock) {
      const blocks = listOf(response.output).flatMap((item) => blocksOf(objectOf(item)));
      this.#called = blocks.some(({ kind }) => kind === "call");
      events.push(...eventsOf({ blocks, finish: "stop" }).slice(0, -1));
    }
    this.usage = usageOf(response);
    const status = type === "response.incomplete" ? "incomplete" : response.status;
    events.push({ kind: "finish", ...endWith(finishOf(status, response.incomplete_details, this.#called), this) });
    this.finished = true;
    this.over = true;
    return events;
  }
}
