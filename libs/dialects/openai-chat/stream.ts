/** Streamed answers in OpenAI's chat-completions format, in both directions: https://platform.openai.com/docs/api-reference/chat/streaming */
import type { AnswerContext, StreamEncoder } from "../codec.ts";
import { EventDecoder } from "../event-decoder.ts";
import { endingFor, reasonIn } from "../finish.ts";
import { isGiven, JsonProgress, jsonOf, listOf, objectOf, textOf } from "../json.ts";
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
  failureIn,
  finishNameOf,
  imageBodyOf,
  picturesIn,
  reasoningDetailsOf,
  stopSequenceOf,
  usageBodyOf,
  usageOf,
} from "./answer.ts";
import { callSignatureOf, ReasoningReader, reasoningFieldsOf } from "./reasoning.ts";

const done = "[DONE]";

/** A streamed call. Calls may overlap in this format but not in the neutral form, so all but one wait. */
interface OpenCall {
  id: string;
  name: string;
  progress: JsonProgress;
  /** Its input chunks until its turn comes. */
  waiting: string[];
  signature: Signature | undefined;
}

/**
 * Some servers give all calls of an answer the same index. A new id alone does not begin a call, because others write one with each chunk.
 * https://github.com/ollama/ollama/issues/15457
 */
const isNext = (call: OpenCall, id: string | undefined, name: string): boolean =>
  call.progress.isWhole && id !== undefined && id !== call.id && name !== "";

export class ChatDecoder extends EventDecoder {
  #open: "text" | "refusal" | "reasoning" | OpenCall | undefined;
  readonly #reasoning = new ReasoningReader();
  readonly #calls = new Map<number, OpenCall>();
  readonly #placesById = new Map<string, number>();
  /** Calls that wait for their turn. */
  #waiting: OpenCall[] = [];
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
    if (isGiven(chunk.error)) return this.fail(upstreamErrorOf(chunk));
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
        const finish = endingFor(reason, {
          called: this.#calls.size > 0,
          hasContent: this.#hasText || this.#calls.size > 0,
        });
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
    this.#close(events);
    for (const call of this.#waiting.splice(0)) {
      this.#start(call, events);
      this.#close(events);
    }
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
        this.#close(events);
        events.push(...eventsOf({ blocks: [picture], finish: "stop" }).slice(0, -1));
      }
    this.#text("refusal", delta.refusal, events);
    for (const call of listOf(delta.tool_calls)) this.#call(objectOf(call), events);
    this.#stopSequence = stopSequenceOf(choice) ?? this.#stopSequence;
  }

  #text(kind: "text" | "refusal" | "reasoning", value: unknown, events: AnswerEvent[]): void {
    const text = textOf(value);
    if (text === undefined) return;
    if (this.#open !== kind) {
      this.#close(events);
      this.#open = kind;
      this.#hasText ||= kind !== "reasoning";
      events.push({ kind: "block", block: { kind } });
    }
    events.push({ kind: "delta", text });
  }

  #call(delta: Record<string, unknown>, events: AnswerEvent[]): void {
    const id = textOf(delta.id);
    const place = typeof delta.index === "number" ? delta.index : this.#placeOf(id);
    const { name, input } = callOf(delta);
    let call = this.#calls.get(place);
    if (call === undefined || isNext(call, id, name)) {
      call = { id: id ?? newCallId(), name, progress: new JsonProgress(), waiting: [], signature: undefined };
      this.#calls.set(place, call);
      this.#waiting.push(call);
    }
    if (call !== this.#open && call.name === "") call.name = name;
    call.signature ??= callSignatureOf(delta);
    if (input !== "") {
      call.progress.push(input);
      if (call === this.#open) events.push({ kind: "delta", text: input });
      else call.waiting.push(input);
    }
    this.#startNext(events);
  }

  /** Servers that omit the index start a new call with a new id. */
  #placeOf(id: string | undefined): number {
    if (id === undefined) return Math.max(0, this.#calls.size - 1);
    const known = this.#placesById.get(id);
    if (known !== undefined) return known;
    this.#placesById.set(id, this.#calls.size);
    return this.#calls.size;
  }

  /** Opens the next call once the previous one is complete. */
  #startNext(events: AnswerEvent[]): void {
    while (this.#waiting.length > 0 && (typeof this.#open !== "object" || this.#open.progress.isWhole))
      this.#start(this.#waiting.shift() as OpenCall, events);
  }

  #start(call: OpenCall, events: AnswerEvent[]): void {
    this.#close(events);
    if (this.#reasoning.hasMore) this.#sign(this.#reasoning.take(), events);
    this.#sign(call.signature, events);
    this.#open = call;
    events.push({ kind: "block", block: { kind: "call", id: call.id, name: call.name } });
    for (const text of call.waiting.splice(0)) events.push({ kind: "delta", text });
  }

  /** A signature without text, in a block of its own. */
  #sign(signature: Signature | undefined, events: AnswerEvent[]): void {
    if (signature !== undefined)
      events.push(
        { kind: "block", block: { kind: "reasoning" } },
        { kind: "signature", signature },
        { kind: "block-end" },
      );
  }

  #close(events: AnswerEvent[]): void {
    const signature = this.#open === "reasoning" ? this.#reasoning.take() : undefined;
    if (signature !== undefined) events.push({ kind: "signature", signature });
    if (this.#open !== undefined) events.push({ kind: "block-end" });
    this.#open = undefined;
  }
}

export class ChatEncoder implements StreamEncoder {
  readonly #context: AnswerContext;
  readonly #beginning: string;
  readonly #usageShown: boolean;
  /** The blocks so far; their texts are kept only if needed later. */
  readonly #blocks: Block[] = [];
  #calls = 0;
  #opened = false;

  constructor(context: AnswerContext) {
    this.#context = context;
    const { createdAt, model } = context;
    this.#beginning = `data: ${jsonOf({ id: chatIdOf(context), object: "chat.completion.chunk", created: createdAt, model }).slice(0, -1)},"choices":[`;
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
        if (this.#takesText(open))
          return this.#chunk({ tool_calls: [{ index: this.#calls - 1, ...callBodyOf(open, this.#context) }] });
        return open.input === ""
          ? this.#chunk({ tool_calls: [{ index: this.#calls - 1, function: { arguments: "{}" } }] })
          : "";
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
        return this.#chunk({ tool_calls: [{ index: this.#calls - 1, ...called }] });
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
        return this.#chunk({ tool_calls: [{ index: this.#calls - 1, function: { arguments: text } }] });
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
    return `${thoughts}${this.#chunk({}, finishNameOf(finish))}${counted}data: ${done}\n\n`;
  }

  #takesText({ name }: Extract<Block, { kind: "call" }>): boolean {
    return calledTool(this.#context.request, name)?.takesText === true;
  }

  #chunk(delta: object, finish: string | null = null): string {
    return `${this.#beginning}{"index":0,"delta":${jsonOf(delta)},"logprobs":null,"finish_reason":${JSON.stringify(finish)}}]${this.#usageShown ? ',"usage":null' : ""}}\n\n`;
  }
}
