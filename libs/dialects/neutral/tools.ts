/** Tool names that fit every dialect, and the mapping to the caller's names. */
import { randomBytes } from "node:crypto";
import { exceedsBounds } from "#wire/json/bounds.ts";
import { isObject, isPresent, type JsonObject, objectOf, parseExact, textOf } from "#wire/json/parse.ts";
import { JsonProgress } from "#wire/json/progress.ts";
import { argumentsBounds, toolsMax } from "../bounds.ts";
import { refuse } from "./field-support.ts";
import type { NeutralRequest, Tool } from "./neutral.ts";

/**
 * Fits all dialects: https://platform.openai.com/docs/api-reference/chat/create has the shortest
 * maximum, Google the strictest first character.
 */
const fitting = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;
const nameLengthMax = 64;

/**
 * The tools with their neutral names: the caller's own if it fits, otherwise one derived from it.
 * Two tools with the same caller's name and namespace stay separate. Throws Refusal for too many.
 */
export function namedTools(tools: readonly Omit<Tool, "name">[]): Tool[] {
  const surplus = tools[toolsMax];
  if (surplus !== undefined) refuse(surplus.path, `exceeds the maximum of ${toolsMax} tools`);
  const taken = new Set<string>();
  /** The number given to the last tool of each name. */
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

/**
 * The neutral name of a tool that the request offers, or that an earlier turn called and the
 * request no longer offers.
 */
export function toolNameOf(tools: readonly Tool[], callerName: string, namespace?: string): string {
  return offeredTool(tools, callerName, namespace)?.name ?? neutralNameOf(callerName, namespace);
}

/** The first tool that the caller offers under a name; "any" searches all namespaces. */
export function offeredTool(
  tools: readonly Tool[],
  callerName: string,
  namespace: string | undefined,
  from: "here" | "any" = "here",
): Tool | undefined {
  const { byPlace, byCallerName } = indexOf(tools);
  return from === "any" ? byCallerName.get(callerName) : byPlace.get(JSON.stringify([callerName, namespace]));
}

/** The tool of a neutral name; undefined if there is none. */
export const toolNamed = (tools: readonly Tool[], name: string) => indexOf(tools).byName.get(name);

/** The tool that a model called by its neutral name; undefined if the model made the name up. */
export const calledTool = ({ tools }: NeutralRequest, name: string) => toolNamed(tools, name);

interface ToolIndex {
  byPlace: Map<string, Tool>;
  byCallerName: Map<string, Tool>;
  byName: Map<string, Tool>;
}

/** For lists that no longer change: a conversation may have as many calls as tools. */
const indexes = new WeakMap<readonly Tool[], ToolIndex>();

function indexOf(tools: readonly Tool[]): ToolIndex {
  const cachedIndex = indexes.get(tools);
  if (cachedIndex !== undefined) return cachedIndex;
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

/**
 * The arguments schema of free text in dialects without such tools. Codex tells its models not to
 * wrap a patch in JSON, which others read as forbidding the arguments.
 * https://github.com/MetaFARS/codex-relay/pull/65
 */
export const textToolParameters = {
  type: "object",
  properties: {
    input: {
      type: "string",
      description:
        "The tool's whole input as plain text. A rule not to wrap it in JSON is about this text, not about the arguments around it.",
    },
  },
  required: ["input"],
  additionalProperties: false,
};

/**
 * The description for models that are not bound by a tool's grammar and do not know its examples;
 * undefined if there is nothing to say. `enforces`: the upstream reads the grammar itself.
 */
export function descriptionOf({ description, grammar, examples }: Tool, enforces = false): string | undefined {
  const parts = [
    description,
    grammar && !enforces && `The input must follow this ${grammar.syntax} grammar:\n${grammar.definition}`,
    examples && `Examples of the input:\n${examples.map((example) => JSON.stringify(example)).join("\n")}`,
  ].filter((part) => part !== undefined && part !== false && part !== "");
  return parts.length === 0 ? undefined : parts.join("\n\n");
}

/** The arguments of a free-text call. */
export const inputOfText = (text: string) => JSON.stringify({ input: text });

/**
 * The arguments of a call as JSON text; "" for none. Some servers and agents send them as a value,
 * and some languages an empty object as a list.
 */
export const inputTextOf = (input: unknown) =>
  typeof input === "string" ? input : isPresent(input) && !isEmptyList(input) ? JSON.stringify(input) : "";

/**
 * True for JSON text that means no arguments. PHP's agents write `[]`:
 * https://github.com/prism-php/prism/pull/896
 */
const isNothing = (input: string) => /^(?:null|\[\s*\])?$/.test(input.trim());

/**
 * The arguments of a whole call in the same form: one object, if they contain it. Servers also
 * write the object as a text in JSON (https://github.com/vllm-project/vllm/pull/54964), an empty
 * one before it (https://github.com/Wei-Shaw/sub2api/pull/6062), and brackets after it.
 */
export function wholeInputOf(input: unknown): string {
  const text = inputTextOf(input);
  const inner = jsonTextOf(text);
  const own = inner !== undefined && argumentsOf(inner) !== undefined ? inner : text;
  const object = own.replace(emptyBefore, "");
  const whole = surplusEnd.test(object.slice(-surplusLengthMax)) ? inputPartOf(object, new JsonProgress()) : object;
  return isNothing(whole) ? "" : whole;
}

const emptyBefore = /^\s*\{\s*\}(?=\s*\{)/;
const surplusEnd = /[}\]]\s*[}\]]\s*$/;
const surplusLengthMax = 16;

