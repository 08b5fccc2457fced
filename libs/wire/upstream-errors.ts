/**
 * Reads what an upstream says went wrong, in whichever form: the dialects' own error objects, those of servers and gateways that speak a dialect only
 * roughly, and texts. One reader serves all dialects, because a proxy passes on any vendor's words in any of them.
 * test/libs/wire/upstream-errors/cases.ts has the real bodies, each with its source.
 */
import type { UpstreamError } from "./errors.ts";
import { listOf, objectOf, textOf } from "./json.ts";
import { scrubbed } from "./scrub.ts";

/** Characters of an upstream's message that a caller gets. */
const messageLengthMax = 2_000;
/** Characters of its code, its type and the field it names. */
const nameLengthMax = 200;
/** Error objects within error objects. */
const depthMax = 8;
/** Characters of a text that is looked at for JSON in it. */
const embeddedLengthMax = 65_536;

/** What one object of an error, or one text in it, says. An error is a list of them, the outermost first. */
interface Layer {
  message?: string | undefined;
  code?: string | undefined;
  type?: string | undefined;
  param?: string | undefined;
  status?: number | undefined;
  retryAfterSeconds?: number | undefined;
  /** Further names of what went wrong. */
  reasons?: readonly string[];
  /** The caller's content was flagged. */
  flagged?: boolean;
  /** A page in HTML or XML. */
  isMarkup?: boolean;
}

/** What an error body, or the error in a stream, says. `body` is its JSON value, or its text where it is no JSON. */
export function upstreamErrorOf(body: unknown): UpstreamError {
  const layers: Layer[] = [];
  read(body, layers, 0);
  const inner = layers.toReversed();
  const innermost = <Name extends keyof Layer>(name: Name): Layer[Name] | undefined => inner.find((layer) => layer[name] !== undefined)?.[name];
  const code = nameOf(innermost("code"));
  const type = nameOf(innermost("type"));
  const retryAfterSeconds = innermost("retryAfterSeconds");
  const means = meaningOf(layers);
  return {
    message: clean(innermost("message"), messageLengthMax) ?? "The upstream of this model reported an error without a message.",
    code,
    type,
    param: clean(innermost("param"), nameLengthMax),
    status: layers.find(({ status }) => status !== undefined)?.status ?? statuses.find(([names]) => names.test(code ?? "") || names.test(type ?? ""))?.[1],
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    ...(means !== undefined && { means }),
  };
}

/** A text without what may not be shown, in its bounds; cut only after it was scrubbed, so that no half of a secret is left at the end. */
function clean(text: string | undefined, lengthMax: number): string | undefined {
  const shown = scrubbed((text ?? "").slice(0, lengthMax + 500)).slice(0, lengthMax);
  return shown === "" || shown === "…" ? undefined : shown;
}

/** A code or type as a caller gets it: some upstreams put sentences there. */
function nameOf(name: string | undefined): string | undefined {
  const shown = clean(name, nameLengthMax);
  return shown !== undefined && !/\s/.test(shown) ? shown : undefined;
}

/** What the name of an error stands for as a status, where an error has none: inside of an answer, only the name tells. */
const statuses: readonly [RegExp, number][] = [
  [/^(?:rate_limit_exceeded|rate_limit_error|insufficient_quota|usage_not_included)$/, 429],
  [/^(?:overloaded_error)$/, 529],
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
  if (depth > depthMax) return;
  if (typeof value === "string") readText(value, layers, depth);
  else if (Array.isArray(value)) readList(value, layers, depth);
  else if (typeof value === "object" && value !== null) readObject(value as Record<string, unknown>, layers, depth);
}

function readList(list: readonly unknown[], layers: Layer[], depth: number): void {
  const violations = list.slice(0, 3).map(objectOf);
  if (violations.length > 0 && violations.every(({ loc, msg }) => Array.isArray(loc) && textOf(msg) !== undefined)) {
    // https://fastapi.tiangolo.com/tutorial/handling-errors/#requestvalidationerror-vs-validationerror
    const paths = violations.map(({ loc }) => pathOf(listOf(loc)));
    const message = violations.map(({ msg }, index) => (paths[index] === "" ? msg : `${paths[index]}: ${msg}`)).join("; ");
    layers.push({ message, param: textOf(paths[0]), type: textOf(violations[0]?.type), code: textOf(violations[0]?.type) });
  } else read(list[0], layers, depth + 1);
}

