/**
 * The schema of a catalogue file. docs/reference.md shows the descriptions; `faultText` replaces
 * typebox's message for a bad value.
 */
import Type from "typebox";
import { tagLengthMax } from "#access/bounds.ts";
import { limitsSchema } from "#access/limits.ts";
import { originForm, originsMax } from "#access/origins.ts";
import { priorityNames } from "#access/priority.ts";
import { conversationDialects, upstreamDialects } from "#dialects/dialect.ts";
import { modelTraitsSchema } from "#dialects/neutral/model-traits.ts";
import { pricesSchema } from "#ledger/prices.ts";
import { storedNamePattern } from "./credentials.ts";

const strict = { additionalProperties: false };

type Range = readonly [minimum: number, maximum: number];

const flagOr = (standard: boolean, description: string) => Type.Boolean({ default: standard, description });

const integerOr = (standard: number, [minimum, maximum]: Range, description: string) =>
  Type.Integer({ minimum, maximum, default: standard, description });

const optionalInteger = ([minimum, maximum]: Range, description: string) =>
  Type.Optional(Type.Integer({ minimum, maximum, description }));

/** One of these words; the first is the default. */
const choice = <const Words extends string[]>(words: readonly [...Words], description: string) =>
  Type.Enum(words, { default: words[0], description });

const millisecondsOr = (ms: number, description: string) => integerOr(ms, [1, 86_400_000], description);

const milliseconds = (description: string) => optionalInteger([1, 86_400_000], description);

const text = (lengthMax: number, description: string, more: object = {}) =>
  Type.String({
    minLength: 1,
    maxLength: lengthMax,
    pattern: "^[^\\u0000-\\u001f\\u007f]*$",
    faultText: `must be 1 to ${lengthMax} characters without line breaks or control characters`,
    description,
    ...more,
  });

const nameOptions = (what: string) => ({
  propertyNames: { pattern: "^[a-z0-9][a-z0-9._-]{0,39}$" },
  nameFaultText: `the name of ${what} must be 1 to 40 of a-z, 0-9, ".", "_" and "-", and begin with a letter or digit`,
});

const variableName = (description: string) =>
  Type.String({
    pattern: "^[A-Za-z_][A-Za-z0-9_]{0,99}$",
    faultText: "must be the name of an environment variable, not a value",
    description,
  });

const credentialName = (description: string) =>
  Type.String({
    pattern: `^([A-Za-z_][A-Za-z0-9_]{0,99}|stored:${storedNamePattern})$`,
    faultText: 'must be the name of an environment variable, or "stored:" and that of a stored credential, not a value',
    description,
  });

const url = (description: string) => text(2_000, description);

const queue = Type.Object(
  {
    waitingMax: integerOr(
      10_000,
      [1, 1_000_000],
      "The number of generations that one ingress keeps waiting for this queue. A key without one may add one more, until twice as many wait.",
    ),
    waitMs: millisecondsOr(
      60_000,
      "How long a generation waits for a worker, in milliseconds. The default of the queue `image` is 600000, that of `background` 3600000.",
    ),
    maxWaitMs: milliseconds(
      "A new request that would probably wait longer than this for a worker, in milliseconds, is refused at once, requests of a low priority before others; one that has waited so long is refused then. Default: none is.",
    ),
    parts: integerOr(
      1,
      [1, 64],
      "Into how many parts the queue is split in Redis, for a queue that needs more than one core of a cluster. Ingresses follow a change when they restart.",
    ),
  },
  { ...strict, default: {} },
);

const callerLimits = (description: string) => Type.Optional(limitsSchema({ ...strict, description }));