/**
 * The part of a chunk of a call's arguments without closing brackets behind their end, which some
 * servers write (https://github.com/vllm-project/vllm-ascend/issues/16001). `progress` follows the
 * chunks.
 */
export function inputPartOf(chunk: string, progress: JsonProgress): string {
  const end = progress.push(chunk);
  return end < chunk.length && /^[\s}\]]*$/.test(chunk.slice(end)) ? chunk.slice(0, end) : chunk;
}

const isEmptyList = (value: unknown) => Array.isArray(value) && value.length === 0;

/**
 * The schema of a tool's arguments, an object or the JSON text of one; nothing for anything else,
 * which agents write for a tool without arguments.
 */
export function parametersOf(value: unknown): Pick<Tool, "parameters"> {
  const parameters = typeof value === "string" ? argumentsOf(value) : value;
  return isObject(parameters) && !Array.isArray(parameters) ? { parameters } : {};
}

/**
 * The content of a call's result: a text or a list of parts. Agents also send what their tool
 * returned, which becomes JSON text.
 */
export function resultContentOf(value: unknown): string | unknown[] {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((part) => typeof objectOf(part).type === "string")) return value;
  return isPresent(value) ? JSON.stringify(value) : [];
}

/**
 * The free text of a call whose arguments are `{"input": "…"}`, an object with one text of another
 * name, or a JSON string; otherwise the arguments themselves.
 */
export function textOfCall(input: string): string {
  const value = argumentsOf(input);
  if (value === undefined) return jsonTextOf(input) ?? input;
  const [first, ...others] = Object.values(value);
  if (typeof value.input === "string") return value.input;
  return typeof first === "string" && others.length === 0 ? first : input;
}

function jsonTextOf(input: string): string | undefined {
  if (!input.trimStart().startsWith('"')) return undefined;
  try {
    return textOf(JSON.parse(input));
  } catch {
    return undefined;
  }
}

/**
 * A call's arguments as an object; {} for none; undefined if they are not a JSON object, or exceed
 * `argumentsBounds`.
 */
export function argumentsOf(input: string): JsonObject | undefined {
  if (isNothing(input)) return {};
  if (exceedsBounds(input, argumentsBounds)) return undefined;
  try {
    const value = parseExact(input);
    return isObject(value) && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** An id for a call whose server gave it none; unique across turns. */
export const newCallId = () => `call_${randomBytes(12).toString("hex")}`;
