/**
 * The neutral form: what every dialect's codec decodes to and encodes from. It covers
 * conversations: messages, parts, tools, settings, and the events of an answer. Each value keeps
 * its `path`, the caller's own name for it, so that a rejected field is named in the error.
 */

import { defined, type JsonObject } from "#wire/json/parse.ts";
import type { ConversationDialect } from "../dialect.ts";
import type { UpstreamError } from "../errors.ts";
import type { Usage } from "../usage.ts";

/** A value and the caller's name for it, such as `generationConfig.topK`. */
export interface Setting<Value> {
  value: Value;
  path: string;
}

/** Bytes as base64 without line breaks, or an http(s) address to fetch. */
export type Attachment = { kind: "data"; mimeType: string; data: string } | { kind: "url"; url: string };

/**
 * A model's opaque proof of its thinking, valid only for the dialect of the upstream that made it.
 * It passes through callers of other dialects as a wrapped signature (see wrapped-signature.ts),
 * and is never forged or sent to another vendor.
 */
export interface Signature {
  dialect: ConversationDialect;
  data: string;
  /** The thinking itself is hidden: `data` is all there is of it. */
  redacted?: boolean;
  /**
   * The model that made it (see `originOf` in wrapped-signature.ts); undefined if it was not
   * wrapped.
   */
  origin?: string;
  /** The upstream's own id of the item with the thinking, if it has one. */
  itemId?: string;
}

/**
 * The caller's own object, where the neutral form says less. Upstreams of the same dialect receive
 * it unchanged.
 */
interface Native {
  dialect: ConversationDialect;
  value: JsonObject;
}

interface PartBase {
  path: string;
  /** A cache breakpoint: the caller wants the prompt up to here cached. */
  cache?: { ttl: "short" | "long" };
}

export type TextPart = PartBase & { kind: "text"; text: string };
export type ImagePart = PartBase & { kind: "image"; source: Attachment; detail?: "low" | "high" | "auto" };
/** A document: PDF by bytes or address, or plain text (`text/plain`) by bytes. */
export type FilePart = PartBase & { kind: "file"; source: Attachment; name?: string };
export type AudioPart = PartBase & { kind: "audio"; source: Attachment };
type VideoPart = PartBase & { kind: "video"; source: Attachment };
export type MediaPart = ImagePart | FilePart | AudioPart | VideoPart;
type RefusalPart = PartBase & { kind: "refusal"; text: string };
/** The model's thinking; in a request, only useful with its signature. */
export type ReasoningPart = PartBase & { kind: "reasoning"; text: string; signature?: Signature };
/**
 * `name` is the tool's neutral name. `input` is JSON text; `{"input":"…"}` for a tool that takes
 * free text, "" for no arguments.
 */
export type CallPart = PartBase & { kind: "call"; id: string; name: string; input: string; native?: Native };
/** `name` is the neutral name of the called tool; "" if no earlier call has this id. */
export type ResultPart = PartBase & {
  kind: "result";
  callId: string;
  name: string;
  content: (TextPart | MediaPart)[];
  isError: boolean;
  native?: Native;
};

export type Part = TextPart | MediaPart | RefusalPart | ReasoningPart | CallPart | ResultPart;

export const isMedia = (part: Part): part is MediaPart =>
  part.kind === "image" || part.kind === "file" || part.kind === "audio" || part.kind === "video";

/**
 * A turn. Neighbours never share a role, and results come first in a user's turn (see `turnsOf`). A
 * `system` turn in the middle is an instruction at that point. An assistant's turn has text,
 * refusal, reasoning and call parts, and images that the model made (see `withoutOwnImages`); a
 * user's turn has all other kinds.
 */
export interface Message {
  role: "system" | "user" | "assistant";
  parts: Part[];
  path: string;
}

/**
 * A tool that the caller runs. `name` fits every dialect (`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`) and is
 * unique in its request; `callerName` is what the caller wrote.
 */
export interface Tool {
  name: string;
  callerName: string;
  /** The caller's namespace of the tool, in dialects with namespaces. */
  namespace?: string;
  description?: string;
  /** JSON Schema of the arguments; undefined for a tool without arguments or with free text. */
  parameters?: JsonObject;
  strict?: boolean;
  /**
   * Takes free text instead of JSON arguments. Other dialects receive a function with one string,
   * `input`.
   */
  takesText?: boolean;
  /**
   * The caller expects the free text in place of a function's arguments. Cursor does so for its
   * custom tools in chat requests.
   */
  textAsArguments?: boolean;
  /**
   * The grammar of the free text. Only OpenAI's models are bound by it; for others it becomes part
   * of the description.
   */
  grammar?: { syntax: string; definition: string };
  /** Arguments that the caller gives as examples. */
  examples?: unknown[];
  /** A tool that its vendor defines and the caller runs, as the caller wrote it. */
  native?: Native;
  /**
   * In a shortened request without `parameters`: the upstream's names of arguments with the
   * caller's, where they differ.
   */
  argumentNames?: [wireName: string, callerName: string][];
  path: string;
  cache?: { ttl: "short" | "long" };
}

