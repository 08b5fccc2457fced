/**
 * Reads an upstream's answer with what its request says of calls: the names of arguments become the
 * caller's, and of several calls the first alone is delivered if the caller wants no parallel
 * calls. Gemini has no such switch, and many servers of openai-chat ignore it. An id that a server
 * repeats is replaced, because callers find a call's result by its id.
 */

import type { Codec, StreamDecoder } from "../codec.ts";
import type { ConversationDialect } from "../dialect.ts";
import type { AnswerEvent, CallStart, NeutralRequest } from "../neutral/neutral.ts";
import { newCallId } from "../neutral/tools.ts";
import { callerArgumentsOf } from "../schema/tool-schemas.ts";
import { WrappedDecoder } from "./event-decoder.ts";

type Answers = Pick<Codec, "streamDecoder" | "decodeAnswer">;

/** Reads the answers to this request. Without tools it is `answers` itself. */
export const withCallRules = (answers: Answers, request: NeutralRequest, spoken: ConversationDialect): Answers =>
  request.tools.length === 0
    ? answers
    : {
        streamDecoder: () => new RuledDecoder(answers.streamDecoder(), new CallRules(request, spoken)),
        decodeAnswer: (body) => new CallRules(request, spoken).applied(answers.decodeAnswer(body)),
      };

class RuledDecoder extends WrappedDecoder {
  readonly #rules: CallRules;

  constructor(decoder: StreamDecoder, rules: CallRules) {
    super(decoder);
    this.#rules = rules;
  }

  protected override changed(events: AnswerEvent[]): AnswerEvent[] {
    return this.#rules.applied(events);
  }
}

class CallRules {
  readonly #request: NeutralRequest;
  readonly #spoken: ConversationDialect;
  readonly #single: boolean;
  #called = false;
  readonly #ids = new Set<string>();
  /**
   * The treatment of the open call: it is left out, or its input waits for its end. Other blocks
   * pass.
   */
  #open: "omitted" | { rename: (input: string) => string; chunks: string[] } | undefined;

  constructor(request: NeutralRequest, spoken: ConversationDialect) {
    this.#request = request;
    this.#spoken = spoken;
    this.#single = request.settings.parallelCalls?.value === false;
  }

  /** The same list if it concerns no call. */
  applied(events: AnswerEvent[]): AnswerEvent[] {
    if (this.#open === undefined && !events.some(isCall)) return events;
    return events.flatMap((event) => this.#apply(event));
  }

  #apply(event: AnswerEvent): AnswerEvent[] {
    if (event.kind === "block" && event.block.kind === "call") {
      const isSurplus = this.#single && this.#called;
      this.#called = true;
      const rename = isSurplus ? undefined : callerArgumentsOf(this.#request, event.block.name, this.#spoken);
      this.#open = isSurplus ? "omitted" : rename && { rename, chunks: [] };
      return isSurplus ? [] : [{ ...event, block: this.#identified(event.block) }];
    }
    const open = this.#open;
    if (open === undefined) return [event];
    if (event.kind === "delta") {
      if (open !== "omitted") open.chunks.push(event.text);
      return [];
    }
    if (event.kind !== "block-end") return [event];
    this.#open = undefined;
    if (open === "omitted") return [];
    const text = open.rename(open.chunks.join(""));
    return text === "" ? [event] : [{ kind: "delta", text }, event];
  }

  #identified(call: CallStart): CallStart {
    const { id } = call;
    if (!this.#ids.has(id)) {
      this.#ids.add(id);
      return call;
    }
    return { ...call, id: newCallId() };
  }
}

const isCall = (event: AnswerEvent) => event.kind === "block" && event.block.kind === "call";
