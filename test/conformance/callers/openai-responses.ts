/** A caller of OpenAI's Responses. */
import { type Attachment, type Caller, eventsIn, nothing, type Observed, parsed } from "../ask.ts";

interface Item {
  type: string;
  id?: string;
  call_id?: string;
  name?: string;
  arguments?: string;
  content?: { type: string; text?: string; refusal?: string }[];
  summary?: { text: string }[];
  encrypted_content?: string | null;
}

interface Body {
  id: string;
  status: string;
  output: Item[];
  incomplete_details: { reason: string } | null;
  error: { message: string; code?: string; param?: string | null } | null;
  usage?: {
    input_tokens: number;
    output_tokens: number;
    total_tokens: number;
    input_tokens_details: { cached_tokens: number };
    output_tokens_details: { reasoning_tokens: number };
  } | null;
}

interface StreamEvent {
  type: string;
  sequence_number?: number;
  response?: Body;
  item?: Item;
  output_index?: number;
  item_id?: string;
  delta?: string;
  text?: string;
  arguments?: string;
  message?: string;
  param?: string | null;
}

const partOf = ({ kind, mimeType, data, url }: Attachment) =>
  kind === "image"
    ? { type: "input_image", image_url: url ?? `data:${mimeType};base64,${data}`, detail: "auto" }
    : { type: "input_file", filename: "a.pdf", file_data: `data:${mimeType};base64,${data}` };

export const openaiResponses: Caller = {
  requestOf(ask, model, streams) {
    const {
      system,
      turns,
      attachments = [],
      tools,
      toolChoice,
      parallelCalls,
      outputTokensMax,
      temperature,
      schema,
      effort,
    } = ask;
    const input = turns.map(({ role, text }, place) => ({
      role,
      content:
        place === turns.length - 1 && attachments.length > 0
          ? [...attachments.map(partOf), { type: "input_text", text }]
          : text,
    }));
    return {
      path: "/v1/responses",
      body: {
        model,
        input,
        ...(system !== undefined && { instructions: system }),
        ...(streams && { stream: true }),
        ...(tools && { tools: tools.map((tool) => ({ type: "function", strict: false, parameters: null, ...tool })) }),
        ...(toolChoice && {
          tool_choice: typeof toolChoice === "string" ? toolChoice : { type: "function", name: toolChoice.name },
        }),
        ...(parallelCalls === false && { parallel_tool_calls: false }),
        ...(outputTokensMax && { max_output_tokens: outputTokensMax }),
        ...(temperature !== undefined && { temperature }),
        ...(schema && { text: { format: { type: "json_schema", name: "answer", schema, strict: true } } }),
        ...(effort && { reasoning: { effort, summary: "auto" }, include: ["reasoning.encrypted_content"] }),
      },
    };
  },
  readWhole(status, text) {
    const body = parsed<Body>(text);
    if (status !== 200) return { ...nothing(), error: errorOf(body.error, status) };
    return observed(body, body.output);
  },
  readStream(text) {
    const faults: string[] = [];
    const done: Item[] = [];
    const deltas = new Map<string, string>();
    let error: Observed["error"];
    let last: StreamEvent | undefined;
    for (const [place, { name, data }] of eventsIn(text, faults).entries()) {
      const event = parsed<StreamEvent>(data);
      if (name !== event.type) faults.push(`an event named ${name}`);
      if (place === 0 && event.type !== "response.created" && event.type !== "error")
        faults.push("no response.created at first");
      if (event.sequence_number !== place) faults.push(`a gap at ${place}`);
      if (event.type === "error")
        error = errorOf({ message: event.message ?? "", param: event.param ?? null }, undefined);
      if (event.item_id !== undefined && event.delta !== undefined)
        deltas.set(event.item_id, (deltas.get(event.item_id) ?? "") + event.delta);
      if (
        event.type === "response.function_call_arguments.done" &&
        deltas.get(event.item_id as string) !== event.arguments
      )
        faults.push("arguments that differ from their deltas");
      if (event.type === "response.output_text.done" && (deltas.get(event.item_id as string) ?? "") !== event.text)
        faults.push("a text that differs from its deltas");
      if (event.type === "response.output_item.done") done.push(event.item as Item);
      last = event;
    }
    if (error !== undefined)
      return {
        ...nothing(),
        text: [...deltas.values()].join(""),
        faults: last?.type === "response.failed" ? faults : [...faults, "no response.failed"],
        error,
      };
    if (last?.type !== "response.completed" && last?.type !== "response.incomplete")
      return { ...nothing(), faults: [...faults, `ends with ${last?.type}`] };
    const body = last.response as Body;
    if (JSON.stringify(body.output) !== JSON.stringify(done)) faults.push("items that differ from their done events");
    return { ...observed(body, done), faults };
  },
  withResults(body, { replay, calls }, results) {
    const outputs = calls.map(({ id }, place) => ({
      type: "function_call_output",
      call_id: id,
      output: results[place]?.text ?? "",
    }));
    return { ...body, input: [...(body.input as object[]), ...(replay as object[]), ...outputs] };
  },
};

function observed({ status, incomplete_details: incomplete, usage }: Body, output: Item[]): Observed {
  const calls = output.filter(({ type }) => type === "function_call");
  const parts = output.flatMap(({ type, content }) => (type === "message" ? (content ?? []) : []));
  return {
    ...nothing(),
    text: parts.map(({ text, refusal }) => text ?? refusal ?? "").join(""),
    thinking: output
      .flatMap(({ type, summary }) => (type === "reasoning" ? (summary ?? []).map(({ text }) => text) : []))
      .join(""),
    calls: calls.map(({ call_id, name, arguments: input }) => ({
      id: call_id as string,
      name: name as string,
      input: parsed(input as string),
    })),
    finish:
      status === "incomplete"
        ? incomplete?.reason === "max_output_tokens"
          ? "length"
          : "filtered"
        : calls.length > 0
          ? "calls"
          : "stop",
    usage: usage
      ? {
          input: usage.input_tokens,
          cached: usage.input_tokens_details.cached_tokens,
          output: usage.output_tokens,
          thinking: usage.output_tokens_details.reasoning_tokens,
        }
      : undefined,
    faults: status === "completed" || status === "incomplete" ? [] : [`status ${status}`],
    replay: output,
  };
}

const errorOf = (error: Body["error"], status: number | undefined): Observed["error"] => ({
  status,
  message: error?.message ?? "",
  field: error?.param ?? undefined,
});
