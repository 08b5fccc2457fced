/**
 * The profile of Anthropic's Messages: https://docs.anthropic.com/en/api/errors,
 * https://docs.anthropic.com/en/api/rate-limits#response-headers,
 * https://docs.anthropic.com/en/api/models-list
 */

import { type ErrorCode, type Failure, statuses } from "../errors.ts";
import { versionOf } from "../neutral/model-traits.ts";
import {
  indexAfter,
  isCount,
  type ListedModel,
  type ListedTarget,
  type Profile,
  pageSizeOf,
  storedFaultIn,
  timeTextOf,
} from "../profile.ts";
import { messagesRequestSchema, tokenCountRequestSchema } from "./schema.ts";
import { statefulFieldIn } from "./stateless.ts";

// A model in Anthropic's format: https://platform.claude.com/docs/en/api/models/list (type
// `ModelInfo` of `@anthropic-ai/sdk`). A capability is what a request to this gateway may use; some
// pass only to an upstream of this dialect.

/**
 * Claude Opus 4.6 and Sonnet 4.6 are the last that accept a budget:
 * https://platform.claude.com/docs/en/build-with-claude/thinking
 */
const budgetVersionMax = 406;
const lines = /(?:^|[/:.@-])claude-(?:[\d.-]+-)?(haiku|sonnet|opus|fable|mythos)/;

const is = (supported: boolean) => ({ supported });

/**
 * All members of the vendor's object are always present: clients read them without a check. The
 * gateway's catalogue has only models in service.
 */
export function modelInfoOf(model: ListedModel): object {
  const { id, name, created, contextWindow, outputTokensMax } = model;
  const target = model.targetOf?.("anthropic-messages");
  return {
    type: "model",
    id,
    display_name: name,
    created_at: timeTextOf(created),
    lifecycle: "active",
    deprecated_at: null,
    retires_at: null,
    line: lines.exec(target?.model.toLowerCase() ?? "")?.[1] ?? null,
    max_input_tokens: contextWindow ?? null,
    max_tokens: outputTokensMax ?? null,
    capabilities: target === undefined || model.capabilities.length === 0 ? null : capabilitiesOf(model, target),
  };
}

/**
 * Requests to an upstream of another dialect are translated, with every kind of thinking and
 * effort.
 */
function capabilitiesOf({ capabilities }: ListedModel, { dialect, model, traits }: ListedTarget): object {
  const has = (name: string) => capabilities.includes(name);
  const isNative = dialect === "anthropic-messages";
  const isClaude = isNative && /claude/i.test(model);
  const thinks = has("reasoning") && traits.thinking !== "none";
  const hasEffort = thinks && (!isNative || traits.thinking === "effort");
  const effort = (level: (typeof traits.efforts)[number]) =>
    is(hasEffort && (!isNative || traits.efforts.includes(level)));
  return {
    batch: is(false),
    citations: is(isClaude),
    code_execution: is(isClaude),
    context_management: {
      ...is(isClaude),
      clear_thinking_20251015: is(isClaude && thinks),
      clear_tool_uses_20250919: is(isClaude),
      compact_20260112: is(isClaude && traits.thinking === "effort"),
    },
    effort: {
      ...is(hasEffort),
      low: effort("low"),
      medium: effort("medium"),
      high: effort("high"),
      xhigh: effort("xhigh"),
      max: effort("max"),
    },
    image_input: is(has("vision")),
    pdf_input: is(has("vision")),
    server_tools: { ...is(isClaude), code_execution: is(isClaude), web_search: is(isClaude) },
    structured_outputs: is(has("json") && traits.jsonSchemas),
    thinking: {
      ...is(thinks),
      types: {
        adaptive: is(hasEffort),
        between_tools: is(!isNative),
        disabled: is(!isNative || !traits.thinksAlways),
        enabled: is(
          thinks && (!isClaude || traits.thinking === "budget" || versionOf(model.toLowerCase()) <= budgetVersionMax),
        ),
      },
    },
  };
}

/** The type of each HTTP status; invalid_request_error for others. */
const typesOfStatuses: Record<number, string> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  408: "timeout_error",
  413: "request_too_large",
  429: "rate_limit_error",
  431: "request_too_large",
  500: "api_error",
  502: "api_error",
  503: "api_error",
  504: "timeout_error",
};

const ownTypes: Partial<Record<ErrorCode, string>> = {
  budget_exhausted: "billing_error",
  unavailable: "overloaded_error",
  overloaded: "overloaded_error",
};

