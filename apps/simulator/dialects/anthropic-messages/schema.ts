/** The shape of a request for a message, as far as the simulator reads it; unknown fields pass. */
import Type, { type Static } from "typebox";
import { Compile } from "typebox/compile";

const optional = Type.Optional;
const nullable = <Schema extends Type.TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]));
const anything = Type.Unknown();

const cacheControl = nullable(Type.Object({ type: Type.Literal("ephemeral"), ttl: optional(Type.Enum(["5m", "1h"])) }));

const source = Type.Object({
  type: Type.Enum(["base64", "url", "file", "text", "content"]),
  media_type: optional(Type.String()),
  data: optional(Type.String()),
  url: optional(Type.String()),
  file_id: optional(Type.String()),
  content: optional(anything),
});

/** The blocks of a tool result. */
const innerBlock = Type.Object({
  type: Type.String(),
  text: optional(Type.String()),
  source: optional(source),
  cache_control: cacheControl,
});

/** The required members and the sender depend on the type: see rules.ts. */
const block = Type.Object({
  type: Type.String(),
  text: optional(Type.String()),
  source: optional(source),
  id: optional(Type.String({ pattern: "^[a-zA-Z0-9_-]+$" })),
  name: optional(Type.String({ minLength: 1 })),
  input: optional(Type.Record(Type.String(), anything)),
  tool_use_id: optional(Type.String()),
  content: optional(Type.Union([Type.String(), Type.Array(innerBlock)])),
  is_error: nullable(Type.Boolean()),
  thinking: optional(Type.String()),
  signature: optional(Type.String()),
  data: optional(Type.String()),
  cache_control: cacheControl,
});

const message = Type.Object({
  role: Type.Enum(["user", "assistant", "system"]),
  content: Type.Union([Type.String(), Type.Array(block)]),
});

const textBlock = Type.Object({ type: Type.Literal("text"), text: Type.String(), cache_control: cacheControl });

const display = nullable(Type.Enum(["summarized", "omitted"]));
const disableParallel = optional(Type.Boolean());

const format = Type.Object({ type: Type.Literal("json_schema"), schema: Type.Record(Type.String(), anything) });

const tool = Type.Object({
  name: Type.String({ pattern: "^[a-zA-Z0-9_-]{1,128}$" }),
  type: nullable(Type.String()),
  input_schema: optional(Type.Object({ type: Type.Literal("object") })),
  defer_loading: optional(Type.Boolean()),
  cache_control: cacheControl,
});

const counted = {
  model: Type.String({ minLength: 1 }),
  messages: Type.Array(message, { minItems: 1, maxItems: 100_000 }),
  system: optional(Type.Union([Type.String(), Type.Array(textBlock)])),
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
      Type.Object({ type: Type.Literal("tool"), name: Type.String(), disable_parallel_tool_use: disableParallel }),
      Type.Object({ type: Type.Literal("none") }),
    ]),
  ),
  tools: optional(Type.Array(tool)),
};

const countRequest = Type.Object(counted);

const messageRequest = Type.Object({
  ...counted,
  max_tokens: Type.Integer({ minimum: 0 }),
  stop_sequences: nullable(Type.Array(Type.String())),
  stream: nullable(Type.Boolean()),
  temperature: nullable(Type.Number({ minimum: 0, maximum: 1 })),
  top_p: nullable(Type.Number({ minimum: 0, maximum: 1 })),
  top_k: nullable(Type.Integer({ minimum: 0 })),
});

export type MessageRequest = Static<typeof messageRequest>;
/** A request that only counts tokens. */
export type CountRequest = Static<typeof countRequest>;
export type Message = CountRequest["messages"][number];
export type Block = Static<typeof block>;
export type InnerBlock = Static<typeof innerBlock>;

export const checkedMessage = Compile(messageRequest);
export const checkedCount = Compile(countRequest);
