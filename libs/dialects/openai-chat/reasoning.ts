/**
 * Reasoning in messages of chat completions. The format has none of its own; servers add fields, and many require them back:
 * `reasoning_content` (https://api-docs.deepseek.com/guides/thinking_mode), `reasoning` and `reasoning_details`
 * (https://openrouter.ai/docs/use-cases/reasoning-tokens), content parts of the type `thinking` (https://docs.mistral.ai/capabilities/reasoning), and
 * `extra_content` of a call (https://ai.google.dev/gemini-api/docs/thought-signatures).
 */
import { jsonBytesOf, listOf, parsedObject, textOf, withElements, withMembers, withValues } from "../json.ts";

/** The fields of a message with readable reasoning. */
const textFields = ["reasoning_content", "reasoning", "reasoning_text"] as const;
/** The fields of a message with what belongs to the reasoning: signatures, encrypted reasoning. */
const otherFields = ["reasoning_details", "reasoning_opaque", "reasoning_signature", "thinking_blocks"] as const;

/** The message without any reasoning; every other byte stays. */
export function withoutReasoning(message: Buffer): Buffer {
  let kept = message;
  for (const name of [...textFields, ...otherFields]) kept = withMembers(kept, name, () => undefined);
  kept = withMembers(kept, "content", (content) =>
    withElements(content, (part) =>
      /^(?:redacted_)?thinking$/.test(String(parsedObject(part)?.type)) ? undefined : part,
    ),
  );
  return withMembers(kept, "tool_calls", (calls) =>
    withElements(calls, (call) => withMembers(call, "extra_content", () => unsignedCall)),
  );
}

/** https://ai.google.dev/gemini-api/docs/thought-signatures#faqs */
const unsignedCall = jsonBytesOf({ google: { thought_signature: "skip_thought_signature_validator" } });

/** Stands for reasoning that was lost. Servers that require reasoning refuse an empty text. */
const placeholder = " ";

/** The message with a placeholder if it has calls and no reasoning; every other byte stays. */
export function withPlaceholder(message: Buffer): Buffer {
  const { role, tool_calls: calls, ...fields } = parsedObject(message) ?? {};
  const lacks = role === "assistant" && textFields.every((name) => textOf(fields[name]) === undefined);
  return lacks && listOf(calls).length > 0
    ? withValues(message, { reasoning_content: jsonBytesOf(placeholder) })
    : message;
}
