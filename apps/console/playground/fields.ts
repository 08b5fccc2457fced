/** The texts of the playground's fields, checked. */
import type { Effort, Settings, Tool, ToolChoice } from "./conversation.ts";
import { efforts, toolChoices } from "./conversation.ts";

export interface Fields {
  system: string;
  /** JSON: a tool, or a list of tools. */
  tools: string;
  /** One of `toolChoices`, or `tool:` and the name of a tool; null for the default. */
  toolChoice: string | null;
  /** A JSON schema. */
  schema: string;
  effort: string | null;
  temperature: string | number;
  maxTokens: string | number;
}

export const emptyFields: Fields = {
  system: "",
  tools: "",
  toolChoice: null,
  schema: "",
  effort: null,
  temperature: "",
  maxTokens: "",
};

export const exampleTool = JSON.stringify(
  {
    name: "get_weather",
    description: "Says the weather of a city.",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
  },
  null,
  2,
);

export const exampleSchema = JSON.stringify(
  {
    type: "object",
    properties: { title: { type: "string" }, rating: { type: "integer" } },
    required: ["title", "rating"],
    additionalProperties: false,
  },
  null,
  2,
);

export type FieldFault = "no-json" | "no-tool" | "no-object" | undefined;

/** The settings of the fields; a fault for each field that is wrong. */
export function settingsOf(fields: Fields): {
  settings: Omit<Settings, "model"> | undefined;
  faults: { tools: FieldFault; schema: FieldFault };
} {
  const tools = toolsOf(fields.tools);
  const schema = schemaOf(fields.schema);
  const faults = { tools: tools.fault, schema: schema.fault };
  if (tools.fault !== undefined || schema.fault !== undefined) return { settings: undefined, faults };
  const number = (value: string | number) => (value === "" ? undefined : Number(value));
  return {
    faults,
    settings: {
      system: fields.system.trim() === "" ? undefined : fields.system,
      tools: tools.value,
      toolChoice: toolChoiceOf(fields.toolChoice, tools.value),
      schema: schema.value,
      effort: efforts.find((effort) => effort === fields.effort) satisfies Effort | undefined,
      temperature: number(fields.temperature),
      maxTokens: number(fields.maxTokens),
    },
  };
}

/** The names of the tools that are written so far. */
export const toolNamesOf = ({ tools }: Pick<Fields, "tools">): string[] =>
  toolsOf(tools).value?.map(({ name }) => name) ?? [];

/** Undefined for the default, and for a tool that is no longer there. */
function toolChoiceOf(choice: string | null, tools: readonly Tool[] | undefined): ToolChoice | undefined {
  const name = choice?.startsWith("tool:") ? choice.slice("tool:".length) : undefined;
  if (name !== undefined) return tools?.some((tool) => tool.name === name) ? { tool: name } : undefined;
  return tools && toolChoices.find((each) => each === choice && each !== "auto");
}

interface Checked<Value> {
  value: Value | undefined;
  fault: FieldFault;
}

function toolsOf(text: string): Checked<Tool[]> {
  const { value, fault } = jsonOf(text);
  if (fault !== undefined || value === undefined) return { value: undefined, fault };
  const list = (Array.isArray(value) ? value : [value]) as Partial<Tool>[];
  if (!list.every((tool) => typeof tool?.name === "string" && isObject(tool.parameters)))
    return { value: undefined, fault: "no-tool" };
  return {
    value: list.map(({ name = "", description = "", parameters }) => ({ name, description, parameters })),
    fault: undefined,
  };
}

function schemaOf(text: string): Checked<unknown> {
  const checked = jsonOf(text);
  return checked.value === undefined || isObject(checked.value) ? checked : { value: undefined, fault: "no-object" };
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);

function jsonOf(text: string): Checked<unknown> {
  if (text.trim() === "") return { value: undefined, fault: undefined };
  try {
    return { value: JSON.parse(text) as unknown, fault: undefined };
  } catch {
    return { value: undefined, fault: "no-json" };
  }
}
