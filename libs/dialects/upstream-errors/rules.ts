/**
 * Classifies an upstream's error by its codes and its message, whatever its status and dialect: a
 * proxy passes on any vendor's errors in any dialect. test/libs/dialects/upstream-errors/cases.ts
 * has the real bodies behind these rules, each with its source.
 */
import type { UpstreamError } from "../errors.ts";

type Meaning = NonNullable<UpstreamError["means"]>;

interface Rule {
  means: Meaning;
  /** Matches codes, types and reasons, which come from the upstream and never from the caller. */
  names?: RegExp;
  /**
   * Matches the message. Upstreams quote callers in their messages, and a failure that cools down a
   * credential affects other callers. So these patterns match from the first word on, and the
   * matched text counts only if the caller's own request does not contain it (see failureOf).
   */
  words?: RegExp;
}

/**
 * This request exceeds what the account may use at once. Smaller requests are not affected, so
 * these rules come before everything that cools down.
 */
const overAllowance: readonly Rule[] = [
  {
    means: "over_rate_limit",
    words:
      /^(?:request too large for (?:model )?\S{1,200} (?:in organization|on tokens per)|extra usage is required for long context)/i,
  },
  { means: "unclear", words: /^this request requires more credits, or fewer max_tokens/i },
];

/**
 * Before a code of MiniMax, because other vendors' codes are the same numbers:
 * https://platform.minimax.io/docs/api-reference/errorcode
 */
export const minimaxReason = "minimax-";