/** A place as FastAPI says it, `["body", "messages", 0, "content"]`, as a path: `messages[0].content`. */
const pathOf = (place: readonly unknown[]): string =>
  place
    .slice(place[0] === "body" ? 1 : 0, 20)
    .map((step, index) => (typeof step === "number" ? `[${step}]` : `${index === 0 ? "" : "."}${String(step).slice(0, nameLengthMax)}`))
    .join("");

function readObject(error: Record<string, unknown>, layers: Layer[], depth: number): void {
  const details = listOf(error.details).map(objectOf);
  const metadata = objectOf(error.metadata);
  const { innererror, response } = error;
  const type = [error.type, error.error_type, error.__type].map(textOf).find((name) => name !== undefined && name !== "error" && !name.startsWith("response."));
  const canonical = textOf(error.status);
  const codes = [error.code, objectOf(error.details).error_code, objectOf(error.details).code];
  const delay = details.map(({ retryDelay }) => /^(\d{1,9}(?:\.\d+)?)s$/.exec(textOf(retryDelay) ?? "")?.[1]).find((found) => found !== undefined);
  layers.push({
    code: codes.map(codeOf).find((name) => name !== undefined),
    // https://cloud.google.com/apis/design/errors
    type: canonical !== undefined && /^[A-Z][A-Z_]+$/.test(canonical) ? canonical : type?.slice(type.lastIndexOf("#") + 1),
    param: textOf(error.param) ?? textOf(details.flatMap(({ fieldViolations }) => listOf(fieldViolations)).map((violation) => objectOf(violation).field)[0]),
    status: [error.status, error.code, error.status_code, error.statusCode].map(statusOf).find((status) => status !== undefined),
    retryAfterSeconds: delay === undefined ? undefined : Math.ceil(Number(delay)),
    reasons: [
      objectOf(innererror).code,
      metadata.error_type,
      ...details.map(({ reason }) => reason),
      ...details.flatMap(({ violations }) => listOf(violations)).map((violation) => objectOf(violation).quotaId),
    ].filter((reason) => typeof reason === "string"),
    // https://openrouter.ai/docs/api/reference/errors-and-debugging#moderation-errors
    flagged: metadata.flagged_input !== undefined,
  });
  const { message, msg, detail, Message } = error;
  const said = [message, msg, Message, detail].find((value) => isSaying(value));
  if (said !== undefined) read(said, layers, depth + 1);
  if (isSaying(error.error) && (said === undefined || typeof error.error === "object")) read(error.error, layers, depth + 1);
  else if (said === undefined && Array.isArray(error.errors)) read(error.errors, layers, depth + 1);
  if (objectOf(response).error !== undefined) read(objectOf(response).error, layers, depth + 1);
  if (isSaying(metadata.raw)) read(metadata.raw, layers, depth + 1);
}

const isSaying = (value: unknown): boolean => (typeof value === "string" && value.trim() !== "") || (typeof value === "object" && value !== null);

/** A code, unless it is a status in other clothes. */
const codeOf = (code: unknown): string | undefined => (statusOf(code) !== undefined ? undefined : typeof code === "number" ? String(code) : textOf(code));

function statusOf(value: unknown): number | undefined {
  const status = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof status === "number" && status >= 400 && status <= 599 ? status : undefined;
}

/** What gateways put before the words, or the JSON, of the upstream behind them. None of it can come from the caller. */
const wrapping =
  /^(?:(?:litellm\.)?[A-Z]\w{0,60}(?:Error|Exception)\s?[:-]\s?|Error from provider:\s?|Provider error:\s?|API error:?\s?|Error code: \d{3} - |Bad Request:\s|The model returned the following errors:\s?|Input validation error:\s|\[[\w./-]{1,100}\]\s?|\[\d{3}\]:?\s?){1,8}/;
