/**
 * Streamed answers in Anthropic's Messages format, in both directions:
 * https://platform.claude.com/docs/en/build-with-claude/streaming
 */

import { type JsonObject, jsonOf, objectOf, textOf } from "#wire/json/parse.ts";
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import { BlockSequence, type MadeBlock } from "../neutral/block-sequence.ts";
import { anthropicCitationOf, anthropicCitationsIn } from "../neutral/citations.ts";
import { endingFor, endingWithCalls } from "../neutral/finish.ts";
import {
  type BlockStart,
  type Citation,
  type ContentEvent,
  endWith,
  type Finish,
  type Signature,
} from "../neutral/neutral.ts";
import { unshownText } from "../neutral/unshown.ts";
import { wrappedSignatureOf } from "../neutral/wrapped-signature.ts";
import { EventDecoder, type TextPlace } from "../relay/event-decoder.ts";
import { isErrorBody } from "../upstream-errors/upstream-errors.ts";
import { plainUsageOf, type Usage } from "../usage.ts";
import {
  blockOf,
  calledNameOf,
  endingOf,
  messageOf,
  refusalIn,
  UsageReader,
  upstreamErrorOf,
  usageBodyOf,
} from "./answer.ts";
import { dialect, thinkingBlockOf } from "./blocks.ts";

/** A block that an upstream began. */
interface ShownBlock {
  kind: "text" | "reasoning" | "call";
  block: MadeBlock;
  /** The input at the start of a call, used if no deltas follow. */
  input: string;
}

/** `hidden`: other dialects cannot express it. */
type BegunBlock = ShownBlock | { kind: "hidden" };

/** For each type of delta: its block kind, and the member with its text. */
const deltas: Record<string, { kind: "text" | "reasoning" | "call"; member: string }> = {
  text_delta: { kind: "text", member: "text" },
  thinking_delta: { kind: "reasoning", member: "thinking" },
  input_json_delta: { kind: "call", member: "partial_json" },
};

export class MessagesDecoder extends EventDecoder {
  readonly #blocks = new BlockSequence(this.events);
  /** By index. Some servers let blocks overlap, and some give no index. */
  readonly #begunBlocks = new Map<number, BegunBlock>();
  #lastIndex = 0;
  #lastCall: ShownBlock | undefined;
  readonly #usage = new UsageReader();
  #called = false;
  #finish: Finish | undefined;
  #stopSequence: string | undefined;
  /** There is text or a call. */
  #hasContent = false;
  /** A block has begun: a terminator alone is not an answer. */
  #begun = false;

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  get usage(): Usage | undefined {
    return this.#usage.usage;
  }

  protected override textPlaceIn({ delta }: JsonObject): TextPlace {
    const holder = objectOf(delta);
    return { holder, name: holder.type === "thinking_delta" ? "thinking" : "text" };
  }

