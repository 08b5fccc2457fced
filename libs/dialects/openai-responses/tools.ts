/**
 * Tools and tool choice in OpenAI's Responses format, in both directions. Callers may also put
 * tools in their input, and group them in namespaces.
 */

import { defined, flagOf, isPresent, type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { refuse } from "../neutral/field-support.ts";
import type { NeutralRequest, Part, Tool, ToolChoice } from "../neutral/neutral.ts";
import {
  descriptionOf,
  namedTools,
  offeredTool,
  parametersOf,
  textToolParameters,
  toolNamed,
  toolNameOf,
} from "../neutral/tools.ts";
import { isDispensable } from "../neutral/vendor-tools.ts";
import { strictSchemaOf } from "../schema/openai.ts";
import { toolSchemaOf } from "../schema/tool-schemas.ts";
import { clientToolOf, clientTypeOf, namespaceOf } from "./client-tools.ts";

type UnnamedTool = Omit<Tool, "name">;

/**
 * All tools of a request that the caller runs. Throws Refusal for tools that the vendor runs,
 * except those that a model can do without.
 */
export function decodeTools(body: JsonObject): Tool[] {
  const added = listOf(body.input).flatMap((value, place) => {
    const { type, tools } = objectOf(value);
    return type === "additional_tools" || type === "tool_search_output" ? toolsIn(tools, `input[${place}].tools`) : [];
  });
  const offered = toolsIn(body.tools, "tools");
  return namedTools(added.length === 0 ? offered : lastOfEach([...offered, ...added]));
}

/** A search may load a tool that is already offered. */
function lastOfEach(tools: readonly UnnamedTool[]): UnnamedTool[] {
  const places = new Map(tools.map((tool) => [JSON.stringify([tool.callerName, tool.namespace]), tool]));
  return [...places.values()];
}

function toolsIn(values: unknown, path: string, namespace?: string): UnnamedTool[] {
  return listOf(values).flatMap((value, place) => {
    const tool = objectOf(value);
    const own = `${path}[${place}]`;
    if (tool.type === "namespace")
      return namespace === undefined ? toolsIn(tool.tools, `${own}.tools`, namespaceOf(tool.name) ?? "") : [];
    if (tool.type === "function" || tool.type === "custom") return [toolOf(tool, own, namespaceOf(namespace))];
    const clientTool = clientToolOf(tool);
    if (clientTool !== undefined) return [{ path: own, ...clientTool }];
    if (!isDispensable(tool.type))
      refuse(
        `${own}.type`,
        `is ${JSON.stringify(tool.type)}, which the upstream of this model does not support: it takes functions and tools that the caller runs`,
      );
    return [];
  });
}

function toolOf(tool: JsonObject, path: string, namespace: string | undefined): UnnamedTool {
  const { name, description, parameters, strict } = tool;
  return {
    path,
    callerName: String(name),
    ...defined({ namespace, description: textOf(description) }),
    ...(tool.type === "custom"
      ? { takesText: true, ...grammarOf(tool.format) }
      : {
          ...parametersOf(parameters),
          ...defined({ strict: flagOf(strict) }),
        }),
  };
}

/** The grammar of a custom tool's `format`; nothing for free text. */
export function grammarOf(format: unknown): Pick<Tool, "grammar"> {
  const { type, syntax, definition } = objectOf(format);
  return type === "grammar" ? { grammar: { syntax: String(syntax), definition: String(definition) } } : {};
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
  if (!isPresent(choice)) return undefined;
  if (choice === "auto" || choice === "none") return tools.length > 0 ? { mode: choice, path } : undefined;
  if (choice === "required")
    return tools.length > 0
      ? { mode: choice, path }
      : refuse(path, "requires a call, but the upstream of this model supports none of the tools");
  const { type, mode, tools: allowed } = objectOf(choice);
  if (type === "allowed_tools" && mode !== "auto" && mode !== "required")
    refuse(`${path}.mode`, "must be auto or required");
  if (isCallers(choice, tools)) return { mode: "required", only: [chosenIn(choice, tools)], path };
  if (type !== "allowed_tools")
    return refuse(path, `requires ${JSON.stringify(type)}, which the upstream of this model does not support`);
  const only = listOf(allowed)
    .filter((reference) => isCallers(reference, tools))
    .map((reference) => chosenIn(reference, tools));
  if (only.length > 0) return { mode: mode === "required" ? "required" : "auto", only, path };
  const types = listOf(allowed).map((reference) => String(objectOf(reference).type));
  return mode === "required"
    ? refuse(path, `requires one of ${JSON.stringify(types)}, none of which the upstream of this model supports`)
    : { mode: "none", path };
}

/** True if a choice names a tool that the caller runs. */
const isCallers = (reference: unknown, tools: readonly Tool[]): boolean => {
  const { type } = objectOf(reference);
  return type === "function" || type === "custom" || clientToolAmong(tools, type) !== undefined;
};

const clientToolAmong = (tools: readonly Tool[], type: unknown) =>
  typeof type === "string" ? tools.find((tool) => clientTypeOf(tool) === type) : undefined;

function chosenIn(reference: unknown, tools: readonly Tool[]): string {
  const { type, name, namespace } = objectOf(reference);
  const clientTool = clientToolAmong(tools, type);
  if (clientTool !== undefined) return clientTool.name;
  const neutral = neutralNameOf(tools, String(name), namespace);
  return toolNamed(tools, neutral) !== undefined
    ? neutral
    : refuse(path, `names a tool that is not offered: ${JSON.stringify(name)}`);
}

/** Members of requests that only an upstream with more than functions takes. */
const otherTools = [
  "namespace",
  "custom",
  "tool_search",
  "local_shell",
  "shell",
  "apply_patch",
  "computer",
  "web_",
  "image_",
  "additional_tools",
  "agent_message",
];

/** True if a body may have tools, or calls of tools, that are no functions. */
export const mayHaveOtherTools = (body: Buffer) => otherTools.some((type) => body.includes(`"${type}`));

/** The request for an upstream that knows functions only. */
export const withFunctionsOnly = (request: NeutralRequest): NeutralRequest => ({
  ...request,
  tools: request.tools.map((tool) => {
    const { native: _native, grammar: _grammar, examples: _examples, takesText, ...plain } = tool;
    return {
      ...plain,
      ...defined({ description: descriptionOf(tool) }),
      ...(takesText === true && { parameters: textToolParameters }),
    };
  }),
  messages: request.messages.map((message) => ({ ...message, parts: message.parts.map(withoutNative) })),
});

function withoutNative(part: Part): Part {
  if (part.kind !== "call" && part.kind !== "result") return part;
  const { native: _, ...plain } = part;
  return plain;
}

export function encodeTool(tool: Tool): object {
  const { name, parameters, strict, takesText, grammar } = tool;
  if (tool.native?.dialect === "openai-responses") return tool.native.value;
  const described = { name, description: descriptionOf(tool, true) };
  if (takesText === true) return { type: "custom", ...described, format: grammar && { type: "grammar", ...grammar } };
  const schema =
    parameters === undefined
      ? { type: "object", properties: {}, required: [], additionalProperties: false }
      : toolSchemaOf(tool, "openai-responses").schema;
  const strictSchema = strict === true ? strictSchemaOf(schema) : undefined;
  return { type: "function", ...described, parameters: strictSchema ?? schema, strict: strictSchema !== undefined };
}

export function encodeToolChoice({ mode, only }: ToolChoice, tools: readonly Tool[]): string | object {
  if (only === undefined || mode === "none") return mode;
  const references = only.map((name) => {
    const tool = toolNamed(tools, name);
    const type = clientTypeOf(tool);
    return type === undefined ? { type: tool?.takesText === true ? "custom" : "function", name } : { type };
  });
  const [first, ...others] = references;
  return mode === "required" && first !== undefined && others.length === 0
    ? first
    : { type: "allowed_tools", mode, tools: references };
}
