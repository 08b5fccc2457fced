/**
 * Chat requests in the shapes of other dialects, which Cursor sends: flat tools as in OpenAI's
 * Responses, tools with an `input_schema` as in Anthropic's Messages, or a whole body of Responses.
 * Its answers are chat completions in any case. https://github.com/BerriAI/litellm/pull/34029
 */
import { isPresent, type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import { elementSpansOf, objectSpansOf } from "#wire/json/spans.ts";
import type { NeutralRequest } from "../neutral/neutral.ts";
import { decodeRequest as decodeResponses } from "../openai-responses/request.ts";

/** The part that an upstream of this dialect would not understand: the tools, or the whole body. */
export function foreignShapeOf(bytes: Buffer): "tools" | "body" | undefined {
  const members = objectSpansOf(bytes, ["messages", "input", "tools"])?.members;
  if (members === undefined) return undefined;
  if (members.messages === undefined && members.input !== undefined) return "body";
  if (members.tools === undefined) return undefined;
  const tools = bytes.subarray(members.tools.start, members.tools.end);
  const isForeign = (elementSpansOf(tools) ?? []).some(({ start, end }) => {
    const tool = objectSpansOf(tools.subarray(start, end), [
      "type",
      "name",
      "function",
      "custom",
      "input_schema",
    ])?.members;
    if (tool?.name === undefined || (tool.function ?? tool.custom) !== undefined) return false;
    return (tool.type ?? tool.input_schema) !== undefined;
  });
  return isForeign ? "tools" : undefined;
}

/** The messages of a body; those in `input` if it has chat messages there. */
export const messagesIn = ({ messages, input }: JsonObject) => messages ?? (isChat(input) ? input : undefined);

const isChat = (input: unknown) =>
  listOf(input).some((value) => objectOf(value).role === "tool" || isPresent(objectOf(value).tool_calls));

/** A body of Responses in the neutral form. */
export function decodeForeign(body: JsonObject): NeutralRequest {
  const { tools, ...request } = decodeResponses({ body, framing: "whole" });
  return {
    ...request,
    tools: tools.map((tool) => (tool.takesText === true ? { ...tool, textAsArguments: true } : tool)),
  };
}
