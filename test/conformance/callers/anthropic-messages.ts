/** A caller of Anthropic's messages. */
import { type Attachment, type Caller, eventsIn, nothing, type Observed, parsed } from "../ask.ts";

interface Block {
  type: string;
  text?: string;
  thinking?: string;
  signature?: string;
  data?: string;
  id?: string;
  name?: string;
  input?: unknown;
}

interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_input_tokens?: number | null;
  cache_creation_input_tokens?: number | null;
  output_tokens_details?: { thinking_tokens?: number } | null;
}

interface Message {
  id: string;
  type: string;
  role: string;
  content: Block[];
  stop_reason: string | null;
  usage: Usage;
}

interface ErrorBody {
  type?: string;
  error?: { type: string; message: string };
  request_id?: string;
}

interface StreamEvent extends ErrorBody {
  type: string;
  message?: Message;
  index?: number;
  content_block?: Block;
  delta?: {
    type?: string;
    text?: string;
    thinking?: string;
    signature?: string;
    partial_json?: string;
    stop_reason?: string;
  };
  usage?: Usage;
}

const finishes: Record<string, Observed["finish"]> = {
  end_turn: "stop",
  stop_sequence: "stop",
  max_tokens: "length",
  tool_use: "calls",
  refusal: "filtered",
};

const partOf = ({ kind, mimeType, data, url }: Attachment) => ({
  type: kind,
  source: url === undefined ? { type: "base64", media_type: mimeType, data } : { type: "url", url },
});

export const anthropicMessages: Caller = {
  requestOf(ask, model, streams) {
    const {
      system,
      turns,
      attachments = [],
      tools,
      toolChoice,
      parallelCalls,
      outputTokensMax,
      stop,
      temperature,
      schema,
      effort,
    } = ask;
    const choice =
      toolChoice === undefined
        ? { type: "auto" }
        : toolChoice === "none"
          ? { type: "none" }
          : toolChoice === "required"
            ? { type: "any" }
            : { type: "tool", name: toolChoice.name };
    return {
      path: "/v1/messages",
      body: {
        model,
        max_tokens: outputTokensMax ?? 4_096,
        ...(system !== undefined && { system }),
        messages: turns.map(({ role, text }, place) => ({
          role,
          content:
            place === turns.length - 1 && attachments.length > 0
              ? [...attachments.map(partOf), { type: "text", text }]
              : text,
        })),
        ...(streams && { stream: true }),
        ...(tools && {
          tools: tools.map(({ name, description, parameters }) => ({
            name,
            description,
            input_schema: parameters ?? { type: "object", properties: {} },
          })),
        }),
        ...((toolChoice !== undefined || parallelCalls === false) && {
          tool_choice: { ...choice, ...(parallelCalls === false && { disable_parallel_tool_use: true }) },
        }),
        ...(stop && { stop_sequences: stop }),
        ...(temperature !== undefined && { temperature }),
        ...((schema || effort) && {
          output_config: { ...(schema && { format: { type: "json_schema", schema } }), ...(effort && { effort }) },
        }),
        ...(effort && { thinking: { type: "adaptive", display: "summarized" } }),
      },
    };
  },
  readWhole(status, text) {
    if (status !== 200) return { ...nothing(), error: errorOf(parsed<ErrorBody>(text), status) };
    const message = parsed<Message>(text);
    return {
      ...observed(message.content, message.stop_reason, message.usage),
      faults: message.type === "message" && message.role === "assistant" ? [] : ["not a message"],
    };
  },
  readStream(text) {
    const faults: string[] = [];
    const blocks: Block[] = [];
    let open: { block: Block; json: string } | undefined;
    let usage: Usage | undefined;
    let stop: string | null = null;
    let error: Observed["error"];
    const events = eventsIn(text, faults).filter(({ name }) => name !== "ping");
    for (const [place, { name, data }] of events.entries()) {
      const event = parsed<StreamEvent>(data);
      if (name !== event.type) faults.push(`an event named ${name}`);
      if ((place === 0) !== (event.type === "message_start") && event.type !== "error")
        faults.push("message_start elsewhere than at first");
      switch (event.type) {
        case "message_start":
          usage = event.message?.usage;
          if (event.message?.content.length !== 0) faults.push("a message that begins with content");
          break;
        case "content_block_start":
          if (open !== undefined || event.index !== blocks.length) faults.push("blocks that overlap");
          open = { block: { ...(event.content_block as Block) }, json: "" };
          blocks.push(open.block);
          break;
        case "content_block_delta":
          if (open === undefined || event.index !== blocks.length - 1) faults.push("a delta of no open block");
          else add(open, event.delta ?? {}, faults);
          break;
        case "content_block_stop":
          if (open?.json) open.block.input = parsed(open.json);
          open = undefined;
          break;
        case "message_delta":
          if (open !== undefined) faults.push("an end with an open block");
          stop = event.delta?.stop_reason ?? stop;
          usage = { ...(usage as Usage), ...(event.usage as Usage) };
          break;
        case "message_stop":
          if (place !== events.length - 1) faults.push("events after message_stop");
          break;
        case "error":
          error = errorOf(event, undefined);
          if (place !== events.length - 1) faults.push("events after an error");
          break;
        default:
          faults.push(`an unknown event: ${event.type}`);
      }
    }
    if (error === undefined && events.at(-1)?.name !== "message_stop") faults.push("no message_stop");
    return { ...observed(blocks, stop, usage), faults, error };
  },
  withResults(body, { replay, calls }, results) {
    const content = calls.map(({ id }, place) => ({
      type: "tool_result",
      tool_use_id: id,
      content: results[place]?.text ?? "",
      ...(results[place]?.isError && { is_error: true }),
    }));
    return {
      ...body,
      messages: [...(body.messages as object[]), { role: "assistant", content: replay }, { role: "user", content }],
    };
  },
};

