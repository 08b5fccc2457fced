/**
 * Tools that OpenAI defines and the caller runs. OpenAI's models know their arguments; other models
 * receive them as functions with the schemas below. Each has its own types of items:
 * https://platform.openai.com/docs/api-reference/responses/create#responses_create-tools,
 * https://platform.openai.com/docs/guides/tools-shell,
 * https://platform.openai.com/docs/guides/tools-apply-patch,
 * https://platform.openai.com/docs/guides/tools-computer-use
 */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import type { ImagePart, TextPart, Tool } from "../neutral/neutral.ts";
import { argumentsOf, toolNameOf } from "../neutral/tools.ts";
import { imageOf } from "../openai/parts.ts";

interface ClientTool {
  description(tool: JsonObject): string;
  parameters(tool: JsonObject): JsonObject;
  /**
   * The members of a call's item that follow from the arguments; the model may have left out or
   * misspelled any of them.
   */
  membersOf(args: JsonObject): JsonObject;
  /** The arguments that an item was made from. */
  argumentsIn(item: JsonObject): JsonObject;
  idPrefix: string;
}

const text = (description: string) => ({ type: "string", description });
const integer = (description: string) => ({ type: "integer", description });
const texts = (description: string) => ({ type: "array", items: { type: "string" }, description });
const schemaOf = (properties: JsonObject, ...required: string[]): JsonObject => ({
  type: "object",
  properties,
  required,
});

const timeout = integer("The time after which the commands are stopped, in milliseconds.");

/** A list of texts; a single text, as models often write it, is a list of one. */
const textsOf = (value: unknown) =>
  typeof value === "string" ? [value] : listOf(value).filter((one) => typeof one === "string");

const picked = (args: JsonObject, ...names: string[]): JsonObject =>
  Object.fromEntries(names.flatMap((name) => (args[name] === undefined ? [] : [[name, args[name]]])));

const shell: ClientTool = {
  idPrefix: "sh_",
  description: () => "Runs shell commands on the user's machine and returns their output.",
  parameters: () =>
    schemaOf(
      {
        commands: texts("The commands to run, each a whole command line. They may run at the same time."),
        timeout_ms: timeout,
        max_output_length: integer("The most characters of output to return for each command."),
      },
      "commands",
    ),
  membersOf: ({ commands, ...args }) => ({
    action: {
      timeout_ms: null,
      max_output_length: null,
      ...picked(args, "timeout_ms", "max_output_length"),
      commands: textsOf(commands),
    },
    environment: { type: "local" },
  }),
  argumentsIn: ({ action }) => withoutNulls(objectOf(action)),
};

const localShell: ClientTool = {
  idPrefix: "lsh_",
  description: () => "Runs a shell command on the user's machine and returns its output.",
  parameters: () =>
    schemaOf(
      {
        command: texts('The program and its arguments, such as ["bash", "-lc", "ls"].'),
        working_directory: text("The directory in which the command runs."),
        timeout_ms: timeout,
        env: { type: "object", additionalProperties: { type: "string" }, description: "Environment variables to set." },
      },
      "command",
    ),
  membersOf: ({ command, env, ...args }) => ({
    action: {
      type: "exec",
      command: typeof command === "string" ? ["bash", "-lc", command] : textsOf(command),
      env: objectOf(env),
      ...picked(args, "timeout_ms", "working_directory", "user"),
    },
  }),
  argumentsIn: ({ action }) => {
    const { type: _, env, ...args } = withoutNulls(objectOf(action));
    return { ...args, ...(Object.keys(objectOf(env)).length > 0 && { env }) };
  },
};

const applyPatch: ClientTool = {
  idPrefix: "apc_",
  description: () =>
    "Creates, updates or deletes one file. The diff has no headers with file names. For create_file every line begins with +. For update_file the diff has sections that begin with @@ (and may name the enclosing function or class), followed by unchanged lines that begin with a space, removed lines that begin with -, and added lines that begin with +.",
  parameters: () =>
    schemaOf(
      {
        type: { type: "string", enum: ["create_file", "update_file", "delete_file"] },
        path: text("The path of the file, relative to the workspace."),
        diff: text("For create_file and update_file: the diff."),
      },
      "type",
      "path",
    ),
  membersOf: ({ operation, ...args }) => {
    const { type = "update_file", path = "", diff = "" } = isObject(operation) ? objectOf(operation) : args;
    return { operation: type === "delete_file" ? { type, path } : { type, path, diff } };
  },
  argumentsIn: ({ operation }) => objectOf(operation),
};

