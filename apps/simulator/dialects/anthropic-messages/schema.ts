/** The shape of a request for a message, as far as the simulator reads it; unknown fields pass. */
import type { Static } from "typebox";

import {
  anyOf,
  anything,
  compiled,
  exactly,
  filledText,
  flag,
  integer,
  list,
  nullable,
  nullableFlag,
  nullableInteger,
  nullableNumber,
  nullableText,
  object,
  oneOf,
  optional,
  record,
  string,
  text,
} from "../shape.ts";

const cacheControl = nullable(object({ type: exactly("ephemeral"), ttl: optional(oneOf(["5m", "1h"])) }));

const source = object({
  type: oneOf(["base64", "url", "file", "text", "content"]),
  media_type: optional(text),
  data: optional(text),
  url: optional(text),
  file_id: optional(text),
  content: optional(anything),
});

/** The blocks of a tool result. */
const innerBlock = object({
  type: text,
  text: optional(text),
  source: optional(source),
  cache_control: cacheControl,
});

/** The required members and the sender depend on the type: see rules.ts. */
const block = object({
  type: text,
  text: optional(text),
  source: optional(source),
  id: optional(string({ pattern: "^[a-zA-Z0-9_-]+$" })),
  name: optional(filledText),
  input: optional(record(text, anything)),
  tool_use_id: optional(text),
  content: optional(anyOf([text, list(innerBlock)])),
  is_error: nullableFlag,
  thinking: optional(text),
  signature: optional(text),
  data: optional(text),
  cache_control: cacheControl,
});

const message = object({
  role: oneOf(["user", "assistant", "system"]),
  content: anyOf([text, list(block)]),
});

const textBlock = object({ type: exactly("text"), text: text, cache_control: cacheControl });

const display = nullable(oneOf(["summarized", "omitted"]));
const disableParallel = optional(flag);

const format = object({ type: exactly("json_schema"), schema: record(text, anything) });

const tool = object({
  name: string({ pattern: "^[a-zA-Z0-9_-]{1,128}$" }),
  type: nullableText,
  input_schema: optional(object({ type: exactly("object"), properties: optional(anything) })),
  defer_loading: optional(flag),
  cache_control: cacheControl,
});

const counted = {
  model: filledText,
  messages: list(message, { minItems: 1, maxItems: 100_000 }),
  system: optional(anyOf([text, list(textBlock)])),
  cache_control: cacheControl,
  thread: nullable(object({ type: oneOf(["create", "continue"]) })),
  output_config: nullable(
    object({ effort: nullable(oneOf(["low", "medium", "high", "xhigh", "max"])), format: nullable(format) }),
  ),
  thinking: optional(
    anyOf([
      object({ type: exactly("enabled"), budget_tokens: optional(integer()), display }),
      object({ type: exactly("adaptive"), display }),
      object({ type: oneOf(["between_tools", "disabled"]) }),
    ]),
  ),
  tool_choice: optional(
    anyOf([
      object({ type: oneOf(["auto", "any"]), disable_parallel_tool_use: disableParallel }),
      object({ type: exactly("tool"), name: text, disable_parallel_tool_use: disableParallel }),
      object({ type: exactly("none") }),
    ]),
  ),
  tools: optional(list(tool)),
};

const countRequest = object(counted);

const messageRequest = object({
  ...counted,
  max_tokens: integer({ minimum: 0 }),
  stop_sequences: nullable(list(text)),
  /** https://platform.claude.com/docs/en/api/messages/create */
  metadata: nullable(object({ user_id: nullable(string({ maxLength: 256 })) })),
  stream: nullableFlag,
  temperature: nullableNumber(0, 1),
  top_p: nullableNumber(0, 1),
  top_k: nullableInteger(0),
});

export type MessageRequest = Static<typeof messageRequest>;
/** A request that only counts tokens. */
export type CountRequest = Static<typeof countRequest>;
export type Message = CountRequest["messages"][number];
export type Block = Static<typeof block>;
export type InnerBlock = Static<typeof innerBlock>;

export const checkedMessage = compiled(messageRequest);
export const checkedCount = compiled(countRequest);