/** Names are tried before words; the first match decides. */
const rules: readonly Rule[] = [
  {
    means: "content_filter",
    names:
      /^(?:content_filter|ResponsibleAIPolicyViolation|moderation_blocked|data_inspection_failed|DataInspectionFailed|PROHIBITED_CONTENT|BLOCKLIST|minimax-102[67])$|content_policy|_policy(?:_violation)?$/,
    // Matches anywhere: it affects only the caller.
    words:
      /blocked by content filtering|content management policy|violates? (?:[\w' ]{0,40} )?(?:usage|content|safety|responsible ai|acceptable use) (?:polic|guideline|practice)|rejected (?:as a result of|by) (?:our|the) safety system|content exists risk|may contain inappropriate content|flagged as potentially violating|input was flagged|requires moderation/i,
  },
  {
    means: "quota",
    // Google's ids of daily quotas contain `PerDay`. The numbers are Zhipu's: no balance, and the
    // limits of a plan for five hours, a week or a month.
    names:
      /^(?:insufficient_quota|billing_not_active|billing_hard_limit_reached|billing_error|BILLING_DISABLED|credit_balance_exhausted|(?:organization|project|enforced)_spend_limit_(?:exceeded|reached)|organization_usage_limit_exceeded|usage_not_included|insufficient_balance|insufficient_user_quota|exceeded_current_quota_error|budget_exceeded|Arrearage|payment_required|blocked_api_access|minimax-1008|usage_limit_reached|1113|1308|1310)$|PerDay/,
    words:
      /^(?:(?:the )?usage limit (?:has been )?reached|you(?:'ve| have| \([^)]{1,100}\) have) (?:reached your|exceeded the) [\w-]{1,20} usage (?:limit|quota)|rate limit exceeded: free-models-per-day)/i,
  },
  {
    means: "rate_limited",
    names:
      /^(?:rate_limit_exceeded|rate_limit_error|RESOURCE_EXHAUSTED|RATE_LIMIT_EXCEEDED|ThrottlingException|TooManyRequestsException|minimax-1002)$/,
    words: /^(?:rate limit (?:reached|exceeded)|too many requests)/i,
  },
  {
    means: "quota",
    words:
      /^(?:your credit balance is too low|you exceeded your current quota|you have reached your specified \w{1,20} usage limits|you're out of extra usage|insufficient (?:account )?(?:balance|credits?|funds|quota)|more credits are required|your team \S{1,100} has either used all|your account is not active|account \S{1,100} is suspended|key limit exceeded|prompt tokens limit exceeded|(?:credit|spending|spend) limit|budget has been exceeded)/i,
  },
  {
    means: "invalid_request",
    names: /^(?:previous_response_not_found|minimax-2013)$/,
    words:
      /^(?:(?:item|previous response|conversation|container|file) with id\b|you do not have permission to access the file\b|no such file object|file not found|cachedcontent not found)/i,
  },
  {
    means: "model",
    names:
      /^(?:model_not_found|model_decommissioned|model_gone|ModelDeprecated|DeploymentNotFound|invalid_model|model_not_supported|model_not_available)$/,
    words:
      /^(?:the )?(?:model|models\/|deployment)[\s`'":/]{0,4}[\w./:@-]{1,200}[`'"]? (?:has been (?:deprecated|decommissioned|retired|shut down)|has reached its end of life|does not exist|is not found|was not found|not found|is deprecated|is no longer|is not available)|^(?:model not (?:exist|found)|invalid model\b|\/[\w/]{1,40}: invalid model name|the api deployment for this resource does not exist|project \S{1,200} does not have access to model|your organization must be verified to use the model|you are not allowed to sample from this model|you don't have access to the model|the provided model identifier is invalid|invocation of model id \S{1,200} with on-demand|this model version has reached|\S{1,200} is not a valid model id|unable to access (?:non-serverless )?model|project \S{1,200} is not allowed to use publisher model|publisher model \S{1,300} (?:was not found|is not servable in region))/i,
  },
  {
    means: "credential",
    names:
      /^(?:invalid_api_key|account_deactivated|account_suspended|authentication_error|auth_error|API_KEY_\w+|CONSUMER_(?:SUSPENDED|INVALID)|SERVICE_DISABLED|UNAUTHENTICATED|ACCESS_TOKEN_\w+|ExpiredToken(?:Exception)?|UnrecognizedClientException|InvalidSignatureException|InvalidClientTokenId|MissingAuthenticationToken(?:Exception)?|unsupported_country_region_territory|organization_restricted|minimax-(?:1004|2049))$/,
    words:
      /^(?:incorrect api key|invalid (?:x-)?api[- ]key|(?:your )?api[- ]?key (?:is )?(?:not valid|expired|invalid|disabled)|no auth credentials|this credential is only authorized|user location is not supported|country, region, or territory not supported|(?:this|your) (?:organization|account|project|api key) (?:has been|is|was) (?:disabled|suspended|deactivated|denied|blocked)|the openai account associated with this api key|permission denied: consumer|requests (?:to this api|from (?:referer|the ip))\b|the security token included|user: arn:aws|model access is denied|operation not allowed|principal does not have access|gemini api free tier is not available|your account is not authorized)/i,
  },
  {
    // Depends on the content of this request: https://github.com/openai/openai-cookbook/issues/2271
    means: "unclear",
    names: /^OperationNotSupported$/,
    words: /^(?:your organization must be verified|the \w{1,60} operation does not work with the specified model)/i,
  },
  {
    means: "context_too_long",
    names:
      /^(?:context_length_exceeded|context_window_exceeded|model_context_window_exceeded|exceed_context_size_error|context_exceeded|tokens_limit_reached|ContextWindowExceededError)$/,
  },
];

/** The requested output alone is too long: a larger context window does not help. */
const outputTooLong =
  /^[\s`'"]{0,3}max(?:imum)?[_ ]?(?:new_|completion_|output_)?tokens(?![\s\S]{0,200} your request has \d{1,12} input tokens)|^the maximum tokens you requested|maximum (?:allowed )?(?:number of )?output tokens|at most \d{1,9} (?:completion|output) tokens/i;

/** These match anywhere in the message: a prompt that is too long affects only the caller. */
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

/** The codes and messages of an error. All texts must be bounded. */
export interface ErrorTexts {
  /** Its codes, types and reasons, from the upstream itself. */
  names: readonly string[];
  /** Names from JSON inside a message, where an upstream may quote its caller. */
  quotedNames: readonly string[];
  messages: readonly string[];
}

/**
 * `evidence` is the deciding text, in lower case, if an upstream may have quoted it from its
 * caller.
 */
interface Classified {
  means: Meaning;
  evidence?: string;
}

/** The meaning of an error; undefined if only its status tells. */
export function meaningOf({ names, quotedNames, messages }: ErrorTexts): Classified | undefined {
  const tooMuch = wordsAmong(overAllowance, messages);
  if (tooMuch !== undefined) return tooMuch;
  const byName = rules.find((rule) => names.some((name) => rule.names?.test(name)));
  if (byName !== undefined) return { means: byName.means };
  for (const { means, names: pattern } of rules) {
    const quoted = quotedNames.find((name) => pattern?.test(name));
    if (quoted !== undefined) return { means, evidence: quoted.toLowerCase() };
  }
  const byWords = wordsAmong(rules, messages);
  if (byWords !== undefined) return byWords;
  return messages.some((message) => !outputTooLong.test(message) && promptTooLong.some((words) => words.test(message)))
    ? { means: "context_too_long" }
    : undefined;
}

function wordsAmong(some: readonly Rule[], messages: readonly string[]): Classified | undefined {
  for (const { means, words } of some)
    for (const message of messages) {
      const [evidence] = words?.exec(message) ?? [];
      if (evidence !== undefined) return { means, evidence: evidence.toLowerCase() };
    }
  return undefined;
}
