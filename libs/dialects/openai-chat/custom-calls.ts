/**
 * Calls in answers that otherwise pass unchanged. Each gets an id and a type; arguments that a
 * server sends as a value become text, and function calls of tools with free text the custom calls
 * that the caller expects; the end of a call that was cut off is not that of a call.
 */
import { isObject, isPresent, type JsonObject, jsonOf, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { endingWithCalls, finishOf, reasonIn } from "../neutral/finish.ts";
import { inputTextOf, newCallId, textOfCall, wholeInputOf } from "../neutral/tools.ts";
import { finishNameOf, idOf } from "./answer.ts";

export type Names = ReadonlySet<string>;

/** The call with its arguments as text; the same one if they are. */
export function withTextArguments(call: JsonObject): JsonObject {
  const called = objectOf(call.function);
  if (typeof called.arguments === "string" || !isPresent(called.arguments)) return call;
  return { ...call, function: { ...called, arguments: inputTextOf(called.arguments) || "{}" } };
}

/** The chunk of a call with these arguments; the same one if it has them, or has none as text. */
export function withArguments(call: JsonObject, input: string): JsonObject {
  const called = objectOf(call.function);
  if (typeof called.arguments !== "string" || called.arguments === input) return call;
  return { ...call, function: { ...called, arguments: input } };
}

/**
 * The call, where it begins, with this id and a type, without which clients fail
 * (https://github.com/vercel/ai/issues/18440, https://github.com/vercel/ai/pull/12901); the same
 * one if it has both.
 */
export function withIdentity(call: JsonObject, ownId: string): JsonObject {
  const { id, type, custom } = call;
  if (id === ownId && textOf(type) !== undefined) return call;
  return { ...call, id: ownId, type: textOf(type) ?? (isObject(custom) ? "custom" : "function") };
}

/**
 * A later chunk of a call without an id and a repeated name: clients take any id, also a blank one,
 * for another call (https://github.com/spring-projects/spring-ai/issues/6591), and join the names
 * (https://github.com/NousResearch/hermes-agent/pull/12230). The same one if it has neither, nor a
 * blank type.
 */
export function withoutIdentity(call: JsonObject, isNamed: boolean): JsonObject {
  const { id, type, ...others } = call;
  const { name, ...called } = objectOf(call.function);
  const isRepeated = isNamed && textOf(name) !== undefined;
  if (!isPresent(id) && type !== "" && !isRepeated) return call;
  return isRepeated ? { ...others, function: called } : others;
}

/** A whole call as the caller gets it; the same one if it needs no change. */
function callFor(value: unknown, names: Names | undefined): unknown {
  if (!isObject(value)) return value;
  const call = withIdentity(value, idOf(value) ?? newCallId());
  const { function: called, ...others } = call;
  if (!isObject(called)) return call;
  const { name, arguments: sent } = called;
  if (names?.has(String(name)) === true)
    return { ...others, type: "custom", custom: { name, input: textOfCall(inputTextOf(sent)) } };
  const input = wholeInputOf(sent) || "{}";
  return input === sent ? call : { ...call, function: { ...called, arguments: input } };
}

/** The calls of a choice, as far as its end depends on them. */
interface EndingCalls {
  hasCalls: boolean;
  /** The arguments of a call are incomplete. */
  isCut: () => boolean;
  /** An answer with calls may stop, because the request names the tool. */
  mayStop: boolean;
}

/**
 * The choice with one of OpenAI's reasons for its end, because strict clients know no others: a
 * known word of another vendor is translated. One of its calls was cut off: `length`. A stop after
 * calls is `tool_calls`, and `tool_calls` without any is a stop
 * (https://github.com/Kilo-Org/kilocode/pull/7773): agents wait for what the reason says. The same
 * choice otherwise.
 */
export function withEnding(choice: JsonObject, { hasCalls, isCut, mayStop }: EndingCalls): JsonObject {
  const reason = reasonIn(choice.finish_reason) ?? "";
  const meant = finishOf(reason, hasCalls && !mayStop);
  if (meant === undefined) return choice;
  const finish = endingWithCalls(meant, { called: hasCalls, isCut: hasCalls && isCut() });
  const isOwn =
    finish === finishOf(reason, false) && /^(?:stop|length|tool_calls|content_filter|function_call)$/.test(reason);
  return isOwn ? choice : { ...choice, finish_reason: finishNameOf(finish, false) };
}

/** The calls of a message as the caller gets them; the same list if none changes. */
export function callsFor(calls: unknown[], names: Names | undefined): unknown[] {
  const own = calls.map((call) => callFor(call, names));
  return own.every((call, place) => call === calls[place]) ? calls : own;
}

/**
 * Holds back the chunks of such calls in a stream until they are complete, because their text is
 * only then certain.
 */
export class CustomCalls {
  readonly #names: Names;
  /** By the choice's and the call's index. */
  readonly #open = new Map<string, { choice: unknown; call: JsonObject; name: string; input: string }>();

  constructor(names: Names) {
    this.#names = names;
  }

  /**
   * The chunks in place of this one as JSON, none if it says nothing else; undefined if it stays.
   */
  chunksFor(chunk: JsonObject): string[] | undefined {
    let isChanged = false;
    const before: JsonObject[] = [];
    const choices = listOf(chunk.choices).map((value) => {
      const choice = objectOf(value);
      const delta = objectOf(choice.delta);
      const calls = listOf(delta.tool_calls);
      const kept = calls.filter((call) => !this.#take(choice.index ?? 0, objectOf(call)));
      const isOver = textOf(choice.finish_reason) !== undefined;
      const complete = isOver ? this.#complete(choice.index ?? 0) : [];
      if (complete.length > 0) before.push({ ...choice, delta: { tool_calls: complete }, finish_reason: null });
      if (kept.length === calls.length && complete.length === 0) return value;
      isChanged = true;
      const { tool_calls: _, ...others } = delta;
      return { ...choice, delta: kept.length > 0 ? { ...others, tool_calls: kept } : others };
    });
    if (!isChanged) return undefined;
    const chunks = before.map((choice) => jsonOf({ ...chunk, usage: null, choices: [choice] }));
    return choices.some(says) ? [...chunks, jsonOf({ ...chunk, choices })] : chunks;
  }

  /** True if the chunk of a call is held back. */
  #take(choice: unknown, call: JsonObject): boolean {
    const key = `${choice} ${call.index ?? 0}`;
    const { name, arguments: input } = objectOf(call.function);
    const open = this.#open.get(key);
    if (open !== undefined) {
      open.input += textOf(input) ?? "";
      return true;
    }
    if (!this.#names.has(String(name))) return false;
    const { function: _, ...others } = call;
    this.#open.set(key, { choice, call: others, name: String(name), input: textOf(input) ?? "" });
    return true;
  }

  #complete(choice: unknown): JsonObject[] {
    const calls: JsonObject[] = [];
    for (const [key, open] of this.#open)
      if (open.choice === choice) {
        calls.push({ ...open.call, type: "custom", custom: { name: open.name, input: textOfCall(open.input) } });
        this.#open.delete(key);
      }
    return calls;
  }
}

/** True if a choice has content or an end. */
const says = (value: unknown): boolean => {
  const { delta, finish_reason: reason } = objectOf(value);
  return (
    textOf(reason) !== undefined || Object.values(objectOf(delta)).some((member) => member !== null && member !== "")
  );
};
