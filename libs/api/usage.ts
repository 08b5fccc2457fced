/** Operations on usage: the log of generations, and sums over time. */
import Type from "typebox";
import {
  flag,
  id,
  integer,
  listOf,
  money,
  number,
  object,
  oneOf,
  optional,
  orNull,
  pageOf,
  pageQuery,
  strictObject,
  text,
  time,
} from "./common.ts";
import type { Operation } from "./operation.ts";
import { usageLabels } from "./vocabulary.ts";

const count = (description: string) => Type.Integer({ minimum: 0, description });
const ms = (description: string) => orNull(count(`${description} In milliseconds.`));

const filterList = (description: string) =>
  optional(
    Type.String({
      maxLength: 2_000,
      description: `${description} Several are separated by commas; a record matches one of them.`,
    }),
  );

const label = (description: string) => optional(Type.String({ minLength: 1, maxLength: 255, description }));

const filters = {
  from: optional(
    time("Records received from this time on; for sums, from the half hour that contains it. Default: 30 days ago."),
  ),
  to: optional(time("Records received before this time. Default: now.")),
  account: filterList("Ids of accounts."),
  key: filterList("Ids of keys."),
  model: filterList("Models that answered, or that were requested where none did."),
  group: filterList("Groups."),
  upstream: filterList("Upstreams."),
  user: label("The caller's own user, as the request named it."),
  session: label("The caller's own name of the session."),
  tag: label("One tag of the key or the request."),
};

/** The dimensions by which usage can be grouped. */
export const usageDimensions = ["account", "key", "model", "group", "upstream", ...usageLabels] as const;
/** The measures by which the largest groups can be chosen. */
export const topMeasures = [
  "cost",
  "requests",
  "refused",
  "failed",
  "errors",
  "tokens",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "reasoningTokens",
  "images",
] as const;
const usageIntervals = ["half-hour", "hour", "day", "month", "none"] as const;

/** Units that some vendors bill apart from tokens of text. */
export const unitKinds = [
  "cacheWrite1hTokens",
  "cachedAudioTokens",
  "imageInputTokens",
  "imageOutputTokens",
  "webSearches",
  "mapSearches",
  "fileSearches",
  "codeSessions",
  "searchUnits",
  "audioSeconds",
] as const;

const outcomes = ["complete", "left", "failed", "refused"] as const;

const isCostPartial = flag("Whether the cost leaves out units without a price, so that it is at least `cost`.");

/** One usage record. */
const record = object({
  id: id("The id of the generation."),
  requestId: text(),
  receivedAt: time("When the request was received."),
  account: text(),
  key: text("The id of the key."),
  keyName: orNull(text("Null if the key is unknown.")),
  group: text(),
  model: text("The requested model."),
  modelAnswered: orNull(text()),
  upstream: text("Empty if no upstream was called."),
  target: orNull(text("The upstream's name of the model.")),
  operation: orNull(text()),
  dialect: orNull(text()),
  upstreamDialect: orNull(text()),
  queue: orNull(text()),
  isStreamed: flag(),
  status: integer("The HTTP status that the caller got."),
  outcome: oneOf(outcomes),
  errorCode: orNull(text()),
  tokens: object({
    input: count("All input tokens."),
    cacheRead: count("Of the input: read from the upstream's cache."),
    cacheWrite: count("Of the input: written to the upstream's cache."),
    audioInput: count("Of the input: audio."),
    output: count("All output tokens."),
    reasoning: count("Of the output: reasoning."),
    audioOutput: count("Of the output: audio."),
  }),
  units: listOf(
    object({
      kind: oneOf(unitKinds),
      count: count(""),
      partOf: orNull(
        oneOf(["input", "cacheRead", "cacheWrite", "output"], "The tokens that contain these; null for other units."),
      ),
      unitPrice: orNull(
        money("Per million tokens, or per unit. Null is unknown: tokens then cost as much as those that contain them."),
      ),
    }),
    "What some vendors bill apart, such as searches, tokens of images, and cache writes for an hour.",
  ),
  images: count("Generated images."),
  imageSize: orNull(text()),
  imageQuality: orNull(text()),
  serviceTier: orNull(text("As the upstream named it in its answer; `batch` before it for a line of a batch.")),
  isEstimated: flag(),
  cost: money("What the caller pays."),
  isCostPartial,
  upstreamCost: orNull(money("What the operator pays; null if the catalogue does not say. Only for operators.")),
  cacheSaving: orNull(
    money(
      "The saving by the upstream's prompt cache: its tokens as plain input, less their cost. Below zero where writing cost more than reading saved; null without a cache.",
    ),
  ),
  price: orNull(
    object(
      {
        version: orNull(text("The catalogue's version with these prices.")),
        groupRatio: number("The price factor of the group."),
        serviceRatio: number("The price factor of the upstream's service tier."),
        inputPerMillion: money(""),
        cacheReadPerMillion: money(""),
        cacheWritePerMillion: money(""),
        outputPerMillion: money(""),
        reasoningPerMillion: money(""),
        audioInputPerMillion: money(""),
        audioOutputPerMillion: money(""),
        perRequest: money(""),
        perImage: money(""),
      },
      "The unit prices from which the cost follows; null if nothing was billed.",
    ),
  ),
  queuedMs: ms("Until it was in the admission queue."),
  dispatchedMs: ms("Until its job was on its queue."),
  boundMs: ms("Until a worker took it."),
  firstContentMs: ms("Until the first content."),
  durationMs: count("Until its end, in milliseconds."),
  attempts: count("Attempts of workers."),
  calls: count("Calls of upstreams."),
  callLog: orNull(
    listOf(
      object({
        upstream: text(),
        target: text("The upstream's name of the model."),
        startedMs: count("From the receipt of the request, in milliseconds."),
        durationMs: count("In milliseconds."),
        status: orNull(integer("The HTTP status. Only for operators.")),
        outcome: text("`answered`, the code of the error, or in a trial why the target was not called."),
      }),
      "Up to eight calls of upstreams, the last one included; null if none failed and it was no trial.",
    ),
  ),
  chunks: count("Parts of the answer."),
  bytes: count("Bytes of the answer."),
  bodyBytes: count("Bytes of the request."),
  upstreamRequestId: orNull(text()),
  user: orNull(text("The caller's own user.")),
  session: orNull(text("The caller's own name of the session.")),
  tags: listOf(text("Of the key and the request.")),
  traceId: orNull(text()),
  hasContent: flag("Whether its content is stored."),
});

