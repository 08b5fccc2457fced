/** Requests and answers in OpenAI's Responses format between a caller and an upstream that both speak it: bytes stay as they were sent, but for the model's name, `store`, and what makes reasoning last without being stored. */
import type { Framing, Target, Verbatim, WholeAnswer } from "../codec.ts";
import { isNull, listOf, objectOf, objectSpansOf, readSpan, replaceSpans, type Span, textOf } from "../json.ts";
import type { SseEvent } from "../sse.ts";
import type { Usage } from "../usage.ts";
import { eventBytesOf, type Passing, VerbatimStream, type Watcher, withMember } from "../verbatim.ts";
import { upstreamErrorOf, usageOf } from "./answer.ts";
import { withResolvableReasoning } from "./replayed-items.ts";
import { encryptedReasoning, mayReason } from "./request.ts";

const doneData = Buffer.from("[DONE]");
const openBrace = 0x7b;
const closeBrace = 0x7d;

export const verbatim: Verbatim = {
  request(bytes, framing, target) {
    const body = requestOf(withResolvableReasoning(bytes), framing, target);
    return body === undefined ? undefined : { path: "/responses", headers: {}, body };
  },
  compaction(bytes, model) {
    const spans = objectSpansOf(bytes, ["model"]);
    if (spans?.members.model === undefined) return undefined;
    const body = withResolvableReasoning(withMember(bytes, ["model"], Buffer.from(JSON.stringify(model))));
    return { path: "/responses/compact", headers: {}, body };
  },
  stream: (_bytes, _framing, model) => new VerbatimStream(new ResponsesWatcher(model)),
  answer: answerOf,
};

/** The caller's bytes with the upstream's model name, nothing to be stored, reasoning that can be sent back, and a stream asked for if and only if one is wanted. */
function requestOf(bytes: Buffer, framing: Framing, target: Target): Buffer | undefined {
  const spans = objectSpansOf(bytes, ["model", "store", "stream", "include", "reasoning"]);
  if (spans?.members.model === undefined) return undefined;
  const { include, reasoning, store, stream } = spans.members;
  const values = {
    model: JSON.stringify(target.model),
    store: "false",
    stream: framing === "whole" ? "false" : "true",
    include: includeOf(include && readSpan(bytes, include), reasoning && readSpan(bytes, reasoning), target),
    reasoning: undefined,
  };
  const replacements: (Span & { by: Buffer })[] = spans.all.flatMap(({ name, start, end }) => {
    const value = values[name];
    return value === undefined ? [] : [{ start, end, by: Buffer.from(value) }];
  });
  const added = [
    ...(store === undefined ? [',"store":false'] : []),
    ...(stream === undefined && framing !== "whole" ? [',"stream":true'] : []),
    ...(include === undefined && values.include !== undefined ? [`,"include":${values.include}`] : []),
  ].join("");
  if (added !== "") replacements.push({ start: spans.close, end: spans.close, by: Buffer.from(added) });
  return replaceSpans(bytes, replacements);
}

/** What a request includes so that its answer's reasoning can be sent back, which is not stored; undefined to leave it as it is. */
function includeOf(included: unknown, reasoning: unknown, target: Target): string | undefined {
  const { effort, summary } = objectOf(reasoning);
  const asked = textOf(effort) !== undefined || textOf(summary) !== undefined;
  if (listOf(included).includes(encryptedReasoning) || effort === "none" || !mayReason(target, asked)) return undefined;
  return JSON.stringify([...listOf(included), encryptedReasoning]);
}

/** Events that open something without saying anything yet. All others that end in `.done` or `.delta` are content. */
const quietItems = ["message", "reasoning"];

class ResponsesWatcher implements Watcher {
  usage: Usage | undefined;
  answerId: string | undefined;
  finished = false;
  readonly #model: Buffer;

  constructor(model: string) {
    this.#model = Buffer.from(JSON.stringify(model));
  }

  get complete(): boolean {
    return this.finished;
  }

  terminator(): undefined {
    return undefined;
  }

