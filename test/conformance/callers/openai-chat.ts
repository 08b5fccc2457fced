/** A caller of OpenAI's chat completions. */
import { type Attachment, type Caller, eventsIn, nothing, type Observed, parsed } from "../ask.ts";

interface Call {
  index?: number;
  id: string;
  type: string;
  function: { name: string; arguments: string };
}

/** A part of a content that some servers send in parts: the reasoning, or a text. */
interface Part {
  type: string;
  text?: string;
  thinking?: { type: string; text: string }[];
  signature?: string;
}

interface Detail {
  text?: string;
  index?: number;
}

interface Message {
  role?: string;
  content?: string | Part[] | null;
  refusal?: string | null;
  reasoning_content?: string;
  reasoning?: string;
  reasoning_details?: Detail[];
  tool_calls?: Call[];
}

interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number };
  completion_tokens_details?: { reasoning_tokens?: number };
}

interface Body {
  object?: string;
  id?: string;
  model?: string;
  choices?: { index: number; message?: Message; delta?: Message; finish_reason: string | null }[];
  usage?: Usage | null;
  error?: { message: string; param: string | null; code: string | null; type: string };
}

const finishes: Record<string, Observed["finish"]> = {
  stop: "stop",
  length: "length",
  tool_calls: "calls",
  content_filter: "filtered",
};

const partOf = ({ kind, mimeType, data, url }: Attachment) =>
  kind === "image"
    ? { type: "image_url", image_url: { url: url ?? `data:${mimeType};base64,${data}` } }
    : { type: "file", file: { filename: "a.pdf", file_data: `data:${mimeType};base64,${data}` } };

export const openaiChat: Caller = {
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
    const messages: object[] = system === undefined ? [] : [{ role: "system", content: system }];
    for (const [place, { role, text }] of turns.entries()) {
      const isLast = place === turns.length - 1;
      messages.push({
        role,
        content: isLast && attachments.length > 0 ? [...attachments.map(partOf), { type: "text", text }] : text,
      });
    }
    return {
      path: "/v1/chat/completions",
      body: {
        model,
        messages,
        ...(streams && { stream: true, stream_options: { include_usage: true } }),
        ...(tools && {
          tools: tools.map(({ name, description, parameters }) => ({
            type: "function",
            function: { name, description, ...(parameters && { parameters }) },
          })),
        }),
        ...(toolChoice && {
          tool_choice:
            typeof toolChoice === "string" ? toolChoice : { type: "function", function: { name: toolChoice.name } },
        }),
        ...(parallelCalls === false && { parallel_tool_calls: false }),
        ...(outputTokensMax && { max_completion_tokens: outputTokensMax }),
        ...(stop && { stop }),
        ...(temperature !== undefined && { temperature }),
        ...(schema && {
          response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
        }),
        ...(effort && { reasoning_effort: effort }),
      },
    };
  },
  readWhole(status, text) {
    const body = parsed<Body>(text);
    if (status !== 200) return { ...nothing(), error: errorOf(body, status) };
    const [choice] = body.choices ?? [];
    const faults =
      choice?.message?.role === "assistant" && body.object === "chat.completion" && choice.message.content !== undefined
        ? []
        : ["not a completion"];
    return { ...observed(choice?.message ?? {}, choice?.finish_reason ?? null, body.usage), faults };
  },
  readStream(text) {
    const faults: string[] = [];
    const message: Message = {};
    const calls: Call[] = [];
    const ids = new Set<unknown>();
    let finish: string | null = null;
    let usage: Usage | null | undefined;
    let error: Observed["error"];
    const events = eventsIn(text, faults);
    for (const [place, { name, data }] of events.entries()) {
      if (name !== undefined) faults.push("an event with a name");
      if (data === "[DONE]") {
        if (place !== events.length - 1) faults.push("events after [DONE]");
        break;
      }
      const chunk = parsed<Body>(data);
      if (chunk.error !== undefined) {
        error = errorOf(chunk, undefined);
        if (place !== events.length - 1) faults.push("events after an error");
        break;
      }
      ids.add(chunk.id);
      if (chunk.object !== "chat.completion.chunk" || !Array.isArray(chunk.choices)) faults.push("not a chunk");
      if (chunk.usage) usage = chunk.usage;
      for (const { index, delta = {}, finish_reason } of chunk.choices ?? []) {
        if (index !== 0) faults.push("another choice");
        if (message.role === undefined && delta.role !== "assistant") faults.push("no role at first");
        message.role ??= delta.role ?? "assistant";
        if (finish !== null) faults.push("deltas after the finish");
        finish = finish_reason ?? finish;
        for (const field of ["refusal", "reasoning_content", "reasoning"] as const)
          if (delta[field]) message[field] = (message[field] ?? "") + delta[field];
        if (delta.content) message.content = contentAfter(message.content, delta.content);
        for (const detail of delta.reasoning_details ?? []) {
          message.reasoning_details ??= [];
          const list = message.reasoning_details;
          const earlierDetail = list.find((one) => one.index === detail.index);
          if (earlierDetail === undefined) list.push({ ...detail });
          else Object.assign(earlierDetail, detail, { text: `${earlierDetail.text ?? ""}${detail.text ?? ""}` });
        }
        for (const { index: at, ...call } of delta.tool_calls ?? []) gather(calls, at, call, faults);
      }
    }
    if (error === undefined && events.at(-1)?.data !== "[DONE]") faults.push("no [DONE]");
    if (calls.length > 0) message.tool_calls = calls;
    if (ids.size > 1) faults.push("the id changes");
    return { ...observed(message, finish, usage), faults, error };
  },
  withResults(body, { replay, calls }, results) {
    const answers = calls.map(({ id }, place) => ({
      role: "tool",
      tool_call_id: id,
      content: results[place]?.text ?? "",
    }));
    return { ...body, messages: [...(body.messages as object[]), replay, ...answers] };
  },
};

