/**
 * Tools that Anthropic defines and the caller runs. Anthropic's models know their arguments; other
 * models receive them as ordinary functions.
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool,
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/text-editor-tool,
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool,
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/computer-use-tool
 */

import type { JsonObject } from "#wire/json/parse.ts";

interface ClientTool {
  /** The name that the model calls. */
  name: string;
  description: string;
  parameters: JsonObject;
}

const text = (description: string) => ({ type: "string", description });
const line = (description: string) => ({ type: "integer", minimum: 0, description });
const schemaOf = (properties: JsonObject, required: string[]) => ({
  type: "object",
  properties,
  required,
});
const integers = (count: number, description: string) => ({
  type: "array",
  items: { type: "integer" },
  minItems: count,
  maxItems: count,
  description,
});
const viewRange = integers(
  2,
  "For view of a file: the first and the last line, counted from 1; -1 as the last means the end of the file.",
);

const bash: ClientTool = {
  name: "bash",
  description:
    "Runs a command in a bash session that keeps its state between calls. Give either a command, or restart.",
  parameters: schemaOf(
    {
      command: text("The command to run."),
      restart: { type: "boolean", description: "True starts the session anew instead of running a command." },
    },
    [],
  ),
};

/** Earlier versions can undo edits, and name the inserted text `new_str`. */
const textEditor = (name: string, isEarly: boolean): ClientTool => ({
  name,
  description: `Views and edits text files: view a file or directory, create a file, replace a text that is unique in a file, insert text behind a line${isEarly ? ", undo the last edit" : ""}.`,
  parameters: schemaOf(
    {
      command: { type: "string", enum: ["view", "create", "str_replace", "insert", ...(isEarly ? ["undo_edit"] : [])] },
      path: text("The path of the file or directory."),
      view_range: viewRange,
      file_text: text("For create: the content of the file."),
      old_str: text("For str_replace: the text to replace, exactly as it stands in the file."),
      new_str: text(
        isEarly ? "For str_replace: the new text. For insert: the text to insert." : "For str_replace: the new text.",
      ),
      insert_line: line("For insert: the line behind which the text is inserted; 0 is the beginning of the file."),
      ...(!isEarly && { insert_text: text("For insert: the text to insert.") }),
    },
    ["command", "path"],
  ),
});

const memory: ClientTool = {
  name: "memory",
  description:
    "Keeps files below /memories between conversations: view a file or directory, create a file, replace a text, insert text behind a line, delete or rename a file or directory. Look there before you begin a task.",
  parameters: schemaOf(
    {
      command: { type: "string", enum: ["view", "create", "str_replace", "insert", "delete", "rename"] },
      path: text("For every command but rename: the path, which begins with /memories."),
      view_range: viewRange,
      file_text: text("For create: the content of the file."),
      old_str: text("For str_replace: the text to replace, exactly as it stands in the file."),
      new_str: text("For str_replace: the new text."),
      insert_line: line("For insert: the line behind which the text is inserted; 0 is the beginning of the file."),
      insert_text: text("For insert: the text to insert."),
      old_path: text("For rename: the path as it is."),
      new_path: text("For rename: the path as it is to be."),
    },
    ["command"],
  ),
};

const firstActions =
  "key type mouse_move left_click left_click_drag right_click middle_click double_click screenshot cursor_position".split(
    " ",
  );
const laterActions = "left_mouse_down left_mouse_up scroll hold_key wait triple_click".split(" ");

function computer(tool: JsonObject, isFirst: boolean): ClientTool {
  const { display_width_px: width, display_height_px: height, enable_zoom: canZoom } = tool;
  const screen =
    typeof width === "number" && typeof height === "number"
      ? ` The screen has ${width} × ${height} pixels; the origin is its upper left corner.`
      : "";
  const zooms = !isFirst && canZoom === true;
  return {
    name: "computer",
    description: `Uses the mouse and the keyboard of a computer, and takes screenshots of its screen.${screen} Take a screenshot to see what an action did.`,
    parameters: schemaOf(
      {
        action: {
          type: "string",
          enum: [...firstActions, ...(isFirst ? [] : laterActions), ...(zooms ? ["zoom"] : [])],
        },
        coordinate: integers(2, "The position of the mouse as [x, y] in pixels; for left_click_drag its end."),
        text: text(
          "For type: the text. For key and hold_key: the keys, such as ctrl+s. For a click or scroll: keys held meanwhile.",
        ),
        ...(!isFirst && {
          start_coordinate: integers(2, "For left_click_drag: where it begins, as [x, y]."),
          duration: { type: "number", description: "For hold_key and wait: the seconds." },
          scroll_direction: { type: "string", enum: ["up", "down", "left", "right"], description: "For scroll." },
          scroll_amount: line("For scroll: the number of steps."),
        }),
        ...(zooms && {
          region: integers(4, "For zoom: the part of the screen as [x0, y0, x1, y1]."),
        }),
      },
      ["action"],
    ),
  };
}

/** By the family of the type. A version that is not known yet is taken for the newest. */
const families: readonly [RegExp, (tool: JsonObject) => ClientTool][] = [
  [/^bash_\d{8}$/, () => bash],
  [/^text_editor_(?:20241022|20250124)$/, () => textEditor("str_replace_editor", true)],
  [/^text_editor_\d{8}$/, () => textEditor("str_replace_based_edit_tool", false)],
  [/^memory_\d{8}$/, () => memory],
  [/^computer_20241022$/, (tool) => computer(tool, true)],
  [/^computer_\d{8}$/, (tool) => computer(tool, false)],
];

/** The tool of this type; undefined for types that the caller defines or the vendor runs. */
export function clientToolOf(tool: JsonObject): ClientTool | undefined {
  const type = String(tool.type);
  return families.find(([pattern]) => pattern.test(type))?.[1](tool);
}
