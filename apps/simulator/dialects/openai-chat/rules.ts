/**
 * Rules for the messages of a chat completion beyond their shape. Results belong to calls:
 * https://platform.openai.com/docs/guides/function-calling. Settings add the rules of other servers
 * of this format.
 */
import type { Settings } from "../../settings.ts";
import { signatureOf } from "../anthropic-messages/signature.ts";
import { refuse } from "../dialect.ts";

export interface RuledMessage {
  role: string;
  content?: unknown;
  tool_call_id?: string;
  tool_calls?: { id: string; extra_content?: unknown }[] | null;
  [name: string]: unknown;
}

export function checkMessages(messages: readonly RuledMessage[], settings: Settings): void {
  checkCalls(messages);
  if (settings.strictTurns) checkTurns(messages);
  for (const [place, message] of messages.entries()) {
    for (const [at, { file }] of listOf(message.content).entries())
      if (file !== undefined) checkFile(file, `messages[${place}].content[${at}].file`);
    if (settings.strictMessages) checkFields(message, `messages.${place}`);
    if (settings.needsReasoning && message.role === "assistant" && (message.tool_calls?.length ?? 0) > 0)
      checkReasoning(message, settings.reasoningForm);
  }
}

function checkCalls(messages: readonly RuledMessage[]): void {
  let open = new Set<string>();
  let last = "";
  const checkAnswered = () => {
    if (open.size > 0)
      refuse(
        `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${[...open].join(", ")}`,
        "messages",
      );
  };
  for (const { role, tool_calls: calls, tool_call_id: id = "" } of messages) {
    if (role === "tool") {
      if ((last !== "assistant" && last !== "tool") || !open.delete(id))
        refuse(
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
          "messages",
        );
    } else {
      checkAnswered();
      open = new Set(calls?.map((call) => call.id));
    }
    last = role;
  }
  checkAnswered();
}

/** As chat templates of Mistral's models do: https://github.com/ggml-org/llama.cpp/issues/19851 */
function checkTurns(messages: readonly RuledMessage[]): void {
  const [first, ...others] = messages;
  const turns = first?.role === "system" ? others : messages;
  if (turns.some(({ role }) => role === "system" || role === "developer"))
    refuse("System message must be at the beginning.");
  const spoken = turns.filter(({ role, tool_calls: calls }) => role !== "tool" && (calls?.length ?? 0) === 0);
  for (const [place, { role }] of spoken.entries())
    if (role !== (place % 2 === 0 ? "user" : "assistant"))
      refuse(
        "After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.",
      );
  for (const [place, { role }] of turns.entries())
    if (role === "user" && turns[place - 1]?.role === "tool") refuse("Unexpected role 'user' after role 'tool'");
}

const fields = [
  "role",
  "content",
  "name",
  "refusal",
  "audio",
  "tool_calls",
  "tool_call_id",
  "function_call",
  "annotations",
];

function checkFields(message: RuledMessage, at: string): void {
  const unknown = Object.keys(message).find((name) => !fields.includes(name));
  if (unknown !== undefined) refuse(`Additional properties are not allowed ('${unknown}' was unexpected) - '${at}'`);
}

/** https://platform.openai.com/docs/guides/pdf-files */
function checkFile(file: unknown, path: string): void {
  const { file_data: data, file_id: id } = Object(file) as Record<string, unknown>;
  if (data === undefined && id === undefined) refuse("A file needs file_data or file_id.", path);
}

const listOf = (value: unknown): Record<string, unknown>[] => (Array.isArray(value) ? value : []);

/**
 * The reasoning of a turn with calls comes back as it was sent. Plain text may be any, even a
 * blank.
 */
function checkReasoning(
  { tool_calls: calls, content, ...message }: RuledMessage,
  form: Settings["reasoningForm"],
): void {
  const missing = (field: string) => refuse(`The \`${field}\` in the thinking mode must be passed back to the API.`);
  switch (form) {
    case "content":
      if (!message.reasoning_content) missing("reasoning_content");
      return;
    case "field":
      if (!message.reasoning) missing("reasoning");
      return;
    case "details": {
      const details = listOf(message.reasoning_details);
      const [signed] = details;
      if (signed === undefined) missing("reasoning_details");
      const text = details.map((detail) => detail.text ?? "").join("");
      if (signed?.signature !== signatureOf(text)) refuse("Invalid `signature` in `reasoning_details`");
      return;
    }
    case "parts": {
      // Mistral's thinking has no signature: https://docs.mistral.ai/capabilities/reasoning
      if (!listOf(content).some(({ type }) => type === "thinking")) missing("content[].thinking");
      return;
    }
    case "call": {
      const extra = calls?.[0]?.extra_content as { google?: { thought_signature?: string } } | undefined;
      const signature = extra?.google?.thought_signature;
      if (signature === undefined) refuse("Function call is missing a thought_signature in functionCall parts.");
      if (signature !== callSignature && signature !== "skip_thought_signature_validator")
        refuse("Corrupted thought signature.");
      return;
    }
    default:
      form satisfies never;
  }
}

/** https://ai.google.dev/gemini-api/docs/thought-signatures */
export const callSignature = signatureOf("of a call");
