/** Streamed answers in OpenAI's chat-completions format, in both directions: https://platform.openai.com/docs/api-reference/chat/streaming */
import { BlockSequence, type MadeCall } from "../block-sequence.ts";
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import { EventDecoder } from "../event-decoder.ts";
import { endingFor, reasonIn } from "../finish.ts";
import { isGiven, jsonOf, listOf, objectOf, textOf } from "../json.ts";
import { type AnswerEvent, type Block, type BlockStart, eventsOf, type Finish, type Signature } from "../neutral.ts";
import { calledTool, newCallId } from "../tools.ts";
import { upstreamErrorOf } from "../upstream-errors.ts";
import type { Usage } from "../usage.ts";
import {
  callBodyOf,
  callOf,
  chatIdOf,
  contentTextOf,
  endOf,
  errorIn,
  failureIn,
  finishNameOf,
  imageBodyOf,
  picturesIn,
  reasoningDetailsOf,
  stopSequenceOf,
  usageBodyOf,
  usageOf,
} from "./answer.ts";
import { asksForFunctions } from "./legacy-functions.ts";
import { callSignatureOf, ReasoningReader, reasoningFieldsOf } from "./reasoning.ts";

const done = "[DONE]";

/** A streamed call, and the place that its server gives it: calls may overlap in this format. */
interface OpenCall {
  block: MadeCall;
  index: number | undefined;
  /** The id of its first chunk. */
  id: string | undefined;
}

/**
 * True if a chunk begins a call although the one of its index or id has begun: some servers give all calls of an answer the same index, others the same id or none. A
 * new id alone does not begin a call, because others write one with each chunk. https://github.com/ollama/ollama/issues/15457
 */
function isNext({ block, id: known }: OpenCall, id: string | undefined, name: string, input: string): boolean {
  if (name === "") return false;
  const isWhole = block.progress?.isWhole === true;
  const hasOtherId = id !== undefined && id !== known;
  if (block.start.name !== "" && block.start.name !== name) return isWhole || hasOtherId || !block.progress?.isBegun;
  return isWhole && (hasOtherId || input.trim() !== "");
}

const indexOf = ({ index }: Record<string, unknown>): number | undefined =>
  typeof index === "number" ? index : undefined;

export class ChatDecoder extends EventDecoder {
  readonly #blocks = new BlockSequence();
  readonly #reasoning = new ReasoningReader();
  readonly #calls = new Map<number, OpenCall>();
  readonly #callsById = new Map<string, OpenCall>();
  #lastCall: OpenCall | undefined;
  #finish: Finish | undefined;
  #hasText = false;
  #stopSequence: string | undefined;
  #usage: Usage | undefined;

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  get usage(): Usage | undefined {
    return this.#usage;
  }

