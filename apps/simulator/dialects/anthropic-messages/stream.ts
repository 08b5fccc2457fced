/** The stream of a message: its blocks in order, an event for each token. */
import type { Call } from "../../answer/calls.ts";
import { type Chunks, joined } from "../../answer/chunks.ts";
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

/** A block of a streamed answer. */
interface Block {
  /** In tokens. */
  length: number;
  start: object;
  /** The delta of a token; undefined if the token is not shown. */
  deltaAt(token: number): object | undefined;
  /** The delta after the last token. */
  lastDelta?: object;
}

export function messageScriptOf(answer: MessageAnswer): Script {
  const blocks = blocksOf(answer);
  const begin = {
    type: "message_start",
    message: {
      ...messageOf(answer),
      usage: answer.withUsage ? usageOf(answer, { completionTokens: 1, reasoningTokens: 0 }) : undefined,
    },
  };
  const end = {
    type: "message_delta",
    delta: endOf(answer.choice),
    usage: answer.withUsage ? finalUsageOf(answer) : undefined,
  };
  const deltaEvent = (index: number, delta: object | undefined) =>
    delta === undefined ? "" : eventOf({ type: "content_block_delta", index, delta });
  const ended = (index: number) =>
    deltaEvent(index, blocks[index]?.lastDelta) + eventOf({ type: "content_block_stop", index });
  const begun = (index: number) =>
    (index > 0 ? ended(index - 1) : "") +
    eventOf({ type: "content_block_start", index, content_block: blocks[index]?.start });
  return {
    kind: "events",
    opening: eventOf(begin),
    length: blocks.reduce((sum, { length }) => sum + length, 0),
    eventAt(token) {
      let left = token;
      for (const [index, block] of blocks.entries()) {
        if (left < block.length) return (left === 0 ? begun(index) : "") + deltaEvent(index, block.deltaAt(left));
        left -= block.length;
      }
      throw new RangeError(`there is no token ${token}`);
    },
    closing: (blocks.length > 0 ? ended(blocks.length - 1) : "") + eventOf(end),
    terminator: eventOf({ type: "message_stop" }),
    errorEvent: (message) => eventOf(anthropicErrorOf({ status: 500, message })),
  };
}

function blocksOf({ choice: { reasoning, text, calls }, thinkingAs }: MessageAnswer): Block[] {
  const blocks: Block[] = [];
  if (reasoning.length > 0)
    blocks.push(thinkingAs === "redacted" ? redactedOf(reasoning) : thinkingOf(reasoning, thinkingAs === "summarized"));
  if (text !== undefined && text.length > 0)
    blocks.push({
      length: text.length,
      start: { type: "text", text: "" },
      deltaAt: (token) => ({ type: "text_delta", text: text.at(token) }),
    });
  return [...blocks, ...calls.map(callOf)];
}

function thinkingOf(reasoning: Chunks, isShown: boolean): Block {
  return {
    length: reasoning.length,
    start: { type: "thinking", thinking: "", signature: "" },
    deltaAt: (token) => (isShown ? { type: "thinking_delta", thinking: reasoning.at(token) } : undefined),
    lastDelta: { type: "signature_delta", signature: signatureOf(isShown ? joined(reasoning) : "") },
  };
}

/** Sent whole at its start. */
const redactedOf = (reasoning: Chunks): Block => ({
  length: reasoning.length,
  start: redactedBlockOf(joined(reasoning)),
  deltaAt: () => undefined,
});

/** The name is a separate token. A call without arguments has no delta. */
function callOf({ id, tool, input }: Call): Block {
  const isEmpty = joined(input) === "{}";
  return {
    length: 1 + input.length,
    start: { type: "tool_use", id: toolUseIdOf(id), name: tool.name, input: {} },
    deltaAt: (token) =>
      token === 0 ? undefined : { type: "input_json_delta", partial_json: isEmpty ? "" : input.at(token - 1) },
  };
}