const sums = {
  requests: count("All generations, refused ones included."),
  refused: count("Of them: refused."),
  failed: count("Of them: failed."),
  inputTokens: count(""),
  cachedInputTokens: count(""),
  cacheWriteTokens: count(""),
  outputTokens: count(""),
  reasoningTokens: count(""),
  audioInputTokens: count(""),
  audioOutputTokens: count(""),
  images: count(""),
  cost: money("What callers pay."),
  isCostPartial,
  upstreamCost: orNull(money("What the operator pays, as far as the catalogue says it. Only for operators.")),
  isUpstreamCostPartial: flag("Whether `upstreamCost` and `margin` leave out records whose upstream cost is unknown."),
  margin: orNull(
    money("Cost minus upstream cost, of records whose upstream cost is known; null without any. Only for operators."),
  ),
  cacheSaving: orNull(money("The saving by the upstreams' prompt caches, for callers; null where nothing was saved.")),
  firstContentMs: orNull(number("Mean of answers with content.")),
  durationMs: orNull(number("Mean.")),
};

const sumQuery = {
  ...filters,
  interval: optional(Type.Enum(usageIntervals, { default: "day", description: "The length of a step of time." })),
  timeZone: optional(
    Type.String({
      pattern: "^[A-Za-z][A-Za-z0-9_+/-]{0,63}$",
      default: "UTC",
      description: "Of days and months, such as Europe/Berlin.",
    }),
  ),
  errorCode: filterList("Error codes. Such sums are made of the records, so they reach back as far as those are kept."),
  by: optional(
    Type.String({ maxLength: 100, description: `Up to two of ${usageDimensions.join(", ")}, separated by a comma.` }),
  ),
};

const topQuery = {
  top: optional(
    Type.Integer({
      minimum: 1,
      maximum: 50,
      description:
        "Only so many groups: the largest of the whole time. All others are summed in one more group with `isOthers`.",
    }),
  ),
  topBy: optional(
    Type.Enum(topMeasures, {
      default: "cost",
      description: "What the size of a group is. `tokens` are input and output, `errors` refused and failed.",
    }),
  ),
};

const recordFilters = {
  ...filters,
  outcome: optional(
    Type.String({
      pattern: `^(${outcomes.join("|")})(,(${outcomes.join("|")}))*$`,
      description: `Of ${outcomes.join(", ")}. Several are separated by commas; a record matches one of them.`,
    }),
  ),
  errorCode: filterList("Error codes."),
};

export const usageOperations = {
  listUsage: {
    method: "GET",
    path: "/usage/records",
    summary: "The log: usage records, newest first.",
    access: "reader",
    query: strictObject({
      ...pageQuery,
      ...recordFilters,
    }),
    answer: pageOf(record),
  },
  exportRecords: {
    method: "GET",
    path: "/usage/records.csv",
    summary: "The records as CSV, newest first, at most 10,000.",
    access: "reader",
    query: strictObject(recordFilters),
    answer: text(),
    mediaType: "text/csv; charset=utf-8",
  },
  getUsage: {
    method: "GET",
    path: "/usage/records/:id",
    summary: "One usage record, by the id of its generation, of its request, or the upstream's own.",
    access: "reader",
    params: object({ id: Type.String({ minLength: 1, maxLength: 200 }) }),
    answer: record,
  },
  sumUsage: {
    method: "GET",
    path: "/usage",
    summary: "Sums of usage over time, grouped by up to two dimensions.",
    access: "reader",
    query: strictObject({ ...sumQuery, ...topQuery }),
    answer: object({
      total: object(sums),
      rows: listOf(
        object({
          time: orNull(time("The beginning of the step; null for the interval none.")),
          group: Type.Record(text(), text(), {
            description:
              "The dimensions of `by` with their values; empty for the others. A user or session is an empty text for records that name none, and `(other)` for those beyond the first 1,000 of an account and day.",
          }),
          isOthers: flag("All groups that are not among the `top`."),
          ...sums,
        }),
      ),
      keyNames: Type.Record(text(), text(), {
        description: "The names of the keys in `rows`, by id. Keys that are unknown are absent.",
      }),
    }),
  },
  exportUsage: {
    method: "GET",
    path: "/usage.csv",
    summary:
      "The same sums as CSV, with the names of accounts and keys, and the currency. Times have the offset of `timeZone`.",
    access: "reader",
    query: strictObject(sumQuery),
    answer: text(),
    mediaType: "text/csv; charset=utf-8",
  },
} as const satisfies Record<string, Operation>;