function add(open: { block: Block; json: string }, delta: NonNullable<StreamEvent["delta"]>, faults: string[]): void {
  const { block } = open;
  switch (delta.type) {
    case "text_delta":
      block.text += delta.text as string;
      break;
    case "thinking_delta":
      block.thinking += delta.thinking as string;
      break;
    case "signature_delta":
      if (block.signature) faults.push("two signatures");
      block.signature = delta.signature as string;
      break;
    case "input_json_delta":
      open.json += delta.partial_json;
      break;
    default:
      faults.push(`an unknown delta: ${delta.type}`);
  }
}

function observed(blocks: Block[], stop: string | null, usage: Usage | undefined): Observed {
  return {
    ...nothing(),
    text: blocks.map(({ type, text }) => (type === "text" ? text : "")).join(""),
    thinking: blocks.map(({ type, thinking }) => (type === "thinking" ? thinking : "")).join(""),
    calls: blocks
      .filter(({ type }) => type === "tool_use")
      .map(({ id, name, input }) => ({ id: id as string, name: name as string, input })),
    finish: stop === null ? undefined : finishes[stop],
    usage: usage && {
      input: usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0),
      cached: usage.cache_read_input_tokens ?? 0,
      output: usage.output_tokens,
      thinking: usage.output_tokens_details?.thinking_tokens ?? 0,
    },
    faults:
      blocks.some(({ type, text }) => type === "text" && text === "") && blocks.length > 1
        ? ["an empty text block"]
        : [],
    replay: blocks,
  };
}

const errorOf = ({ error, request_id }: ErrorBody, status: number | undefined): Observed["error"] => ({
  status,
  message: `${error?.message ?? ""}${request_id === undefined ? " (no request id)" : ""}`,
  field: /^([a-z_]+(?:[.[]\w+\]?)*)[: ]/.exec(error?.message ?? "")?.[1],
});
