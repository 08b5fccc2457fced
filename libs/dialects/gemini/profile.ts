/**
 * The profile of Google's Gemini: https://cloud.google.com/apis/design/errors,
 * https://ai.google.dev/api/models
 */

import { objectOf, textOf } from "#wire/json/parse.ts";
import { type ErrorCode, type Failure, statuses } from "../errors.ts";
import {
  type Endpoint,
  emptyLines,
  indexAfter,
  isCount,
  type ListedModel,
  type Profile,
  pageSizeOf,
  storedFaultIn,
} from "../profile.ts";
import { camelOf, valueNameOf } from "./names.ts";
import { countRequestSchema, generateRequestSchema } from "./schema.ts";
import { statefulFieldIn } from "./stateless.ts";

/** The name of each HTTP status; INVALID_ARGUMENT for others. */
const statusNames: Record<number, string> = {
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  408: "DEADLINE_EXCEEDED",
  426: "FAILED_PRECONDITION",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  502: "INTERNAL",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};

/** https://cloud.google.com/docs/authentication/api-keys-troubleshooting */
const ownStatuses: Partial<Record<ErrorCode, number>> = { missing_key: 403, invalid_key: 400 };

const statusOf = (code: ErrorCode) => ownStatuses[code] ?? statuses[code];

/** Clients recognise an invalid key by its reason, or by the beginning of the message. */
const invalidKey = {
  reason: "API_KEY_INVALID",
  domain: "googleapis.com",
  metadata: { service: "generativelanguage.googleapis.com" },
};

const messageOf = ({ code, message }: Failure) => (code === "invalid_key" ? `API key not valid. ${message}` : message);

/**
 * Clients stop retrying if a quota's id contains `PerDay`, so every exhausted budget has it,
 * whatever its period.
 */
const exhaustedBudget = { quotaMetric: "sluice/budget", quotaId: "BudgetPerDay" };

/** https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto */
function detailsOf(failure: Failure): object {
  const { code, message, param, retryAfterSeconds } = failure;
  const typed = (name: string, fields: object) => ({ "@type": `type.googleapis.com/google.rpc.${name}`, ...fields });
  const details = [
    ...(param === undefined
      ? []
      : [typed("BadRequest", { fieldViolations: [{ field: param, description: message }] })]),
    ...(retryAfterSeconds === undefined ? [] : [typed("RetryInfo", { retryDelay: `${retryAfterSeconds}s` })]),
    ...(code === "invalid_key"
      ? [typed("ErrorInfo", invalidKey), typed("LocalizedMessage", { locale: "en-US", message: messageOf(failure) })]
      : []),
    ...(code === "budget_exhausted" ? [typed("QuotaFailure", { violations: [exhaustedBudget] })] : []),
  ];
  return details.length === 0 ? {} : { details };
}

const errorBodyOf = (failure: Failure) =>
  JSON.stringify({
    error: {
      code: statusOf(failure.code),
      message: messageOf(failure),
      status: statusNames[statusOf(failure.code)] ?? "INVALID_ARGUMENT",
      ...detailsOf(failure),
    },
  });

const modelBodyOf = ({ id, name, ownedBy, contextWindow, outputTokensMax, capabilities }: ListedModel): object => ({
  name: `models/${id}`,
  version: "001",
  displayName: name,
  description: `${name}, by ${ownedBy}`,
  inputTokenLimit: contextWindow,
  outputTokenLimit: outputTokensMax,
  supportedGenerationMethods: capabilities.includes("embedding")
    ? ["embedContent", "batchEmbedContents"]
    : ["generateContent", "streamGenerateContent", "countTokens"],
  thinking: capabilities.includes("reasoning"),
});

const pageDefault = 50;
const pageMax = 1_000;

const endpointOf = (method: string, schema: Endpoint["schema"]): Endpoint => ({
  method,
  dialect: "gemini",
  schema,
  faultOf: storedFaultIn(statefulFieldIn),
});

/**
 * Paths of Google's APIs, here without their version, that no other vendor has:
 * https://ai.google.dev/api
 */
const ownPath =
  /^\/(upload|cachedContents|interactions|tunedModels|fileSearchStores|corpora|projects|publishers|ws\/google\.[\w.]+)(\/|$)/;

export const geminiProfile: Profile = {
  authentication: "x-goog-api-key",
  probePath: "/models",
  endpoints: {
    answer: [
      endpointOf("generateContent", generateRequestSchema),
      endpointOf("streamGenerateContent", generateRequestSchema),
    ],
    "token-count": [endpointOf("countTokens", countRequestSchema)],
  },
  ownsPath: (versions, rest) =>
    /v1(alpha|beta1?)/.test(versions) || ownPath.test(rest) || rest.startsWith("/ws/google."),
  isClient: (headers, query) =>
    headers["x-goog-api-key"] !== undefined ||
    headers["x-goog-api-client"] !== undefined ||
    (headers["user-agent"] ?? "").includes("google-genai-sdk/") ||
    ["key", "pageSize", "pageToken", "page_size", "page_token"].some((name) => query.has(name)),
  baseUrlAdvice:
    "Set the client's base URL to this gateway's address without a path: the client adds the version itself. The AI SDK's Google provider and LiteLLM want /v1beta at its end.",
  callerHeaders: [],
  /** Clients ask for a stream in the path, and for its framing in the query. */
  framingOf: (_body, method, alt) =>
    method?.startsWith("stream") ? (/^sse\b/.test(alt ?? "") ? "sse" : "array") : "whole",
  requestedLengthOf(body) {
    const config = objectOf(body.generationConfig ?? body.generation_config);
    const modalities = [config.responseModalities, config.response_modalities].find(Array.isArray) ?? [];
    return {
      outputTokensMax: [config.maxOutputTokens, config.max_output_tokens].find(isCount),
      choices: [config.candidateCount, config.candidate_count].find(isCount) ?? 1,
      wantsMedia: modalities.some(
        (modality) => String(valueNameOf("responseModalities", modality)).toLowerCase() !== "text",
      ),
    };
  },
  conversation: { field: "contents", empty: [] },
  fetchesFiles: true,
  embeddings: "gemini",
  statusOf,
  errorBodyOf,
  errorEventOf: (failure) => `data: ${errorBodyOf(failure)}\n\n`,
  /** Google's older clients detect a failed stream only by a broken connection. */
  breaksAfterError: true,
  keepAlive: emptyLines,
  /**
   * Google's libraries read a block as JSON behind `data:`, and nothing else. Others do the same
   * (LiteLLM loses the whole text), so a caller gets ids only if it asks for a stream that can be
   * resumed, not because its group has such streams.
   */
  rejectsEventIds: (headers) =>
    headers["x-goog-api-client"] !== undefined ||
    /google-genai-sdk\/|GeminiCLI/.test(headers["user-agent"] ?? "") ||
    (headers["x-sluice-resumable"] !== "true" && headers["last-event-id"] === undefined),
  limitHeadersOf: () => ({}),
  modelBodyOf,
  modelListOf(models, query) {
    const { pageSize, pageToken } = objectOf(camelOf(Object.fromEntries(query)));
    const size = pageSizeOf(textOf(pageSize) ?? null, pageDefault, pageMax);
    const from = indexAfter(models, textOf(pageToken) ?? null);
    const page = models.slice(from, from + size);
    // An empty page token would make Google's clients request pages forever.
    return {
      models: page.map(modelBodyOf),
      ...(from + size < models.length && { nextPageToken: page.at(-1)?.id }),
    };
  },
};
