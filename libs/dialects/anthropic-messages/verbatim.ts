/**
 * Verbatim relay between a caller and an upstream that both speak Anthropic's Messages: bytes stay
 * unchanged except for the model's name.
 */

import {
  isObject,
  isPresent,
  type JsonObject,
  jsonBytesOf,
  listOf,
  objectOf,
  parsedObject,
  textOf,
} from "#wire/json/parse.ts";
import {
  type Edit,
  memberSpansOf,
  objectSpansOf,
  readSpan,
  replaceSpans,
  withMembers,
  withValues,
} from "#wire/json/spans.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { AnswerIdentity, Target, Verbatim, WholeAnswer } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import { documentTextOf } from "../neutral/attachments.ts";
import { emptyAnswer, finishIn, isFailure, stoppedBy } from "../neutral/finish.ts";
import { formatInstructionOf } from "../neutral/format-instruction.ts";
import { messagesChunk, type Produced } from "../neutral/produced.ts";
import { wrappedSignatureMark } from "../neutral/wrapped-signature.ts";
import type { TextDelta } from "../relay/event-pattern.ts";
import { eventBytesOf, failedWith, type Passing, VerbatimStream, Watcher, withMember } from "../relay/verbatim.ts";
import { type AttachmentFinder, enclosingObject, fixed, objectEdits } from "../relay/verbatim-attachments.ts";
import { withMembersAt, withoutFields } from "../repairs/omitted-fields.ts";
import { fittedSchema } from "../schema/tool-schemas.ts";
import { isErrorBody } from "../upstream-errors/upstream-errors.ts";
import { plainUsageOf, type Usage } from "../usage.ts";
import { stopReasonFor, UsageReader, upstreamErrorOf, usageBodyOf } from "./answer.ts";
import { thinkingInstead, withoutForeignParts, withoutSystemTurns, withoutThoughts } from "./foreign.ts";
import { apiVersion } from "./request.ts";

// Addresses of images, documents and tool servers in requests in Anthropic's Messages format.

/** In a message, a tool result, or a document made of blocks. */
const source = /^messages\.content(?:\.(?:source\.)?content)*\.source\.url$/;

const attachmentFinder: AttachmentFinder = {
  marks: ['"url"'],
  names: ["url"],
  placeOf(path, bytes, string) {
    if (path === "mcp_servers.url") return fixed("server");
    if (!source.test(path)) return undefined;
    const start = enclosingObject(string, 0);
    const types = typesOf(bytes.subarray(start));
    if (types.length > 0 && !types.includes("url")) return undefined;
    return {
      part: isDocument(bytes, enclosingObject(string, 1)) ? "file" : "image",
      edits(data) {
        const isText = data.mimeType === "text/plain";
        const text = isText ? documentTextOf(data) : data.data;
        return objectEdits(bytes, start, {
          name: "url",
          instead: `"media_type":${JSON.stringify(data.mimeType)},"data":${JSON.stringify(text)}`,
          values: { type: isText ? '"text"' : '"base64"' },
          without: ["media_type", "data"],
        });
      },
    };
  },
};

/** The result for the block checked last, because a block may contain many sources. */
let lastBlock: { bytes: WeakRef<Buffer>; start: number; isDocument: boolean } | undefined;

function isDocument(bytes: Buffer, start: number): boolean {
  if (lastBlock?.start !== start || lastBlock.bytes.deref() !== bytes)
    lastBlock = { bytes: new WeakRef(bytes), start, isDocument: typesOf(bytes.subarray(start)).includes("document") };
  return lastBlock.isDocument;
}

/** All `type` values of an object: more than one if the sender repeats the member. */
function typesOf(object: Buffer): unknown[] {
  return (objectSpansOf(object, ["type"])?.all ?? []).map((span) => readSpan(object, span));
}

const stopEvent = Buffer.from('event: message_stop\ndata: {"type":"message_stop"}\n\n');

/** Marks of other vendors' reasoning: a wrapped signature, or none. */
const foreignMarks = [wrappedSignatureMark, '"signature":""', '"signature": ""'];

