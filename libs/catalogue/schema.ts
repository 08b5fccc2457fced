/** The shape of a catalogue file. Descriptions are for the reference page, `faultText` for whoever gets it wrong. */
import Type from "typebox";
import { conversationDialects, upstreamDialects } from "#dialects/dialect.ts";
import { modelTraitsSchema } from "#dialects/model-traits.ts";
import { authentications } from "./catalogue.ts";

const strict = { additionalProperties: false };

const millisecondsOr = (ms: number, description: string) =>
  Type.Integer({ minimum: 1, maximum: 86_400_000, default: ms, description });

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

const url = (description: string) => text(2_000, description);

const queue = Type.Object(
  {
    waitingMax: Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      default: 10_000,
      description: "How many generations one ingress lets wait in this queue.",
    }),
    waitMs: millisecondsOr(
      60_000,
      "How long one generation may wait to be taken by a worker, in milliseconds; 600000 where the queue is `image`.",
    ),
  },
  { ...strict, default: {} },
);

const counted = (max: number, description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: max, description }));
const budget = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 1_000_000, description }));

const callerLimits = (whose: string) =>
  Type.Optional(
    Type.Object(
      {
        requestsPerMinute: counted(1_000_000_000, "Requests in any minute."),
        tokensPerMinute: counted(1_000_000_000_000, "Tokens in any minute, input and output together."),
        generationsMax: counted(1_000_000, "Generations at once, over all ingresses."),
        budgetPerDay: budget("What may be spent on one day (UTC), in the catalogue's currency."),
        budgetPerMonth: budget("What may be spent in one month (UTC), in the catalogue's currency."),
      },
      { ...strict, description: whose },
    ),
  );

const group = Type.Object(
  {
    weight: Type.Integer({
      minimum: 1,
      maximum: 1_000,
      default: 1,
      description: "This group's share of a busy queue, beside the other groups' weights.",
    }),
    models: Type.Array(text(129, "An id, or the beginning of ids followed by `*`."), {
      minItems: 1,
      maxItems: 5_000,
      description:
        "What keys of this group may use: model ids, or patterns with a trailing `*`. `*` alone is every model.",
    }),
    limits: callerLimits("What all keys of this group may together. A limit that is absent does not exist."),
    keyLimits: callerLimits("What each key of this group may, unless the key has a limit of its own."),
    accountLimits: callerLimits("What all keys of one account may together, where a key names its account."),
  },
  { ...strict, default: {} },
);

const optionalMilliseconds = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400_000, description }));

/** Timeouts that override the upstream's. */
const ownTimeouts = (whose: string) =>
  Type.Optional(
    Type.Object(
      {
        firstByteTimeoutMs: optionalMilliseconds("As the upstream's."),
        firstTokenTimeoutMs: optionalMilliseconds(
          "As the upstream's. With another target left, a slower one is given up for it.",
        ),
        firstContentTimeoutMs: optionalMilliseconds("As the upstream's."),
        betweenTokensTimeoutMs: optionalMilliseconds("As the upstream's."),
        totalTimeoutMs: optionalMilliseconds("As the upstream's."),
      },
      { ...strict, description: `Timeouts for ${whose}; they override its upstream's.` },
    ),
  );

const timeouts = Type.Object(
  {
    connectTimeoutMs: millisecondsOr(5_000, "Until a connection is open."),
    firstByteTimeoutMs: millisecondsOr(
      30_000,
      "From the request to the head of a streaming answer. For other answers, firstContentTimeoutMs applies.",
    ),
    firstTokenTimeoutMs: millisecondsOr(
      30_000,
      "From the head of a streaming answer to its first content, as long as nothing comes at all: what an upstream sends to keep the line alive counts as life. Raise it for models that think in silence.",
    ),
    firstContentTimeoutMs: millisecondsOr(
      300_000,
      "From the request to the first content of the answer, streamed or not, whatever the upstream sends to keep the line alive. A target that exceeds it is left for the next one; the last target of an answer that does not stream has until totalTimeoutMs. Raise it for models that answer later than this.",
    ),
    betweenTokensTimeoutMs: millisecondsOr(30_000, "Between two chunks of an answer that has begun, of whatever kind."),
    totalTimeoutMs: millisecondsOr(600_000, "From the request to the end of the answer."),
  },
  { ...strict, default: {} },
);

