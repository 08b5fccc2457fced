/**
 * Verbatim relay between a caller and an upstream that both speak OpenAI's Responses: bytes of a
 * request stay unchanged except for the model's name, `store`, and the fields that make reasoning
 * usable without storage; bytes of an answer except for the response's id, the model's name, and
 * what is stored.
 */

import { defined, type JsonObject, jsonBytesOf, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import {
  isNull,
  objectSpansOf,
  readSpan,
  withElements,
  withMembers,
  withValues,
  withValuesAt,
} from "#wire/json/spans.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { AnswerIdentity, Framing, Target, Verbatim, WholeAnswer } from "../codec.ts";
import { dataUrlOf } from "../neutral/attachments.ts";
import { emptyAnswer, finishIn } from "../neutral/finish.ts";
import { type Produced, responsesChunk } from "../neutral/produced.ts";
import { eventBytesOf, failedWith, type Passing, VerbatimStream, Watcher } from "../relay/verbatim.ts";
import {
  type AttachmentFinder,
  dataUrlAt,
  enclosingObject,
  fixed,
  isHttp,
  objectEdits,
} from "../relay/verbatim-attachments.ts";
import { withMembersAt } from "../repairs/omitted-fields.ts";
import { fittedSchema } from "../schema/tool-schemas.ts";
import { isErrorBody, upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { plainUsageOf, type Usage } from "../usage.ts";
import { failureIn, isForeignError, otherEnd, responseIdOf, usageOf, wholeUsageIn } from "./answer.ts";
import { CustomCalls, customOutputOf } from "./custom-calls.ts";
import { withoutItemIds, withoutReasoning, withResolvableReasoning } from "./replayed-items.ts";
import { encryptedReasoning, mayReason } from "./request.ts";

/** Addresses of images, documents and tool servers in requests in OpenAI's Responses format. */
const image = /^(?:input\.(?:content|output)|(?:input\.)?tools\.input_image_mask)\.image_url(?:\.url)?$/;
const document = /^input\.(?:content|output)\.file_url$/;
const documentData = /^input\.(?:content|output)\.file_data$/;
const other = /^input\.(?:content|output)\.(?:video|audio)_url(?:\.url)?$/;
const server = /^(?:input\.)?tools\.(?:tools\.)?server_url$/;

const attachmentFinder: AttachmentFinder = {
  marks: ['_url"', '_data"'],
  names: ["url", "image_url", "file_url", "file_data", "video_url", "audio_url", "server_url"],
  placeOf(path, bytes, string) {
    if (image.test(path)) return dataUrlAt(string, "image");
    if (documentData.test(path)) return isHttp(bytes, string) ? dataUrlAt(string, "file") : undefined;
    if (other.test(path)) return fixed("media");
    if (server.test(path)) return fixed("server");
    if (!document.test(path)) return undefined;
    return {
      part: "file",
      edits(data) {
        const start = enclosingObject(string, 0);
        const object = bytes.subarray(start);
        const { filename } = objectSpansOf(object, ["filename"])?.members ?? {};
        const isNamed = filename !== undefined && !isNull(object, filename);
        const named = isNamed ? "" : `"filename":"document.${data.mimeType === "text/plain" ? "txt" : "pdf"}",`;
        return objectEdits(bytes, start, {
          name: "file_url",
          instead: `${named}"file_data":${JSON.stringify(dataUrlOf(data))}`,
          without: isNamed ? ["file_data"] : ["file_data", "filename"],
        });
      },
    };
  },
};

export const verbatim: Verbatim = {
  request(bytes, framing, target) {
    const body = requestOf(withResolvableReasoning(bytes), framing, target);
    return body === undefined ? undefined : { path: "/responses", body };
  },
  repairs: {
    companions: withoutReasoning,
    "item-ids": withoutItemIds,
    schemas: (bytes) => withMembersAt(bytes, ["tools", "parameters"], fittedSchema("openai-responses")),
  },
  stream: (_bytes, _framing, identity) => new VerbatimStream(new ResponsesWatcher(identity)),
  attachmentFinder,
  answer: answerOf,
};

/**
 * The caller's bytes with the upstream's model name, `store: false`, resolvable reasoning, and
 * `stream` set according to the framing.
 */
function requestOf(bytes: Buffer, framing: Framing, target: Target): Buffer | undefined {
  const spans = objectSpansOf(bytes, ["model", "store", "stream", "include", "reasoning"]);
  if (spans?.members.model === undefined) return undefined;
  const { include, reasoning, stream } = spans.members;
  const isStream = framing !== "whole";
  const values = {
    model: target.model,
    store: false,
    stream: isStream || stream !== undefined ? isStream : undefined,
    include: includeOf(include && readSpan(bytes, include), reasoning && readSpan(bytes, reasoning), target),
  };
  const set = Object.entries(defined(values)).map(([name, value]) => [name, jsonBytesOf(value)]);
  return withValuesAt(bytes, spans, Object.fromEntries(set));
}

/**
 * The `include` that makes the answer's reasoning usable without storage; undefined to leave it
 * unchanged.
 */
function includeOf(included: unknown, reasoning: unknown, target: Target): unknown[] | undefined {
  const { effort, summary } = objectOf(reasoning);
  const wantsReasoning = textOf(effort) !== undefined || textOf(summary) !== undefined;
  if (listOf(included).includes(encryptedReasoning) || effort === "none" || !mayReason(target, wantsReasoning))
    return undefined;
  return [...listOf(included), encryptedReasoning];
}

/**
 * Events that open an item without content. All others that end in `.done` or `.delta` are content.
 */
const quietItems = ["message", "reasoning"];

class ResponsesWatcher extends Watcher {
  usage: Usage | undefined;
  finished = false;
  readonly #own: OwnMembers;
  readonly #custom: CustomCalls | undefined;
  /** The names of calls, by the index of their item. */
  readonly #names = new Map<unknown, unknown>();

  constructor(identity: AnswerIdentity) {
    super();
    this.#own = ownMembersOf(identity);
    this.#custom = identity.customNames && new CustomCalls(identity.customNames);
  }

  override get complete(): boolean {
    return this.finished;
  }

  override get hasAllContent(): boolean {
    return false;
  }

  look(event: SseEvent, value: JsonObject, produced: Produced): Passing {
    const type = event.event !== undefined && event.event !== "message" ? event.event : textOf(value.type);
    if (type === otherEnd) {
      const ending = objectOf(value.response).status === "incomplete" ? "response.incomplete" : "response.completed";
      const data = withValues(event.data, { type: jsonBytesOf(ending) });
      return this.look({ event: ending, data }, { ...value, type: ending }, produced);
    }
    if (type !== undefined) responsesChunk(type, value, produced);
    const custom = type === undefined ? undefined : this.#custom?.eventsFor(type, value);
    if (custom !== undefined && type !== "response.completed" && type !== "response.incomplete")
      return custom === "" ? { kind: "hidden" } : { kind: "relay", bytes: Buffer.from(custom), content: true };
    switch (type) {
      case "error":
      case "response.failed":
      case "response.cancelled":
        return failedWith(upstreamErrorOf(value));
      case "response.created":
      case "response.queued":
      case "response.in_progress":
        this.#read(value);
        return this.#relay(this.#named(event), false);
      case "response.completed":
      case "response.incomplete": {
        this.#read(value);
        const failure = failureIn(objectOf(value.response));
        if (failure !== undefined) return failedWith(failure);
        this.finished = true;
        produced.finished(endOf(objectOf(value.response)));
        const usage = wholeUsageIn(objectOf(value.response), plainUsageOf(0, produced.outputTokens));
        const ending = withOutput(custom === undefined ? event : { ...event, data: Buffer.from(custom) }, value);
        return { kind: "terminator", bytes: bytesOf(this.#named(ending, usage)) };
      }
      case "response.output_item.added": {
        const { type: kind, name } = objectOf(value.item);
        if (textOf(name) !== undefined) this.#names.set(value.output_index, name);
        return this.#relay(
          withItem(event, value, { status: "in_progress" }),
          typeof kind === "string" && !quietItems.includes(kind),
        );
      }
      case "response.output_item.done":
        return this.#relay(
          withItem(event, value, { status: "completed", name: this.#names.get(value.output_index) }),
          true,
        );
      case "response.output_text.delta": {
        const text = this.#custom === undefined ? textOf(value.delta) : undefined;
        const delta = text === undefined ? undefined : { text, isThought: false, name: event.event, edits: [] };
        return { ...this.#relay(event, true), delta };
      }
      default:
        if (isForeignError(value, type)) return failedWith(upstreamErrorOf(value));
        return this.#relay(event, type?.endsWith(".done") === true || type?.endsWith(".delta") === true);
    }
  }

  #relay(event: SseEvent, content: boolean) {
    return { kind: "relay" as const, bytes: bytesOf(event), content };
  }

  #named({ event, data }: SseEvent, usage?: object): SseEvent {
    const own = usage === undefined ? this.#own : { ...this.#own, usage: jsonBytesOf(usage) };
    return { event, data: withMembers(data, "response", (response) => withValues(response, own)) };
  }

  #read(value: JsonObject): void {
    this.usage = usageOf(objectOf(value.response)) ?? this.usage;
  }
}

const statedItems = ["message", "function_call", "custom_tool_call"];

/**
 * The members that an item lacks: a status, without which clients see no end of a call
 * (https://github.com/router-for-me/CLIProxyAPI/issues/5851), and the name of a call
 * (https://github.com/router-for-me/CLIProxyAPI/issues/1004).
 */
function missingIn(item: unknown, members: { status: string; name?: unknown }): Record<string, Buffer> {
  const { type, status, name } = objectOf(item);
  if (!statedItems.includes(String(type))) return {};
  const isUnnamed = type !== "message" && textOf(name) === undefined && members.name !== undefined;
  return {
    ...(textOf(status) === undefined && { status: jsonBytesOf(members.status) }),
    ...(isUnnamed && { name: jsonBytesOf(members.name) }),
  };
}

/** The event with an item that has these members; the same one if its server sent it so. */
function withItem(event: SseEvent, { item }: JsonObject, members: { status: string; name?: unknown }): SseEvent {
  const missing = missingIn(item, members);
  if (Object.keys(missing).length === 0) return event;
  return { ...event, data: withMembers(event.data, "item", (bytes) => withValues(bytes, missing)) };
}

const completed = { status: "completed" };
const lacksStatus = (output: unknown) =>
  listOf(output).some((item) => Object.keys(missingIn(item, completed)).length > 0);
const withStatuses = (output: Buffer) =>
  withElements(output, (item) => withValues(item, missingIn(parsedObject(item), completed)));

/** The last event with a status of each item in the output. */
function withOutput(event: SseEvent, { response }: JsonObject): SseEvent {
  if (!lacksStatus(objectOf(response).output)) return event;
  const data = withMembers(event.data, "response", (bytes) => withMembers(bytes, "output", withStatuses));
  return { ...event, data };
}

/** The reason of an incomplete response, or its status. */
const endOf = ({ status, incomplete_details: details }: JsonObject) => objectOf(details).reason ?? status;

type OwnMembers = Readonly<Record<string, Buffer>>;

/** The members of a response object that the gateway writes in place of the upstream's. */
const ownMembersOf = ({ id, model, storage }: AnswerIdentity): OwnMembers =>
  Object.fromEntries(
    Object.entries({ id: responseIdOf({ id }), model, ...storage }).map(([name, value]) => [name, jsonBytesOf(value)]),
  );

const bytesOf = ({ event, data }: SseEvent) => eventBytesOf(event, data);

/** A whole answer: the same bytes with what identifies it, and the reported usage. */
function answerOf(bytes: Buffer, identity: AnswerIdentity): WholeAnswer {
  const body = parsedObject(bytes);
  if (body === undefined) return { kind: "malformed" };
  const { output, status } = body;
  const failure = failureIn(body);
  if (failure !== undefined) return failedWith(failure);
  if (output === undefined && isErrorBody(body)) return failedWith(upstreamErrorOf(body));
  if (!Array.isArray(output) || !(status === undefined || status === "completed" || status === "incomplete"))
    return { kind: "malformed" };
  if (output.length === 0 && status === undefined) return failedWith(emptyAnswer);
  const custom = identity.customNames && customOutputOf(output, identity.customNames);
  const usage = wholeUsageIn(body, undefined);
  const stated = lacksStatus(custom ?? output) && withStatuses(jsonBytesOf(custom ?? output));
  return {
    kind: "answer",
    body: withValues(bytes, {
      ...ownMembersOf(identity),
      ...(custom !== undefined && { output: jsonBytesOf(custom) }),
      ...(stated && { output: stated }),
      ...(usage !== undefined && { usage: jsonBytesOf(usage) }),
    }),
    usage: usageOf(body),
    finish: finishIn([endOf(body)]),
  };
}
