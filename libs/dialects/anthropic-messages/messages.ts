/**
 * The turns of a conversation in Anthropic's Messages format, in both directions, and their
 * required order.
 */

import { type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import type { Target } from "../codec.ts";
import { cacheControlOf } from "../neutral/cache-marks.ts";
import { refuse } from "../neutral/field-support.ts";
import { markedInstruction, openingTurn } from "../neutral/history.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import {
  type CallPart,
  type Message,
  type NeutralRequest,
  type Part,
  type ReasoningPart,
  type ResultPart,
  type TextPart,
  type Tool,
  turnsOf,
} from "../neutral/neutral.ts";
import { originOf } from "../neutral/wrapped-signature.ts";
import { dialect, encodePart, partsOf } from "./blocks.ts";
import { cacheOf, type WireBlock } from "./cache.ts";

const messagesMax = 100_000;
/** A coding agent sends this billing information to its vendor as if it were an instruction. */
const billingHeader = "x-anthropic-billing-header:";

export function decodeConversation(
  body: JsonObject,
  tools: readonly Tool[],
): { system: TextPart[]; messages: Message[] } {
  const system = textsOf(body.system, "system", tools).filter(({ text }) => !text.startsWith(billingHeader));
  const messages: Message[] = [];
  const called = new Map<string, string>();
  const values = listOf(body.messages).map(objectOf);
  const lastUser = values.findLastIndex(({ role }) => role === "user");
  for (const [place, { role, content, clear_at: clearAt }] of values.entries()) {
    const path = `messages[${place}]`;
    switch (role) {
      case "user": {
        const parts = partsOf(content, `${path}.content`, tools, called);
        messages.push({
          role,
          parts: parts.map((part) => (part.kind === "call" || part.kind === "reasoning" ? refuse(part.path) : part)),
          path,
        });
        break;
      }
      case "assistant": {
        const parts = partsOf(content, `${path}.content`, tools, called);
        for (const part of parts)
          if (part.kind === "call") called.set(part.id, part.name);
          else if (part.kind !== "text" && part.kind !== "reasoning") refuse(part.path);
        messages.push({ role, parts, path });
        break;
      }
      case "system": {
        if (clearAt === "next_user_message" && place < lastUser) break;
        const texts = textsOf(content, `${path}.content`, tools);
        if (messages.length === 0) for (const one of texts) system.push(one);
        else messages.push({ role, parts: texts, path });
        break;
      }
      default:
        refuse(`${path}.role`);
    }
  }
  const last = messages.at(-1)?.parts.at(-1);
  if (last !== undefined && last.cache === undefined) Object.assign(last, cacheOf(body.cache_control));
  return { system, messages };
}

const textsOf = (content: unknown, path: string, tools: readonly Tool[]) =>
  partsOf(content, path, tools, new Map()).map((part) =>
    part.kind === "text" ? part : refuse(part.path, "must be text"),
  );

interface WireConversation {
  system: WireBlock[];
  messages: { role: Message["role"]; content: WireBlock[] }[];
  /** The names of the tools called so far. */
  called: Set<string>;
}

/** Throws Refusal for a conversation that cannot be brought into the format's order. */
export function encodeConversation(
  { system, messages }: NeutralRequest,
  { model, traits }: Pick<Target, "model" | "traits">,
): WireConversation {
  const readable = messages.map((message) => readableOf(message, traits, originOf(model)));
  const turns = turnsOf(resultsBeforeSystem(turnsOf(turnsOf(readable).map(withoutTrailingThought))));
  const leading = turns[0]?.role === "system" ? (turns.shift() as Message).parts : [];
  const instructions = [...system, ...leading].filter((part) => part.kind === "text").filter(hasText);
  const [first] = turns;
  if (first === undefined) {
    if (instructions.length === 0)
      refuse(messages[0]?.path ?? "messages", "must have content for the upstream of this model");
    return { system: [], messages: [{ role: "user", content: instructions.map(encodeText) }], called: new Set() };
  }
  const surplus = turns[messagesMax];
  if (surplus !== undefined)
    refuse(surplus.path, `exceeds the limit of the upstream of this model: ${messagesMax} messages`);
  if (first.role !== "user") turns.unshift(openingTurn(first.path));
  const last = turns.findLast(({ role }) => role !== "system");
  if (last?.role === "assistant") trimEnd(last);
  const idOf = idsOf(turns);
  const calls = turns.flatMap(({ parts }) => parts.filter((part) => part.kind === "call"));
  return {
    system: instructions.map(encodeText),
    messages: turns.map(({ role, parts }) => ({ role, content: parts.map((part) => encodePart(part, idOf)) })),
    called: new Set(calls.map(({ name }) => name)),
  };
}

