/**
 * The session that a request belongs to: the name that its caller gives it, or else the beginning
 * of its conversation, which stays the same from turn to turn.
 */
import { createHash, createHmac } from "node:crypto";
import { isObject, listOf, objectOf } from "#wire/json/parse.ts";
import { sessionNameIn, sessionNameOf } from "../common/labels.ts";

type Body = Record<string, unknown>;

/** A body, or of a large one its settings with the `opener` of the whole. */
export interface SessionSource {
  body: Body;
  opener?: Opener | undefined;
  /** Set for a request that names stored objects, which are in its body by now. */
  expansion?: { readonly conversationId: string | undefined } | undefined;
}

/** The beginning of a conversation, by which it is known. */
export interface Opener {
  hash: string;
  /** More turns follow. */
  isAnswered: boolean;
}

export interface Session {
  /** A hash of its name, the same only for this key and model: 22 characters. */
  id: string;
  /**
   * Nothing but this request's own beginning says that it is a session: others that begin so may
   * have nothing to do with it.
   */
  isAssumed: boolean;
}

/** `named` by its labels. Undefined for a request without a name and a conversation. */
export function sessionOf(
  named: string | null,
  { body, opener, expansion }: SessionSource,
  scope: { keyId: string; model: string },
): Session | undefined {
  const name = named ?? sessionNameIn([objectOf(body.metadata).user_id, expansion?.conversationId]);
  const beginning = name === undefined ? (opener ?? openerOf(body)) : undefined;
  const text = beginning?.hash ?? (name === undefined ? undefined : `name ${name}`);
  if (text === undefined) return undefined;
  const id = createHmac("sha256", scope.keyId).update(`${scope.model}\n${text}`).digest("base64url").slice(0, 22);
  return { id, isAssumed: beginning?.isAnswered === false };
}

/** The characters of each part of an opener that count. */
const openerLengthMax = 4_096;

/**
 * The opener of a body that is too large to be kept; undefined for one that names its session.
 */
export const openerToKeep = (body: Body): Opener | undefined =>
  (sessionNameOf({}, body) ?? sessionNameIn([objectOf(body.metadata).user_id])) === undefined
    ? openerOf(body)
    : undefined;

/**
 * A hash of the system prompt, the tools and the user's first turn, in each dialect. Only their
 * beginnings count, so that the cost is bounded.
 */
function openerOf(body: Body): Opener | undefined {
  const { instructions, system, systemInstruction, system_instruction, tools, prompt } = body;
  const turns = listOf(body.messages ?? body.input ?? body.contents);
  const end = turns.findIndex(isOfUser);
  const opening = end < 0 ? (body.input ?? prompt) : turns.slice(0, end + 1);
  if (opening === undefined || opening === null) return undefined;
  const systems = [instructions, withoutBuild(system), systemInstruction, system_instruction];
  const hash = createHash("sha256");
  for (const part of [systems, tools, opening]) hash.update(`${excerptOf(part)}\n`);
  return { hash: hash.digest("base64url"), isAnswered: end >= 0 && end < turns.length - 1 };
}

/** A turn without a role is the user's in Gemini's format. */
const isOfUser = (turn: unknown): boolean =>
  isObject(turn) && (turn.role === "user" || (turn.role === undefined && Array.isArray(turn.parts)));

/** Claude Code's first block names its build and changes with it. */
const withoutBuild = (system: unknown): unknown =>
  Array.isArray(system)
    ? system.filter((block) => !String(objectOf(block).text).startsWith("x-anthropic-billing-header:"))
    : system;

/** Members that do not change what a part says, and that clients move or write in two ways. */
const formMembers = new Set(["type", "role", "cache_control", "prompt_cache_breakpoint"]);

/** The texts in a value, in their order. */
function excerptOf(value: unknown): string {
  let text = "";
  const add = (part: unknown): void => {
    if (text.length >= openerLengthMax) return;
    if (typeof part === "string") text += `${part.slice(0, openerLengthMax)}\n`;
    else if (Array.isArray(part)) for (const element of part) add(element);
    else if (isObject(part)) for (const name in part) if (!formMembers.has(name)) add(part[name]);
  };
  add(value);
  return text;
}
