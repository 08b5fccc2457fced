/** The schema of a tool as a target accepts it, and the names of its properties there and back. */

import { jsonBytesOf, jsonOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import type { ConversationDialect } from "../dialect.ts";
import type { NeutralRequest, Part, Tool } from "../neutral/neutral.ts";
import { argumentsOf, textToolParameters, toolNamed } from "../neutral/tools.ts";
import { anthropicNames, anthropicTarget } from "./anthropic.ts";
import { geminiNames, geminiTarget } from "./gemini.ts";
import { openaiTarget } from "./openai.ts";
import { type NameRule, PropertyNames, renamed } from "./property-names.ts";
import { readSchema, type SchemaTarget } from "./read.ts";
import type { Schema } from "./references.ts";
import { withObjectRoot } from "./root.ts";

const targets: Record<ConversationDialect, { target: SchemaTarget; names?: NameRule }> = {
  "openai-chat": { target: openaiTarget },
  "openai-responses": { target: openaiTarget },
  "anthropic-messages": { target: anthropicTarget, names: anthropicNames },
  gemini: { target: geminiTarget, names: geminiNames },
};

interface ToolSchema {
  schema: Schema;
  /** Undefined if all names are the caller's. */
  names: PropertyNames | undefined;
}

/**
 * Undefined parameters take no arguments. The result is kept, because the answer needs it as well.
 */
const kept: Partial<Record<ConversationDialect, WeakMap<Schema, ToolSchema>>> = {};

export function toolSchemaOf(
  { parameters, takesText }: Pick<Tool, "parameters" | "takesText">,
  dialect: ConversationDialect,
): ToolSchema {
  if (takesText === true) return { schema: textToolParameters, names: undefined };
  if (parameters === undefined) return { schema: { type: "object", properties: {} }, names: undefined };
  kept[dialect] ??= new WeakMap();
  const schemas = kept[dialect];
  const cachedSchema = schemas.get(parameters);
  if (cachedSchema !== undefined) return cachedSchema;
  const { target, names: rule } = targets[dialect];
  const root = withObjectRoot(parameters);
  const names = rule && new PropertyNames(root, rule);
  const read = readSchema(root, target, names);
  const schema: Schema = { ...read, type: "object", properties: objectOf(read.properties) };
  const made = { schema, names: names?.isEmpty === false ? names : undefined };
  schemas.set(parameters, made);
  return made;
}

/**
 * Fits the bytes of a schema to a target; the same bytes if it would change names of properties,
 * which a relayed answer could not map back.
 */
export const fittedSchema = (dialect: ConversationDialect) => (bytes: Buffer) => {
  const { schema, names } = toolSchemaOf({ parameters: parsedObject(bytes) ?? {} }, dialect);
  return names === undefined ? jsonBytesOf(schema) : bytes;
};

/**
 * The request with the target's names of properties in its earlier calls; the same one if no name
 * differs.
 */
export function withWireNames(request: NeutralRequest, dialect: ConversationDialect): NeutralRequest {
  if (targets[dialect].names === undefined) return request;
  const names = new Map(
    request.tools.flatMap((tool) => {
      const { names: own } = toolSchemaOf(tool, dialect);
      return own === undefined ? [] : [[tool.name, own] as const];
    }),
  );
  if (names.size === 0) return request;
  const named = (part: Part): Part => {
    const own = part.kind === "call" ? names.get(part.name) : undefined;
    const args = part.kind === "call" && own !== undefined ? argumentsOf(part.input) : undefined;
    return args === undefined ? part : ({ ...part, input: jsonOf(own?.toWire(args)) } as Part);
  };
  return { ...request, messages: request.messages.map((message) => ({ ...message, parts: message.parts.map(named) })) };
}

/** The target's names of a tool's arguments with the caller's; undefined if none differs. */
export function argumentNamesOf(tool: Tool, dialect: ConversationDialect): Tool["argumentNames"] {
  if (targets[dialect].names === undefined) return undefined;
  return tool.argumentNames ?? toolSchemaOf(tool, dialect).names?.pairs;
}

/**
 * Turns a call's arguments from a target into the caller's; undefined if no name of this tool
 * differs.
 */
export function callerArgumentsOf(
  request: NeutralRequest,
  name: string,
  dialect: ConversationDialect,
): ((input: string) => string) | undefined {
  const tool = toolNamed(request.tools, name);
  const pairs = tool && argumentNamesOf(tool, dialect);
  if (pairs === undefined) return undefined;
  const names = new Map(pairs);
  return (input) => {
    const args = argumentsOf(input);
    return args === undefined || input.trim() === "" ? input : jsonOf(renamed(args, names, 0));
  };
}
