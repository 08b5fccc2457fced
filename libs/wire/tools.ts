/** Names of tools that fit every dialect, and the way back to what the caller wrote. */
import type { NeutralRequest, Tool } from "./neutral.ts";

/** Fits all of them: https://platform.openai.com/docs/api-reference/chat/create has the shortest and Google's the strictest beginning. */
const fitting = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
const nameLengthMax = 64;

/** The tools with their neutral names: the caller's own where it fits, else one made of it. Two tools of one caller's name and namespace stay two. */
export function namedTools(tools: readonly Omit<Tool, "name">[]): Tool[] {
  const taken = new Set<string>();
  return tools.map((tool) => {
    const wished = neutralNameOf(tool.callerName, tool.namespace);
    let name = wished;
    for (let number = 2; taken.has(name); number++) name = `${wished.slice(0, nameLengthMax - 1 - String(number).length)}_${number}`;
    taken.add(name);
    return { ...tool, name };
  });
}

/** The neutral name of a tool that the request offers, or of one that an earlier turn called and that is offered no more. */
export function toolNameOf(tools: readonly Tool[], callerName: string, namespace?: string): string {
  return tools.find((tool) => tool.callerName === callerName && tool.namespace === namespace)?.name ?? neutralNameOf(callerName, namespace);
}

/** The tool that a model called by its neutral name; undefined when it made the name up. */
export const calledTool = ({ tools }: NeutralRequest, name: string): Tool | undefined => tools.find((tool) => tool.name === name);

function neutralNameOf(callerName: string, namespace: string | undefined): string {
  const whole = namespace === undefined ? callerName : `${namespace}__${callerName}`;
  if (fitting.test(whole)) return whole;
  const safe = whole.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, nameLengthMax);
  return /^[A-Za-z_]/.test(safe) ? safe : `_${safe}`.slice(0, nameLengthMax);
}

/** The arguments schema that stands for free text in dialects without such tools. */
export const textToolParameters = { type: "object", properties: { input: { type: "string" } }, required: ["input"], additionalProperties: false };

/** The arguments that stand for free text. */
export const inputOfText = (text: string): string => JSON.stringify({ input: text });

/** The free text of a call whose arguments are `{"input": "…"}`; the arguments themselves when they are anything else. */
export function textOfCall(input: string): string {
  const value = argumentsOf(input)?.input;
  return typeof value === "string" ? value : input;
}

/** A call's arguments as an object; {} for none; undefined when they are no JSON object. */
export function argumentsOf(input: string): Record<string, unknown> | undefined {
  if (input.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(input);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
