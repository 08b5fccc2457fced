/** Tools and tool choice in OpenAI's Responses format, in both directions. Callers may also put tools in their input, and group them in namespaces. */
import { refuse } from "../field-support.ts";
import { isGiven, isObject, listOf, objectOf, textOf } from "../json.ts";
import type { Tool, ToolChoice } from "../neutral.ts";
import { namedTools, offeredTool, toolNamed, toolNameOf } from "../tools.ts";

type UnnamedTool = Omit<Tool, "name">;

/** All tools of a request that the caller runs. Throws Refusal for tools that the vendor runs, except those that agents offer with every request. */
export function decodeTools(body: Record<string, unknown>): Tool[] {
  const added = listOf(body.input).flatMap((value, place) => {
    const { type, tools } = objectOf(value);
    return type === "additional_tools" ? toolsIn(tools, `input[${place}].tools`) : [];
  });
  return namedTools([...toolsIn(body.tools, "tools"), ...added]);
}

function toolsIn(values: unknown, path: string, namespace?: string): UnnamedTool[] {
  return listOf(values).flatMap((value, place) => {
    const tool = objectOf(value);
    const own = `${path}[${place}]`;
    if (tool.type === "namespace" && namespace === undefined)
      return toolsIn(tool.tools, `${own}.tools`, namespaceOf(tool.name) ?? "");
    if (tool.type === "function" || tool.type === "custom") return [toolOf(tool, own, namespaceOf(namespace))];
    if (!offeredByHabit.test(String(tool.type))) refuse(`${own}.type`);
    return [];
  });
}

/** Tools that agents offer with every request, needed or not. Other tools of the vendor are essential for the answer. */
const offeredByHabit = /^(web_search|tool_search|image_generation)/;

/** This default namespace counts as none: clients treat calls with and without it alike. */
const namespaceOf = (name: unknown): string | undefined => (name === "functions" ? undefined : textOf(name));

function toolOf(tool: Record<string, unknown>, path: string, namespace: string | undefined): UnnamedTool {
  const { name, parameters, strict } = tool;
  const description = descriptionOf(tool);
  return {
    path,
    callerName: String(name),
    ...(namespace !== undefined && { namespace }),
    ...(description !== "" && { description }),
    ...(tool.type === "custom"
      ? { takesText: true }
      : {
          ...(isObject(parameters) && { parameters: objectOf(parameters) }),
          ...(typeof strict === "boolean" && { strict }),
        }),
  };
}

/** A grammar binds only its vendor's models; for others it goes into the description. */
function descriptionOf({ description, format }: Record<string, unknown>): string {
  const { type, syntax, definition } = objectOf(format);
  const grammar = type === "grammar" ? `The input must follow this ${syntax} grammar:\n${definition}` : "";
  return [textOf(description) ?? "", grammar].filter((text) => text !== "").join("\n\n");
}

/** The neutral name of a tool by its caller's name; the namespace may be omitted. */
export function neutralNameOf(tools: readonly Tool[], name: string, namespace: unknown): string {
  const wanted = namespaceOf(namespace);
  const offered =
    offeredTool(tools, name, wanted) ?? (wanted === undefined ? offeredTool(tools, name, wanted, "any") : undefined);
  return offered?.name ?? toolNameOf(tools, name, wanted);
}

const path = "tool_choice";

export function decodeToolChoice(choice: unknown, tools: readonly Tool[]): ToolChoice | undefined {
  if (!isGiven(choice)) return undefined;
  if (choice === "auto" || choice === "none") return tools.length > 0 ? { mode: choice, path } : undefined;
  if (choice === "required")
    return tools.length > 0
      ? { mode: choice, path }
      : refuse(path, "requires a call, but the upstream of this model supports none of the tools");
  const { type, mode, tools: allowed } = objectOf(choice);
  if (type === "allowed_tools" && mode !== "auto" && mode !== "required")
    refuse(`${path}.mode`, "must be auto or required");
  if (isCallers(choice)) return { mode: "required", only: [chosenIn(choice, tools)], path };
  if (type !== "allowed_tools")
    return refuse(path, `requires ${JSON.stringify(type)}, which the upstream of this model does not support`);
  const only = listOf(allowed)
    .filter(isCallers)
    .map((reference) => chosenIn(reference, tools));
  if (only.length > 0) return { mode: mode === "required" ? "required" : "auto", only, path };
  const types = listOf(allowed).map((reference) => String(objectOf(reference).type));
  return mode === "required"
    ? refuse(path, `requires one of ${JSON.stringify(types)}, none of which the upstream of this model supports`)
    : { mode: "none", path };
}

const isCallers = (reference: unknown): boolean => ["function", "custom"].includes(String(objectOf(reference).type));

function chosenIn(reference: unknown, tools: readonly Tool[]): string {
  const { name, namespace } = objectOf(reference);
  const neutral = neutralNameOf(tools, String(name), namespace);
  return toolNamed(tools, neutral) !== undefined
    ? neutral
    : refuse(path, `names a tool that is not offered: ${JSON.stringify(name)}`);
}

export function encodeTool({ name, description, parameters, strict, takesText }: Tool): object {
  const described = { name, description };
  if (takesText === true) return { type: "custom", ...described };
  const schema = parameters ?? { type: "object", properties: {}, required: [], additionalProperties: false };
  return { type: "function", ...described, parameters: schema, strict: strict === true && fitsStrict(schema) };
}

export function encodeToolChoice({ mode, only }: ToolChoice, tools: readonly Tool[]): string | object {
  if (only === undefined || mode === "none") return mode;
  const references = only.map((name) => ({
    type: toolNamed(tools, name)?.takesText === true ? "custom" : "function",
    name,
  }));
  const [first, ...others] = references;
  return mode === "required" && first !== undefined && others.length === 0
    ? first
    : { type: "allowed_tools", mode, tools: references };
}

/**
 * True if a schema may be marked strict, which requires that every object lists all properties as required and allows no others.
 * https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */
export function fitsStrict(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(fitsStrict);
  if (!isObject(schema)) return true;
  const { type, properties, required, additionalProperties, ...others } = schema;
  const names = Object.keys(objectOf(properties));
  const demanded = new Set(listOf(required));
  const isOfObjects = type === "object" || properties !== undefined || (Array.isArray(type) && type.includes("object"));
  if (isOfObjects && (additionalProperties !== false || names.some((name) => !demanded.has(name)))) return false;
  if (["allOf", "oneOf", "not", "if"].some((keyword) => keyword in others)) return false;
  const { items, anyOf, $defs, definitions } = others;
  return [
    ...Object.values(objectOf(properties)),
    items,
    anyOf,
    ...Object.values(objectOf($defs)),
    ...Object.values(objectOf(definitions)),
  ].every(fitsStrict);
}