const actions = ["click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"];
const number = (description: string) => ({ type: "integer", description });

const computer = (member: "action" | "actions"): ClientTool => ({
  idPrefix: "cu_",
  description: ({ display_width: width, display_height: height, environment }) =>
    [
      "Does one action with the mouse or the keyboard of a computer, and returns a screenshot of the screen after it.",
      ...(typeof width === "number" && typeof height === "number"
        ? [`The screen has ${width} × ${height} pixels; the origin is its upper left corner.`]
        : []),
      ...(textOf(environment) === undefined ? [] : [`It is an environment of the kind ${environment}.`]),
    ].join(" "),
  parameters: () =>
    schemaOf(
      {
        type: { type: "string", enum: actions, description: "The kind of action." },
        x: number("For click, double_click, move and scroll: the horizontal position in pixels."),
        y: number("For click, double_click, move and scroll: the vertical position in pixels."),
        button: { type: "string", enum: ["left", "right", "wheel", "back", "forward"], description: "For click." },
        scroll_x: number("For scroll: the pixels to scroll to the right; negative for the left."),
        scroll_y: number("For scroll: the pixels to scroll down; negative for up."),
        keys: texts("For keypress: the keys to press together. For mouse actions: the keys held meanwhile."),
        text: text("For type: the text to type."),
        path: {
          type: "array",
          items: schemaOf({ x: { type: "integer" }, y: { type: "integer" } }, "x", "y"),
          description: "For drag: the positions that the mouse passes.",
        },
      },
      "type",
    ),
  membersOf: (args) => {
    const action = typeof args.type === "string" ? args : { ...args, type: "screenshot" };
    const clicked = action.type === "click" ? { button: "left", ...action } : action;
    return { [member]: member === "action" ? clicked : [clicked], pending_safety_checks: [] };
  },
  argumentsIn: ({ action, actions: list }) => {
    const done = isObject(action) ? [action] : listOf(list).map(objectOf);
    return done.length === 1 ? withoutNulls(done[0] as JsonObject) : { actions: done };
  },
});

/** With client execution, the caller searches among tools that it has not sent yet. */
const toolSearch: ClientTool = {
  idPrefix: "tsc_",
  description: ({ description }) =>
    textOf(description) ?? "Searches for tools that are not loaded yet, and loads those that fit.",
  parameters: ({ parameters }) =>
    isObject(parameters)
      ? objectOf(parameters)
      : schemaOf({ query: text("What the tools should be able to do.") }, "query"),
  membersOf: (args) => ({ execution: "client", arguments: args }),
  argumentsIn: ({ arguments: args }) =>
    typeof args === "string" ? (argumentsOf(args) ?? { query: args }) : objectOf(args),
};

function withoutNulls(value: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null && member !== undefined));
}

/** By the tool's type. */
const clientTools = new Map<unknown, ClientTool>([
  ["shell", shell],
  ["local_shell", localShell],
  ["apply_patch", applyPatch],
  ["computer_use_preview", computer("action")],
  ["computer", computer("actions")],
  ["tool_search", toolSearch],
]);

/** The types of tools whose calls have an item of this type, the newest last. */
const toolTypes: Record<string, readonly string[]> = {
  shell_call: ["shell"],
  local_shell_call: ["local_shell"],
  apply_patch_call: ["apply_patch"],
  computer_call: ["computer_use_preview", "computer"],
  tool_search_call: ["tool_search"],
};

/**
 * A tool of this kind as a function; undefined for other tools, and for one that runs at its
 * vendor.
 */
