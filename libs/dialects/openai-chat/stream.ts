/**
 * Streamed answers in OpenAI's chat-completions format, in both directions:
 * https://platform.openai.com/docs/api-reference/chat/streaming
 */

import { type JsonObject, jsonOf, listOf, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import { BlockSequence, type MadeCall } from "../neutral/block-sequence.ts";
import { CitedText, openaiCitationsIn, sourcesIn } from "../neutral/citations.ts";
import { endingFor, endingWithCalls, reasonIn } from "../neutral/finish.ts";
import {
  type Block,
  type BlockStart,
  type CallBlock,
  type Citation,
  type ContentEvent,
  eventsOf,
  type Finish,
} from "../neutral/neutral.ts";
import { calledTool } from "../neutral/tools.ts";
import { EventDecoder, type TextPlace } from "../relay/event-decoder.ts";
import { countedUsage, laterUsage, type Usage } from "../usage.ts";
import {
  annotationsOf,
  callBodyOf,
  chatIdOf,
  contentTextOf,
  endOf,
  errorIn,
  failureIn,
  finishNameOf,
  imageBodyOf,
  onlyTextIn,
  picturesIn,
  reasoningDetailsOf,
  reportIn,
  stopSequenceOf,
  usageBodyOf,
} from "./answer.ts";
import { asksForFunctions } from "./legacy-functions.ts";
import { callSignatureOf, ReasoningReader, reasoningFieldsOf } from "./reasoning.ts";
import { type StreamedCall, StreamedCalls } from "./streamed-calls.ts";

const done = "[DONE]";

/** All choices are one answer: see decodeAnswer. */
export class ChatDecoder extends EventDecoder {
  readonly #blocks = new BlockSequence(this.events);
  readonly #reasoning = new ReasoningReader();
  readonly #calls = new StreamedCalls();
  readonly #blocksOf = new Map<StreamedCall, MadeCall>();
  #finish: Finish | undefined;
  #hasText = false;
  /** Its text was interrupted, so that places in all of it are not those in the open block. */
  #isSplit = false;
  #isCited = false;
  /** The last chunk that names sources, which are those of the whole answer. */
  #sources: JsonObject | undefined;
  #stopSequence: string | undefined;
  usage: Usage | undefined;

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  protected override textPlaceIn({ choices }: JsonObject): TextPlace | undefined {
    const holder = objectOf(objectOf(listOf(choices)[0]).delta);
    const name = onlyTextIn(holder);
    return name === undefined ? undefined : { holder, name };
  }

  protected override read(chunk: JsonObject): undefined {
    const error = errorIn(chunk);
    if (error !== undefined) return this.fail(error);
    const report = reportIn(chunk);
    this.usage = laterUsage(countedUsage(report), this.usage);
    if (chunk.search_results !== undefined || chunk.citations !== undefined) this.#sources = chunk;
    const choices = listOf(chunk.choices).map(objectOf);
    const failure = failureIn(choices);
    if (failure !== undefined) return this.fail(failure);
    for (const choice of choices) {
      this.#choice(choice);
      const reason = reasonIn(choice.finish_reason);
      if (reason === undefined) continue;
      const called = !this.#calls.isEmpty;
      const finish = endingFor(reason, { called, hasContent: this.#hasText || called });
      if (typeof finish !== "string") return this.fail(finish);
      this.#finish = finish;
    }
    if (report !== undefined && choices.length === 0) this.conclude();
  }

  /** It ends an answer, with or without a reason, unless a call is incomplete. */
  protected override done(): undefined {
    if (this.#blocks.isBegun && !this.#calls.hasIncomplete) this.#finish ??= this.#calls.isEmpty ? "stop" : "calls";
    this.conclude();
  }

  protected override finish(): void {
    this.#citeSources();
    this.#signLast();
    this.#blocks.endAll();
    this.#signRest();
    const { isEmpty, hasIncomplete } = this.#calls;
    const finish = endingWithCalls(this.#finish as Finish, { called: !isEmpty, isCut: hasIncomplete });
    this.events.push({ kind: "finish", ...endOf(finish, this.#stopSequence, this.usage) });
  }

  #choice(choice: JsonObject): void {
    const delta = this.#deltaIn(choice);
    this.#text("reasoning", this.#reasoning.read(delta));
    this.#text("text", contentTextOf(delta.content));
    if (delta.images !== undefined || Array.isArray(delta.content))
      for (const picture of picturesIn(delta)) {
        this.#signLast();
        for (const event of eventsOf({ blocks: [picture], finish: "stop" }))
          if (event.kind === "block") this.#blocks.whole(event.block);
      }
    if (delta.annotations !== undefined) this.#cite(openaiCitationsIn(delta.annotations));
    this.#text("refusal", delta.refusal);
    for (const call of listOf(delta.tool_calls)) this.#call(objectOf(call));
    this.#stopSequence = stopSequenceOf(choice) ?? this.#stopSequence;
  }

  /**
   * Some servers stream a whole message in place of its parts.
   * https://github.com/Amm1rr/WebAI-to-API/issues/55
   */
  #deltaIn({ delta, message }: JsonObject): JsonObject {
    return objectOf(delta ?? (this.#blocks.isBegun ? undefined : message));
  }

  #text(kind: "text" | "refusal" | "reasoning", value: unknown): void {
    const text = textOf(value);
    if (text === undefined) return;
    let { last } = this.#blocks;
    if (last?.start.kind !== kind) {
      this.#signLast();
      this.#isSplit ||= this.#hasText && kind === "text";
      this.#hasText ||= kind !== "reasoning";
      last = this.#blocks.begin({ kind });
    }
    this.#blocks.add(last, text);
  }

  #cite(citations: readonly Citation[]): void {
    const { last } = this.#blocks;
    if (last?.start.kind !== "text" || citations.length === 0) return;
    this.#isCited = true;
    this.#blocks.cite(last, this.#isSplit ? citations.map(({ span: _, ...citation }) => citation) : citations);
  }

  #call(delta: JsonObject): void {
    const { call, isNew, name, input } = this.#calls.read(delta);
    const block = isNew ? this.#begin(call, delta) : this.#blocksOf.get(call);
    if (block === undefined) return;
    this.#blocks.name(block, name);
    if (input !== "" && !call.isEmpty) this.#blocks.add(block, input);
  }

  /** The sources of the whole answer, at the end of its text. */
  #citeSources(): void {
    if (this.#sources !== undefined && !this.#isCited) this.#cite(sourcesIn(this.#sources));
  }

  #begin(call: StreamedCall, delta: JsonObject): MadeCall {
    this.#citeSources();
    this.#signLast();
    this.#signRest();
    const start = { kind: "call" as const, id: call.ownId, name: call.name };
    const block = this.#blocks.begin(start, callSignatureOf(delta), call.progress);
    this.#blocksOf.set(call, block);
    return block;
  }

  /** Gives the reasoning that ends its signature. */
  #signLast(): void {
    const { last } = this.#blocks;
    if (last?.start.kind === "reasoning") last.signature = this.#reasoning.take();
  }

  /** A signature without text, in a block of its own. */
  #signRest(): void {
    if (this.#reasoning.hasMore) this.#blocks.whole({ kind: "reasoning" }, this.#reasoning.take());
  }
}

export class ChatEncoder implements StreamEncoder {
  readonly #context: AnswerContext;
  readonly #chunkStart: string;
  readonly #usageShown: boolean;
  readonly #isLegacy: boolean;
  /** The blocks so far; their texts are kept only if needed later. */
  readonly #blocks: Block[] = [];
  readonly #text = new CitedText();
  #calls = 0;
  #opened = false;

  constructor(context: AnswerContext) {
    this.#context = context;
    const { model, continues } = context;
    const createdAt = continues?.createdAt ?? context.createdAt;
    this.#chunkStart = `data: ${jsonOf({ id: chatIdOf(context), object: "chat.completion.chunk", created: createdAt, model }).slice(0, -1)},"choices":[`;
    this.#isLegacy = asksForFunctions(context.body);
    this.#usageShown = objectOf(context.body.stream_options).include_usage === true;
  }

  push(event: ContentEvent): string {
    if (this.#opened) return this.#chunksOf(event);
    this.#opened = true;
    return this.#chunk({ role: "assistant", content: "", refusal: null }) + this.#chunksOf(event);
  }

  #chunksOf(event: ContentEvent): string {
    const open = this.#blocks.at(-1);
    if ((event.kind === "block" ? event.block.kind : open?.kind) === "text") this.#text.push(event);
    switch (event.kind) {
      case "block":
        return this.#start(event.block);
      case "delta":
        return open === undefined ? "" : this.#delta(open, event.text);
      case "signature":
        if (open?.kind === "reasoning") open.signature = event.signature;
        return "";
      case "citation":
        return "";
      case "block-end":
        if (open?.kind !== "call") return "";
        if (this.#takesText(open)) return this.#callChunk(callBodyOf(open, this.#context));
        return open.input === "" ? this.#callChunk({ function: { arguments: "{}" } }) : "";
      case "finish":
        return this.#finish(event.finish, event.usage);
      default:
        return event satisfies never;
    }
  }

  #start(block: BlockStart): string {
    switch (block.kind) {
      case "image":
        return this.#chunk({ images: [imageBodyOf(block)] });
      case "call": {
        const call = { ...block, input: "" };
        this.#blocks.push(call);
        this.#calls++;
        if (this.#takesText(call)) return "";
        const name = calledTool(this.#context.request, call.name)?.callerName ?? call.name;
        const { ofCalls } = reasoningFieldsOf(this.#blocks.slice(-2), undefined);
        const called = {
          id: call.id,
          type: "function",
          function: { name, arguments: "" },
          extra_content: ofCalls.at(-1),
        };
        return this.#callChunk(called);
      }
      default:
        this.#blocks.push({ kind: block.kind, text: "" });
        return "";
    }
  }

  #delta(open: Block, text: string): string {
    switch (open.kind) {
      case "text":
        return this.#chunk({ content: text });
      case "refusal":
        return this.#chunk({ refusal: text });
      case "reasoning":
        open.text += text;
        return this.#chunk({ reasoning_content: text });
      case "call":
        if (this.#takesText(open)) {
          open.input += text;
          return "";
        }
        open.input = text;
        return this.#callChunk({ function: { arguments: text } });
      default:
        return "";
    }
  }

  /**
   * Signed reasoning and citations are each written in one chunk: clients that assemble a stream
   * overwrite fields that they do not know, and lists without indexes.
   */
  #finish(finish: Finish, usage: Usage | undefined): string {
    const details = reasoningDetailsOf(this.#blocks, this.#context);
    const { reasoning_content: _, ...fields } = reasoningFieldsOf(this.#blocks, undefined).fields;
    const annotations = someOf(annotationsOf(this.#text));
    const late = {
      ...fields,
      ...(details.length > 0 && { reasoning_details: details }),
      ...(annotations !== undefined && { annotations }),
    };
    const thoughts = Object.keys(late).length > 0 ? this.#chunk(late) : "";
    const counted =
      this.#usageShown && usage !== undefined ? `${this.#chunkStart}],"usage":${jsonOf(usageBodyOf(usage))}}\n\n` : "";
    return `${thoughts}${this.#chunk({}, finishNameOf(finish, this.#isLegacy))}${counted}data: ${done}\n\n`;
  }

  #callChunk(call: { function?: object }): string {
    return this.#chunk(
      this.#isLegacy ? { function_call: call.function } : { tool_calls: [{ index: this.#calls - 1, ...call }] },
    );
  }

  #takesText({ name }: CallBlock): boolean {
    return calledTool(this.#context.request, name)?.takesText === true;
  }

  #chunk(delta: object, finish: string | null = null): string {
    return `${this.#chunkStart}{"index":0,"delta":${jsonOf(delta)},"logprobs":null,"finish_reason":${JSON.stringify(finish)}}]${this.#usageShown ? ',"usage":null' : ""}}\n\n`;
  }
}