const group = Type.Object(
  {
    weight: integerOr(
      1,
      [1, 1_000],
      "This group's share of a busy queue, relative to the weights of the other groups.",
    ),
    priority: Type.Enum(priorityNames, {
      default: "normal",
      description:
        "The priority of this group's requests on a busy queue: `interactive` goes before `normal`, and `normal` before `background`. Callers may lower it with the header `x-sluice-priority`.",
    }),
    reservedPercent: integerOr(
      0,
      [0, 90],
      "The share of a queue's slots up to which this group's requests go before all others. Others use it while this group has nothing that waits.",
    ),
    priceRatio: Type.Number({
      minimum: 0,
      maximum: 1_000,
      default: 1,
      description: "The factor of this group's prices, with up to six decimals.",
    }),
    models: Type.Array(text(129, "A model id, or a prefix followed by `*`."), {
      minItems: 1,
      maxItems: 5_000,
      description:
        "The models that keys of this group may use: model ids, or prefixes followed by `*`. `*` alone allows every model.",
    }),
    storesResponses: flagOr(
      true,
      "Whether responses are stored for callers who ask for it or do not set `store`, encrypted with a key derived from the caller's API key. Where they are not, `previous_response_id`, conversations and references to items are refused.",
    ),
    resumableStreams: flagOr(
      false,
      "Whether every stream can be resumed after its connection broke, with `Last-Event-ID` or the same `Idempotency-Key`. Otherwise callers ask for it with the header `x-sluice-resumable: true`. Callers in Google's format see the ids of events only if they send that header. Needs `storesResponses`.",
    ),
    sessionMs: optionalInteger(
      [1_000, 86_400_000],
      "The longest session of OpenAI's Realtime or Gemini's Live for keys of this group, in milliseconds. Default: `SESSION_MS` of the ingress.",
    ),
    origins: Type.Array(
      Type.String({
        pattern: originForm.source,
        faultText: 'must be an origin such as "https://app.example", without a path, or "*"',
        description: "A web origin, or `*`.",
      }),
      {
        default: [],
        maxItems: originsMax,
        description:
          "The web origins from which browsers may use keys of this group, such as `https://app.example`. `*` allows every origin. A key's own origins replace them. Requests of pages from any other origin are refused.",
      },
    ),
    limits: callerLimits("Limits for all keys of this group together. An absent limit does not apply."),
    keyLimits: callerLimits("Limits for each key of this group. A key's own limits override them."),
    accountLimits: callerLimits("Limits for all keys of one account together, for keys that name an account."),
    tagLimits: Type.Optional(
      Type.Record(Type.String(), limitsSchema(strict), {
        propertyNames: { pattern: `^(?! )[^,]{1,${tagLengthMax}}(?<! )$` },
        nameFaultText: `not a tag of 1 to ${tagLengthMax} characters without commas`,
        maxProperties: 50,
        description:
          "Limits for the requests of one account with a tag, by tag: those of the key, of the header `x-sluice-tags`, or of `metadata.tags`. A budget in total is not possible.",
      }),
    ),
    modelLimits: Type.Optional(
      Type.Record(Type.String(), limitsSchema(strict), {
        propertyNames: { pattern: "^.{1,129}$" },
        nameFaultText: "not the id of a model",
        maxProperties: 50,
        description:
          "Limits for the requests of one account for a model, by the model's id, or by a prefix followed by `*` for all its models together. A budget is not possible.",
      }),
    ),
  },
  { ...strict, default: {} },
);

const overridingTimeouts = (owner: string) => {
  const timeout = (description = "As the upstream's.") => milliseconds(description);
  return Type.Optional(
    Type.Object(
      {
        firstByteTimeoutMs: timeout(),
        firstTokenTimeoutMs: timeout("As the upstream's. The worker then tries the next target, if there is one."),
        firstContentTimeoutMs: timeout(),
        betweenTokensTimeoutMs: timeout(),
        betweenContentTimeoutMs: timeout(),
        totalTimeoutMs: timeout(),
      },
      { ...strict, description: `Timeouts for ${owner}; they override those of its upstream.` },
    ),
  );
};

