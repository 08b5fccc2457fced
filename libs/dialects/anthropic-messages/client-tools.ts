/**
 * Tools that Anthropic defines and the caller runs. Anthropic's models know their arguments; other models receive them as ordinary functions.
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool, https://platform.claude.com/docs/en/agents-and-tools/tool-use/text-editor-tool,
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool
 */

interface ClientTool {
  /** The name that the model calls. */
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}

const text = (description: string) => ({ type: "string", description });
const line = (description: string) => ({ type: "integer", minimum: 0, description });
const schemaOf = (properties: Record<string, unknown>, required: string[]) => ({
  type: "object",
  properties,
  required,
});
const viewRange = {
  type: "array",
  items: { type: "integer" },
  minItems: 2,
  maxItems: 2,
  description:
    "For view of a file: the first and the last line, counted from 1; -1 as the last means the end of the file.",
};

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

const clientTools = new Map<unknown, ClientTool>([
  ["bash_20241022", bash],
  ["bash_20250124", bash],
  ["text_editor_20241022", textEditor("str_replace_editor", true)],
  ["text_editor_20250124", textEditor("str_replace_editor", true)],
  ["text_editor_20250429", textEditor("str_replace_based_edit_tool", false)],
  ["text_editor_20250728", textEditor("str_replace_based_edit_tool", false)],
  ["memory_20250818", memory],
]);

/** The tool of this type; undefined for types that the caller defines or the vendor runs. */
export const clientToolOf = (type: unknown): ClientTool | undefined => clientTools.get(type);
