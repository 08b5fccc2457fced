/**
 * Which call each chunk of a streamed answer belongs to, whatever indexes and ids its server gives.
 */
import type { JsonObject } from "#wire/json/parse.ts";
import { JsonProgress } from "#wire/json/progress.ts";
import { inputPartOf, newCallId } from "../neutral/tools.ts";
import { callOf, idOf } from "./answer.ts";

export interface StreamedCall {
  /** As its server gave it in the first chunk. */
  index: number | undefined;
  id: string | undefined;
  name: string;
  progress: JsonProgress;
  /**
   * All of its arguments are `{}`, or `null` or `[]`, which become it. Some servers write `{}`
   * before the arguments. https://github.com/openai/openai-agents-js/pull/712
   */
  isEmpty: boolean;
  /** The beginning of its arguments, their last character, and their length. */
  head: string;
  last: string;
  length: number;
  /** Each chunk repeats the arguments so far. */
  isCumulative: boolean;
  /**
   * From zero in the order in which calls begin: clients take it for the place in their list, and
   * some servers count the text and the reasoning before a call, too.
   * https://github.com/agentgateway/agentgateway/issues/2965
   */
  ownIndex: number;
  /** An id that no other call of the answer has. */
  ownId: string;
}

/**
 * True if a chunk begins a call although the one of its index or id has begun: some servers give
 * all calls of an answer the same index, others the same id or none. A new id alone does not begin
 * a call, because others write one with each chunk. https://github.com/ollama/ollama/issues/15457
 */
function isNext(call: StreamedCall, id: string | undefined, name: string, input: string): boolean {
  if (name === "") return false;
  const { isWhole, isBegun } = call.progress;
  const hasOtherId = id !== undefined && id !== call.id;
  if (call.name !== "" && call.name !== name) return isWhole || hasOtherId || !isBegun;
  const isRepeated = id !== undefined && input.length === call.length && input.startsWith(call.head);
  return isWhole && (hasOtherId || (input.trim() !== "" && !isRepeated));
}

const headLengthMax = 64;
const emptyArguments = /^\s*(?:\{\s*\}|\[\s*\]|null)\s*$/;
/** Where an object may begin, so that a chunk may have the call's beginning as its own. */
const beforeValue = /^[:[,]?$/;

/**
 * The part of a chunk's arguments that continues the call. Some servers repeat all arguments at the
 * end (https://github.com/anomalyco/opencode/pull/17339) or with each chunk
 * (https://github.com/NousResearch/hermes-agent/pull/35718), and clients join what they get.
 */
function addedTo(call: StreamedCall, input: string): string {
  if (input === "") return input;
  const { progress } = call;
  // Closing brackets alone are no arguments, but surplus.
  if (call.isEmpty && /[^\s}\]]/.test(input) && !emptyArguments.test(input)) {
    progress.restart();
    Object.assign(call, { isEmpty: false, head: "", last: "", length: 0 });
  }
  if (progress.isWhole) return input.trim() === "" ? input : "";
  const repeats = input.length >= call.length && input.startsWith(call.head);
  call.isCumulative ||= repeats && input.length > call.length && !beforeValue.test(call.last);
  const rest = call.isCumulative && repeats ? input.slice(call.length) : input;
  call.isEmpty = call.length === 0 && emptyArguments.test(rest);
  const added = call.isEmpty ? "{}" : rest;
  if (call.head.length < headLengthMax) call.head = (call.head + added).slice(0, headLengthMax);
  call.last = added.trimEnd().at(-1) ?? call.last;
  call.length += added.length;
  return inputPartOf(added, progress);
}

export class StreamedCalls {
  readonly #all: StreamedCall[] = [];
  readonly #byIndex = new Map<number, StreamedCall>();
  readonly #byId = new Map<string, StreamedCall>();
  #last: StreamedCall | undefined;

  get isEmpty(): boolean {
    return this.#last === undefined;
  }

  /** The arguments of a call are incomplete. */
  get hasIncomplete(): boolean {
    return this.#all.some(({ progress }) => progress.isIncomplete);
  }

  /**
   * The call of a chunk, with its name if no earlier chunk had one, and its part of the arguments.
   */
  read(chunk: JsonObject): { call: StreamedCall; isNew: boolean; name: string; input: string } {
    const { name, input } = callOf(chunk);
    const id = idOf(chunk);
    const index = typeof chunk.index === "number" ? chunk.index : undefined;
    const openCall = this.#callAt(index, id, name);
    const isNew = openCall === undefined || isNext(openCall, id, name, input);
    const call = isNew ? this.#begin(index, id, name) : openCall;
    const isNamed = !isNew && call.name !== "";
    if (!isNamed) call.name = name;
    this.#last = call;
    return { call, isNew, name: isNamed ? "" : name, input: addedTo(call, input) };
  }

  /**
   * The call that a chunk continues, if it does not begin one: that of its index, or else of its
   * id, or else the last one.
   */
  #callAt(index: number | undefined, id: string | undefined, name: string): StreamedCall | undefined {
    const sameId = id === undefined ? undefined : this.#byId.get(id);
    if (index !== undefined) return sameId?.index === index ? sameId : this.#byIndex.get(index);
    return sameId ?? (id === undefined || name === "" ? this.#last : undefined);
  }

  #begin(index: number | undefined, id: string | undefined, name: string): StreamedCall {
    const ownId = id === undefined || this.#byId.has(id) ? newCallId() : id;
    const begun = { isEmpty: false, head: "", last: "", length: 0, isCumulative: false };
    const call = { index, id, name, progress: new JsonProgress(), ...begun, ownIndex: this.#all.length, ownId };
    this.#all.push(call);
    if (index !== undefined) this.#byIndex.set(index, call);
    if (id !== undefined) this.#byId.set(id, call);
    return call;
  }
}