export const verbatim: Verbatim = {
  request(bytes, _framing, target) {
    const body = requestOf(
      foreignMarks.some((mark) => bytes.includes(mark)) ? withMessages(bytes, withoutForeignParts) : bytes,
      target,
    );
    return body === undefined ? undefined : { path: "/messages", headers: { "anthropic-version": apiVersion }, body };
  },
  repairs: {
    companions: (bytes) => withMessages(bytes, withoutThoughts),
    turns: (bytes) => withMembers(bytes, "messages", withoutSystemTurns),
    format: withFormatInstruction,
    schemas: (bytes) => withMembersAt(bytes, ["tools", "input_schema"], fittedSchema("anthropic-messages")),
    placeholders: (bytes) => withValues(bytes, { thinking: jsonBytesOf({ type: "disabled" }) }),
  },
  stream: (_bytes, _framing, { model }) => new VerbatimStream(new MessagesWatcher(model)),
  attachmentFinder,
  answer: answerOf,
};

/** An instruction in place of a JSON schema for the answer. */
function withFormatInstruction(bytes: Buffer): Buffer {
  const { system, output_config: config, output_format: early } = parsedObject(bytes) ?? {};
  const { schema } = objectOf(objectOf(config).format ?? early);
  if (!isObject(schema)) return bytes;
  const texts = typeof system === "string" ? [{ type: "text", text: system }] : listOf(system);
  const instructions = [...texts, { type: "text", text: formatInstructionOf(schema) }];
  const without = withoutFields(bytes, ["output_config.format", "output_format"]);
  return withValues(without, { system: jsonBytesOf(instructions) });
}