  protected override read(body: JsonObject, name: string | undefined): undefined {
    switch (textOf(body.type) ?? name) {
      case "message_start":
        this.#usage.read(objectOf(body.message).usage);
        break;
      case "content_block_start":
        this.#start(this.#indexIn(body), objectOf(body.content_block));
        break;
      case "content_block_delta":
        this.#delta(this.#indexIn(body), objectOf(body.delta));
        break;
      case "content_block_stop":
        this.#stop(this.#indexIn(body));
        break;
      case "message_delta": {
        const delta = objectOf(body.delta);
        this.#usage.read(body.usage);
        this.#stopSequence = textOf(delta.stop_sequence) ?? this.#stopSequence;
        const reason = textOf(delta.stop_reason);
        if (reason === undefined) break;
        const finish = endingFor(reason, { called: this.#called, hasContent: this.#hasContent });
        if (typeof finish !== "string") return this.fail(finish);
        this.#finish = finish;
        const explanation = refusalIn(delta.stop_details);
        if (explanation === undefined) break;
        this.#blocks.add(this.#blocks.begin({ kind: "refusal" }), explanation);
        break;
      }
      case "message_stop":
        if (this.#begun) this.#finish ??= this.#called ? "calls" : "stop";
        return this.conclude();
      case "error":
        return this.fail(upstreamErrorOf(body));
      default:
        if (isErrorBody(body)) return this.fail(upstreamErrorOf(body));
    }
  }

  protected override errorOf(body: unknown): UpstreamError {
    return upstreamErrorOf(body);
  }

  protected override done(): undefined {
    this.conclude();
  }

  protected override finish(): void {
    for (const begun of this.#begunBlocks.values()) if (begun.kind !== "hidden") this.#fill(begun);
    this.#blocks.endAll();
    const calls = { called: this.#called, isCut: this.#blocks.hasIncomplete };
    const end = endWith(endingWithCalls(this.#finish as Finish, calls), {
      stopSequence: this.#stopSequence,
      usage: this.usage,
    });
    this.events.push({ kind: "finish", ...end });
  }

  #indexIn({ index }: JsonObject): number {
    if (typeof index === "number") this.#lastIndex = index;
    return this.#lastIndex;
  }

  #start(index: number, content: JsonObject): void {
    const before = this.#begunBlocks.get(index);
    if (before?.kind !== "call" || before.input !== "") this.#stop(index);
    this.#begun = true;
    const block = blockOf(content);
    if (block === undefined || block.kind === "image" || block.kind === "refusal") {
      this.#begunBlocks.set(index, { kind: "hidden" });
      return;
    }
    const isCall = block.kind === "call";
    this.#called ||= isCall;
    this.#hasContent ||= isCall || (block.kind === "text" && block.text !== "");
    const start: BlockStart = isCall ? { kind: "call", id: block.id, name: block.name } : { kind: block.kind };
    const made = this.#blocks.begin(start, block.kind === "reasoning" ? block.signature : undefined);
    // Its signature comes last.
    if (block.kind === "reasoning") made.isFirm = true;
    const begun = { kind: block.kind, block: made, input: isCall ? block.input : "" };
    this.#begunBlocks.set(index, begun);
    if (isCall) this.#lastCall = begun;
    else if (block.text !== "") this.#blocks.add(made, block.text);
    if (block.kind === "text" && block.citations !== undefined) this.#blocks.cite(made, block.citations);
  }

  /** Text without a block of its own, or after another block interrupted it, opens one. */
  #delta(index: number, delta: JsonObject): void {
    const type = String(delta.type);
    const own = this.#begunBlocks.get(index);
    if (type === "signature_delta") {
      const data = textOf(delta.signature);
      if (own?.kind === "reasoning" && data !== undefined) own.block.signature = { dialect, data };
      return;
    }
    if (type === "citations_delta") {
      if (own?.kind === "text") this.#blocks.cite(own.block, anthropicCitationsIn([delta.citation]));
      return;
    }
    const deltaKind = Object.hasOwn(deltas, type) ? deltas[type] : undefined;
    const text = deltaKind === undefined ? undefined : textOf(delta[deltaKind.member]);
    if (deltaKind === undefined || text === undefined || own?.kind === "hidden") return;
    this.#hasContent ||= deltaKind.kind !== "reasoning";
    if (own?.kind === deltaKind.kind && own.block.state !== "closed") {
      own.input = "";
      this.#blocks.add(own.block, text);
    } else if (deltaKind.kind !== "call") {
      const { last } = this.#blocks;
      const block = last?.start.kind === deltaKind.kind ? last : this.#blocks.begin({ kind: deltaKind.kind });
      this.#blocks.add(block, text);
    } else if (this.#lastCall !== undefined && this.#lastCall.block.state !== "closed") {
      this.#lastCall.input = "";
      this.#blocks.add(this.#lastCall.block, text);
    }
  }

  #stop(index: number): void {
    const own = this.#begunBlocks.get(index);
    if (own === undefined || own.kind === "hidden") return;
    this.#fill(own);
    this.#blocks.end(own.block);
  }

  #fill(begun: ShownBlock): void {
    if (begun.input !== "") this.#blocks.add(begun.block, begun.input);
    begun.input = "";
  }
}

/**
 * The open block. Text and thinking blocks open with their first chunk, because upstreams reject
 * empty blocks in a later request.
 */
interface WrittenBlock {
  start: BlockStart;
  /** Its start is written. */
  isBegun: boolean;
  /** Some of its content is written. */
  filled: boolean;
  /** The citations that came before its text. */
  citations: Citation[];
}

export class MessagesEncoder implements StreamEncoder {
  readonly #context: AnswerContext;
  #begun = false;
  #index = 0;
  #open: WrittenBlock | undefined;
  /**
   * A foreign signature without text. It is written only if another block follows, because clients
   * take the last block as the answer.
   */
  #pendingSignature: Signature | undefined;

  constructor(context: AnswerContext) {
    this.#context = context;
  }