function contentAfter(before: Message["content"], more: string | Part[]): string | Part[] {
  if (typeof more === "string" && (typeof before === "string" || !before)) return (before ?? "") + more;
  const parts = Array.isArray(before) ? before : [];
  for (const part of typeof more === "string" ? [{ type: "text", text: more }] : more) {
    const last = parts.at(-1);
    if (last?.type !== part.type) parts.push(structuredClone(part));
    else if (part.thinking === undefined) last.text += part.text ?? "";
    else {
      last.thinking?.push(...part.thinking);
      if (part.signature !== undefined) last.signature = part.signature;
    }
  }
  return parts;
}

function gather(calls: Call[], at: number | undefined, call: Omit<Call, "index">, faults: string[]): void {
  const earlierCall = calls[at as number];
  if (earlierCall === undefined) {
    if (at !== calls.length || !call.id || call.type !== "function" || !call.function.name)
      faults.push("an odd beginning of a call");
    calls.push(structuredClone(call));
  } else {
    if (call.id !== undefined || call.type !== undefined || call.function.name !== undefined)
      faults.push("a call that names itself twice");
    earlierCall.function.arguments += call.function.arguments;
  }
}

const textOf = (content: Message["content"]): string =>
  Array.isArray(content) ? content.map(({ text }) => text ?? "").join("") : (content ?? "");

function observed(message: Message, finish: string | null, usage: Usage | null | undefined): Observed {
  return {
    ...nothing(),
    text: textOf(message.content),
    thinking: message.reasoning_content ?? message.reasoning ?? "",
    calls: (message.tool_calls ?? []).map(({ id, function: { name, arguments: input } }) => ({
      id,
      name,
      input: parsed(input),
    })),
    finish: finish === null ? undefined : finishes[finish],
    usage: usage
      ? {
          input: usage.prompt_tokens,
          cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
          output: usage.completion_tokens,
          thinking: usage.completion_tokens_details?.reasoning_tokens ?? 0,
        }
      : undefined,
    replay: { content: null, ...message, role: "assistant" },
  };
}

const errorOf = ({ error }: Body, status: number | undefined): Observed["error"] => ({
  status,
  message: error?.message ?? "",
  field: error?.param ?? undefined,
});
