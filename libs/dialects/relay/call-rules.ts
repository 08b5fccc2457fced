/**
 * Reads an upstream's answer with what its request says of calls: the names of arguments become the
 * caller's, and of several calls the first alone is delivered if the caller wants no parallel
 * calls. Gemini has no such switch, and many servers of openai-chat ignore it. An id that a server
 * repeats is replaced, because callers find a call's result by its id. Arguments become one object,
 * if they contain it.
 */

import { JsonProgress } from "#wire/json/progress.ts";
import type { Codec, StreamDecoder } from "../codec.ts";
import type { ConversationDialect } from "../dialect.ts";
import type { AnswerEvent, CallStart, NeutralRequest } from "../neutral/neutral.ts";
import { inputPartOf, newCallId, wholeInputOf } from "../neutral/tools.ts";
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

/** Arguments that pass as they come: only those of an object with members have no other form. */
const objectStart = /^\s*\{\s*[^\s}]/;
const headLengthMax = 64;

/** A call whose arguments wait, for their end if they have to be read as a whole. */
interface WaitingCall {
  rename: ((input: string) => string) | undefined;
  chunks: string[];
  head: string;
}

class CallRules {
  readonly #request: NeutralRequest;
  readonly #spoken: ConversationDialect;
  readonly #single: boolean;
  #called = false;
  readonly #ids = new Set<string>();
  /**
   * The treatment of the open call: it is left out, its arguments wait, or they pass. Other blocks
   * pass.
   */
  #open: "omitted" | WaitingCall | JsonProgress | undefined;

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
      this.#open = isSurplus ? "omitted" : { rename, chunks: [], head: "" };
      return isSurplus ? [] : [{ ...event, block: this.#identified(event.block) }];
    }
    const open = this.#open;
    if (open === undefined) return [event];
    if (event.kind === "delta") return open === "omitted" ? [] : deltaOf(this.#passing(open, event.text));
    if (event.kind !== "block-end") return [event];
    this.#open = undefined;
    if (open === "omitted") return [];
    return open instanceof JsonProgress ? [event] : [...deltaOf(endedInputOf(open)), event];
  }

  /** The part of the arguments that passes with this chunk. */
  #passing(open: WaitingCall | JsonProgress, chunk: string): string {
    if (open instanceof JsonProgress) return inputPartOf(chunk, open);
    open.chunks.push(chunk);
    if (open.rename !== undefined || open.head.length >= headLengthMax) return "";
    open.head += chunk;
    if (!objectStart.test(open.head)) return "";
    this.#open = new JsonProgress();
    return inputPartOf(open.head, this.#open);
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

const deltaOf = (text: string): AnswerEvent[] => (text === "" ? [] : [{ kind: "delta", text }]);

function endedInputOf({ rename, chunks }: WaitingCall): string {
  const input = wholeInputOf(chunks.join(""));
  return rename === undefined ? input : rename(input);
}

const isCall = (event: AnswerEvent) => event.kind === "block" && event.block.kind === "call";