const typeOf = (code: ErrorCode) => ownTypes[code] ?? typesOfStatuses[statuses[code]] ?? "invalid_request_error";

const ownStatuses: Partial<Record<ErrorCode, number>> = { budget_exhausted: 402, unavailable: 529, overloaded: 529 };

/** Claude Code recognises these words and then shortens its conversation. */
function messageOf({ code, message, param }: Failure): string {
  if (code === "context_too_long" && !message.startsWith("prompt is too long")) return `prompt is too long: ${message}`;
  return param === undefined || message.includes(param) ? message : `${param}: ${message}`;
}

const errorBodyOf = (failure: Failure, requestId: string) =>
  JSON.stringify({
    type: "error",
    error: {
      type: typeOf(failure.code),
      message: messageOf(failure),
      ...(failure.upstreamCode && { details: { error_code: failure.upstreamCode } }),
    },
    request_id: requestId,
  });

const pageDefault = 20;
const pageMax = 1_000;

function pageOf(
  models: readonly ListedModel[],
  query: URLSearchParams,
): { page: readonly ListedModel[]; more: boolean } {
  const size = pageSizeOf(query.get("limit"), pageDefault, pageMax);
  const before = query.get("before_id");
  if (before !== null) {
    const end = Math.max(
      0,
      models.findIndex(({ id }) => id === before),
    );
    return { page: models.slice(Math.max(0, end - size), end), more: end > size };
  }
  const from = indexAfter(models, query.get("after_id"));
  return { page: models.slice(from, from + size), more: from + size < models.length };
}

const faultOf = storedFaultIn(statefulFieldIn);

export const anthropicMessagesProfile: Profile = {
  authentication: "x-api-key",
  probePath: "/models",
  endpoints: {
    answer: [{ path: "/v1/messages", dialect: "anthropic-messages", schema: messagesRequestSchema, faultOf }],
    "token-count": [
      {
        path: "/v1/messages/count_tokens",
        dialect: "anthropic-messages",
        schema: tokenCountRequestSchema,
        faultOf,
      },
    ],
  },
  ownsPath: (_versions, rest) => /^\/(messages(\/|$)|.*\/publishers\/anthropic\/)/.test(rest),
  isClient: (headers) => headers["anthropic-version"] !== undefined,
  baseUrlAdvice:
    "Set the client's base URL to this gateway's address without a path: the client adds the version itself. The AI SDK's Anthropic provider wants /v1 at its end.",
  callerHeaders: ["anthropic-version", "anthropic-beta"],
  featuresHeader: "anthropic-beta",
  requestIdHeader: "request-id",
  framingOf: (body) => (body.stream === true ? "sse" : "whole"),
  requestedLengthOf: ({ max_tokens }) => ({
    outputTokensMax: isCount(max_tokens) ? max_tokens : undefined,
    choices: 1,
    wantsMedia: false,
  }),
  conversation: { field: "messages", empty: [{ role: "user", content: "" }] },
  fetchesFiles: true,
  embeddings: undefined,
  statusOf: (code) => ownStatuses[code] ?? statuses[code],
  errorBodyOf,
  errorEventOf: (failure, { requestId }) => `event: error\ndata: ${errorBodyOf(failure, requestId)}\n\n`,
  breaksAfterError: false,
  keepAlive: 'event: ping\ndata: {"type":"ping"}\n\n',
  limitHeadersOf: ({ what, limit, remaining, resetsAt }): Record<string, string> =>
    what === "requests"
      ? {
          "anthropic-ratelimit-requests-limit": String(limit),
          "anthropic-ratelimit-requests-remaining": String(remaining),
          "anthropic-ratelimit-requests-reset": timeTextOf(resetsAt),
        }
      : {
          "anthropic-ratelimit-tokens-limit": String(limit),
          "anthropic-ratelimit-tokens-remaining": String(remaining),
          "anthropic-ratelimit-tokens-reset": timeTextOf(resetsAt),
        },
  modelBodyOf: modelInfoOf,
  modelListOf(models, query) {
    const lifecycles = [...query.getAll("lifecycle"), ...query.getAll("lifecycle[]")];
    const listed = lifecycles.length === 0 || lifecycles.includes("active") ? models : [];
    const { page, more } = pageOf(listed, query);
    return {
      data: page.map(modelInfoOf),
      has_more: more,
      first_id: page[0]?.id ?? null,
      last_id: page.at(-1)?.id ?? null,
    };
  },
};
