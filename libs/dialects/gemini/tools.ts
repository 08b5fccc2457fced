/**
 * Functions and tool choice in Google's Gemini format, in both directions:
 * https://ai.google.dev/gemini-api/docs/function-calling
 */

import { defined, isPresent, type JsonObject, listOf, objectOf, someOf, textOf } from "#wire/json/parse.ts";
import { refuse } from "../neutral/field-support.ts";
import type { Tool, ToolChoice } from "../neutral/neutral.ts";
import { descriptionOf, namedTools, parametersOf, toolNamed, toolNameOf } from "../neutral/tools.ts";
import { isDispensable } from "../neutral/vendor-tools.ts";
import { toolSchemaOf } from "../schema/tool-schemas.ts";
import { jsonSchemaOf } from "./google-schema.ts";
import { enumNameOf, itemsOf } from "./names.ts";

/** Throws Refusal for tools that Google runs, except those that a model can do without. */
export function decodeTools(value: unknown): Tool[] {
  const hosted = hostedIn(value).find(([name]) => !isDispensable(name));
  if (hosted !== undefined) refuse(hosted[1]);
  const declared = itemsOf(value, "tools").flatMap(([tool, path]) => {
    const { functionDeclarations } = objectOf(tool);
    return itemsOf(functionDeclarations, `${path}.functionDeclarations`);
  });
  return namedTools(declared.map(([declaration, path]) => toolOf(objectOf(declaration), path)));
}

/** The names of the tools that Google runs, with their paths. */
export const hostedIn = (value: unknown): [name: string, path: string][] =>
  itemsOf(value, "tools").flatMap(([tool, path]) =>
    Object.entries(objectOf(tool))
      .filter(([name, setting]) => name !== "functionDeclarations" && isPresent(setting) && !isEmptyList(setting))
      .map(([name]): [string, string] => [name, `${path}.${name}`]),
  );

const isEmptyList = (value: unknown) => Array.isArray(value) && value.length === 0;

function toolOf(
  { name, description, parameters: googleSchema, parametersJsonSchema }: JsonObject,
  path: string,
): Omit<Tool, "name"> {
  const { parameters } = parametersOf(parametersJsonSchema ?? googleSchema);
  return {
    path,
    callerName: String(name),
    ...defined({ description: textOf(description), parameters: parameters && jsonSchemaOf(parameters) }),
  };
}

const path = "toolConfig.functionCallingConfig";

/** Function names count only in the modes that require or validate calls. */
export function decodeToolChoice(value: unknown, tools: readonly Tool[]): ToolChoice | undefined {
  const { mode: written, allowedFunctionNames } = objectOf(objectOf(value).functionCallingConfig);
  const mode = enumNameOf(written);
  const allowed = listOf(allowedFunctionNames).map((name) => chosenIn(String(name), tools));
  const only = allowed.length > 0 && { only: allowed };
  if (only && mode !== "ANY" && mode !== "VALIDATED")
    refuse(`${path}.allowedFunctionNames`, "is only for the modes ANY and VALIDATED");
  switch (mode) {
    case "":
    case "MODE_UNSPECIFIED":
      return undefined;
    case "AUTO":
      return { mode: "auto", path };
    case "VALIDATED":
      return { mode: "auto", ...only, path };
    case "ANY":
      return { mode: "required", ...only, path };
    case "NONE":
      return { mode: "none", path };
    default:
      return refuse(`${path}.mode`, "must be AUTO, ANY, NONE or VALIDATED");
  }
}

function chosenIn(callerName: string, tools: readonly Tool[]): string {
  const name = toolNameOf(tools, callerName);
  return toolNamed(tools, name) !== undefined
    ? name
    : refuse(`${path}.allowedFunctionNames`, `names a function that is not declared: ${JSON.stringify(callerName)}`);
}

/**
 * The fields of a request that offer tools. A choice that does not require a call cannot name
 * tools, so only the allowed ones are offered.
 */
export function encodeTools(tools: readonly Tool[], choice: ToolChoice | undefined): object {
  if (tools.length === 0) return {};
  const only = choice?.mode === "none" ? undefined : choice?.only;
  const chosen = new Set(only);
  const offered = choice?.mode === "auto" && chosen.size > 0 ? tools.filter(({ name }) => chosen.has(name)) : tools;
  const functionCallingConfig = choice && {
    mode: only?.length === 0 ? "NONE" : { auto: "AUTO", none: "NONE", required: "ANY" }[choice.mode],
    allowedFunctionNames: choice.mode === "required" ? someOf(only ?? []) : undefined,
  };
  return {
    tools: [{ functionDeclarations: offered.map(declarationOf) }],
    toolConfig: functionCallingConfig && { functionCallingConfig },
  };
}

function declarationOf(tool: Tool): object {
  const takesArguments = tool.takesText === true || tool.parameters !== undefined;
  return {
    name: tool.name,
    description: descriptionOf(tool),
    parametersJsonSchema: takesArguments ? toolSchemaOf(tool, "gemini").schema : undefined,
  };
}
