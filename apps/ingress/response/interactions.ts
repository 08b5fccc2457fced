/**
 * Responses of OpenAI's Responses API as Gemini's interactions:
 * https://ai.google.dev/api/interactions-api (types `Interaction` and `InteractionSSEEvent` of
 * `@google/genai`).
 */
import { type ErrorCode, type Failure, statuses } from "#dialects/errors.ts";
import { geminiProfile } from "#dialects/gemini/profile.ts";
import { timeTextOf } from "#dialects/profile.ts";
import { isObject, jsonOf, listOf, objectOf, parsedObject, parseExact, someOf, textOf } from "#wire/json/parse.ts";

type Body = Record<string, unknown>;

/** The interaction without its steps, as events have it. */
function headOf(response: Body): Body {
  const { id, model, created_at: created, completed_at: completed, service_tier: tier, usage } = response;
  const seconds = Number(created) || 0;
  return {
    id,
    object: "interaction",
    model,
    status: statusOf(response),
    created: timeTextOf(seconds),
    updated: timeTextOf(Number(completed) || seconds),
    usage: isObject(usage) ? usageOf(usage) : undefined,
    service_tier: tier === "flex" || tier === "priority" ? tier : undefined,
  };
}

/** A whole interaction. `input` has the items of its request, if the caller wants to see them. */
export function interactionOf(response: Body, input?: readonly Body[]): Body {
  const { output, previous_response_id: previous, instructions, error } = response;
  const { code, message } = objectOf(error);
  return {
    ...headOf(response),
    previous_interaction_id: textOf(previous),
    system_instruction: textOf(instructions),
    input: input?.flatMap(stepsOf),
    steps: listOf(output).map(objectOf).flatMap(stepsOf),
    errors: isObject(error) ? [{ code: String(code ?? "INTERNAL"), message: String(message ?? "") }] : undefined,
  };
}

function statusOf({ status, output }: Body): string {
  if (status !== "completed") return textOf(status) ?? "in_progress";
  return listOf(output).some((item) => objectOf(item).type === "function_call") ? "requires_action" : "completed";
}

/** Google counts thinking beside the output. */
function usageOf(usage: Body): Body {
  const count = (value: unknown) => Number(value) || 0;
  const thought = count(objectOf(usage.output_tokens_details).reasoning_tokens);
  return {
    total_input_tokens: count(usage.input_tokens),
    total_cached_tokens: count(objectOf(usage.input_tokens_details).cached_tokens),
    total_output_tokens: Math.max(0, count(usage.output_tokens) - thought),
    total_thought_tokens: thought,
    total_tool_use_tokens: 0,
    total_tokens: count(usage.total_tokens),
  };
}

/**
 * The steps of an item, of an answer or of a request. Items of tools that a vendor runs have none.
 */
function stepsOf(item: Body): Body[] {
  switch (item.type) {
    case undefined:
    case "message": {
      const content = typeof item.content === "string" ? [{ text: item.content }] : listOf(item.content).map(objectOf);
      const type = item.role === "assistant" ? "model_output" : "user_input";
      return [{ type, content: content.flatMap(contentOf) }];
    }
    case "reasoning":
      return [thoughtOf(item)];
    case "function_call":
      return [
        { type: "function_call", id: item.call_id, name: item.name, arguments: argumentsOf(textOf(item.arguments)) },
      ];
    case "function_call_output": {
      const { output, call_id: id } = item;
      const result = typeof output === "string" ? output : listOf(output).map(objectOf).flatMap(contentOf);
      return [{ type: "function_result", call_id: id, result }];
    }
    case "image_generation_call":
      return textOf(item.result) === undefined ? [] : [{ type: "model_output", content: [imageOf(item)] }];
    default:
      return [];
  }
}