/** `only` lists the neutral names of the allowed tools; undefined allows all. */
export interface ToolChoice {
  mode: "auto" | "none" | "required";
  only?: string[];
  path: string;
}

export const efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type Effort = (typeof efforts)[number];

/**
 * The settings of an answer, all optional. Each dialect's encoder supports, ignores or rejects each
 * of them (see field-support.ts).
 */
export interface Settings {
  outputTokensMax?: Setting<number>;
  temperature?: Setting<number>;
  topP?: Setting<number>;
  topK?: Setting<number>;
  stop?: Setting<string[]>;
  seed?: Setting<number>;
  presencePenalty?: Setting<number>;
  frequencyPenalty?: Setting<number>;
  parallelCalls?: Setting<boolean>;
  /**
   * `json` is any JSON object. A schema without a name is called "answer" where a dialect requires
   * one.
   */
  format?: Setting<
    { kind: "json" } | { kind: "schema"; schema: JsonObject; name?: string; description?: string; strict?: boolean }
  >;
  effort?: Setting<Effort>;
  /** The caller's thinking budget in tokens, at least 1, if it gave one and no effort. */
  thinkingTokensMax?: Setting<number>;
  /** The caller wants to see a summary of the thinking, or does not. */
  thinkingShown?: Setting<boolean>;
  verbosity?: Setting<"low" | "medium" | "high">;
  /** The kinds of content that the answer may have, if one of them is an image. */
  modalities?: Setting<Modality[]>;
  /** An opaque id of the caller's own user. */
  user?: Setting<string>;
  metadata?: Setting<JsonObject>;
  serviceTier?: Setting<ServiceTier>;
  cacheKey?: Setting<string>;
}

export type ServiceTier = "standard" | "flex" | "priority";
export type SettingName = keyof Settings;
export type Modality = "text" | "image";

export interface NeutralRequest {
  system: TextPart[];
  messages: Message[];
  tools: Tool[];
  toolChoice?: ToolChoice;
  settings: Settings;
  /**
   * Parts of the request that the model does not get, in words for the caller: one sentence each,
   * printable ASCII.
   */
  warnings?: string[];
}

/** A part of a text, in Unicode code points from the beginning of its block. */
interface TextSpan {
  start: number;
  end: number;
}

/** A page on which a text of an answer is based. */
export interface Citation {
  url: string;
  title?: string;
  /** The text of the page that is cited. */
  quote?: string;
  /** The part of its block that the citation is about; undefined for all of it. */
  span?: TextSpan;
}

/** `paused`: the vendor could continue the answer. */
export type Finish = "stop" | "stop-sequence" | "length" | "context-full" | "calls" | "content-filter" | "paused";

export type BlockStart =
  | { kind: "text" }
  | { kind: "refusal" }
  | { kind: "reasoning" }
  | { kind: "call"; id: string; name: string }
  | { kind: "image"; mimeType: string; data: string };

/**
 * An answer, in order:
 *
 * (block (delta | citation)* signature? block-end)* finish   or, anywhere instead of the rest, error
 *
 * Blocks never overlap. A delta adds to the open block: text, refusal, thinking, or a chunk of a
 * call's input (JSON text, also for a tool with free text). Only text has citations. A reasoning
 * block may have one signature, last. A signature on a call or text, in dialects that have those,
 * is a reasoning block without text: before the call, after the text.
 */
export type AnswerEvent =
  | { kind: "block"; block: BlockStart }
  | { kind: "delta"; text: string }
  | { kind: "citation"; citation: Citation }
  | { kind: "signature"; signature: Signature }
  | { kind: "block-end" }
  | { kind: "finish"; finish: Finish; stopSequence?: string; usage?: Usage }
  | { kind: "error"; error: UpstreamError };

/** Any event of an answer that did not fail. */
export type ContentEvent = Exclude<AnswerEvent, { kind: "error" }>;
export type CallStart = Extract<BlockStart, { kind: "call" }>;

export type Block =
  | { kind: "text"; text: string; citations?: Citation[] }
  | { kind: "refusal"; text: string }
  | { kind: "reasoning"; text: string; signature?: Signature }
  | { kind: "call"; id: string; name: string; input: string }
  | { kind: "image"; mimeType: string; data: string };

export type CallBlock = Extract<Block, { kind: "call" }>;
export type ImageBlock = Extract<Block, { kind: "image" }>;