export function clientToolOf(
  tool: JsonObject,
): Pick<Tool, "callerName" | "description" | "parameters" | "native"> | undefined {
  const { type, environment, execution } = tool;
  const definition = clientTools.get(type);
  if (definition === undefined) return undefined;
  if (type === "shell" && isObject(environment) && objectOf(environment).type !== "local") return undefined;
  if (type === "tool_search" && execution !== "client") return undefined;
  return {
    callerName: String(type),
    description: definition.description(tool),
    parameters: definition.parameters(tool),
    native: { dialect: "openai-responses", value: tool },
  };
}

/**
 * The type of a tool of this kind, among the request's tools; undefined for functions and custom
 * tools.
 */
export const clientTypeOf = (tool: Tool | undefined) =>
  tool?.native?.dialect === "openai-responses" ? textOf(tool.native.value.type) : undefined;

/**
 * The item of a call, without its id and status. Arguments that are no object leave its members
 * empty.
 */
export function clientCallItem(
  type: string,
  callId: string,
  input: string,
): { idPrefix: string; item: JsonObject } | undefined {
  const definition = clientTools.get(type);
  if (definition === undefined) return undefined;
  const itemType = Object.entries(toolTypes).find(([, types]) => types.includes(type))?.[0];
  return {
    idPrefix: definition.idPrefix,
    item: { type: itemType, call_id: callId, ...definition.membersOf(argumentsOf(input) ?? {}) },
  };
}

/** The type of the called tool and its arguments; undefined for items that are no calls. */
export function clientCallIn(
  item: JsonObject,
  tools: readonly Tool[] = [],
): { type: string; input: string } | undefined {
  const types = Object.hasOwn(toolTypes, String(item.type)) ? toolTypes[String(item.type)] : undefined;
  const type = types?.find((one) => tools.some((tool) => clientTypeOf(tool) === one)) ?? types?.at(-1);
  const definition = clientTools.get(type);
  return type === undefined || definition === undefined
    ? undefined
    : { type, input: JSON.stringify(definition.argumentsIn(item)) };
}

type Output = { content: (TextPart | ImagePart)[]; isError: boolean };

/** The content of an output's item; undefined for other items. */
export function clientOutputIn(item: JsonObject, path: string, tools: readonly Tool[]): Output | undefined {
  const textOutput = (words: string, isError = false): Output => ({
    content: words === "" ? [] : [{ kind: "text", text: words, path: `${path}.output` }],
    isError,
  });
  switch (item.type) {
    case "local_shell_call_output":
      return textOutput(textOf(item.output) ?? "");
    case "shell_call_output":
      return textOutput(
        typeof item.output === "string"
          ? item.output
          : listOf(item.output)
              .map((one) => ranOf(objectOf(one)))
              .join("\n"),
      );
    case "apply_patch_call_output": {
      const failed = item.status === "failed";
      return textOutput(textOf(item.output) ?? (failed ? "The patch could not be applied." : "Done."), failed);
    }
    case "computer_call_output": {
      const url = textOf(objectOf(item.output).image_url);
      return url === undefined
        ? textOutput("No screenshot.")
        : { content: [imageOf(url, "auto", `${path}.output.image_url`)], isError: false };
    }
    case "tool_search_output": {
      const names = namesIn(item.tools, tools);
      return textOutput(names.length === 0 ? "No tool fits." : `These tools are loaded now: ${names.join(", ")}.`);
    }
    default:
      return undefined;
  }
}

function ranOf({ stdout, stderr, outcome }: JsonObject): string {
  const { type, exit_code: code } = objectOf(outcome);
  const end = type === "timeout" ? ["The command timed out."] : typeof code === "number" ? [`Exit code: ${code}`] : [];
  return [textOf(stdout), textOf(stderr), ...end].filter((line) => line !== undefined).join("\n");
}

/** The names by which the model knows loaded tools. */
const namesIn = (values: unknown, tools: readonly Tool[], namespace?: string): string[] =>
  listOf(values).flatMap((value) => {
    const { type, name, tools: inner } = objectOf(value);
    if (type === "namespace") return namesIn(inner, tools, namespaceOf(name));
    return textOf(name) === undefined ? [] : toolNameOf(tools, name as string, namespace);
  });

/** This default namespace counts as none: clients treat calls with and without it alike. */
export const namespaceOf = (name: unknown) => (name === "functions" ? undefined : textOf(name));