  protected override read(chunk: Record<string, unknown>): AnswerEvent[] {
    const error = errorIn(chunk);
    if (isGiven(error)) return this.fail(upstreamErrorOf({ ...chunk, error }));
    const events: AnswerEvent[] = [];
    const usage = usageOf(chunk);
    if (usage !== undefined) this.#usage = usage;
    const choices = listOf(chunk.choices).map(objectOf);
    const failure = failureIn(choices);
    if (failure !== undefined) return this.fail(failure);
    for (const choice of choices)
      if (choice.index === undefined || choice.index === 0) {
        this.#choice(choice, events);
        const reason = reasonIn(choice.finish_reason);
        if (reason === undefined) continue;
        const called = this.#lastCall !== undefined;
        const finish = endingFor(reason, { called, hasContent: this.#hasText || called });
        if (typeof finish !== "string") return [...events, ...this.fail(finish)];
        this.#finish = finish;
      }
    if (usage !== undefined && choices.length === 0 && this.finished) events.push(...this.end());
    return events;
  }

  protected override done(): AnswerEvent[] {
    return this.end();
  }

  end(): AnswerEvent[] {
    if (this.over || this.#finish === undefined) return [];
    this.over = true;
    const events: AnswerEvent[] = [];
    this.#signLast();
    this.#blocks.endAll(events);
    if (this.#reasoning.hasMore) this.#sign(this.#reasoning.take(), events);
    events.push({ kind: "finish", ...endOf(this.#finish, this.#stopSequence, this.#usage) });
    return events;
  }

  #choice(choice: Record<string, unknown>, events: AnswerEvent[]): void {
    const { delta: value } = choice;
    const delta = objectOf(value);
    this.#text("reasoning", this.#reasoning.read(delta), events);
    this.#text("text", contentTextOf(delta.content), events);
    if (delta.images !== undefined || Array.isArray(delta.content))
      for (const picture of picturesIn(delta)) {
        this.#signLast();
        for (const event of eventsOf({ blocks: [picture], finish: "stop" }))
          if (event.kind === "block") this.#blocks.whole(event.block, events);
      }
    this.#text("refusal", delta.refusal, events);
    for (const call of listOf(delta.tool_calls)) this.#call(objectOf(call), events);
    this.#stopSequence = stopSequenceOf(choice) ?? this.#stopSequence;
  }

  #text(kind: "text" | "refusal" | "reasoning", value: unknown, events: AnswerEvent[]): void {
    const text = textOf(value);
    if (text === undefined) return;
    let { last } = this.#blocks;
    if (last?.start.kind !== kind) {
      this.#signLast();
      this.#hasText ||= kind !== "reasoning";
      last = this.#blocks.begin({ kind }, events);
    }
    this.#blocks.add(last, text, events);
  }

  #call(delta: Record<string, unknown>, events: AnswerEvent[]): void {
    const { name, input } = callOf(delta);
    const id = textOf(delta.id);
    const index = indexOf(delta);
    const known = this.#callAt(index, id, name);
    const isNew = known === undefined || isNext(known, id, name, input);
    const call = isNew ? this.#begin(delta, name, events) : known;
    this.#lastCall = call;
    this.#blocks.name(call.block, name, events);
    if (input !== "") this.#blocks.add(call.block, input, events);
  }

  /** The call that a chunk continues, if it does not begin one: that of its index, or else of its id, or else the last one. */
  #callAt(index: number | undefined, id: string | undefined, name: string): OpenCall | undefined {
    const sameId = id === undefined ? undefined : this.#callsById.get(id);
    if (index !== undefined) return sameId?.index === index ? sameId : this.#calls.get(index);
    return sameId ?? (id === undefined || name === "" ? this.#lastCall : undefined);
  }

  #begin(delta: Record<string, unknown>, name: string, events: AnswerEvent[]): OpenCall {
    const id = textOf(delta.id);
    const index = indexOf(delta);
    this.#signLast();
    if (this.#reasoning.hasMore) this.#sign(this.#reasoning.take(), events);
    const block = this.#blocks.begin({ kind: "call", id: id ?? newCallId(), name }, events, callSignatureOf(delta));
    const call = { block, index, id };
    if (index !== undefined) this.#calls.set(index, call);
    if (id !== undefined) this.#callsById.set(id, call);
    return call;
  }

  /** Gives the reasoning that ends its signature. */
  #signLast(): void {
    const { last } = this.#blocks;
    if (last?.start.kind === "reasoning") last.signature = this.#reasoning.take();
  }

  /** A signature without text, in a block of its own. */
  #sign(signature: Signature | undefined, events: AnswerEvent[]): void {
    if (signature !== undefined) this.#blocks.whole({ kind: "reasoning" }, events, signature);
  }
}

export class ChatEncoder implements StreamEncoder {
  readonly #context: AnswerContext;
  readonly #beginning: string;
  readonly #usageShown: boolean;
  readonly #isLegacy: boolean;
  /** The blocks so far; their texts are kept only if needed later. */
  readonly #blocks: Block[] = [];
  #calls = 0;
  #opened = false;

  constructor(context: AnswerContext) {
    this.#context = context;
    const { createdAt, model } = context;
    this.#beginning = `data: ${jsonOf({ id: chatIdOf(context), object: "chat.completion.chunk", created: createdAt, model }).slice(0, -1)},"choices":[`;
    this.#isLegacy = asksForFunctions(context.body);
    this.#usageShown = objectOf(context.body.stream_options).include_usage === true;
  }

  push(event: Exclude<AnswerEvent, { kind: "error" }>): string {
    if (this.#opened) return this.#chunksOf(event);
    this.#opened = true;
    return this.#chunk({ role: "assistant", content: "", refusal: null }) + this.#chunksOf(event);
  }

  #chunksOf(event: Exclude<AnswerEvent, { kind: "error" }>): string {
    const open = this.#blocks.at(-1);
    switch (event.kind) {
      case "block":
        return this.#start(event.block);
      case "delta":
        return open === undefined ? "" : this.#delta(open, event.text);
      case "signature":
        if (open?.kind === "reasoning") open.signature = event.signature;
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

  /** Signed reasoning is written in one chunk: clients that assemble a stream overwrite fields they do not know. */
  #finish(finish: Finish, usage: Usage | undefined): string {
    const details = reasoningDetailsOf(this.#blocks, this.#context);
    const { reasoning_content: _, ...fields } = reasoningFieldsOf(this.#blocks, undefined).fields;
    const signed = { ...fields, ...(details.length > 0 && { reasoning_details: details }) };
    const thoughts = Object.keys(signed).length > 0 ? this.#chunk(signed) : "";
    const counted =
      this.#usageShown && usage !== undefined ? `${this.#beginning}],"usage":${jsonOf(usageBodyOf(usage))}}\n\n` : "";
    return `${thoughts}${this.#chunk({}, finishNameOf(finish, this.#isLegacy))}${counted}data: ${done}\n\n`;
  }

  #callChunk(call: { function?: object }): string {
    return this.#chunk(
      this.#isLegacy ? { function_call: call.function } : { tool_calls: [{ index: this.#calls - 1, ...call }] },
    );
  }

  #takesText({ name }: Extract<Block, { kind: "call" }>): boolean {
    return calledTool(this.#context.request, name)?.takesText === true;
  }

  #chunk(delta: object, finish: string | null = null): string {
    return `${this.#beginning}{"index":0,"delta":${jsonOf(delta)},"logprobs":null,"finish_reason":${JSON.stringify(finish)}}]${this.#usageShown ? ',"usage":null' : ""}}\n\n`;
  }
}