const upstream = Type.Object(
  {
    dialect: Type.Enum(upstreamDialects, {
      description: "The wire format it speaks; what callers ask in another one is translated to it.",
    }),
    alsoSpeaks: Type.Array(Type.Enum(upstreamDialects), {
      default: [],
      maxItems: upstreamDialects.length,
      description:
        "Further wire formats it serves at the same address: callers who speak one of these are relayed to it untouched.",
    }),
    baseUrl: url(
      `Where it is, up to what all its paths share, without a trailing slash. A query such as "?api-version=2024-10-21" is sent with every request. May hold "\${NAME}" and "\${NAME:-default}" from the environment.`,
    ),
    credential: Type.Optional(
      variableName("The environment variable that holds its secret. Read by workers; it never enters the catalogue."),
    ),
    credentials: Type.Array(variableName("The environment variable that holds one more secret."), {
      default: [],
      maxItems: 100,
      description:
        "Further credentials of the same kind, taken in turn. One that is refused or used up is rested by itself.",
    }),
    concurrencyMax: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        description: "Requests at once, counted over all workers. Those beyond go to another target, or wait.",
      }),
    ),
    prefill: Type.Boolean({
      default: false,
      description:
        "It goes on from an assistant's turn that a request ends in, so that it can continue an answer of another.",
    }),
    circuitBreakerFailuresMax: Type.Integer({
      minimum: 0,
      maximum: 1_000,
      default: 5,
      description:
        "After so many failures in a row a target is left alone for a while, by all workers, and then tried with one request at a time; 0 never leaves it alone.",
    }),
    requires: Type.Optional(
      variableName(
        "The upstream, and each model that has no other, is offered only by processes where this environment variable is set and not empty.",
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
        description: "Sent with every request. Not for credentials.",
      },
    ),
    authentication: Type.Optional(
      Type.Enum(authentications, {
        description:
          "How the credential is sent: `bearer` (OpenAI and most others), `x-api-key` (Anthropic), `api-key` (Azure), `x-goog-api-key` (Google AI Studio); `google` gets tokens from Google for the service account whose key file's content or path the credential is (Vertex AI); `aws` signs requests with the AWS credentials of the worker's environment (Bedrock). By default its dialect's own.",
      }),
    ),
    tls: Type.Optional(
      Type.Object(
        {
          caFile: Type.Optional(
            text(1_000, "Certificates in PEM of the authorities to trust, in place of the public ones."),
          ),
          certificateFile: Type.Optional(
            text(1_000, "The worker's own certificate in PEM, for upstreams that demand one."),
          ),
          keyFile: Type.Optional(text(1_000, "The private key of that certificate in PEM.")),
          serverName: Type.Optional(
            text(253, "The name that the upstream's certificate must have, where it is not the host of `baseUrl`."),
          ),
        },
        {
          ...strict,
          description:
            "For https: files that workers read when they first call the upstream. A relative path begins where the worker was started.",
        },
      ),
    ),
    region: Type.Optional(
      text(100, "For `authentication: aws`: the region, such as us-east-1; AWS_REGION when absent."),
    ),
    service: text(100, "For `authentication: aws`: the service's signing name.", { default: "bedrock-mantle" }),
    betas: Type.Array(text(129, "A beta's name, or the beginning of names followed by `*`."), {
      default: ["*"],
      maxItems: 200,
      description:
        "Which of the betas that callers name in `anthropic-beta` it is told of, where the dialect is anthropic-messages.",
    }),
    streamUsage: Type.Boolean({
      default: true,
      description: "It accepts `stream_options.include_usage`, where the dialect is openai-chat.",
    }),
    tokenLimitField: Type.Enum(["max_completion_tokens", "max_tokens"] as const, {
      default: "max_completion_tokens",
      description:
        "Where requests translated to openai-chat say how long an answer may be; older servers know `max_tokens` only.",
    }),
    fetchesAttachments: Type.Boolean({
      default: false,
      description:
        "It is given the addresses of images and documents and fetches them itself, documents of openai-chat excepted. Where not, the worker fetches them and sends their content. An upstream that is not on the public internet is given only addresses that the worker would fetch, but follows redirects and resolves names by itself: leave it off there.",
    }),
    countsTokens: Type.Boolean({
      default: true,
      description: "It has its dialect's endpoint that counts tokens. Where not, they are estimated.",
    }),
    timeouts,
    connectionsMax: Type.Integer({
      minimum: 1,
      maximum: 65_536,
      default: 2_048,
      description: "Connections that one worker process opens to it.",
    }),
  },
  { ...strict, default: {} },
);

const price = (description: string) => Type.Number({ minimum: 0, maximum: 1_000_000, description });
const tokens = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000, description }));

