/** Reads the tools that may be called, and whether a call is required. */
import Type, { type Static } from "typebox";
import type { Question, Tool } from "../../answer/question.ts";
import { checkFunctionSchema } from "../openai-schema.ts";
import { nullable, nullableFlag, optional, text } from "../shape.ts";
import { type Reader, readerAmong, readerOf, refused, toolName, unsupported } from "./reading.ts";

export const toolChoice = Type.Union([
  Type.Enum(["none", "auto", "required"]),
  Type.Object({
    type: text,
    name: optional(text),
    mode: optional(Type.Enum(["auto", "required"])),
    tools: optional(Type.Array(Type.Object({ type: text, name: optional(text) }))),
  }),
]);

/** The upstream's own tools and other kinds that are accepted but never called. */
const otherTypes =
  "apply_patch code_interpreter computer computer_use_preview file_search image_generation local_shell mcp namespace programmatic_tool_calling shell tool_search web_search web_search_2025_08_26 web_search_preview web_search_preview_2025_03_11".split(
    " ",
  );

const readers: Record<string, Reader<Tool>> = {
  function: readerOf(
    Type.Object({ name: toolName, parameters: nullable(Type.Object({})), strict: nullableFlag }),
    ({ name, parameters, strict }, at) => {
      checkFunctionSchema(name, parameters, strict === true, `${at}.parameters`);
      return { name, schema: parameters ?? { type: "object" }, takes: "json" };
    },
  ),
  custom: readerOf(Type.Object({ name: toolName }), ({ name }) => ({
    name,
    schema: undefined,
    takes: "text",
  })),
};

type Choice = Static<typeof toolChoice>;

export function toolsIn(offered: { type: string }[], choice: Choice): Pick<Question, "tools" | "calling"> {
  const tools: Tool[] = [];
  for (const [index, one] of offered.entries()) {
    const read = readerAmong(readers, one.type);
    if (read === undefined && !otherTypes.includes(one.type))
      unsupported(`tools[${index}].type`, one.type, [...Object.keys(readers), ...otherTypes]);
    const tool = read?.(one, `tools[${index}]`);
    if (tool !== undefined) tools.push(tool);
  }
  if (typeof choice === "string") {
    if (choice === "required" && offered.length === 0)
      refused("tool_choice", "Tool choice 'required' must be specified with 'tools' parameter.");
    return { tools, calling: choice };
  }
  if (otherTypes.includes(choice.type)) return { tools, calling: "auto" };
  const references = choice.type === "allowed_tools" ? (choice.tools ?? []) : [choice];
  const chosen = tools.filter(({ name, takes }) =>
    references.some((one) => one.name === name && (one.type === "custom") === (takes === "text")),
  );
  if (chosen.length === 0)
    refused(
      "tool_choice",
      `Tool choice '${references.map(({ name, type }) => name ?? type).join(", ")}' not found in 'tools' parameter.`,
    );
  return {
    tools: chosen,
    calling: choice.type === "allowed_tools" ? (choice.mode ?? "auto") : "required",
  };
}
