/** The stream of a message: its blocks in order, an event for each token. */
import { type Chunks, eachOf, joined } from "../../answer/chunks.ts";
import { tokensOf } from "../../answer/compose.ts";
import type { Script } from "../dialect.ts";
import { eventOf } from "../event.ts";
import { anthropicErrorOf } from "./error.ts";
import {
  endOf,
  finalUsageOf,
  type MessageAnswer,
  messageOf,
  redactedBlockOf,
  toolUseIdOf,
  usageOf,
} from "./response.ts";
import { signatureOf } from "./signature.ts";

export const messageScriptOf = (answer: MessageAnswer): Script => ({
  kind: "events",
  opening: eventOf({
    type: "message_start",
    message: {
      ...messageOf(answer),
      usage: answer.withUsage ? usageOf(answer, { completionTokens: 1, reasoningTokens: 0 }) : undefined,
    },
  }),
  length: tokensOf(answer.choice),
  events: eventsOf(answer),
  terminator: eventOf({ type: "message_stop" }),
  errorEvent: (message) => eventOf(anthropicErrorOf({ status: 500, message })),
});

function* eventsOf(answer: MessageAnswer): Generator<string, string> {
  const { choice, thinkingAs, withUsage } = answer;
  const { reasoning, text, calls } = choice;
  let index = 0;
  /** The events that are sent with the next token. */
  let waiting = "";
  const deltaOf = (delta: object | undefined) =>
    delta === undefined ? "" : eventOf({ type: "content_block_delta", index, delta });
  /** Has a delta for each token, undefined if it is not shown. */
  function* block(start: object, deltas: Iterable<object | undefined>, lastDelta?: object): Generator<string> {
    waiting += eventOf({ type: "content_block_start", index, content_block: start });
    for (const delta of deltas) {
      yield waiting + deltaOf(delta);
      waiting = "";
    }
    waiting = deltaOf(lastDelta) + eventOf({ type: "content_block_stop", index });
    index++;
  }

  if (reasoning.length > 0 && thinkingAs === "redacted")
    yield* block(
      redactedBlockOf(joined(reasoning)),
      eachOf(reasoning).map(() => undefined),
    );
  else if (reasoning.length > 0) {
    const isShown = thinkingAs === "summarized";
    yield* block(
      { type: "thinking", thinking: "", signature: "" },
      eachOf(reasoning).map((thinking) => (isShown ? { type: "thinking_delta", thinking } : undefined)),
      { type: "signature_delta", signature: signatureOf(isShown ? joined(reasoning) : "") },
    );
  }
  if (text !== undefined && text.length > 0)
    yield* block(
      { type: "text", text: "" },
      eachOf(text).map((part) => ({ type: "text_delta", text: part })),
    );
  for (const { id, tool, input } of calls)
    yield* block({ type: "tool_use", id: toolUseIdOf(id), name: tool.name, input: {} }, inputDeltasOf(input));
  const usage = withUsage ? finalUsageOf(answer) : undefined;
  return waiting + eventOf({ type: "message_delta", delta: endOf(choice), usage });
}

/** The name is a separate token. A call without arguments has empty deltas. */
function* inputDeltasOf(input: Chunks): Generator<object | undefined> {
  const isEmpty = joined(input) === "{}";
  yield undefined;
  yield* eachOf(input).map((json) => ({ type: "input_json_delta", partial_json: isEmpty ? "" : json }));
}
