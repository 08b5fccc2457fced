/** Names of tools that fit every dialect, and the way back to what the caller wrote. */

import { randomBytes } from "node:crypto";
import { argumentsDepthMax, toolsMax } from "./bounds.ts";
import { refuse } from "./field-support.ts";
import { isGiven, isObject, nestsDeeperThan, parseExact } from "./json.ts";
import type { NeutralRequest, Tool } from "./neutral.ts";

/** Fits all of them: https://platform.openai.com/docs/api-reference/chat/create has the shortest and Google's the strictest beginning. */
const fitting = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
const nameLengthMax = 64;

/**
 * The tools with their neutral names: the caller's own where it fits, else one made of it. Two tools of one caller's name and namespace stay two. Throws
 * Refusal for too many.
 */
export function namedTools(tools: readonly Omit<Tool, "name">[]): Tool[] {
  const surplus = tools[toolsMax];
  if (surplus !== undefined) refuse(surplus.path, `is one tool too many: there may be ${toolsMax} at most`);
  const taken = new Set<string>();
  /** The number that the last tool of this name got. */
  const numbers = new Map<string, number>();
  return tools.map((tool) => {
    const wished = neutralNameOf(tool.callerName, tool.namespace);
    let name = wished;
    for (let number = numbers.get(wished) ?? 2; taken.has(name); number++) {
      name = `${wished.slice(0, nameLengthMax - 1 - String(number).length)}_${number}`;
      numbers.set(wished, number);
    }
    taken.add(name);
    return { ...tool, name };
  });
}

/** The neutral name of a tool that the request offers, or of one that an earlier turn called and that is offered no more. */
export function toolNameOf(tools: readonly Tool[], callerName: string, namespace?: string): string {
  return offeredTool(tools, callerName, namespace)?.name ?? neutralNameOf(callerName, namespace);
}

/** The first tool that the caller offers under a name; "any" takes it from whichever namespace. */
export function offeredTool(
  tools: readonly Tool[],
  callerName: string,
  namespace: string | undefined,
  from: "here" | "any" = "here",
): Tool | undefined {
  const { byPlace, byCallerName } = indexOf(tools);
  return from === "any" ? byCallerName.get(callerName) : byPlace.get(JSON.stringify([callerName, namespace]));
}

/** The tool of a neutral name; undefined when there is none. */
export const toolNamed = (tools: readonly Tool[], name: string): Tool | undefined => indexOf(tools).byName.get(name);

/** The tool that a model called by its neutral name; undefined when it made the name up. */
export const calledTool = ({ tools }: NeutralRequest, name: string): Tool | undefined => toolNamed(tools, name);

interface ToolIndex {
  byPlace: Map<string, Tool>;
  byCallerName: Map<string, Tool>;
  byName: Map<string, Tool>;
}

/** Of lists that do not change any more: there may be as many calls in a conversation as there are tools. */
const indexes = new WeakMap<readonly Tool[], ToolIndex>();

function indexOf(tools: readonly Tool[]): ToolIndex {
  const known = indexes.get(tools);
  if (known !== undefined) return known;
  const index: ToolIndex = { byPlace: new Map(), byCallerName: new Map(), byName: new Map() };
  for (const tool of tools.toReversed()) {
    index.byPlace.set(JSON.stringify([tool.callerName, tool.namespace]), tool);
    index.byCallerName.set(tool.callerName, tool);
    index.byName.set(tool.name, tool);
  }
  indexes.set(tools, index);
  return index;
}

function neutralNameOf(callerName: string, namespace: string | undefined): string {
  const whole = namespace === undefined ? callerName : `${namespace}__${callerName}`;
  if (fitting.test(whole)) return whole;
  const safe = whole.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, nameLengthMax);
  return /^[A-Za-z_]/.test(safe) ? safe : `_${safe}`.slice(0, nameLengthMax);
}

/** The arguments schema that stands for free text in dialects without such tools. */
export const textToolParameters = {
  type: "object",
  properties: { input: { type: "string" } },
  required: ["input"],
  additionalProperties: false,
};

/** The arguments that stand for free text. */
export const inputOfText = (text: string): string => JSON.stringify({ input: text });

/** The arguments of a call as JSON text, which some servers send as a value; "" for none. */
export const inputTextOf = (input: unknown): string =>
  typeof input === "string" ? input : isGiven(input) ? JSON.stringify(input) : "";

/** The free text of a call whose arguments are `{"input": "…"}`; the arguments themselves when they are anything else. */
export function textOfCall(input: string): string {
  const value = argumentsOf(input)?.input;
  return typeof value === "string" ? value : input;
}

/** A call's arguments as an object; {} for none; undefined when they are no JSON object, or nested deeper than 200 levels. */
export function argumentsOf(input: string): Record<string, unknown> | undefined {
  if (input.trim() === "") return {};
  if (nestsDeeperThan(input, argumentsDepthMax)) return undefined;
  try {
    const value = parseExact(input);
    return isObject(value) && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** An id for a call whose server gave it none: never the same in two turns. */
export const newCallId = (): string => `call_${randomBytes(12).toString("hex")}`;
