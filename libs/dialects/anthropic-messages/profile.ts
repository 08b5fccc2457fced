/**
 * The profile of Anthropic's Messages: https://docs.anthropic.com/en/api/errors,
 * https://docs.anthropic.com/en/api/rate-limits#response-headers,
 * https://docs.anthropic.com/en/api/models-list
 */
import { type ErrorCode, type Failure, statuses } from "../errors.ts";
import {
  indexAfter,
  isCount,
  type ListedModel,
  type Profile,
  pageSizeOf,
  storedFaultIn,
  timeTextOf,
} from "../profile.ts";
import { modelInfoOf } from "./model-info.ts";
import { messagesRequestSchema, tokenCountRequestSchema } from "./schema.ts";
import { statefulFieldIn } from "./stateless.ts";

const request = "invalid_request_error";

const errorTypes: Record<ErrorCode, string> = {
  invalid_request: request,
  context_too_long: request,
  content_filter: request,
  invalid_key: "authentication_error",
  origin_not_allowed: "permission_error",
  address_not_allowed: "permission_error",
  path_not_found: "not_found_error",
  not_found: "not_found_error",
  model_not_found: "not_found_error",
  method_not_allowed: request,
  request_timeout: "timeout_error",
  body_too_large: "request_too_large",
  unsupported_media_type: request,
  unprocessable: request,
  upgrade_required: request,
  headers_too_large: "request_too_large",
  rate_limited: "rate_limit_error",
  budget_exhausted: "billing_error",
  internal: "api_error",
  upstream_failed: "api_error",
  worker_lost: "api_error",
  unavailable: "overloaded_error",
  stopped: "api_error",
  overloaded: "overloaded_error",
  upstream_timeout: "timeout_error",
};

const ownStatuses: Partial<Record<ErrorCode, number>> = { budget_exhausted: 402, unavailable: 529, overloaded: 529 };

/** Claude Code recognises these words and then shortens its conversation. */
function messageOf({ code, message, param }: Failure): string {
  if (code === "context_too_long" && !message.startsWith("prompt is too long")) return `prompt is too long: ${message}`;
  return param === undefined || message.includes(param) ? message : `${param}: ${message}`;
}

const errorBodyOf = (failure: Failure, requestId: string): string =>
  JSON.stringify({
    type: "error",
    error: {
      type: errorTypes[failure.code],
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
  baseUrlHint:
    "Set the client's base URL to this gateway's address without a path: the client adds the version itself. The AI SDK's Anthropic provider wants /v1 at its end.",
  callerHeaders: ["anthropic-version", "anthropic-beta"],
  featuresHeader: "anthropic-beta",
  requestIdHeader: "request-id",
  framingOf: (body) => (body.stream === true ? "sse" : "whole"),
  askedLengthOf: ({ max_tokens }) => ({
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
  limitHeadersOf: ({ what, limit, remaining, resetsAt }) => ({
    [`anthropic-ratelimit-${what}-limit`]: String(limit),
    [`anthropic-ratelimit-${what}-remaining`]: String(remaining),
    [`anthropic-ratelimit-${what}-reset`]: timeTextOf(resetsAt),
  }),
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