const timeouts = Type.Object(
  {
    connectTimeoutMs: millisecondsOr(5_000, "Until a connection is open."),
    firstByteTimeoutMs: milliseconds(
      "From the request to the headers of a streaming response. Default: as of firstTokenTimeoutMs.",
    ),
    firstTokenTimeoutMs: milliseconds(
      "From the headers of a streaming response to its first content, while the upstream sends nothing at all; keep-alives restart it. Default: it adapts. While another target is left, it is three times the time that 95 % of the target's last answers took to begin: at least 10 seconds (2 minutes for a model or a request with reasoning), and more for long prompts. For the last target it is at least 30 seconds.",
    ),
    firstContentTimeoutMs: milliseconds(
      "From the request to the first content of the answer, streaming or not; keep-alives do not restart it. The worker then tries the next target. The last target of an answer that does not stream has until totalTimeoutMs. Default: 5 minutes. For an answer that does not stream the default adapts too, while another target is left and the upstream sends nothing at all: three times what 95 % of the target's last answers took, at least 90 seconds (5 minutes with reasoning).",
    ),
    betweenTokensTimeoutMs: millisecondsOr(30_000, "In a running answer, while the upstream sends nothing at all."),
    betweenContentTimeoutMs: milliseconds(
      "Between two parts of the content of a running answer (text, reasoning, arguments of calls, images, speech, steps of the upstream's own tools); keep-alives, single bytes and empty parts do not restart it. For an answer that does not stream, it applies while another target is left. Default: four times betweenTokensTimeoutMs.",
    ),
    totalTimeoutMs: millisecondsOr(600_000, "From the request to the end of the answer."),
  },
  { ...strict, default: {} },
);

const authentications = ["bearer", "x-api-key", "api-key", "x-goog-api-key", "google", "aws"] as const;

const cacheDomainName = text(100, "The name of a cache domain.");

const callLimits = (whose: string) => ({
  concurrencyMax: optionalInteger([1, 1_000_000], `Concurrent requests ${whose}, over all workers.`),
  requestsPerMinute: optionalInteger([1, 1_000_000_000], `Requests ${whose} in any minute, over all workers.`),
  tokensPerMinute: optionalInteger(
    [1, 1_000_000_000_000],
    `Tokens ${whose} in any minute, input and output together, over all workers.`,
  ),
});

