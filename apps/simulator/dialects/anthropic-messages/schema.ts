/** The shape of a request for a message, as far as the simulator reads it; unknown fields pass. */
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";

import {
  anything,
  filledText,
  flag,
  nullable,
  nullableFlag,
  nullableInteger,
  nullableNumber,
  nullableText,
  optional,
  text,
} from "../shape.ts";

const cacheControl = nullable(Type.Object({ type: Type.Literal("ephemeral"), ttl: optional(Type.Enum(["5m", "1h"])) }));

const source = Type.Object({
  type: Type.Enum(["base64", "url", "file", "text", "content"]),
  media_type: optional(text),
  data: optional(text),
  url: optional(text),
  file_id: optional(text),
  content: optional(anything),
});

/** The blocks of a tool result. */
const innerBlock = Type.Object({
  type: text,
  text: optional(text),
  source: optional(source),
  cache_control: cacheControl,
});

/** The required members and the sender depend on the type: see rules.ts. */
const block = Type.Object({
  type: text,
  text: optional(text),
  source: optional(source),
  id: optional(Type.String({ pattern: "^[a-zA-Z0-9_-]+$" })),
  name: optional(filledText),
  input: optional(Type.Record(text, anything)),
  tool_use_id: optional(text),
  content: optional(Type.Union([text, Type.Array(innerBlock)])),
  is_error: nullableFlag,
  thinking: optional(text),
  signature: optional(text),
  data: optional(text),
  cache_control: cacheControl,
});

const message = Type.Object({
  role: Type.Enum(["user", "assistant", "system"]),
  content: Type.Union([text, Type.Array(block)]),
});

const textBlock = Type.Object({ type: Type.Literal("text"), text: text, cache_control: cacheControl });

const display = nullable(Type.Enum(["summarized", "omitted"]));
const disableParallel = optional(flag);

const format = Type.Object({ type: Type.Literal("json_schema"), schema: Type.Record(text, anything) });

const tool = Type.Object({
  name: Type.String({ pattern: "^[a-zA-Z0-9_-]{1,128}$" }),
  type: nullableText,
  input_schema: optional(Type.Object({ type: Type.Literal("object"), properties: optional(anything) })),
  defer_loading: optional(flag),
  cache_control: cacheControl,
});

const counted = {
  model: filledText,
  messages: Type.Array(message, { minItems: 1, maxItems: 100_000 }),
  system: optional(Type.Union([text, Type.Array(textBlock)])),
  cache_control: cacheControl,
  thread: nullable(Type.Object({ type: Type.Enum(["create", "continue"]) })),
  output_config: nullable(
    Type.Object({ effort: nullable(Type.Enum(["low", "medium", "high", "xhigh", "max"])), format: nullable(format) }),
  ),
  thinking: optional(
    Type.Union([
      Type.Object({ type: Type.Literal("enabled"), budget_tokens: Type.Integer({ minimum: 1_024 }), display }),
      Type.Object({ type: Type.Literal("adaptive"), display }),
      Type.Object({ type: Type.Enum(["between_tools", "disabled"]) }),
    ]),
  ),
  tool_choice: optional(
    Type.Union([
      Type.Object({ type: Type.Enum(["auto", "any"]), disable_parallel_tool_use: disableParallel }),
      Type.Object({ type: Type.Literal("tool"), name: text, disable_parallel_tool_use: disableParallel }),
      Type.Object({ type: Type.Literal("none") }),
    ]),
  ),
  tools: optional(Type.Array(tool)),
};

const countRequest = Type.Object(counted);

const messageRequest = Type.Object({
  ...counted,
  max_tokens: Type.Integer({ minimum: 0 }),
  stop_sequences: nullable(Type.Array(text)),
  /** https://platform.claude.com/docs/en/api/messages/create */
  metadata: nullable(Type.Object({ user_id: nullable(Type.String({ maxLength: 256 })) })),
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

export const checkedMessage = Compile(messageRequest);
export const checkedCount = Compile(countRequest);
