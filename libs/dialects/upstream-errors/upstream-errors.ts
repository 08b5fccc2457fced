/**
 * Reads an upstream's error. One reader serves all dialects: it knows their error objects, those of
 * servers and gateways that follow a dialect only roughly, errors nested by proxies, and plain
 * text.
 */

import { defined, isObject, type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { waitSecondsIn } from "#wire/retry-after.ts";
import {
  embeddedErrorLengthMax,
  upstreamErrorDepthMax,
  upstreamMessageLengthMax,
  upstreamNameLengthMax,
  violationsMax,
} from "../bounds.ts";
import type { UpstreamError } from "../errors.ts";
import { meaningOf, minimaxReason } from "./rules.ts";
import { scrubbed } from "./scrub.ts";

/** One object or text of an error. An error is a list of layers, the outermost first. */
interface Layer {
  message?: string | undefined;
  code?: string | undefined;
  type?: string | undefined;
  param?: string | undefined;
  status?: number | undefined;
  retryAfterSeconds?: number | undefined;
  /** Further codes of the error. */
  reasons?: readonly string[];
  /** The upstream's moderation flagged the caller's content. */
  flagged?: boolean;
  /** The text is an HTML or XML page. */
  isMarkup?: boolean;
  /** Comes from JSON inside a text, which may quote the caller. */
  isQuoted?: boolean;
}

/**
 * Reads an error body or the error in a stream, as a JSON value, or as text if it is not JSON.
 * Secrets and addresses are removed from all fields.
 */
export function upstreamErrorOf(body: unknown): UpstreamError {
  const layers: Layer[] = [];
  read(body, layers, 0);
  const inner = layers.toReversed();
  const innermost = <Name extends keyof Layer>(name: Name): Layer[Name] | undefined =>
    inner.find((layer) => layer[name] !== undefined)?.[name];
  const code = shownNameOf(innermost("code"));
  const type = shownNameOf(innermost("type"));
  const retryAfterSeconds =
    innermost("retryAfterSeconds") ?? waitSecondsIn(innermost("message")?.slice(0, upstreamMessageLengthMax) ?? "");
  const { means, evidence } = layersMeaningOf(layers);
  return {
    message:
      shownTextOf(innermost("message"), upstreamMessageLengthMax) ??
      "The upstream of this model reported an error without a message.",
    code,
    type,
    param: shownTextOf(innermost("param"), upstreamNameLengthMax),
    status:
      layers.find(({ status }) => status !== undefined)?.status ??
      statuses.find(([names]) => names.test(code ?? "") || names.test(type ?? ""))?.[1],
    ...defined({ retryAfterSeconds, means, evidence }),
  };
}

/**
 * True for an error with a success status, in a member `error` or without one, as vLLM (`object`),
 * MiniMax (`base_resp`, https://github.com/RooCodeInc/Roo-Code/pull/9105), FastChat (`error_code`)
 * and Z.ai (`code` with `msg`) send it. For bodies and events without content.
 */
export function isErrorBody(body: JsonObject): boolean {
  const { object, type, success, code, error_code: number, base_resp: base } = body;
  if (body.error !== undefined && body.error !== null) return true;
  if (object === "error" || type === "error" || success === false) return true;
  if (isFailureCode(number) || isFailureCode(objectOf(base).status_code)) return true;
  const hasCode = isFailureCode(code) || [body.status, body.status_code, body.statusCode].some(isErrorStatus);
  return hasCode && messageIn(body) !== undefined;
}

/** Zero and statuses of success are no failures. */
const isFailureCode = (code: unknown) =>
  typeof code === "number"
    ? code !== 0 && !(code >= 200 && code < 300)
    : textOf(code) !== undefined && !/^(?:0|2\d\d|ok|success)$/i.test(String(code));

const isErrorStatus = (status: unknown) => statusOf(status) !== undefined;

const messageIn = (error: JsonObject) => [error.message, error.msg, error.Message, error.detail].find(isPresent);

function layersMeaningOf(layers: readonly Layer[]): Pick<UpstreamError, "means" | "evidence"> {
  if (layers.some(({ flagged }) => flagged)) return { means: "content_filter" };
  const namesOf = (some: readonly Layer[]) =>
    some
      .flatMap(({ code = "", type = "", reasons = [] }) => [code, type, ...reasons])
      .map((name) => name.slice(0, upstreamNameLengthMax));
  // One vendor sends its messages percent-encoded.
  const messages = layers.map(({ message = "" }) => message.slice(0, upstreamMessageLengthMax).replaceAll("%20", " "));
  const names = namesOf(layers.filter(({ isQuoted }) => !isQuoted));
  const quotedNames = namesOf(layers.filter(({ isQuoted }) => isQuoted));
  return (
    meaningOf({ names, quotedNames, messages }) ?? (layers.some(({ isMarkup }) => isMarkup) ? { means: "markup" } : {})
  );
}

/** Scrubs before truncating: a truncated secret would no longer look like one. */
function shownTextOf(text: string | undefined, lengthMax: number): string | undefined {
  const shown = scrubbed((text ?? "").slice(0, lengthMax + 500)).slice(0, lengthMax);
  return shown === "" || shown === "…" ? undefined : shown;
}

/** A code or type for the caller; undefined for the sentences that some upstreams send instead. */
function shownNameOf(name: string | undefined): string | undefined {
  const shown = shownTextOf(name, upstreamNameLengthMax);
  return shown !== undefined && !/\s/.test(shown) ? shown : undefined;
}

/**
 * The status for a code or type, if the error has none. Errors inside answers usually have none.
 */
const statuses: readonly [RegExp, number][] = [
  [/^(?:rate_limit_exceeded|rate_limit_error|insufficient_quota|usage_not_included)$/, 429],
  [/^overloaded_error$/, 529],
  [/^(?:server_is_overloaded|slow_down)$/, 503],
  [/^(?:server_error|internal_error|api_error)$/, 500],
  [/^timeout_error$|_timeout$/, 504],
  [/^authentication_error$/, 401],
  [/^billing_error$/, 402],
  [/^permission_error$/, 403],
  [/^not_found_error$/, 404],
  [/^conflict_error$/, 409],
  [/^request_too_large$/, 413],
  [/^(?:invalid_|image_|unsupported_|empty_image|failed_to_download)/, 400],
];

function read(value: unknown, layers: Layer[], depth: number): void {
  if (depth > upstreamErrorDepthMax) return;
  if (typeof value === "string") readText(value, layers, depth);
  else if (Array.isArray(value)) readList(value, layers, depth);
  else if (isObject(value)) readObject(value, layers, depth);
}

/**
 * A list of FastAPI's violations, or a list that holds an error:
 * https://fastapi.tiangolo.com/tutorial/handling-errors/
 */
function readList(list: readonly unknown[], layers: Layer[], depth: number): void {
  const violations = list.slice(0, violationsMax).map(objectOf);
  if (violations.length === 0 || !violations.every(({ loc, msg }) => Array.isArray(loc) && textOf(msg) !== undefined)) {
    read(list[0], layers, depth + 1);
    return;
  }
  const paths = violations.map(({ loc }) => pathOf(listOf(loc)));
  const message = violations
    .map(({ msg }, index) => (paths[index] === "" ? msg : `${paths[index]}: ${msg}`))
    .join("; ");
  layers.push({ message, param: textOf(paths[0]), code: textOf(violations[0]?.type) });
}

/** FastAPI's `["body", "messages", 0, "content"]` as the path `messages[0].content`. */
const pathOf = (location: readonly unknown[]) =>
  location
    .slice(location[0] === "body" ? 1 : 0, 20)
    .map((step, index) =>
      typeof step === "number"
        ? `[${step}]`
        : `${index === 0 ? "" : "."}${String(step).slice(0, upstreamNameLengthMax)}`,
    )
    .join("");

function readObject(error: JsonObject, layers: Layer[], depth: number): void {
  const metadata = objectOf(error.metadata);
  const { error_code: detailedCode } = objectOf(error.details);
  layers.push({
    ...detailsOf(listOf(error.details).map(objectOf)),
    code: [error.code, detailedCode].map(codeOf).find((code) => code !== undefined),
    type: typeOf(error),
    status: [error.status, error.code, error.status_code, error.statusCode, error.http_code, error.http_status_code]
      .map(statusOf)
      .find((status) => status !== undefined),
    // https://openrouter.ai/docs/api/reference/errors-and-debugging
    flagged: metadata.flagged_input !== undefined,
    ...defined({ param: textOf(error.param), retryAfterSeconds: waitOf(error) }),
  });
  const innerCode = textOf(objectOf(error.innererror).code);
  if (innerCode !== undefined) layers.push({ reasons: [innerCode] });
  const message = messageIn(error);
  if (message !== undefined) read(message, layers, depth + 1);
  // Beside a message, a text is only the status in words.
  if (isPresent(error.error) && (message === undefined || typeof error.error === "object"))
    read(error.error, layers, depth + 1);
  else if (message === undefined && Array.isArray(error.errors)) read(error.errors, layers, depth + 1);
  const { status_code: minimaxCode, status_msg: minimaxMessage } = objectOf(error.base_resp);
  if (minimaxCode !== undefined)
    layers.push({ message: textOf(minimaxMessage), reasons: [`${minimaxReason}${minimaxCode}`] });
  if (isPresent(objectOf(error.response).error)) read(objectOf(error.response).error, layers, depth + 1);
  if (isPresent(metadata.raw)) read(metadata.raw, layers, depth + 1);
}

/**
 * Whole seconds in the members of OpenAI's subscriptions
 * (https://github.com/router-for-me/CLIProxyAPI/issues/1666) and of gateways
 * (https://github.com/vectorize-io/hindsight/pull/4481,
 * https://github.com/diegosouzapw/OmniRoute/pull/5974).
 */
function waitOf(error: JsonObject): number | undefined {
  const { retry_after_ms: ms, retryAfterMs = ms } = error;
  const { retry_after: plain, retry_after_seconds: named = plain, resets_in_seconds: seconds = named } = error;
  const isWait = (value: unknown) => typeof value === "number" && value >= 0;
  if (isWait(seconds)) return Math.ceil(Number(seconds));
  return isWait(retryAfterMs) ? Math.ceil(Number(retryAfterMs) / 1_000) : undefined;
}

/** https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto */
function detailsOf(details: readonly JsonObject[]): Layer {
  const fields = details
    .flatMap(({ fieldViolations }) => listOf(fieldViolations))
    .map((violation) => textOf(objectOf(violation).field));
  const quotas = details
    .flatMap(({ violations }) => listOf(violations))
    .map((violation) => objectOf(violation).quotaId);
  const delay = details
    .map(({ retryDelay }) => /^(\d{1,9}(?:\.\d+)?)s$/.exec(textOf(retryDelay) ?? "")?.[1])
    .find((seconds) => seconds !== undefined);
  return {
    param: fields[0],
    reasons: [...details.map(({ reason }) => reason), ...quotas].filter((reason) => typeof reason === "string"),
    retryAfterSeconds: delay === undefined ? undefined : Math.ceil(Number(delay)),
  };
}

/**
 * Google's canonical status, or else the type; undefined for types that only say that the object is
 * an error.
 */
function typeOf({ status, ...error }: JsonObject): string | undefined {
  if (typeof status === "string" && /^[A-Z][A-Z_]+$/.test(status)) return status;
  const type = [error.type, error.error_type, error.__type].map(textOf).find((name) => name !== undefined);
  return type === undefined || type === "error" || type.startsWith("response.")
    ? undefined
    : type.slice(type.lastIndexOf("#") + 1);
}

const isPresent = (value: unknown) => (typeof value === "string" && value.trim() !== "") || isObject(value);

/** A code, also a numeric one; undefined if it repeats the status. */
const codeOf = (code: unknown) =>
  statusOf(code) !== undefined ? undefined : typeof code === "number" ? String(code) : textOf(code);

function statusOf(value: unknown): number | undefined {
  const status = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === "number" && status >= 400 && status <= 599 ? status : undefined;
}

/**
 * Prefixes that gateways put before the message or JSON of the upstream behind them. Upstreams that
 * quote their callers do not begin like that.
 */
const prefix =
  /^(?:(?:event: ?\w{1,20}\r?\n)?data: ?|litellm\.\w{1,60}: (?:(?:litellm\.)?\w{1,60}(?:Error|Exception): ){0,6}|\w{1,60}(?:Error|Exception) - (?:b'(?=\{))?|Error from provider: |\[[\w./-]{1,100}\]:? ){1,8}/;
/** LiteLLM's suffix: names of its models and settings. */
const suffix = /(?:['"]?\.?\s{0,4}Received Model Group=|\nmodel=)[\s\S]*$/;

function readText(text: string, layers: Layer[], depth: number): void {
  const words = text.trim().replace(prefix, "");
  if (/^<(?:!doctype|\?xml|html|head|body|center|h1|title|error)\b/i.test(words)) layers.push({ isMarkup: true });
  else if (/^[{[]/.test(words) && (readEmbedded(words, layers, depth) || brokenJson.test(words))) return;
  // Control characters mean compressed or binary data.
  else if (words !== "" && !/[^\P{Cc}\s]|\ufffd/u.test(words.slice(0, upstreamMessageLengthMax)))
    layers.push({ message: words.replace(suffix, "") });
}

/** Truncated JSON, which is not shown to the caller. */
const brokenJson = /^(?:\{\s*"|\[\s*(?:\{\s*"|"))/;

/** Reads the JSON at the beginning of a text; false if there is none, or it has no error. */
function readEmbedded(text: string, layers: Layer[], depth: number): boolean {
  const inner: Layer[] = [];
  read(jsonAtStartOf(text.slice(0, embeddedErrorLengthMax)), inner, depth + 1);
  if (
    !inner.some(
      ({ message, code, type, isMarkup }) =>
        message !== undefined || code !== undefined || type !== undefined || isMarkup,
    )
  )
    return false;
  // The body itself may be a text; JSON inside one of its texts may quote the caller.
  for (const layer of inner) layers.push(layers.length === 0 ? layer : { ...layer, isQuoted: true });
  return true;
}

/** The JSON object or array at the beginning of a text; undefined if it breaks off. */
function jsonAtStartOf(text: string): unknown {
  for (const candidate of [text, text.slice(0, endOfJson(text))])
    try {
      return JSON.parse(candidate);
    } catch {}
  return undefined;
}

/** The end of the object or array at the beginning of a text; 0 if it breaks off. */
function endOfJson(text: string): number {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') quoted = !quoted;
    else if (quoted && character === "\\") at++;
    else if (quoted) continue;
    else if (character === "{" || character === "[") depth++;
    else if ((character === "}" || character === "]") && --depth === 0) return at + 1;
  }
  return 0;
}