const upstream = Type.Object(
  {
    dialect: Type.Enum(upstreamDialects, {
      description: "The upstream's dialect. Requests in other dialects are translated to it.",
    }),
    alsoSpeaks: Type.Array(Type.Enum(upstreamDialects), {
      default: [],
      maxItems: upstreamDialects.length,
      description:
        "Further dialects that the upstream serves at the same address. Requests in one of them are forwarded without translation.",
    }),
    baseUrl: url(
      `The part of the address that all paths share, without a trailing slash. A query such as "?api-version=2024-10-21" is sent with every request, and has no credential. May contain "\${NAME}" and "\${NAME:-default}" from the environment.`,
    ),
    credential: Type.Optional(
      credentialName(
        "The environment variable that contains the secret, or `stored:` and the name of a credential that operators have stored in the console. Only workers read it; it is never part of the catalogue.",
      ),
    ),
    credentials: Type.Array(credentialName("One more of these."), {
      default: [],
      maxItems: 100,
      description:
        "Further credentials of the same kind, used in turn. A credential that is refused or exhausted has a cooldown of its own.",
    }),
    cacheDomain: Type.Optional(
      Type.Union([cacheDomainName, Type.Record(Type.String(), cacheDomainName, { maxProperties: 101 })], {
        faultText: "must be a name of 1 to 100 characters, or names by the variables of credentials",
        description:
          "Credentials of one organisation, workspace or project share the vendor's prompt cache: a name for all credentials of this upstream, or names by credential, such as `{ KEY_A: acme, KEY_B: acme }`. The requests of a session use the credentials of one domain in turn. Default: each credential has its own.",
      }),
    ),
    ...callLimits("to the upstream"),
    credentialLimits: Type.Optional(
      Type.Object(callLimits("with each of its credentials"), {
        ...strict,
        description: "Limits of each credential, for all models together.",
      }),
    ),
    whenFull: choice(
      ["next", "wait", "refuse"],
      "What a request does that is over a limit of the upstream, or of all credentials at its target. `next`: it goes to the next target, and waits where none is left. `wait`: it waits for this target for up to a minute, and then goes on. `refuse`: it fails at once, with 429 for requests and tokens per minute and 503 for concurrency.",
    ),
    rateLimitHeaders: choice(
      ["obey", "ignore"],
      "The rate limits that the upstream states in its responses (`x-ratelimit-*`, `anthropic-ratelimit-*`). `obey`: while nothing is left of one, no worker sends a request to that target with that credential. `ignore`: for an upstream whose headers are wrong.",
    ),
    countsMaxTokens: Type.Optional(
      Type.Boolean({
        description:
          "Whether the vendor's limits of tokens count the most tokens that a request allows for its answer (`max_tokens` and its like), instead of those of the answer. Default: true at OpenAI, Azure, Cerebras and Bedrock, by the host of `baseUrl`, otherwise false.",
      }),
    ),
    batchApi: flagOr(
      false,
      "Requests of batches for this upstream are sent as batches of its vendor (OpenAI, Anthropic, Google, and servers with the same paths), with the first credential. The vendor has up to a day for them. See docs/batches.md.",
    ),
    prefill: flagOr(
      false,
      "The upstream continues a request that ends in an assistant turn, so it can resume an answer of another target.",
    ),
    circuitBreakerFailuresMax: integerOr(
      5,
      [0, 1_000],
      "The number of requests in a row that fail at a target and so open its circuit breaker for all workers, however often each of them called it. After a while it admits one request at a time. 0 switches the circuit breaker off.",
    ),
    requires: Type.Optional(
      variableName(
        "Offers this upstream, and models without another upstream, only in processes where this environment variable is set and not empty.",
      ),
    ),
    headers: Type.Record(
      Type.String(),
      Type.String({ maxLength: 4_096, pattern: "^[\\t\\u0020-\\u007e]*$", faultText: "must be printable ASCII" }),
      {
        default: {},
        propertyNames: { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$" },
        nameFaultText: "not the name of an HTTP header",
        maxProperties: 50,
        description: "Headers sent with every request. Not for credentials.",
      },
    ),
    authentication: Type.Optional(
      Type.Enum(authentications, {
        description:
          "How the worker sends the credential: `bearer` (OpenAI and most others), `x-api-key` (Anthropic), `api-key` (Azure), `x-goog-api-key` (Google AI Studio), `google` (Vertex AI: fetches tokens for the service account whose key file's content or path is the credential), `aws` (Bedrock: signs requests with the AWS credentials of the worker's environment). The default depends on the dialect.",
      }),
    ),
    tls: Type.Optional(
      Type.Object(
        {
          caFile: Type.Optional(
            text(1_000, "PEM certificates of the trusted authorities; they replace the public ones."),
          ),
          certificateFile: Type.Optional(
            text(1_000, "The worker's own PEM certificate, for upstreams that require one."),
          ),
          keyFile: Type.Optional(text(1_000, "The private key of that certificate in PEM.")),
          serverName: Type.Optional(
            text(253, "The name in the upstream's certificate, if it differs from the host of `baseUrl`."),
          ),
        },
        {
          ...strict,
          description:
            "Files for https, which a worker reads on its first call to the upstream. Connections after a change of a file use it within five seconds, if the files fit together. Relative paths start at the worker's working directory.",
        },
      ),
    ),
    region: Type.Optional(text(100, "For `authentication: aws`: the region, such as us-east-1. Default: AWS_REGION.")),
    service: text(100, "For `authentication: aws`: the service's signing name.", { default: "bedrock-mantle" }),
    betas: Type.Optional(
      Type.Array(text(129, "The name of a beta, or a prefix followed by `*`."), {
        maxItems: 200,
        description:
          "For anthropic-messages: the betas of a caller's `anthropic-beta` header that are forwarded to the upstream. Default: those that a known upstream takes, at other addresses all.",
      }),
    ),
    omits: Type.Optional(
      Type.Array(text(129, "The path of a field."), {
        maxItems: 200,
        description:
          "Fields of requests that this upstream refuses and that are left out, for every operation, in requests that are translated or forwarded unchanged: names separated by dots, through lists, such as `context_management`, `tools.eager_input_streaming` or `tools.type=custom` (only this value). `cache_control.ttl` and `cache_control.scope` mean those of all blocks, tools and messages. Only for fields without which the answer is still right. Default: those that a known upstream refuses (Bedrock, Vertex AI, Kimi, z.ai, MiniMax, DeepSeek, Groq and others, by the host of `baseUrl`: libs/dialects/repairs/strict-upstreams.ts), at other addresses none.",
      }),
    ),
    streamUsage: flagOr(true, "For openai-chat: the upstream accepts `stream_options.include_usage`."),
    tokenLimitField: choice(
      ["max_completion_tokens", "max_tokens"],
      "The field that limits the length of an answer in requests translated to openai-chat. Older servers know only `max_tokens`.",
    ),
    fetchesAttachments: flagOr(
      false,
      "The upstream fetches images and documents from their URLs itself, except documents in openai-chat. Otherwise the worker fetches them and sends their content. An upstream outside the public internet receives only URLs that the worker would fetch, but it resolves names and follows redirects itself: leave this off for such an upstream.",
    ),
    countsTokens: flagOr(
      true,
      "The upstream has its dialect's endpoint for counting tokens. Otherwise tokens are estimated.",
    ),
    sendsTrace: flagOr(
      false,
      "The upstream gets the headers `traceparent` and `tracestate`, so that its own spans belong to the request's trace. For upstreams of your own: trace ids would let a vendor recognise a caller's requests.",
    ),
    timeouts,
    connectionsMax: integerOr(10_000, [1, 65_536], "Connections from one worker process to the upstream."),
  },
  { ...strict, default: {} },
);

const promptCache = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        auto: flagOr(true, "Whether the gateway does it."),
        ttl: choice(
          ["5m", "1h"],
          "How long Anthropic keeps the prompt after its last use. An hour costs more to write.",
        ),
        tokensMin: optionalInteger(
          [0, 1_000_000],
          "The shortest prompt that Anthropic's model caches, in tokens; a shorter one gets no marks. Default: the vendor's (libs/dialects/anthropic-messages/auto-marks.ts).",
        ),
      },
      { ...strict, description },
    ),
  );

