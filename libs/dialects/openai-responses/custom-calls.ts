/**
 * Function calls of tools with free text, in answers that otherwise pass unchanged: they become the
 * custom calls that the caller expects.
 */
import { isObject, type JsonObject, jsonOf, listOf, objectOf } from "#wire/json/parse.ts";
import { FreeTextReader, freeTextOf } from "./free-text.ts";

type Names = ReadonlySet<string>;

/**
 * The item as the caller gets it; the same one if it is no such call. `begun`: the input follows.
 */
function customItemOf(value: unknown, names: Names, begun = false): unknown {
  const item = objectOf(value);
  if (item.type !== "function_call" || !names.has(String(item.name))) return value;
  const { arguments: input, ...others } = item;
  return { ...others, type: "custom_tool_call", input: begun ? "" : freeTextOf(String(input ?? "")) };
}

/** The items of a response as the caller gets them; undefined if none changes. */
export function customOutputOf(output: unknown, names: Names): unknown[] | undefined {
  const items = listOf(output);
  const changed = items.map((item) => customItemOf(item, names));
  return changed.some((item, place) => item !== items[place]) ? changed : undefined;
}

interface OpenCall {
  reader: FreeTextReader;
  text: string;
  isOver: boolean;
}

/** Rewrites the events of such calls. */
export class CustomCalls {
  readonly #names: Names;
  /** By the item's place in the output. */
  readonly #open = new Map<unknown, OpenCall>();

  constructor(names: Names) {
    this.#names = names;
  }

  /**
   * The events in place of this one, or the data of one that ends the answer; undefined if it
   * stays.
   */
  eventsFor(type: string, value: JsonObject): string | undefined {
    const { output_index: index, item, response } = value;
    const open = this.#open.get(index);
    switch (type) {
      case "response.output_item.added": {
        const custom = customItemOf(item, this.#names, true);
        if (custom === item) return undefined;
        const call = { reader: new FreeTextReader(), text: "", isOver: false };
        this.#open.set(index, call);
        return eventOf(type, { ...value, item: custom });
      }
      case "response.function_call_arguments.delta":
        return open && this.#delta(value, open, open.reader.push(String(value.delta ?? "")));
      case "response.function_call_arguments.done":
        return open && this.#ended(value, open, String(value.arguments ?? ""));
      case "response.output_item.done": {
        const custom = customItemOf(item, this.#names);
        if (custom === item) return undefined;
        const { id, arguments: input } = objectOf(item);
        const ended =
          open === undefined || open.isOver ? "" : this.#ended({ ...value, item_id: id }, open, String(input ?? ""));
        this.#open.delete(index);
        return ended + eventOf(type, { ...value, item: custom });
      }
      case "response.completed":
      case "response.incomplete": {
        const output = isObject(response) ? customOutputOf(objectOf(response).output, this.#names) : undefined;
        return output && jsonOf({ ...value, response: { ...objectOf(response), output } });
      }
      default:
        return undefined;
    }
  }

  #delta(value: JsonObject, open: OpenCall, delta: string): string {
    open.text += delta;
    const { item: _item, arguments: _arguments, ...place } = value;
    return delta === "" ? "" : eventOf("response.custom_tool_call_input.delta", { ...place, delta });
  }

  /** `input` is the whole call, which may not have been streamed. */
  #ended(value: JsonObject, open: OpenCall, input: string): string {
    open.isOver = true;
    const whole = freeTextOf(input);
    const left =
      open.text === "" ? whole : whole.startsWith(open.text) ? whole.slice(open.text.length) : open.reader.end();
    const delta = this.#delta(value, open, left);
    const { item: _item, arguments: _arguments, name: _name, ...place } = value;
    return delta + eventOf("response.custom_tool_call_input.done", { ...place, input: open.text });
  }
}

const eventOf = (type: string, value: JsonObject) => `event: ${type}\ndata: ${jsonOf({ ...value, type })}\n\n`;
