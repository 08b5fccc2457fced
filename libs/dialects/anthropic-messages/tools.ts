/**
 * Tools and tool choice in Anthropic's Messages format, in both directions:
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
 */

import {
  defined,
  flagOf,
  isPresent,
  type JsonObject,
  listOf,
  objectOf,
  someOf,
  stringOf,
  textOf,
} from "#wire/json/parse.ts";
import { cacheControlOf } from "../neutral/cache-marks.ts";
import { refuse } from "../neutral/field-support.ts";
import type { NeutralRequest, Settings, Tool, ToolChoice } from "../neutral/neutral.ts";
import { descriptionOf, namedTools, parametersOf, toolNameOf } from "../neutral/tools.ts";
import { isDispensable } from "../neutral/vendor-tools.ts";
import { type StrictBounds, structuredSchemaOf } from "../schema/anthropic.ts";
import { toolSchemaOf } from "../schema/tool-schemas.ts";
import { cacheOf, type WireBlock } from "./cache.ts";
import { clientToolOf } from "./client-tools.ts";

/**
 * The tools in force at the end of the conversation: those of the request, including deferred ones,
 * with the additions and removals by its instructions. `eager_input_streaming` and
 * `allowed_callers` are ignored.
 */
export function decodeTools(body: JsonObject): Tool[] {
  const offered = new Map<string, Omit<Tool, "name">>();
  const removed = new Set<string>();
  const offer = (value: unknown, path: string) => {
    if (isDispensable(objectOf(value).type)) return;
    const tool = toolOf(objectOf(value), path);
    offered.set(tool.callerName, tool);
    removed.delete(tool.callerName);
  };
  for (const [place, value] of listOf(body.tools).entries()) offer(value, `tools[${place}]`);
  for (const [place, message] of listOf(body.messages).entries())
    for (const [at, block] of listOf(objectOf(message).content).entries()) {
      const { type, tool } = objectOf(block);
      if (type !== "tool_addition" && type !== "tool_removal") continue;
      const path = `messages[${place}].content[${at}].tool`;
      const { type: kind, name, definition } = objectOf(tool);
      if (kind === "tool_definition" && type === "tool_addition") offer(definition, `${path}.definition`);
      else if (kind !== "tool_reference") refuse(`${path}.type`);
      else if (type === "tool_removal") removed.add(String(name));
      else removed.delete(String(name));
    }
  return namedTools([...offered.values()].filter(({ callerName }) => !removed.has(callerName)));
}

const examplesMax = 8;

function toolOf(tool: WireBlock, path: string): Omit<Tool, "name"> {
  const {
    type,
    name,
    description,
    strict,
    input_schema: schema,
    input_examples: inputExamples,
    cache_control: control,
  } = tool;
  const clientTool = clientToolOf(tool);
  if (clientTool !== undefined)
    return {
      path,
      callerName: textOf(name) ?? clientTool.name,
      description: clientTool.description,
      parameters: clientTool.parameters,
      ...cacheOf(control),
    };
  if (isPresent(type) && type !== "custom")
    refuse(
      `${path}.type`,
      `is ${JSON.stringify(type)}, which the upstream of this model does not support: it takes tools that the caller runs`,
    );
  const examples = listOf(inputExamples).slice(0, examplesMax);
  return {
    path,
    callerName: String(name),
    ...defined({ description: stringOf(description), strict: flagOf(strict), examples: someOf(examples) }),
    ...parametersOf(schema),
    ...cacheOf(control),
  };
}

export function decodeToolChoice(value: unknown, tools: readonly Tool[]): ToolChoice | undefined {
  if (!isPresent(value)) return undefined;
  const path = "tool_choice";
  const { type, name } = objectOf(value);
  switch (type) {
    case "auto":
    case "none":
      return { mode: type, path };
    case "any":
      return { mode: "required", path };
    case "tool":
      return {
        mode: "required",
        only: [toolNameOf(tools, textOf(name) ?? refuse(`${path}.name`, "must name a tool"))],
        path,
      };
    default:
      return refuse(`${path}.type`);
  }
}

interface WireTools {
  tools: WireBlock[];
  choice: JsonObject | undefined;
  /** A tool call is required. */
  forced: boolean;
}

/**
 * `called` names the tools called in the conversation; the format rejects a conversation with calls
 * and without tools. A choice among several tools is made by offering only those. The first tools
 * within the bounds are strict.
 */
export function encodeTools(
  { tools, toolChoice, settings }: NeutralRequest,
  called: Iterable<string>,
  bounds: StrictBounds,
): WireTools {
  const { mode, only } = toolChoice ?? { mode: undefined, only: undefined };
  const chosen = new Set(only);
  const offered = only === undefined || mode === "none" ? tools : tools.filter(({ name }) => chosen.has(name));
  if (offered.length === 0) {
    const calledTools = [...called].map(
      (name): WireBlock => ({ name, input_schema: { type: "object", properties: {} } }),
    );
    return { tools: calledTools, choice: calledTools.length > 0 ? { type: "none" } : undefined, forced: false };
  }
  const forced = mode === "required";
  return {
    tools: offered.map((tool) => encodeTool(tool, bounds)),
    choice: choiceOf(mode, forced, offered, only, settings),
    forced,
  };
}

function encodeTool(tool: Tool, bounds: StrictBounds): WireBlock {
  const { name, strict, cache } = tool;
  const description = descriptionOf(tool);
  const { schema } = toolSchemaOf(tool, "anthropic-messages");
  const structured = strict === true && bounds.tools > 0 ? structuredSchemaOf(schema, bounds) : undefined;
  if (structured !== undefined) bounds.tools--;
  return {
    name,
    description,
    input_schema: structured ?? schema,
    strict: structured && true,
    ...cacheControlOf({ cache }),
  };
}

function choiceOf(
  mode: ToolChoice["mode"] | undefined,
  forced: boolean,
  offered: readonly Tool[],
  only: string[] | undefined,
  settings: Settings,
) {
  if (mode === "none") return { type: "none" };
  const single = settings.parallelCalls?.value === false ? { disable_parallel_tool_use: true } : {};
  if (!forced)
    return mode === undefined && settings.parallelCalls?.value !== false ? undefined : { type: "auto", ...single };
  return only !== undefined && offered.length === 1
    ? { type: "tool", name: offered[0]?.name, ...single }
    : { type: "any", ...single };
}