const tokens = (description: string) => optionalInteger([1, 1_000_000_000], description);

const model = Type.Object(
  {
    id: Type.String({
      pattern: "^([A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}|([A-Za-z0-9][A-Za-z0-9._:/@+-]{0,126})?[*])$",
      faultText:
        "must be 1 to 128 of A-Z, a-z, 0-9 and ._:/@+-, begin with a letter or digit, and may end in `*`; put it in quotes if it looks like a number",
      description:
        "The model's name in requests. A wildcard such as `openai/*` stands for every model whose name begins so, unless another entry has the name or a longer beginning.",
    }),
    name: Type.Optional(text(100, "The model's name for people. Default: the id.")),
    description: Type.Optional(text(1_000, "A sentence or two about the model, for people.")),
    ownedBy: text(100, "The model's vendor.", { default: "sluice" }),
    created: Type.Union([Type.Integer({ minimum: 0, maximum: 99_999_999_999 }), Type.String()], {
      default: 0,
      faultText: "must be a date such as 2026-01-31, or seconds since 1970",
      description: "The release date (UTC), or seconds since 1970.",
    }),
    contextWindow: tokens("Maximum tokens of input and output together."),
    outputTokensMax: tokens("Maximum tokens of output."),
    queue: Type.String({ default: "chat", description: "The queue of its generations." }),
    recommendedDialect: Type.Enum(conversationDialects, {
      default: "openai-chat",
      description: "The dialect to recommend to callers. Does not affect requests.",
    }),
    capabilities: Type.Array(
      Type.String({ pattern: "^[a-z][a-z0-9-]{0,39}$", faultText: "must be 1 to 40 of a-z, 0-9 and -" }),
      {
        default: [],
        maxItems: 50,
        description:
          "What the model supports: text, streaming, tools, vision, json, reasoning, image, embedding, moderation, rerank, realtime, speech, transcription. With `reasoning`, upstreams of openai-responses are asked for encrypted reasoning. A list without `reasoning` removes reasoning settings from requests to the upstream.",
      },
    ),
    prices: Type.Optional(
      pricesSchema(
        "What callers pay, in the catalogue's currency. Required, except for a wildcard with `pricesByModel`.",
      ),
    ),
    pricesByModel: Type.Optional(
      Type.Record(Type.String(), pricesSchema("The prices of one of its models.", { default: {} }), {
        maxProperties: 1_000,
        description:
          "For a wildcard: prices of some of its models, by the part of the name in the place of `*`. These models are in lists of models. Models without prices of their own have `prices`, or are refused if the wildcard has none.",
      }),
    ),
    retries: integerOr(
      2,
      [0, 10],
      "How often a request that failed before its first content is retried, at the same target or another, fallbacks included.",
    ),
    fallbacks: Type.Array(Type.String(), {
      default: [],
      maxItems: 10,
      description:
        "Ids of other models that answer, in this order, when no target of this model can. The answer names the model that answered, and its prices apply.",
    }),
    resume: Type.Optional(
      Type.Boolean({
        description:
          "Whether a streaming answer whose upstream fails mid-stream is resumed at the next target. Default: only plain text is, once: a target with `prefill` continues it; at another target or fallback the answer starts again, and goes on if it repeats what the caller has. `true`: also reasoning and calls, and after the loss of a worker, at a target with `prefill` or at any target of a `deterministic` model; such answers are always translated, never forwarded unchanged. `false`: never.",
      }),
    ),
    deterministic: flagOr(
      false,
      "All targets give the same answer to the same request (replicas with a seed). A resumed answer starts again at the next target, and the part that the caller already has is dropped.",
    ),
    traits: Type.Optional(
      Type.Partial(modelTraitsSchema, {
        ...strict,
        description:
          "What the model accepts and refuses, where that differs from the defaults for its name (libs/dialects/neutral/model-traits.ts).",
      }),
    ),
    affinity: choice(
      ["session", "off"],
      "`session`: the requests of a session go to the same target and the same credential, or cache domain, while these can serve, so that the upstream finds their beginning in its prompt cache. `off`: each request is placed anew.",
    ),
    strategy: choice(
      ["weights", "leastBusy", "lowestLatency", "cheapest"],
      "How adjacent targets with weights share the requests. `weights`: in proportion to these. `leastBusy`: the one with the fewest calls in proportion to its weight. `lowestLatency`: the one that began its last answers soonest. `cheapest`: the one that costs least by its `prices`. All count over all workers. A session that a target has served stays there.",
    ),
    whenFlexFull: choice(
      ["wait", "standard"],
      "What a request for the service tier `flex` does whose upstream has no capacity for it, unless its header `x-sluice-flex` says so. `wait`: it is sent again later, for up to ten minutes. `standard`: it is sent again at once without the tier, at the standard price.",
    ),
    promptCache: promptCache(
      "Lets upstreams cache prompts: Anthropic's get marks behind the tools, the system prompt and the last two turns of the user, at most four with those of the caller; OpenAI's get a `prompt_cache_key` for the session if the caller sends none. Default: only what the caller sends.",
    ),
    timeouts: overridingTimeouts("this model"),
    mirror: Type.Optional(
      Type.Object(
        {
          upstream: Type.String({ description: "A name in `upstreams`." }),
          model: text(256, "The upstream's name for the model."),
          percent: Type.Number({ minimum: 0, maximum: 100, description: "How many of the model's requests." }),
          queue: Type.String({ default: "background", description: "The queue of the mirrored requests." }),
          prices: Type.Optional(pricesSchema("What the operator pays at this target. Default: unknown.")),
          ...callLimits("to this target with each of its upstream's credentials"),
          timeouts: overridingTimeouts("this target"),
        },
        {
          ...strict,
          description:
            "Sends a copy of some requests to another target, for comparison. The callers notice nothing of it: neither the answers, which nobody gets, nor the costs, which are recorded for the key `mirror` of no account.",
        },
      ),
    ),
    route: Type.Array(
      Type.Object(
        {
          upstream: Type.String({ description: "A name in `upstreams`." }),
          model: text(
            256,
            "The upstream's name for the model. In a wildcard, `*` at its end is the part of the requested name in the place of the wildcard's `*`.",
          ),
          weight: optionalInteger(
            [1, 1_000],
            "Adjacent targets with weights share the requests in proportion; if one fails, the others are next.",
          ),
          prices: Type.Optional(
            pricesSchema("What the operator pays at this target. The ledger then shows the margin. Default: unknown."),
          ),
          promptCache: promptCache("The same for this target. Default: that of the model."),
          ...callLimits("to this target with each of its upstream's credentials"),
          timeouts: overridingTimeouts("this target"),
        },
        strict,
      ),
      {
        minItems: 1,
        maxItems: 20,
        faultText: "must name at least one target, and at most 20",
        description: "The targets that serve the model, tried in this order.",
      },
    ),
  },
  strict,
);