/** Undefined if the bytes are not a JSON object with a model. */
function requestOf(bytes: Buffer, { model }: Target): Buffer | undefined {
  const spans = objectSpansOf(bytes, ["model"]);
  if (spans?.members.model === undefined) return undefined;
  const by = jsonBytesOf(model);
  return replaceSpans(
    bytes,
    spans.all.map((span) => ({ ...span, by })),
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

/** It is never complete: the terminator follows the stop reason at once. */
class MessagesWatcher extends Watcher {
  finished = false;
  readonly #model: Buffer;
  readonly #usage = new UsageReader();
  /** The input of the open call, while it came with the call's start and not in parts. */
  #wholeInput: JsonObject | undefined;
  /**
   * The places of the open blocks, by the indexes that their server gives them: clients take the
   * index for the place in their list. https://github.com/jundot/omlx/issues/1353
   */
  readonly #places = new Map<unknown, number>();
  #blocks = 0;
  #hasCalls = false;

  constructor(model: string) {
    super();
    this.#model = jsonBytesOf(model);
  }

  get usage(): Usage | undefined {
    return this.#usage.usage;
  }

  override errorOf(body: unknown): UpstreamError {
    return upstreamErrorOf(body);
  }

  override terminator(): Buffer {
    return stopEvent;
  }

  look({ event, data }: SseEvent, value: JsonObject, produced: Produced): Passing {
    const type = event !== undefined && event !== "message" ? event : nameOf(value.type);
    switch (type) {
      case "content_block_delta": {
        messagesChunk(value, produced);
        if (objectOf(value.delta).partial_json) this.#wholeInput = undefined;
        const edits = this.#placed(data, value);
        return { ...relayed(type, data, true, edits), delta: textDeltaIn(objectOf(value.delta), type, edits) };
      }
      case "content_block_stop": {
        const input = this.#wholeInput;
        this.#wholeInput = undefined;
        const place = this.#places.get(value.index);
        if (place === undefined) return { kind: "hidden" };
        const stop = relayed(type, data, false, this.#placed(data, value));
        this.#places.delete(value.index);
        if (input === undefined) return stop;
        return { ...stop, bytes: Buffer.concat([inputDeltaOf(place, input), stop.bytes]) };
      }
      case "ping":
        return relayed(type, data, false);
      case "content_block_start": {
        messagesChunk(value, produced);
        const { type: kind, input } = objectOf(value.content_block);
        this.#wholeInput = isObject(input) && Object.keys(input).length > 0 ? input : undefined;
        this.#places.set(value.index, this.#blocks++);
        this.#hasCalls ||= kind === "tool_use";
        return relayed(type, data, !quietBlocks.includes(String(kind)), this.#placed(data, value));
      }
      case "message_start":
        this.#usage.read(objectOf(value.message).usage);
        return relayed(
          type,
          withMembers(data, "message", (message) => withUsage(withMember(message, ["model"], this.#model))),
          false,
        );
      case "message_delta": {
        this.#usage.read(value.usage);
        const { stop_reason: reason } = objectOf(value.delta);
        if (isFailure(reason)) return failedWith(stoppedBy(reason));
        const stops = textOf(reason) !== undefined;
        this.finished ||= stops;
        const own = stopReasonFor(reason, this.#hasCalls);
        produced.finished(own ?? reason);
        const ended = own === undefined ? data : withMember(data, ["delta", "stop_reason"], jsonBytesOf(own));
        return relayed(type, withUsage(ended, produced.usage ?? plainUsageOf(0, produced.outputTokens)), stops);
      }
      case "message_stop":
        return { kind: "terminator", bytes: eventBytesOf(type, data) };
      case "error":
        return failedWith(upstreamErrorOf(value));
      default:
        return isErrorBody(value) ? failedWith(upstreamErrorOf(value)) : relayed(type, data, false);
    }
  }

  /** The edits that give an event the place of its block as its index. */
  #placed(data: Buffer, value: JsonObject): Edit[] {
    const place = this.#places.get(value.index);
    if (place === undefined || place === value.index) return [];
    return memberSpansOf(data, "index", value).map(({ start, end }) => ({ start, end, by: jsonBytesOf(place) }));
  }
}

/** The whole input of a call as a part: clients such as Claude Code read no other. */
const inputDeltaOf = (index: number, input: JsonObject): Buffer => {
  const delta = { type: "input_json_delta", partial_json: JSON.stringify(input) };
  return eventBytesOf("content_block_delta", jsonBytesOf({ type: "content_block_delta", index, delta }));
};

/** The message or event with its usage, without which clients such as Claude Code break. */
function withUsage(bytes: Buffer, usage?: Usage): Buffer {
  const span = objectSpansOf(bytes, ["usage"])?.members.usage;
  return span !== undefined && isObject(readSpan(bytes, span))
    ? bytes
    : withValues(bytes, { usage: jsonBytesOf(usageBodyOf(usage)) });
}

/** The text of a delta that has nothing else. */
function textDeltaIn(delta: JsonObject, name: string, edits: readonly Edit[]): TextDelta | undefined {
  const { type: _, ...members } = delta;
  const [kind, ...others] = Object.keys(members);
  const text = textOf(delta[kind ?? ""]);
  if (text === undefined || others.length > 0 || (kind !== "text" && kind !== "thinking")) return undefined;
  return { text, isThought: kind === "thinking", name, edits };
}

/** The event with its name, which the vendor's clients need, even if the upstream left it out. */
const relayed = (type: string | undefined, data: Buffer, content: boolean, edits: readonly Edit[] = []) => ({
  kind: "relay" as const,
  bytes: eventBytesOf(type, data, edits),
  content,
});

const nameOf = (type: unknown) => (typeof type === "string" && /^\w{1,80}$/.test(type) ? type : undefined);

/** A whole answer: the same bytes with the catalogue's model id, and the reported usage. */
function answerOf(bytes: Buffer, { model }: AnswerIdentity): WholeAnswer {
  const body = parsedObject(bytes);
  if (body === undefined) return { kind: "malformed" };
  const { error, content, stop_reason: reason } = body;
  if (isPresent(error) || body.type === "error") return failedWith(upstreamErrorOf({ error: objectOf(error) }));
  if (!Array.isArray(content)) return isErrorBody(body) ? failedWith(upstreamErrorOf(body)) : { kind: "malformed" };
  if (isFailure(reason)) return failedWith(stoppedBy(reason));
  if (content.length === 0 && textOf(reason) === undefined) return failedWith(emptyAnswer);
  const reader = new UsageReader();
  reader.read(body.usage);
  const named = withMember(bytes, ["model"], jsonBytesOf(model));
  const own = stopReasonFor(
    reason,
    content.some((block) => objectOf(block).type === "tool_use"),
  );
  return {
    kind: "answer",
    body: withUsage(own === undefined ? named : withMember(named, ["stop_reason"], jsonBytesOf(own))),
    usage: reader.usage,
    finish: finishIn([own ?? reason]),
  };
}