  push(event: ContentEvent, usage?: Usage): string {
    const start = this.#begun
      ? ""
      : eventText("message_start", { message: messageOf(this.#context, this.#startOf(usage)) });
    this.#begun = true;
    return start + this.#eventsOf(event);
  }

  /**
   * Clients read the prompt's tokens where the answer begins, so an upstream that counts them at
   * the end is preceded by an estimate.
   */
  #startOf(usage: Usage | undefined): Usage | undefined {
    const { inputTokens } = this.#context;
    return usage ?? (inputTokens === undefined ? undefined : plainUsageOf(inputTokens));
  }

  #eventsOf(event: ContentEvent): string {
    switch (event.kind) {
      case "block": {
        const { block } = event;
        const thinking = this.#showPending();
        this.#open = { start: block, isBegun: false, filled: false, citations: [] };
        if (block.kind === "image")
          return (
            thinking +
            this.#begin({ type: "text", text: "" }) +
            this.#chunk("text_delta", "text", unshownText(block.mimeType))
          );
        return (
          thinking +
          (block.kind === "call"
            ? this.#begin({ type: "tool_use", id: block.id, name: calledNameOf(block.name, this.#context), input: {} })
            : "")
        );
      }
      case "delta":
        return event.text === "" ? "" : this.#delta(event.text);
      case "citation":
        return this.#open === undefined ? "" : this.#cite(this.#open, event.citation);
      case "signature":
        return this.#sign(event.signature);
      case "block-end":
        return this.#end();
      case "finish":
        return this.#finish(event.finish, event.stopSequence, usageBodyOf(event.usage));
      default:
        return event satisfies never;
    }
  }

  #delta(text: string): string {
    const open = this.#open;
    if (open === undefined) return "";
    open.filled = true;
    switch (open.start.kind) {
      case "text":
      case "refusal":
        return (
          this.#begin({ type: "text", text: "" }) +
          this.#chunk("text_delta", "text", text) +
          (open.citations.length === 0 ? "" : this.#citeEarly(open))
        );
      case "reasoning":
        return this.#begin(thinkingStart) + this.#chunk("thinking_delta", "thinking", text);
      case "call":
        return this.#chunk("input_json_delta", "partial_json", text);
      case "image":
        return "";
      default:
        return open.start satisfies never;
    }
  }

  /** A block begins with text, which citations may precede; one without text is not written. */
  #citeEarly(open: WrittenBlock): string {
    return open.citations
      .splice(0)
      .map((citation) => this.#cite(open, citation))
      .join("");
  }

  #cite(open: WrittenBlock, citation: Citation): string {
    if (!open.isBegun) {
      open.citations.push(citation);
      return "";
    }
    const delta = { type: "citations_delta", citation: anthropicCitationOf(citation) };
    return eventText("content_block_delta", { index: this.#index, delta });
  }

  #sign(signature: Signature): string {
    const open = this.#open;
    if (open?.start.kind !== "reasoning") return "";
    const isOwn = signature.dialect === dialect;
    if (!isOwn && !open.isBegun) {
      this.#pendingSignature = signature;
      return "";
    }
    if (isOwn && signature.redacted === true && !open.isBegun) return this.#begin(thinkingBlockOf("", signature));
    return (
      this.#begin(thinkingStart) +
      this.#chunk(
        "signature_delta",
        "signature",
        isOwn ? signature.data : wrappedSignatureOf(signature, undefined, this.#context.upstreamModel),
      )
    );
  }

  #showPending(): string {
    const signature = this.#pendingSignature;
    if (signature === undefined) return "";
    this.#pendingSignature = undefined;
    this.#open = { start: { kind: "reasoning" }, isBegun: false, filled: false, citations: [] };
    return (
      this.#begin(thinkingStart) +
      this.#chunk(
        "signature_delta",
        "signature",
        wrappedSignatureOf(signature, undefined, this.#context.upstreamModel),
      ) +
      this.#end()
    );
  }

  #begin(block: object): string {
    if (this.#open === undefined || this.#open.isBegun) return "";
    this.#open.isBegun = true;
    return eventText("content_block_start", { index: this.#index, content_block: block });
  }

  /**
   * One delta of a block. Built as text rather than from an object, because it is the most frequent
   * event.
   */
  #chunk(type: string, member: string, text: string): string {
    return `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.#index},"delta":{"type":"${type}","${member}":${jsonOf(text)}}}\n\n`;
  }

  #end(): string {
    const open = this.#open;
    this.#open = undefined;
    if (open?.isBegun !== true) return "";
    const empty =
      open.start.kind === "call" && !open.filled ? this.#chunk("input_json_delta", "partial_json", "{}") : "";
    return empty + eventText("content_block_stop", { index: this.#index++ });
  }

  #finish(finish: Finish, stopSequence: string | undefined, usage: object): string {
    return (
      eventText("message_delta", { delta: endingOf(finish, stopSequence, this.#context), usage }) +
      eventText("message_stop", {})
    );
  }
}

const thinkingStart = { type: "thinking", thinking: "", signature: "" };

const eventText = (type: string, fields: object) => `event: ${type}\ndata: ${jsonOf({ type, ...fields })}\n\n`;