export const catalogueSchema = Type.Object(
  {
    currency: Type.String({
      pattern: "^[A-Z]{3}$",
      faultText: "must be three capital letters such as USD",
      default: "USD",
      description: "The currency of all prices and budgets.",
    }),
    addresses: Type.Optional(
      Type.Object(
        {
          baseUrl: url("The public base URL."),
          alternatives: Type.Record(Type.String(), url("A base URL that serves the same paths."), {
            ...nameOptions("an address"),
            default: {},
            description: "Further base URLs that serve the same paths, by name.",
          }),
        },
        {
          ...strict,
          description:
            "The public addresses of the gateway, for tools and pages that show them. They do not affect requests.",
        },
      ),
    ),
    publicGroup: Type.Optional(
      Type.String({
        description:
          "The group whose models and prices anyone may read without a key: `GET /v1/models` at an ingress and `GET /api/v1/catalogue` at control. If it is set, callers with a key see the prices of their own group in the list of models. Default: nothing is public, and lists show no prices.",
      }),
    ),
    queues: Type.Record(Type.String(), queue, {
      ...nameOptions("a queue"),
      default: {},
      description: "The queues. `chat`, `image`, `audio` and `background` always exist.",
    }),
    groups: Type.Record(Type.String(), group, {
      ...nameOptions("a group"),
      minProperties: 1,
      faultText: "must have at least one group",
      description: "Groups of keys that share models, limits and a weight.",
    }),
    upstreams: Type.Record(Type.String(), upstream, {
      ...nameOptions("an upstream"),
      description: "The hosts that serve models.",
    }),
    models: Type.Array(model, { maxItems: 5_000, description: "The models." }),
  },
  strict,
);

type Immutable<Value> = Value extends object ? { readonly [Name in keyof Value]: Immutable<Value[Name]> } : Value;

/** The content of a catalogue file, defaults filled in. */
export type CatalogueFile = Immutable<Type.Static<typeof catalogueSchema>>;