/** What LiteLLM adds: the names of its own models and settings. */
const afterword = /(?:['"]?\.?\s{0,4}Received Model Group=|\nmodel=)[\s\S]*$/;

function readText(text: string, layers: Layer[], depth: number): void {
  const trimmed = text.trim();
  if (/^<(?:!doctype|\?xml|html|head|body|center|h1|title|error)\b/i.test(trimmed)) {
    layers.push({ isMarkup: true });
    return;
  }
  const words = trimmed.replace(wrapping, "").replace(/^b?'(?=\{)/, "");
  if (words.startsWith("{") || words.startsWith("[")) {
    const value = jsonAtStartOf(words.slice(0, embeddedLengthMax));
    if (value !== undefined) read(value, layers, depth + 1);
    // What is left of broken JSON is no reason.
    else if (words.startsWith("[") && !/^\[\s*[{"\]]/.test(words)) layers.push({ message: words });
  } else if (words !== "" && !/[^\P{Cc}\s]|\ufffd/u.test(words.slice(0, messageLengthMax))) {
    layers.push({ message: words.replace(afterword, "") });
  }
}

/** The JSON object or array that a text begins with; undefined when it breaks off. */
function jsonAtStartOf(text: string): unknown {
  for (const candidate of [text, text.slice(0, endOfJson(text))])
    try {
      return JSON.parse(candidate);
    } catch {}
  return undefined;
}

/** Where the object or array that the text begins with ends; 0 when it does not. */
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

type Meaning = NonNullable<UpstreamError["means"]>;

interface Rule {
  means: Meaning;
  /** Codes, types and reasons: an upstream's own, never the caller's. */
  names?: RegExp;
  /**
   * Looked for in the message without what gateways put before it. Upstreams quote what callers send; so a rule that costs others than the caller, by a
   * cooldown of the credential, must hold from the message's first word on.
   */
  words?: RegExp;
}

/** The first rule decides, names before words. */
const rules: readonly Rule[] = [
  {
    means: "content_filter",
    names:
      /^(?:content_filter|content_policy_violation|ResponsibleAIPolicyViolation|moderation_blocked|data_inspection_failed|DataInspectionFailed|PROHIBITED_CONTENT|BLOCKLIST)$|content_policy|_policy(?:_violation)?$/,
    words:
      /blocked by content filtering|content management policy|violates? (?:[\w' ]{0,40} )?(?:usage|content|safety|responsible ai|acceptable use) (?:polic|guideline|practice)|rejected (?:as a result of|by) (?:our|the) safety system|content exists risk|may contain inappropriate content|flagged as potentially violating|input was flagged|requires moderation/i,
  },
  {
    means: "quota",
    names:
      /^(?:insufficient_quota|billing_not_active|billing_hard_limit_reached|billing_error|BILLING_DISABLED|credit_balance_exhausted|(?:organization|project|enforced)_spend_limit_(?:exceeded|reached)|organization_usage_limit_exceeded|usage_not_included|insufficient_balance|insufficient_user_quota|exceeded_current_quota_error|budget_exceeded|Arrearage|payment_required)$|PerDay/,
  },
  {
    means: "rate_limited",
    names: /^(?:rate_limit_exceeded|rate_limit_error|RESOURCE_EXHAUSTED|RATE_LIMIT_EXCEEDED|ThrottlingException|TooManyRequestsException)$/,
  },
  {
    means: "rate_limited",
    words: /^(?:request too large for (?:model )?\S{1,200} (?:in organization|on tokens per)|rate limit (?:reached|exceeded)|too many requests)/i,
  },
  {
    means: "quota",
    words:
      /^(?:your credit balance is too low|you exceeded your current quota|you have reached your specified \w+ usage limits|insufficient (?:account )?(?:balance|credits?|funds|quota)|(?:this request requires|more credits are required|.{0,9}requires) more credits|more credits are required|your team \S{1,100} has either used all|your account is not active|key limit exceeded|prompt tokens limit exceeded|(?:credit|spending|spend) limit|budget has been exceeded|exceededbudget)/i,
  },
  { means: "invalid_request", names: /^previous_response_not_found$/ },
  {
    means: "invalid_request",
    words:
      /^(?:(?:item|previous response|conversation|container|file) with id\b|you do not have permission to access the file\b|no such file object|file not found|cachedcontent not found)/i,
  },
  {
    means: "model",
    names: /^(?:model_not_found|model_decommissioned|DeploymentNotFound|invalid_model|model_not_supported)$/,
    words:
      /^(?:the )?(?:model|models\/|deployment)[\s`'":/]{0,4}[\w./:@-]{1,200}[`'"]? (?:has been (?:deprecated|decommissioned|retired|shut down)|does not exist|is not found|was not found|not found|is deprecated|is no longer|is not available)|^(?:model not (?:exist|found)|invalid model\b|the api deployment for this resource does not exist|project \S{1,200} does not have access to model|you don't have access to the model|the provided model identifier is invalid|invocation of model id \S{1,200} with on-demand|this model version has reached|\S{1,200} is not a valid model id|the \w+ operation does not work with the specified model)/i,
  },
  {
    means: "credential",
    names:
      /^(?:invalid_api_key|account_deactivated|account_suspended|authentication_error|auth_error|API_KEY_\w+|CONSUMER_(?:SUSPENDED|INVALID)|SERVICE_DISABLED|UNAUTHENTICATED|ACCESS_TOKEN_\w+|ExpiredToken(?:Exception)?|UnrecognizedClientException|InvalidSignatureException|InvalidClientTokenId|MissingAuthenticationToken(?:Exception)?|unsupported_country_region_territory|organization_restricted)$/,
    words:
      /^(?:incorrect api key|invalid (?:x-)?api[- ]key|(?:your )?api[- ]?key (?:is )?(?:not valid|expired|invalid|disabled)|no auth credentials|user location is not supported|country, region, or territory not supported|(?:this|your) (?:organization|account|project|api key) (?:has been|is|was) (?:disabled|suspended|deactivated|denied|blocked)|the openai account associated with this api key|permission denied: consumer|requests (?:to this api|from (?:referer|the ip))\b|the security token included|user: arn:aws|model access is denied|principal does not have access)/i,
  },
  {
    means: "context_too_long",
    names:
      /^(?:context_length_exceeded|context_window_exceeded|model_context_window_exceeded|exceed_context_size_error|context_exceeded|tokens_limit_reached|ContextWindowExceededError)$/,
  },
];

/** Only the output that was asked for is too long: a larger window would not help. */
const outputTooLong =
  /^[\s`'"]{0,3}max(?:imum)?[_ ]?(?:new_|completion_|output_)?tokens|^the maximum tokens you requested|maximum (?:allowed )?(?:number of )?output tokens|at most \d{1,9} (?:completion|output) tokens/i;
/** It costs only the caller, so it may stand anywhere in the message. */
const promptTooLong = [
  /prompt (?:is )?too long|prompt \([^)]{1,60}\) is too long|input is too long for/i,
  /max(?:imum)? (?:model )?(?:context|prompt) (?:length|limit|window)|maximum model length/i,
  /(?:exceed\w{0,3}|(?:longer|greater|larger) than) (?:the |your |this )?(?:available |allowed |configured )?(?:model'?s? )?(?:max(?:imum)? )?context (?:length|size|window|limit)/i,
  /context (?:length|window|size|limit) (?:is |was |has been )?exceed/i,
  /input token count\b.{0,100}(?:exceeds|supports (?:only )?up to)|input tokens exceed|prompt token count of \d{1,12} exceeds/i,
  /reduce the length of (?:the |your )?(?:messages|input|prompt)|current length is \d{1,12} while limit is/i,
  /`inputs` (?:tokens \+ `max_new_tokens` must be|must have less than)|too many tokens: (?:total number|size limit)/i,
  /trying to keep the first \d{1,12} tokens|n_keep \(\d{1,12}\) >= n_ctx|tokens to keep from the initial prompt is greater/i,
  /exceeded model token limit|maximum allowed input length|prompt exceeds max(?:imum)? length|range of input length should be/i,
  /but the (?:model|configured) context (?:window|size) is/i,
];

function meaningOf(layers: readonly Layer[]): Meaning | undefined {
  if (layers.some(({ flagged }) => flagged)) return "content_filter";
  const names = layers.flatMap(({ code, type, reasons = [] }) => [code, type, ...reasons]).filter((name) => name !== undefined);
  const byName = rules.find((rule) => names.some((name) => rule.names?.test(name.slice(0, nameLengthMax))));
  if (byName !== undefined) return byName.means;
  const messages = layers.flatMap(({ message }) => (message === undefined ? [] : [message.slice(0, messageLengthMax).replaceAll("%20", " ")]));
  const byWords = rules.find((rule) => messages.some((message) => rule.words?.test(message)));
  if (byWords !== undefined) return byWords.means;
  if (messages.some((message) => !outputTooLong.test(message) && promptTooLong.some((words) => words.test(message)))) return "context_too_long";
  return layers.some(({ isMarkup }) => isMarkup) ? "markup" : undefined;
}