function contentOf({ text, refusal, image_url: image, file_url: file, file_data: data }: Body): Body[] {
  const partText = textOf(text) ?? textOf(refusal);
  if (partText !== undefined) return [{ type: "text", text: partText }];
  if (textOf(image) !== undefined) return [{ type: "image", ...sourceOf(image as string) }];
  const document = textOf(file) ?? textOf(data);
  return document === undefined ? [] : [{ type: "document", ...sourceOf(document) }];
}

function sourceOf(url: string): Body {
  const comma = url.indexOf(",");
  const [, mimeType] = /^data:([^;,]*)/.exec(url.slice(0, Math.max(0, comma))) ?? [];
  return mimeType === undefined ? { uri: url } : { mime_type: mimeType, data: url.slice(comma + 1) };
}

const imageOf = ({ result, output_format: format }: Body): Body => ({
  type: "image",
  mime_type: `image/${textOf(format) ?? "png"}`,
  data: result,
});

function thoughtOf({ encrypted_content: signature, summary, content }: Body): Body {
  const texts = [...listOf(summary), ...listOf(content)].flatMap((part) => textOf(objectOf(part).text) ?? []);
  return {
    type: "thought",
    signature: textOf(signature),
    summary: someOf(texts.map((text) => ({ type: "text", text }))),
  };
}

/** An empty object for arguments that are no object. */
function argumentsOf(text = ""): Body {
  try {
    return objectOf(parseExact(text));
  } catch {
    return {};
  }
}

/** The names that fields had before the request was translated. */
const ownNames: readonly [RegExp, string][] = [
  [/^previous_response_id$/, "previous_interaction_id"],
  [/^instructions$/, "system_instruction"],
  [/^(max_output_tokens|temperature|top_p|tool_choice)/, "generation_config.$1"],
  [/^stop\b/, "generation_config.stop_sequences"],
  [/^reasoning\.effort$/, "generation_config.thinking_level"],
  [/^text\.format(?:\.schema)?/, "response_format"],
];

/** The failure of a translated request, in the words of the request before. */
export function ownFailureOf({ message, param, ...failure }: Failure): Failure {
  const words = message
    .replace(/^Previous response with id/, "Previous interaction with id")
    .replace(/^Response with id/, "Interaction with id");
  if (param === undefined) return { ...failure, message: words };
  const own = ownNames.reduce((name, [pattern, by]) => name.replace(pattern, by), param);
  return { ...failure, message: words.replaceAll(param, own), param: own };
}

/** The failure that an error in OpenAI's form stands for. `status` is its HTTP status. */
export function failureIn(body: Body, status: number): Failure {
  const { message, param, code: own } = objectOf(body.error);
  const errorCode = (Object.keys(statuses) as ErrorCode[]).find((code) => statuses[code] === status);
  const code =
    own === "insufficient_quota" ? "budget_exhausted" : (errorCode ?? (status < 500 ? "invalid_request" : "internal"));
  return ownFailureOf({
    code,
    message: textOf(message) ?? "The gateway failed to process this request.",
    ...(textOf(param) !== undefined && { param: param as string }),
  });
}

/** The error codes in streams of Responses that are no statuses. */
const streamCodes: Record<string, ErrorCode> = {
  rate_limit_exceeded: "rate_limited",
  insufficient_quota: "budget_exhausted",
  server_is_overloaded: "overloaded",
  service_unavailable: "unavailable",
  upstream_timeout: "upstream_timeout",
  context_length_exceeded: "context_too_long",
  content_filter: "content_filter",
  invalid_request_error: "invalid_request",
};

/** Translates the events of one stream. */
export class InteractionStream {
  /** The step of each item that has one, by the item's index. */
  readonly #steps = new Map<unknown, number>();
  /** The items whose content was sent in parts. */
  readonly #sent = new Set<unknown>();
  #events = 0;
  #next = 0;
  #hasCalled = false;
  #hasFailed = false;