const encodeText = (part: TextPart): WireBlock => ({ type: "text", text: part.text, ...cacheControlOf(part) });

/** False for a text of white space only, which the format rejects. */
const hasText = (part: Part) => (part.kind !== "text" && part.kind !== "refusal") || part.text.trim() !== "";

/**
 * A message as the upstream accepts it: reasoning of its own dialect only, and system messages as
 * user messages if the model accepts no others.
 */
function readableOf(
  { role, parts, path }: Message,
  { systemTurns, boundThinking }: ModelTraits,
  origin: string,
): Message {
  const isReadable = ({ signature }: ReasoningPart) =>
    signature?.dialect === dialect && (!boundThinking || signature.origin === undefined || signature.origin === origin);
  const kept = parts
    .filter((part) => hasText(part) && (part.kind !== "reasoning" || isReadable(part)))
    .map((part) => (part.kind === "result" ? { ...part, content: part.content.filter(hasText) } : part));
  if (role !== "system" || systemTurns) return { role, parts: kept, path };
  const wrapped = kept.map((part) => (part.kind === "text" ? { ...part, text: markedInstruction(part.text) } : part));
  return { role: "user", parts: wrapped, path };
}

/** A turn must not end with thinking, which happens if an answer was cut off. */
function withoutTrailingThought(turn: Message): Message {
  const end = turn.parts.findLastIndex(({ kind }) => kind !== "reasoning") + 1;
  return { ...turn, parts: turn.parts.slice(0, end) };
}

/** Nothing may come between calls and their results. */
function resultsBeforeSystem(turns: readonly Message[]): Message[] {
  const ordered: Message[] = [];
  let waiting: Message[] = [];
  for (const turn of turns) {
    const before = ordered.at(-1);
    if (turn.role === "system" && before?.role === "assistant" && before.parts.some(({ kind }) => kind === "call"))
      waiting.push(turn);
    else {
      ordered.push(turn, ...waiting);
      waiting = [];
    }
  }
  return [...ordered, ...waiting];
}

function trimEnd(turn: Message): void {
  const last = turn.parts.at(-1);
  if (last?.kind === "text" || last?.kind === "refusal")
    turn.parts[turn.parts.length - 1] = { ...last, text: last.text.trimEnd() };
}

/**
 * Wire ids for the caller's call ids: they use the format's alphabet, and each names one call.
 * Throws Refusal for a call that the next turn does not answer, and for a result without a call.
 */
function idsOf(turns: readonly Message[]): (part: CallPart | ResultPart) => string {
  const ids = new Map<CallPart | ResultPart, string>();
  const freeId = freeIds();
  for (const [place, { role, parts }] of turns.entries()) {
    if (role !== "assistant") continue;
    const calls = parts.filter((part) => part.kind === "call");
    for (const call of calls) ids.set(call, freeId(call.id));
    const open = new Map<string, CallPart[]>();
    for (const call of calls.toReversed()) {
      const same = open.get(call.id);
      if (same === undefined) open.set(call.id, [call]);
      else same.push(call);
    }
    for (const result of turns[place + 1]?.parts ?? []) {
      const call = result.kind === "result" ? open.get(result.callId)?.pop() : undefined;
      if (result.kind === "result" && call !== undefined) ids.set(result, ids.get(call) as string);
    }
    const unanswered = calls.find(({ id }) => (open.get(id)?.length ?? 0) > 0);
    if (unanswered !== undefined)
      refuse(unanswered.path, "must be followed directly by its result for the upstream of this model");
  }
  return (part) => ids.get(part) ?? refuse(part.path, "does not match a call of the previous turn");
}

/** The id itself if it is valid and unused; otherwise a valid one with a number. */
function freeIds(): (id: string) => string {
  const taken = new Set<string>();
  const numbers = new Map<string, number>();
  return (id) => {
    const wished = id.replace(/[^a-zA-Z0-9_-]/g, "_") || "call";
    let free = wished;
    let number = numbers.get(wished) ?? 1;
    while (taken.has(free)) free = `${wished}_${++number}`;
    numbers.set(wished, number);
    taken.add(free);
    return free;
  };
}