  look(event: SseEvent): Passing {
    const { data } = event;
    if (data.equals(doneData)) return { kind: "hidden" };
    const type = typeOf(event);
    if (type?.endsWith(".delta")) return isObjectLike(data) ? this.#relay(event, true) : { kind: "malformed" };
    const spans = objectSpansOf(data, ["response", "error", "item"]);
    if (spans === undefined && type === "error") return { kind: "error", error: upstreamErrorOf(data.toString("utf8")) };
    if (spans === undefined) return { kind: "malformed" };
    const { response, error, item } = spans.members;
    switch (type) {
      case "error":
      case "response.failed":
        return { kind: "error", error: upstreamErrorOf(readSpan(data, { start: 0, end: data.length })) };
      case undefined:
        return error === undefined || isNull(data, error)
          ? this.#relay(event, false)
          : { kind: "error", error: upstreamErrorOf({ error: readSpan(data, error) }) };
      case "response.created":
      case "response.queued":
      case "response.in_progress":
        this.#read(data, response);
        return this.#relay(this.#named(event), false);
      case "response.completed":
      case "response.incomplete":
        this.#read(data, response);
        this.finished = true;
        return { kind: "terminator", bytes: bytesOf(this.#named(event)) };
      case "response.output_item.added": {
        const kind = item === undefined ? undefined : memberOf(data, item, "type");
        return this.#relay(event, typeof kind === "string" && !quietItems.includes(kind));
      }
      default:
        return this.#relay(event, type.endsWith(".done"));
    }
  }

  #relay(event: SseEvent, content: boolean): Passing {
    return { kind: "relay", bytes: bytesOf(event), content };
  }

  #named({ event, data }: SseEvent): SseEvent {
    return { event, data: withMember(data, ["response", "model"], this.#model) };
  }

  #read(data: Buffer, response: Span | undefined): void {
    if (response === undefined) return;
    const id = memberOf(data, response, "id");
    if (typeof id === "string") this.answerId ??= id;
    this.usage = usageOf(memberOf(data, response, "usage")) ?? this.usage;
  }
}

const bytesOf = ({ event, data }: SseEvent): Buffer => eventBytesOf(event, data);

const leadingType = /^\s*\{\s*"type"\s*:\s*"([\w.]{1,80})"/;

/** What an event is: its name, or else its `type`, which nearly always comes first. */
function typeOf({ event, data }: SseEvent): string | undefined {
  if (event !== undefined && event !== "message") return event;
  const leading = leadingType.exec(data.toString("latin1", 0, 120))?.[1];
  if (leading !== undefined) return leading;
  const type = memberOf(data, { start: 0, end: data.length }, "type");
  return typeof type === "string" ? type : undefined;
}

function memberOf(data: Buffer, { start, end }: Span, name: string): unknown {
  const value = data.subarray(start, end);
  const span = objectSpansOf(value, [name])?.members[name];
  return span === undefined ? undefined : readSpan(value, span);
}

/** Does it look like an object from both its ends, white space aside? */
function isObjectLike(data: Buffer): boolean {
  let from = 0;
  let to = data.length - 1;
  while (isSpace(data[from])) from++;
  while (isSpace(data[to])) to--;
  return data[from] === openBrace && data[to] === closeBrace && from < to;
}

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;

/** A complete (not streamed) answer: the same bytes with the catalogue's model id, and the usage it reports. */
function answerOf(bytes: Buffer, model: string): WholeAnswer {
  const spans = objectSpansOf(bytes, ["model", "usage", "error", "status", "output"]);
  if (spans === undefined) return { kind: "malformed" };
  const { usage, error, status, output } = spans.members;
  const isError = error !== undefined && !isNull(bytes, error);
  const state = status === undefined ? "completed" : readSpan(bytes, status);
  if (isError || state === "failed" || state === "cancelled")
    return { kind: "error", error: upstreamErrorOf({ error: isError ? readSpan(bytes, error) : {} }) };
  if (output === undefined || (state !== "completed" && state !== "incomplete")) return { kind: "malformed" };
  const by = Buffer.from(JSON.stringify(model));
  const names = spans.all.filter((member) => member.name === "model").map(({ start, end }) => ({ start, end, by }));
  return { kind: "answer", body: replaceSpans(bytes, names), usage: usage === undefined ? undefined : usageOf(readSpan(bytes, usage)) };
}