  /** The text for the data of one event; "" for an event without a counterpart. */
  textOf(data: Buffer): string {
    const event = parsedObject(data) ?? {};
    const response = objectOf(event.response);
    const index = this.#steps.get(event.output_index);
    const delta = (value: Body) => {
      this.#sent.add(event.output_index);
      return index === undefined ? "" : this.#event("step.delta", { index, delta: value });
    };
    switch (event.type) {
      case "keepalive":
        return "\n";
      case "response.created":
        return this.#event("interaction.created", { interaction: { ...headOf(response), status: "in_progress" } });
      case "response.in_progress":
        return this.#event("interaction.status_update", { interaction_id: response.id, status: "in_progress" });
      case "response.output_item.added":
        return this.#started(event.output_index, objectOf(event.item));
      case "response.output_text.delta":
      case "response.refusal.delta":
        return delta({ type: "text", text: event.delta });
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        return delta({ type: "thought_summary", content: { type: "text", text: event.delta } });
      case "response.function_call_arguments.delta":
        return delta({ type: "arguments_delta", arguments: event.delta });
      case "response.output_item.done":
        return this.#stopped(event.output_index, objectOf(event.item));
      case "response.completed":
      case "response.incomplete": {
        const head = headOf(response);
        const interaction =
          this.#hasCalled && head.status === "completed" ? { ...head, status: "requires_action" } : head;
        return `${this.#event("interaction.completed", { interaction })}event: done\ndata: [DONE]\n\n`;
      }
      case "error":
      case "response.failed":
        return this.#failed(objectOf(event.type === "error" ? event : response.error));
      default:
        return "";
    }
  }

  /** An image comes whole, so its step begins at its end. */
  #started(place: unknown, item: Body): string {
    if (!["message", "reasoning", "function_call"].includes(String(item.type))) return "";
    const index = this.#next++;
    this.#steps.set(place, index);
    this.#hasCalled ||= item.type === "function_call";
    const { content: _content, summary: _summary, signature: _signature, ...step } = stepsOf(item)[0] as Body;
    return this.#event("step.start", {
      index,
      step: item.type === "function_call" ? { ...step, arguments: {} } : step,
    });
  }

  #stopped(place: unknown, item: Body): string {
    if (item.type === "image_generation_call") {
      if (textOf(item.result) === undefined) return "";
      const index = this.#next++;
      return [
        this.#event("step.start", { index, step: { type: "model_output" } }),
        this.#event("step.delta", { index, delta: imageOf(item) }),
        this.#event("step.stop", { index }),
      ].join("");
    }
    const began = this.#steps.has(place) ? "" : this.#started(place, item);
    const index = this.#steps.get(place);
    if (index === undefined) return "";
    const delta = (value: Body) => this.#event("step.delta", { index, delta: value });
    const { signature, summary, content } = stepsOf(item)[0] as Body;
    const late = this.#sent.has(place)
      ? []
      : item.type === "function_call"
        ? [delta({ type: "arguments_delta", arguments: item.arguments ?? "{}" })]
        : [
            ...listOf(content).map((one) => delta(objectOf(one))),
            ...listOf(summary).map((one) => delta({ type: "thought_summary", content: one })),
          ];
    const signed = signature === undefined ? [] : [delta({ type: "thought_signature", signature })];
    return [began, ...late, ...signed, this.#event("step.stop", { index })].join("");
  }

  /** Responses tell an error twice. */
  #failed({ code: own, message }: Body): string {
    if (this.#hasFailed) return "";
    this.#hasFailed = true;
    const code = (Object.hasOwn(streamCodes, String(own)) ? streamCodes[String(own)] : undefined) ?? "internal";
    const failure = ownFailureOf({ code, message: textOf(message) ?? "The interaction failed." });
    const { error } = JSON.parse(geminiProfile.errorBodyOf(failure, "")) as { error: { status: string } };
    return this.#event("error", { error: { code: error.status, message: failure.message } });
  }

  #event(type: string, fields: Body): string {
    return `event: ${type}\ndata: ${jsonOf({ event_type: type, event_id: String(this.#events++), ...fields })}\n\n`;
  }
}
