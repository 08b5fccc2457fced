/** Answers of chat completions and embeddings in Ollama's format: https://docs.ollama.com/api */
import { isObject, jsonOf, listOf, objectOf, parsedObject, parseExact, textOf } from "#wire/json/parse.ts";
import { callBytesMax } from "../common/bounds.ts";
import type { ModelPath } from "../request/ollama.ts";
import { ollamaErrorOf } from "../server/refusals.ts";
import type { AnswerTranslation } from "./translated-response.ts";

export interface OllamaAnswerOptions {
  path: ModelPath;
  /** As the caller wrote it. */
  model: string;
  showsThinking: boolean;
  /** Milliseconds of one clock that never goes back. */
  now(): number;
  /** Milliseconds since 1970. */
  epoch(): number;
}

interface Call {
  name: string;
  input: string[];
}

type Body = Record<string, unknown>;

const nanoseconds = (ms: number) => Math.round(ms * 1_000_000);

/** The message of an error in the format of chat completions. */
const messageIn = (body: Buffer): string =>
  textOf(objectOf(parsedObject(body)?.error).message) ?? "The gateway failed to process this request.";

/**
 * Pure apart from its clock. Objects that it returns are lines of a stream, or the whole response.
 */
export class OllamaAnswer {
  readonly #options: OllamaAnswerOptions;
  readonly #startedAt: number;
  #contentAt: number | undefined;
  /** The calls so far: Ollama sends each as a whole. */
  readonly #calls: Call[] = [];
  #callBytes = 0;
  #reason = "stop";
  #usage: Body = {};

  constructor(options: OllamaAnswerOptions) {
    this.#options = options;
    this.#startedAt = options.now();
  }

  /** A line without content; clients' readers reject an empty one. */
  get keepAlive(): object {
    return this.#line({ text: "" });
  }

  /** The line for a request that only loads or unloads a model. */
  loaded(reason: string): object {
    return { ...this.#line({ text: "" }), done: true, done_reason: reason };
  }

  /** The lines for the data of one event. */
  linesOf(data: Buffer): object[] {
    if (data.equals(doneMark)) return this.#lastLines();
    const chunk = parsedObject(data) ?? {};
    if (chunk.error !== undefined) return [{ error: messageIn(data) }];
    if (isObject(chunk.usage)) this.#usage = chunk.usage;
    const choice = objectOf(listOf(chunk.choices)[0]);
    this.#finish(choice.finish_reason);
    const { content, reasoning_content: thinking, refusal, tool_calls: calls } = objectOf(choice.delta);
    for (const call of listOf(calls)) this.#addCall(objectOf(call));
    if (this.#callBytes > callBytesMax) return [{ error: "The model called a tool with too many bytes." }];
    const text = (textOf(content) ?? "") + (textOf(refusal) ?? "");
    const thought = this.#options.showsThinking ? textOf(thinking) : undefined;
    if (text === "" && thought === undefined) return [];
    this.#contentAt ??= this.#options.now();
    return [{ ...this.#line({ text, ...(thought !== undefined && { thinking: thought }) }), ...logprobsOf(choice) }];
  }

  /** The response for a whole answer; undefined if it cannot be read. */
  wholeOf(bytes: Buffer): object | undefined {
    const body = parsedObject(bytes);
    if (body === undefined) return undefined;
    this.#usage = objectOf(body.usage);
    const { path, model, showsThinking } = this.#options;
    if (path === "/api/embed" || path === "/api/embeddings") {
      const embeddings = listOf(body.data).map((item) => objectOf(item).embedding);
      if (path === "/api/embeddings") return { embedding: embeddings[0] };
      const { total_duration, load_duration, prompt_eval_count } = this.#statistics();
      return { model, embeddings, total_duration, load_duration, prompt_eval_count };
    }
    const choice = objectOf(listOf(body.choices)[0]);
    const { content, refusal, reasoning_content: thinking, tool_calls: calls } = objectOf(choice.message);
    this.#finish(choice.finish_reason);
    for (const call of listOf(calls)) this.#addCall({ ...objectOf(call), index: this.#calls.length });
    const thought = showsThinking ? textOf(thinking) : undefined;
    const text = (textOf(content) ?? "") + (textOf(refusal) ?? "");
    const line = this.#line({ text, ...(thought !== undefined && { thinking: thought }), calls: this.#calls });
    return { ...line, ...this.#end(), ...logprobsOf(choice) };
  }

  #lastLines(): object[] {
    const last = { ...this.#line({ text: "" }), ...this.#end() };
    return this.#calls.length === 0 ? [last] : [this.#line({ text: "", calls: this.#calls }), last];
  }

  #finish(reason: unknown): void {
    if (reason === "length") this.#reason = "length";
  }

  #addCall({ index, function: called }: Body): void {
    const { name, arguments: input } = objectOf(called);
    const place = Number(index) || 0;
    const call = this.#calls.find((_, at) => at === place) ?? { name: "", input: [] };
    if (place >= this.#calls.length) this.#calls.push(call);
    call.name ||= textOf(name) ?? "";
    const text = textOf(input) ?? "";
    call.input.push(text);
    this.#callBytes += text.length;
  }

  #line({ text, thinking, calls = [] }: { text: string; thinking?: string; calls?: readonly Call[] }): Body {
    const { path, model, epoch } = this.#options;
    const head = { model, created_at: new Date(epoch()).toISOString() };
    const more = thinking === undefined ? {} : { thinking };
    if (path === "/api/generate") return { ...head, response: text, ...more, done: false };
    const made = calls.map(({ name, input }, index) => ({ function: { index, name, arguments: inputOf(input) } }));
    const tools = made.length === 0 ? {} : { tool_calls: made };
    return { ...head, message: { role: "assistant", content: text, ...more, ...tools }, done: false };
  }

  #end(): Body {
    return { done: true, done_reason: this.#reason, ...this.#statistics() };
  }

  #statistics() {
    const now = this.#options.now();
    const contentAt = this.#contentAt ?? now;
    return {
      total_duration: nanoseconds(now - this.#startedAt),
      load_duration: 0,
      prompt_eval_count: Number(this.#usage.prompt_tokens) || 0,
      prompt_eval_duration: nanoseconds(contentAt - this.#startedAt),
      eval_count: Number(this.#usage.completion_tokens) || 0,
      eval_duration: nanoseconds(now - contentAt),
    };
  }
}

/** The log probabilities of the text have the same form in both formats. */
function logprobsOf({ logprobs }: Body): Body {
  const list = listOf(objectOf(logprobs).content);
  return list.length === 0 ? {} : { logprobs: list };
}

const doneMark = Buffer.from("[DONE]");

/** The arguments as an object; an empty one for a call without valid arguments. */
function inputOf(parts: readonly string[]): unknown {
  try {
    const input = parseExact(parts.join(""));
    return isObject(input) ? input : {};
  } catch {
    return {};
  }
}

const lineOf = (value: object): string => `${jsonOf(value)}\n`;

export const ollamaTranslationOf = (answer: OllamaAnswer): AnswerTranslation => ({
  streamType: "application/x-ndjson",
  keepAlive: () => lineOf(answer.keepAlive),
  textOf: (data: Buffer) => answer.linesOf(data).map(lineOf).join(""),
  wholeOf(body: Buffer) {
    const whole = answer.wholeOf(body);
    return whole && jsonOf(whole);
  },
  errorOf: (_status: number, body: Buffer) => ollamaErrorOf(messageIn(body)),
  failureOf: ollamaErrorOf,
});
