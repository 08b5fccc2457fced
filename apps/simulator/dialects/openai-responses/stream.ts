/** The stream of a response: its whole life cycle, with consecutive numbers in its events. */
import { type Chunks, eachOf, joined } from "../../answer/chunks.ts";
import type { Script } from "../dialect.ts";
import { begunItemOf, doneItemOf, type Item, summaryPartOf, textPartOf } from "./items.ts";
import { type Envelope, failureOf, type Outcome, responseOf } from "./response.ts";

export function responsesScriptOf(envelope: Envelope, items: Item[], outcome: Outcome): Script {
  let sequence = 0;
  const eventOf = (type: string, members: object) =>
    `event: ${type}\ndata: {"type":"${type}","sequence_number":${sequence++},${JSON.stringify(members).slice(1)}\n\n`;
  /** The events that are sent with the next token. */
  let waiting = "";
  const wait = (type: string, members: object) => {
    waiting += eventOf(type, members);
  };
  const taken = () => {
    const events = waiting;
    waiting = "";
    return events;
  };

  /** The members of a text's events before and after the delta are the same in each. */
  function* growing(type: string, members: object, chunks: Chunks, after = ""): Generator<string> {
    const start = `event: ${type}\ndata: {"type":"${type}","sequence_number":`;
    const middle = `,${JSON.stringify(members).slice(1, -1)},"delta":`;
    for (const chunk of eachOf(chunks))
      yield `${taken()}${start}${sequence++}${middle}${JSON.stringify(chunk)}${after}}\n\n`;
  }

  function* tokensOf(item: Item, index: number): Generator<string> {
    const place = { item_id: item.id, output_index: index };
    wait("response.output_item.added", { output_index: index, item: begunItemOf(item) });
    switch (item.kind) {
      case "compaction":
        yield taken();
        break;
      case "message": {
        const at = { ...place, content_index: 0 };
        const text = joined(item.text);
        wait("response.content_part.added", { ...at, part: textPartOf("") });
        yield* growing("response.output_text.delta", at, item.text, `,"logprobs":[]`);
        wait("response.output_text.done", { ...at, text, logprobs: [] });
        wait("response.content_part.done", { ...at, part: textPartOf(text) });
        break;
      }
      case "reasoning": {
        if (!item.isShown) {
          yield* eachOf(item.thought).map(taken);
          break;
        }
        const at = { ...place, summary_index: 0 };
        const text = joined(item.thought);
        wait("response.reasoning_summary_part.added", { ...at, part: summaryPartOf("") });
        yield* growing("response.reasoning_summary_text.delta", at, item.thought);
        wait("response.reasoning_summary_text.done", { ...at, text });
        wait("response.reasoning_summary_part.done", { ...at, part: summaryPartOf(text) });
        break;
      }
      case "call": {
        const [type, field] =
          item.call.tool.takes === "json"
            ? ["response.function_call_arguments", "arguments"]
            : ["response.custom_tool_call_input", "input"];
        yield taken();
        yield* growing(`${type}.delta`, place, item.call.input);
        wait(`${type}.done`, { ...place, [field]: joined(item.call.input) });
      }
    }
    wait("response.output_item.done", { output_index: index, item: doneItemOf(item) });
  }

  function* events(): Generator<string, string> {
    for (const [index, item] of items.entries()) yield* tokensOf(item, index);
    return waiting;
  }

  const opening = ["response.created", "response.in_progress"]
    .map((type) => eventOf(type, { response: responseOf(envelope, { status: "in_progress" }) }))
    .join("");
  return {
    kind: "events",
    opening,
    length: items.reduce((sum, item) => sum + lengthOf(item), 0),
    events: events(),
    get terminator() {
      return eventOf(`response.${outcome.status}`, {
        response: responseOf(envelope, { ...outcome, output: items.map(doneItemOf) }),
      });
    },
    errorEvent(message, { opened }) {
      const error = failureOf(message);
      return (
        (opened ? "" : opening) +
        eventOf("error", { ...error, param: null }) +
        eventOf("response.failed", { response: responseOf(envelope, { status: "failed", error }) })
      );
    },
  };
}

/** In tokens; a call's name counts as one. */
function lengthOf(item: Item): number {
  switch (item.kind) {
    case "compaction":
      return 1;
    case "message":
      return item.text.length;
    case "reasoning":
      return item.thought.length;
    case "call":
      return 1 + item.call.input.length;
  }
}