/** The texts among these parts or blocks. */
export const textsIn = (parts: readonly (Part | Block)[], kind: "text" | "refusal" | "reasoning" = "text") =>
  parts.flatMap((part) => (part.kind === kind ? [part.text] : []));

/** A whole answer. */
export interface Answer {
  blocks: Block[];
  finish: Finish;
  stopSequence?: string;
  usage?: Usage;
}

/** The events of an answer that failed. */
export const failed = (error: UpstreamError): AnswerEvent[] => [{ kind: "error", error }];

/** The end of an answer, without members that are unknown. */
export const endWith = (
  finish: Finish,
  { stopSequence, usage }: { stopSequence?: string | undefined; usage?: Usage | undefined },
): Omit<Answer, "blocks"> => ({
  finish,
  ...defined({ stopSequence, usage }),
});

/**
 * The answer of these events; the first error, if there is one; undefined if the answer breaks off.
 */
export function foldedOf(events: readonly AnswerEvent[]): Answer | { error: UpstreamError } | undefined {
  const blocks: Block[] = [];
  let chunks: string[] = [];
  for (const event of events) {
    const open = blocks.at(-1);
    switch (event.kind) {
      case "block":
        chunks = [];
        blocks.push(
          event.block.kind === "image"
            ? event.block
            : event.block.kind === "call"
              ? { ...event.block, input: "" }
              : { ...event.block, text: "" },
        );
        break;
      case "delta":
        chunks.push(event.text);
        break;
      case "citation":
        if (open?.kind !== "text") break;
        open.citations ??= [];
        open.citations.push(event.citation);
        break;
      case "signature":
        if (open?.kind === "reasoning") open.signature = event.signature;
        break;
      case "block-end":
        if (open?.kind === "call") open.input = chunks.join("");
        else if (open !== undefined && open.kind !== "image") open.text = chunks.join("");
        break;
      case "finish":
        return { blocks, ...endWith(event.finish, event) };
      case "error":
        return { error: event.error };
      default:
        event satisfies never;
    }
  }
  return undefined;
}

/** The events of a whole answer; the inverse of `foldedOf`. */
export function eventsOf({ blocks, ...end }: Answer): AnswerEvent[] {
  const events: AnswerEvent[] = [];
  for (const block of blocks) {
    events.push({ kind: "block", block: startOf(block) });
    const text = block.kind === "call" ? block.input : block.kind === "image" ? "" : block.text;
    if (text !== "") events.push({ kind: "delta", text });
    if (block.kind === "text" && block.citations !== undefined)
      for (const citation of block.citations) events.push({ kind: "citation", citation });
    if (block.kind === "reasoning" && block.signature !== undefined)
      events.push({ kind: "signature", signature: block.signature });
    events.push({ kind: "block-end" });
  }
  events.push({ kind: "finish", ...endWith(end.finish, end) });
  return events;
}

function startOf(block: Block): BlockStart {
  switch (block.kind) {
    case "call":
      return { kind: "call", id: block.id, name: block.name };
    case "image":
      return block;
    default:
      return { kind: block.kind };
  }
}

/**
 * The same turns with neighbours of one role joined, results first in a user's turn, and empty
 * turns left out. With `apart`, for dialects that allow it, consecutive user messages stay separate
 * unless they contain results.
 */
export function turnsOf(messages: readonly Message[], apart = false): Message[] {
  const turns: Message[] = [];
  /** The turns with results. */
  const answering = new Set<Message>();
  for (const { role, parts, path } of messages) {
    const kept = parts.filter((part) => part.kind !== "text" || part.text !== "");
    if (kept.length === 0) continue;
    const answers = kept.some(isResult);
    let turn = turns.at(-1);
    const isApart = apart && role !== "assistant" && !answers && turn !== undefined && !answering.has(turn);
    if (turn?.role !== role || isApart) {
      turn = { role, parts: kept, path };
      turns.push(turn);
    } else for (const part of kept) turn.parts.push(part);
    if (answers) answering.add(turn);
  }
  for (const turn of answering)
    if (turn.role === "user")
      turn.parts = [...turn.parts.filter(isResult), ...turn.parts.filter((part) => !isResult(part))];
  return turns;
}

const isResult = ({ kind }: Part) => kind === "result";

/**
 * The same messages with the images that a model made in a turn of the user after the model's: few
 * vendors accept them in the model's own turn.
 */
export const withoutOwnImages = (messages: Message[]) =>
  messages.some(hasOwnImages)
    ? messages.flatMap((message) =>
        hasOwnImages(message)
          ? [
              { ...message, parts: message.parts.filter(({ kind }) => kind !== "image") },
              { ...message, role: "user" as const, parts: message.parts.filter(({ kind }) => kind === "image") },
            ]
          : [message],
      )
    : messages;

const hasOwnImages = ({ role, parts }: Message) => role === "assistant" && parts.some(({ kind }) => kind === "image");
