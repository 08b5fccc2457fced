/**
 * The functions that tools replaced: `functions`, `function_call` and messages of the role
 * `function`. A request with them is read as one with tools, and its answer goes back in the same
 * form. https://platform.openai.com/docs/api-reference/chat/create#chat-create-functions
 */
import { isPresent, type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";

/**
 * True if an answer to this request has `function_call` instead of `tool_calls`: one call at most.
 */
export const asksForFunctions = ({ functions, tools }: JsonObject) =>
  listOf(functions).length > 0 && listOf(tools).length === 0;

/** The body with tools in place of functions; the same one if it has none. */
export function withTools(body: JsonObject): JsonObject {
  const messages = listOf(body.messages);
  const isOld = (value: unknown) => objectOf(value).role === "function" || isPresent(objectOf(value).function_call);
  const hasOldTurns = messages.some(isOld);
  if (!isPresent(body.functions) && !isPresent(body.function_call) && !hasOldTurns) return body;
  const { functions, function_call: choice, ...others } = body;
  const name = textOf(objectOf(choice).name);
  const tools = listOf(functions).map((value) => ({ type: "function", function: value }));
  return {
    ...others,
    ...(hasOldTurns && { messages: withCalls(messages) }),
    ...(tools.length > 0 && { tools: [...listOf(body.tools), ...tools] }),
    ...(isPresent(choice) &&
      !isPresent(body.tool_choice) && {
        tool_choice: name === undefined ? choice : { type: "function", function: { name } },
      }),
    ...(asksForFunctions(body) && { parallel_tool_calls: false }),
  };
}

/** Such calls have no ids: a result is that of the last call. */
function withCalls(messages: readonly unknown[]): unknown[] {
  let id = "call_0";
  return messages.map((value, place) => {
    const message = objectOf(value);
    const { function_call: call, ...others } = message;
    if (message.role === "function") return { ...others, role: "tool", tool_call_id: id };
    if (message.role !== "assistant" || !isPresent(call)) return value;
    id = `call_${place}`;
    return { ...others, tool_calls: [...listOf(message.tool_calls), { id, type: "function", function: call }] };
  });
}