const model = Type.Object(
  {
    id: Type.String({
      pattern: "^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$",
      faultText:
        "must be 1 to 128 of A-Z, a-z, 0-9 and ._:/@+-, and begin with a letter or digit; put it in quotes if it looks like a number",
      description: "What callers write.",
    }),
    name: Type.Optional(text(100, "What people read; the id when absent.")),
    ownedBy: text(100, "Who made it.", { default: "sluice" }),
    created: Type.Union([Type.Integer({ minimum: 0, maximum: 99_999_999_999 }), Type.String()], {
      default: 0,
      faultText: "must be a date such as 2026-01-31, or seconds since 1970",
      description: "When it appeared: a date (UTC), or seconds since 1970.",
    }),
    contextWindow: tokens("How many tokens it takes in and gives out together."),
    outputTokensMax: tokens("How many tokens it gives out at most."),
    queue: Type.String({ default: "chat", description: "The queue its generations wait in." }),
    recommendedDialect: Type.Enum(conversationDialects, {
      default: "openai-chat",
      description: "The wire format callers are advised to use.",
    }),
    capabilities: Type.Array(
      Type.String({ pattern: "^[a-z][a-z0-9-]{0,39}$", faultText: "must be 1 to 40 of a-z, 0-9 and -" }),
      {
        default: [],
        maxItems: 50,
        description:
          "What it can do: text, streaming, tools, vision, json, reasoning, image. A list with `reasoning` has the upstream asked for encrypted reasoning (Responses); one without it keeps wishes for reasoning from the upstream.",
      },
    ),
    prices: Type.Object(
      {
        inputPerMillion: price("For a million tokens taken in."),
        outputPerMillion: price("For a million tokens given out, reasoning included."),
        cachedInputPerMillion: Type.Optional(
          price("For a million tokens taken in from the upstream's cache; as inputPerMillion when absent."),
        ),
      },
      strict,
    ),
    retries: Type.Integer({
      minimum: 0,
      maximum: 10,
      default: 2,
      description:
        "How often a request that failed before its first content may be sent again, to the same target or another, fallbacks included.",
    }),
    fallbacks: Type.Array(Type.String(), {
      default: [],
      maxItems: 10,
      description:
        "Ids of other models to answer when no target of this one can, in this order. The answer names the model that answered, and that one is billed.",
    }),
    resume: Type.Boolean({
      default: false,
      description:
        "A streamed answer whose upstream dies in the middle goes on from the next target: one with `prefill`, or any if the model is `deterministic`. Such answers are always translated, never passed on as they are.",
    }),
    deterministic: Type.Boolean({
      default: false,
      description:
        "Its targets give the same answer to the same request (replicas, seeded): a resumed answer is begun anew there and held back for as long as it repeats.",
    }),
    traits: Type.Optional(
      Type.Partial(modelTraitsSchema, {
        ...strict,
        description:
          "What the model accepts and refuses, where that differs from the defaults for its name (libs/dialects/model-traits.ts).",
      }),
    ),
    timeouts: ownTimeouts("this model"),
    route: Type.Array(
      Type.Object(
        {
          upstream: Type.String({ description: "Its name under `upstreams`." }),
          model: text(256, "What this upstream calls the model."),
          weight: Type.Optional(
            Type.Integer({
              minimum: 1,
              maximum: 1_000,
              description:
                "Neighbouring targets that all have a weight share the requests by it; the others are next if one fails.",
            }),
          ),
          timeouts: ownTimeouts("this target"),
        },
        strict,
      ),
      {
        minItems: 1,
        maxItems: 20,
        faultText: "must name at least one target, and at most 20",
        description: "Where the model is served, tried in this order.",
      },
    ),
  },
  strict,
);

/** The file as it is written, with what its defaults leave open. */
export const catalogueSchema = Type.Object(
  {
    currency: Type.String({
      pattern: "^[A-Z]{3}$",
      faultText: "must be three capital letters such as USD",
      default: "USD",
      description: "Of all prices.",
    }),
    addresses: Type.Optional(
      Type.Object(
        {
          baseUrl: url("The public base address."),
          alternatives: Type.Record(Type.String(), url("A base address that serves the same paths."), {
            ...nameOptions("an address"),
            default: {},
            description: "Other base addresses that serve the same paths, by name.",
          }),
        },
        { ...strict, description: "The addresses that callers are told. They change nothing in what is served." },
      ),
    ),
    queues: Type.Record(Type.String(), queue, {
      ...nameOptions("a queue"),
      default: {},
      description: "The queues. `chat` and `image` exist always.",
    }),
    groups: Type.Record(Type.String(), group, {
      ...nameOptions("a group"),
      minProperties: 1,
      faultText: "must have at least one group",
      description: "Keys that share models and priority.",
    }),
    upstreams: Type.Record(Type.String(), upstream, {
      ...nameOptions("an upstream"),
      description: "The hosts that serve models.",
    }),
    models: Type.Array(model, { maxItems: 5_000, description: "The models offered." }),
  },
  strict,
);

export type CatalogueFile = Type.Static<typeof catalogueSchema>;
