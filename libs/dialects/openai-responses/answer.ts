/**
 * Whole answers in OpenAI's Responses format, and the parts shared with streamed answers:
 * https://platform.openai.com/docs/api-reference/responses/object
 */

import {
  defined,
  isObject,
  isPresent,
  type JsonObject,
  jsonOf,
  listOf,
  objectOf,
  someOf,
  textOf,
} from "#wire/json/parse.ts";
import type { AnswerContext, AnswerIdentity } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import { openaiCitationOf, openaiCitationsIn, placedInBlock } from "../neutral/citations.ts";
import { emptyAnswer, isFailure, stoppedBy } from "../neutral/finish.ts";
import {
  type Answer,
  type AnswerEvent,
  type Block,
  endWith,
  eventsOf,
  type Finish,
  failed,
} from "../neutral/neutral.ts";
import { openaiTierNamed } from "../neutral/service-tier.ts";
import { calledTool, inputOfText, inputTextOf, newCallId, textOfCall, wholeInputOf } from "../neutral/tools.ts";
import { wrappedSignatureOf } from "../neutral/wrapped-signature.ts";
import { openaiUsageOf } from "../openai/parts.ts";
import { isErrorBody, upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { countedUnits, countedUsage, plausible, tokensOf, type Units, type Usage } from "../usage.ts";
import { clientCallIn, clientCallItem, clientTypeOf } from "./client-tools.ts";
import { freeTextOf } from "./free-text.ts";
import { dialect, thinkingTextOf } from "./items.ts";

/** The id by which callers know a response, whichever upstream answers. */
export const responseIdOf = ({ id }: Pick<AnswerIdentity, "id">) => `resp_${id}`;

/** The id prefix of the gateway's own reasoning items, which no upstream of this dialect knows. */
export const foreignThoughtId = "rs_foreign_";

type ItemKind = "text" | "refusal" | "reasoning" | "function" | "custom" | "image";
const idPrefixes: Record<ItemKind, string> = {
  text: "msg_",
  refusal: "msg_",
  reasoning: foreignThoughtId,
  function: "fc_",
  custom: "ctc_",
  image: "ig_",
};

/** An item's id, by its index in the answer. */
const itemIdOf = (kind: ItemKind, { id }: AnswerContext, index: number) => `${idPrefixes[kind]}${id}_${index}`;

export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** A content part of a message item. */
export const messagePartOf = (block: Extract<Block, { kind: "text" | "refusal" }>) =>
  block.kind === "text"
    ? { type: "output_text", text: block.text, annotations: annotationsOf(block), logprobs: [] }
    : { type: "refusal", refusal: block.text };

export const annotationsOf = ({ citations, text }: Extract<Block, { kind: "text" }>): object[] =>
  placedInBlock(citations, text).map((citation) => ({ type: "url_citation", ...openaiCitationOf(citation) }));

/** The caller's name of a called tool. */
export function calledNameOf(
  name: string,
  { request }: AnswerContext,
): {
  name: string;
  namespace?: string;
  encrypted_function_args?: [];
  takesText: boolean;
  clientType: string | undefined;
} {
  const tool = calledTool(request, name);
  const clientType = clientTypeOf(tool);
  if (tool === undefined) return { name, takesText: false, clientType };
  const { callerName, namespace, parameters, takesText = false } = tool;
  const asksForEncryption = Object.values(objectOf(parameters?.properties)).some(
    (property) => objectOf(property).encrypted === true,
  );
  return {
    name: callerName,
    ...(namespace !== undefined && { namespace }),
    // Tells Codex that the text for another agent is readable, by models of any vendor.
    // https://github.com/openai/codex/pull/35845
    ...(asksForEncryption && { encrypted_function_args: [] }),
    takesText,
    clientType,
  };
}

/** A block as an item; an item that has just begun has no content. */
export function itemOf(block: Block, context: AnswerContext, index: number, status: ItemStatus): JsonObject {
  const isBegun = status === "in_progress";
  switch (block.kind) {
    case "text":
    case "refusal":
      return {
        id: (index === 0 ? context.continues?.itemId : undefined) ?? itemIdOf("text", context, index),
        type: "message",
        role: "assistant",
        status,
        content: isBegun ? [] : [messagePartOf(block)],
      };
    case "reasoning": {
      const { text, signature } = block;
      const summary = text === "" ? [] : [{ type: "summary_text", text }];
      return {
        id: itemIdOf("reasoning", context, index),
        type: "reasoning",
        summary,
        encrypted_content: signature && wrappedSignatureOf(signature, text, context.upstreamModel),
      };
    }
    case "call": {
      const { takesText, clientType, ...called } = calledNameOf(block.name, context);
      const callId = block.id === "" ? itemIdOf("function", context, index) : block.id;
      const own = clientType === undefined ? undefined : clientCallItem(clientType, callId, block.input);
      if (own !== undefined) return { id: `${own.idPrefix}${context.id}_${index}`, status, ...own.item };
      const common = { status, call_id: callId, ...called };
      if (takesText)
        return {
          id: itemIdOf("custom", context, index),
          type: "custom_tool_call",
          ...common,
          input: isBegun ? "" : freeTextOf(block.input),
        };
      return {
        id: itemIdOf("function", context, index),
        type: "function_call",
        ...common,
        arguments: isBegun ? "" : argumentsTextOf(block.input),
      };
    }
    case "image": {
      const format = { output_format: block.mimeType.replace(/^image\//, "") };
      return {
        id: itemIdOf("image", context, index),
        type: "image_generation_call",
        status: isBegun ? status : "completed",
        result: isBegun ? null : block.data,
        ...format,
      };
    }
    default:
      return block satisfies never;
  }
}

const argumentsTextOf = (input: string) => (input === "" ? "{}" : input);

type Ending = { status: "completed" } | { status: "incomplete"; reason: "max_output_tokens" | "content_filter" };
const lengthEnding: Ending = { status: "incomplete", reason: "max_output_tokens" };
const endings: Record<Finish, Ending> = {
  stop: { status: "completed" },
  "stop-sequence": { status: "completed" },
  calls: { status: "completed" },
  length: lengthEnding,
  "context-full": lengthEnding,
  "content-filter": { status: "incomplete", reason: "content_filter" },
  paused: lengthEnding,
};

export const endingOf = (finish: Finish) => endings[finish];

const requestedTierOf = ({ service_tier: tier }: JsonObject): unknown =>
  tier === undefined || tier === "auto" ? "default" : tier;

/** The response object with these items. Repeats the caller's settings as the caller wrote them. */
export function responseBodyOf(
  context: AnswerContext,
  output: readonly object[],
  ending: Ending | { status: "in_progress" },
  usage: Usage | null | undefined,
): object {
  const { body, createdAt, model, storage } = context;
  const text = objectOf(body.text);
  return {
    id: responseIdOf(context),
    object: "response",
    created_at: createdAt,
    status: ending.status,
    background: false,
    error: null,
    incomplete_details: ending.status === "incomplete" ? { reason: ending.reason } : null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    metadata: body.metadata ?? {},
    model,
    output,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort: null, summary: null, ...objectOf(body.reasoning) },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: openaiTierNamed(usage?.serviceTier) ?? requestedTierOf(body),
    store: false,
    temperature: body.temperature ?? 1,
    text: { ...text, format: text.format ?? { type: "text" } },
    tool_choice: body.tool_choice ?? "auto",
    tools: body.tools ?? [],
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? 1,
    truncation: body.truncation ?? "disabled",
    usage: usage === null ? null : usageBodyOf(usage),
    user: body.user ?? null,
    ...storage,
  };
}

/** All counts are always present: clients discard an answer that lacks one. */
function usageBodyOf(usage: Usage | undefined): object {
  const {
    inputTokens = 0,
    cachedInputTokens = 0,
    cacheWriteTokens = 0,
    outputTokens = 0,
    reasoningTokens = 0,
    units,
  } = usage ?? {};
  return {
    input_tokens: inputTokens,
    input_tokens_details: {
      cached_tokens: cachedInputTokens,
      cache_write_tokens: cacheWriteTokens,
      image_tokens: units?.imageInputTokens,
    },
    output_tokens: outputTokens,
    output_tokens_details: {
      reasoning_tokens: reasoningTokens,
      image_tokens: units?.imageOutputTokens,
    },
    total_tokens: inputTokens + outputTokens,
  };
}

/**
 * A usage with the counters and details that clients read without a check, or an estimate if a
 * server reports none; undefined if nothing is missing. https://www.openresponses.org,
 * https://github.com/router-for-me/CLIProxyAPI/issues/1681
 */
export function wholeUsageIn({ usage }: JsonObject, estimate: Usage | undefined): object | undefined {
  if (!isObject(usage)) return estimate && usageBodyOf(estimate);
  const { input_tokens_details: input, output_tokens_details: output } = usage;
  // Servers that pass on the usage of a chat completion:
  // https://github.com/orangeboyChen/codebuddy2api/pull/115
  if (usage.input_tokens === undefined && usage.prompt_tokens !== undefined)
    return { ...usage, ...usageBodyOf(openaiUsageOf(usage)) };
  if (isPresent(objectOf(input).cached_tokens) && isPresent(objectOf(output).reasoning_tokens)) return undefined;
  return {
    ...usage,
    input_tokens_details: { cached_tokens: 0, ...objectOf(input) },
    output_tokens_details: { reasoning_tokens: 0, ...objectOf(output) },
  };
}

/** The usage in a response object; undefined if it has none. */
export function usageOf(response: JsonObject): Usage | undefined {
  const { usage, tool_usage: counted } = response;
  if (!isObject(usage)) return undefined;
  const own = countedUsage(openaiUsageOf(usage, response, hostedUnitsOf(response)));
  const pictures = counted === undefined ? undefined : openaiUsageOf(objectOf(counted).image_gen);
  return own === undefined || pictures === undefined ? own : withPictures(own, pictures);
}

/**
 * The usage with that of the pictures that the upstream's own tool made, which the tokens of the
 * answer do not contain: https://github.com/Wei-Shaw/sub2api/issues/4644
 */
function withPictures(usage: Usage, { inputTokens, outputTokens, units }: Usage): Usage {
  const { imageInputTokens = 0, imageOutputTokens = 0 } = usage.units ?? {};
  if (imageOutputTokens > 0) return usage;
  return plausible({
    ...usage,
    inputTokens: usage.inputTokens + inputTokens,
    outputTokens: usage.outputTokens + outputTokens,
    ...countedUnits({
      ...usage.units,
      imageInputTokens: imageInputTokens + (units?.imageInputTokens ?? 0),
      imageOutputTokens: units?.imageOutputTokens ?? outputTokens,
    }),
  });
}

/**
 * The tools that the upstream ran. `tool_usage` counts the searches that are billed; an upstream
 * without it bills each search item, and not those that open a page.
 * https://developers.openai.com/api/docs/pricing#built-in-tools
 */
function hostedUnitsOf({ tool_usage: counted, output }: JsonObject): Units {
  const { num_requests: searches } = objectOf(objectOf(counted).web_search);
  const containers = new Set<unknown>();
  let webSearches = 0;
  let fileSearches = 0;
  for (const { type, action, container_id: container } of listOf(output).map(objectOf))
    if (type === "web_search_call") webSearches += (objectOf(action).type ?? "search") === "search" ? 1 : 0;
    else if (type === "file_search_call") fileSearches++;
    else if (type === "code_interpreter_call") containers.add(container);
  return {
    webSearches: isPresent(searches) ? tokensOf(searches) : webSearches,
    fileSearches,
    codeSessions: containers.size,
  };
}

export function encodeAnswer({ blocks, finish, usage }: Answer, context: AnswerContext): string {
  const ending = endingOf(finish);
  const items = blocks.map((block, index) =>
    itemOf(block, context, index, index === blocks.length - 1 ? ending.status : "completed"),
  );
  return jsonOf(responseBodyOf(context, items, ending, usage));
}

export function decodeAnswer(body: JsonObject): AnswerEvent[] {
  const { status, output, incomplete_details: details } = body;
  const failure = failureIn(body);
  if (failure !== undefined) return failed(failure);
  const isWhole = Array.isArray(output) && (status === undefined || status === "completed" || status === "incomplete");
  if (!isWhole) return failed(upstreamErrorOf(body));
  const blocks = output.flatMap((item) => blocksOf(objectOf(item)));
  if (blocks.length === 0 && status === undefined) return failed(emptyAnswer);
  const called = blocks.some(({ kind }) => kind === "call");
  return eventsOf({ blocks, ...endWith(finishOf(status, details, called), { usage: usageOf(body) }) });
}

/** The error of a failed response, in any event. */
export function failureIn({ error, status }: JsonObject): UpstreamError | undefined {
  if (isPresent(error)) return upstreamErrorOf({ error });
  return isFailure(status) ? stoppedBy(status) : undefined;
}

/**
 * The last event of some servers, whatever the status of the response.
 * https://github.com/decolua/9router/pull/2142
 */
export const otherEnd = "response.done";

/** True for an event that is an error, although its type is not one of this dialect. */
export const isForeignError = (event: JsonObject, type: unknown): boolean =>
  !(typeof type === "string" && type.startsWith("response.")) && isErrorBody(event);

/** This dialect has no finish reason for calls: a call is an item. */
export function finishOf(status: unknown, details: unknown, called: boolean): Finish {
  if (status === "incomplete") return objectOf(details).reason === "content_filter" ? "content-filter" : "length";
  return called ? "calls" : "stop";
}

/**
 * The blocks of an upstream's whole item. Callers of other dialects do not see items of tools that
 * the upstream runs.
 */
export function blocksOf(item: JsonObject): Block[] {
  switch (item.type) {
    case "message":
      return listOf(item.content).flatMap((value): Block[] => {
        const { type, text, refusal, annotations } = objectOf(value);
        if (type === "refusal")
          return textOf(refusal) === undefined ? [] : [{ kind: "refusal", text: refusal as string }];
        const citations = someOf(openaiCitationsIn(annotations));
        return textOf(text) === undefined ? [] : [{ kind: "text", text: text as string, ...defined({ citations }) }];
      });
    case "reasoning": {
      const text = thinkingTextOf(item.summary, item.content);
      const data = textOf(item.encrypted_content);
      if (data === undefined) return text === "" ? [] : [{ kind: "reasoning", text }];
      return [
        {
          kind: "reasoning",
          text,
          signature: { dialect, data, ...defined({ itemId: textOf(item.id) }) },
        },
      ];
    }
    case "function_call":
    case "custom_tool_call":
      return [{ kind: "call", id: callIdOf(item.call_id), name: textOf(item.name) ?? "", input: inputOfItem(item) }];
    case "image_generation_call": {
      const data = textOf(item.result);
      return data === undefined
        ? []
        : [{ kind: "image", mimeType: `image/${textOf(item.output_format) ?? "png"}`, data }];
    }
    default: {
      const call = clientCallIn(item);
      return call === undefined || item.execution === "server"
        ? []
        : [{ kind: "call", id: callIdOf(item.call_id), name: call.type, input: call.input }];
    }
  }
}

/** A call needs an id that is unique in the conversation, even if its upstream gave it none. */
export const callIdOf = (id: unknown) => textOf(id) ?? newCallId();

/** The JSON input of a whole call item. */
export function inputOfItem({ type, input, arguments: args }: JsonObject): string {
  if (type === "custom_tool_call") return inputOfText(textOfCall(inputTextOf(input)));
  return wholeInputOf(args);
}
