/** Requests and answers in Anthropic's Messages format between a caller and an upstream that both speak it: bytes stay as they were sent, but for the model's name. */
import type { Target, Verbatim, WholeAnswer } from "../codec.ts";
import { envelopeMark } from "../envelope.ts";
import { isNull, objectOf, objectSpansOf, readSpan, replaceSpans, type Span } from "../json.ts";
import type { SseEvent } from "../sse.ts";
import type { Usage } from "../usage.ts";
import { eventBytesOf, type Passing, VerbatimStream, type Watcher, withMember } from "../verbatim.ts";
import { UsageReader, upstreamErrorOf } from "./answer.ts";
import { thinkingInstead, withoutForeignThoughts } from "./foreign.ts";
import { apiVersion } from "./request.ts";

const stopEvent = Buffer.from('event: message_stop\ndata: {"type":"message_stop"}\n\n');
const doneData = Buffer.from("[DONE]");

/** What other vendors' thoughts look like: in an envelope, or unsigned. */
const foreignMarks = [envelopeMark, '"signature":""', '"signature": ""'];

export const verbatim: Verbatim = {
  request(bytes, _framing, target) {
    const body = requestOf(foreignMarks.some((mark) => bytes.includes(mark)) ? withoutEnvelopes(bytes) : bytes, target);
    return body === undefined ? undefined : { path: "/messages", headers: { "anthropic-version": apiVersion }, body };
  },
  stream: (_bytes, _framing, model) => new VerbatimStream(new MessagesWatcher(model)),
  answer: answerOf,
};

/** Undefined when the bytes are not a JSON object with a model. */
function requestOf(bytes: Buffer, { model }: Target): Buffer | undefined {
  const spans = objectSpansOf(bytes, ["model"]);
  if (spans?.members.model === undefined) return undefined;
  const by = Buffer.from(JSON.stringify(model));
  return replaceSpans(
    bytes,
    spans.all.map(({ start, end }) => ({ start, end, by })),
  );
}

/** All but the messages, and thinking that can't go on from them, stays as it was. */
function withoutEnvelopes(bytes: Buffer): Buffer {
  const { messages, thinking } = objectSpansOf(bytes, ["messages", "thinking"])?.members ?? {};
  const values = messages === undefined ? undefined : readSpan(bytes, messages);
  if (messages === undefined || !Array.isArray(values)) return bytes;
  const kept = withoutForeignThoughts(values);
  const replacements: (Span & { by: Buffer })[] = [{ ...messages, by: Buffer.from(JSON.stringify(kept)) }];
  const instead = thinking === undefined ? undefined : thinkingInstead(readSpan(bytes, thinking), kept);
  if (thinking !== undefined && instead !== undefined) replacements.push({ ...thinking, by: Buffer.from(JSON.stringify(instead)) });
  return replaceSpans(
    bytes,
    replacements.sort((left, right) => left.start - right.start),
  );
}

/** Blocks that open without saying anything yet. */
const quietBlocks = ["text", "thinking"];

class MessagesWatcher implements Watcher {
  readonly answerId = undefined;
  finished = false;
  /** What comes behind the reason for stopping is waited for: the terminator is never long in coming. */
  readonly complete = false;
  readonly #model: Buffer;
  readonly #usage = new UsageReader();

  constructor(model: string) {
    this.#model = Buffer.from(JSON.stringify(model));
  }

  get usage(): Usage | undefined {
    return this.#usage.usage;
  }

  terminator(): Buffer {
    return stopEvent;
  }

  look(event: SseEvent): Passing {
    const { data } = event;
    const type = typeOf(event);
    switch (type) {
      case "content_block_delta":
        return relayed(type, data, true);
      case "content_block_stop":
      case "ping":
        return relayed(type, data, false);
      case "content_block_start":
        return relayed(type, data, !quietBlocks.includes(String(memberIn(data, "content_block", "type"))));
      case "message_start":
        this.#usage.read(memberIn(data, "message", "usage"));
        return relayed(type, withMember(data, ["message", "model"], this.#model), false);
      case "message_delta": {
        this.#usage.read(memberIn(data, "usage"));
        const reason = memberIn(data, "delta", "stop_reason");
        const stops = typeof reason === "string" && reason !== "";
        this.finished ||= stops;
        return relayed(type, data, stops);
      }
      case "message_stop":
        return isObject(data) ? { kind: "terminator", bytes: eventBytesOf(type, data) } : { kind: "malformed" };
      case "error":
        return { kind: "error", error: upstreamErrorOf(readSpan(data, { start: 0, end: data.length })) };
      default: {
        if (data.equals(doneData)) return { kind: "hidden" };
        const error = memberIn(data, "error");
        return error === undefined || error === null ? relayed(type, data, false) : { kind: "error", error: upstreamErrorOf({ error }) };
      }
    }
  }
}

/** The event with its name, which the vendor's clients go by, even if its sender left it out. */
const relayed = (type: string | undefined, data: Buffer, content: boolean): Passing =>
  isObject(data) ? { kind: "relay", bytes: eventBytesOf(type, data), content } : { kind: "malformed" };

/** It is an object and whole, as far as its structure shows. */
const isObject = (data: Buffer): boolean => objectSpansOf(data, []) !== undefined;

const leadingType = /^\s*\{\s*"type"\s*:\s*"(\w{1,80})"/;

/** What an event is: its name, or else its `type`, which nearly always comes first. */
function typeOf({ event, data }: SseEvent): string | undefined {
  if (event !== undefined && event !== "message") return event;
  const leading = leadingType.exec(data.toString("latin1", 0, 120))?.[1];
  if (leading !== undefined) return leading;
  const type = memberIn(data, "type");
  return typeof type === "string" && /^\w{1,80}$/.test(type) ? type : undefined;
}

/** The value at a path through objects; undefined when there is none. */
function memberIn(bytes: Buffer, name: string, inner?: string): unknown {
  const span = objectSpansOf(bytes, [name])?.members[name];
  if (span === undefined) return undefined;
  return inner === undefined ? readSpan(bytes, span) : memberIn(bytes.subarray(span.start, span.end), inner);
}

/** A complete (not streamed) answer: the same bytes with the catalogue's model id, and the usage it reports. */
function answerOf(bytes: Buffer, model: string): WholeAnswer {
  const spans = objectSpansOf(bytes, ["model", "usage", "error", "type", "content"]);
  if (spans === undefined) return { kind: "malformed" };
  const { usage, error, type, content } = spans.members;
  const isError = (error !== undefined && !isNull(bytes, error)) || (type !== undefined && readSpan(bytes, type) === "error");
  if (isError) return { kind: "error", error: upstreamErrorOf({ error: error === undefined ? {} : objectOf(readSpan(bytes, error)) }) };
  if (content === undefined || isNull(bytes, content)) return { kind: "malformed" };
  const by = Buffer.from(JSON.stringify(model));
  const names = spans.all.filter((member) => member.name === "model").map(({ start, end }) => ({ start, end, by }));
  const reader = new UsageReader();
  if (usage !== undefined) reader.read(readSpan(bytes, usage));
  return { kind: "answer", body: replaceSpans(bytes, names), usage: reader.usage };
}
