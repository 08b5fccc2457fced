/**
 * Verbatim relay between a caller and an upstream that both speak Anthropic's Messages: bytes stay
 * unchanged except for the model's name.
 */

import { isPresent, jsonBytesOf, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { objectSpansOf, readSpan, replaceSpans, withMembers, withValues } from "#wire/json/spans.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { AnswerIdentity, Target, Verbatim, WholeAnswer } from "../codec.ts";
import { emptyAnswer, finishIn, isFailure, stoppedBy } from "../neutral/finish.ts";
import { messagesChunk, type Produced } from "../neutral/produced.ts";
import { wrappedSignatureMark } from "../neutral/wrapped-signature.ts";
import { eventBytesOf, failedWith, type Passing, VerbatimStream, type Watcher, withMember } from "../relay/verbatim.ts";
import { withAddresses } from "../relay/verbatim-attachments.ts";
import type { Usage } from "../usage.ts";
import { UsageReader, upstreamErrorOf } from "./answer.ts";
import { attachmentFinder } from "./attachments.ts";
import { thinkingInstead, withoutForeignThoughts, withoutSystemTurns, withoutThoughts } from "./foreign.ts";
import { apiVersion } from "./request.ts";

const stopEvent = Buffer.from('event: message_stop\ndata: {"type":"message_stop"}\n\n');

/** Marks of other vendors' reasoning: a wrapped signature, or none. */
const foreignMarks = [wrappedSignatureMark, '"signature":""', '"signature": ""'];

export const verbatim: Verbatim = {
  request(bytes, _framing, target) {
    const body = requestOf(
      foreignMarks.some((mark) => bytes.includes(mark)) ? withMessages(bytes, withoutForeignThoughts) : bytes,
      target,
    );
    return body === undefined ? undefined : { path: "/messages", headers: { "anthropic-version": apiVersion }, body };
  },
  repaired(bytes, { kind }) {
    if (kind === "companions") return withMessages(bytes, withoutThoughts);
    if (kind === "turns") return withMembers(bytes, "messages", withoutSystemTurns);
    return kind === "placeholders" ? withValues(bytes, { thinking: jsonBytesOf({ type: "disabled" }) }) : bytes;
  },
  stream: (_bytes, _framing, { model }) => new VerbatimStream(new MessagesWatcher(model)),
  withAddresses: (bytes, replace) => withAddresses(bytes, attachmentFinder, replace),
  answer: answerOf,
};

/** Undefined if the bytes are not a JSON object with a model. */
function requestOf(bytes: Buffer, { model }: Target): Buffer | undefined {
  const spans = objectSpansOf(bytes, ["model"]);
  if (spans?.members.model === undefined) return undefined;
  const by = jsonBytesOf(model);
  return replaceSpans(
    bytes,
    spans.all.map(({ start, end }) => ({ start, end, by })),
  );
}

/**
 * Removes reasoning, and thinking that cannot continue without it. Everything else stays unchanged.
 */
function withMessages(bytes: Buffer, without: (messages: Buffer) => Buffer): Buffer {
  const kept = withMembers(bytes, "messages", without);
  return withMembers(kept, "thinking", (thinking) => {
    const { messages } = parsedObject(kept) ?? {};
    const instead = thinkingInstead(readSpan(thinking, { start: 0, end: thinking.length }), listOf(messages));
    return instead === undefined ? thinking : jsonBytesOf(instead);
  });
}

/** Blocks whose start has no content. */
const quietBlocks = ["text", "thinking"];

class MessagesWatcher implements Watcher {
  readonly endsWithDone = false;
  readonly errorOf = upstreamErrorOf;
  finished = false;
  /** Waits for the terminator, which follows the stop reason at once. */
  readonly complete = false;
  readonly contradicted = false;
  readonly #model: Buffer;
  readonly #usage = new UsageReader();

  constructor(model: string) {
    this.#model = jsonBytesOf(model);
  }

  get hasAllContent(): boolean {
    return this.finished;
  }

  get usage(): Usage | undefined {
    return this.#usage.usage;
  }

  terminator(): Buffer {
    return stopEvent;
  }

  look({ event, data }: SseEvent, value: Record<string, unknown>, produced: Produced): Passing {
    const type = event !== undefined && event !== "message" ? event : nameOf(value.type);
    switch (type) {
      case "content_block_delta":
        messagesChunk(value, produced);
        return relayed(type, data, true);
      case "content_block_stop":
      case "ping":
        return relayed(type, data, false);
      case "content_block_start":
        messagesChunk(value, produced);
        return relayed(type, data, !quietBlocks.includes(String(objectOf(value.content_block).type)));
      case "message_start":
        this.#usage.read(objectOf(value.message).usage);
        return relayed(type, withMember(data, ["message", "model"], this.#model), false);
      case "message_delta": {
        this.#usage.read(value.usage);
        const { stop_reason: reason } = objectOf(value.delta);
        if (isFailure(reason)) return failedWith(stoppedBy(reason));
        const stops = textOf(reason) !== undefined;
        produced.finished(reason);
        this.finished ||= stops;
        return relayed(type, data, stops);
      }
      case "message_stop":
        return { kind: "terminator", bytes: eventBytesOf(type, data) };
      case "error":
        return failedWith(upstreamErrorOf(value));
      default:
        return isPresent(value.error) ? failedWith(upstreamErrorOf(value)) : relayed(type, data, false);
    }
  }
}

/** The event with its name, which the vendor's clients need, even if the upstream left it out. */
const relayed = (type: string | undefined, data: Buffer, content: boolean): Passing => ({
  kind: "relay",
  bytes: eventBytesOf(type, data),
  content,
});

const nameOf = (type: unknown): string | undefined =>
  typeof type === "string" && /^\w{1,80}$/.test(type) ? type : undefined;

/** A whole answer: the same bytes with the catalogue's model id, and the reported usage. */
function answerOf(bytes: Buffer, { model }: AnswerIdentity): WholeAnswer {
  const body = parsedObject(bytes);
  if (body === undefined) return { kind: "malformed" };
  const { error, content, stop_reason: reason } = body;
  if (isPresent(error) || body.type === "error") return failedWith(upstreamErrorOf({ error: objectOf(error) }));
  if (!Array.isArray(content)) return { kind: "malformed" };
  if (isFailure(reason)) return failedWith(stoppedBy(reason));
  if (content.length === 0 && textOf(reason) === undefined) return failedWith(emptyAnswer);
  const reader = new UsageReader();
  reader.read(body.usage);
  return {
    kind: "answer",
    body: withMember(bytes, ["model"], jsonBytesOf(model)),
    usage: reader.usage,
    finish: finishIn([reason]),
  };
}
