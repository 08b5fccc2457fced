/**
 * The usage record of a generation: who used what, when, at what cost. Never content. Records
 * travel as positional JSON, one array each, because names would double their size.
 */
import Type, { type TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { unitPriceMax } from "./prices.ts";

const text = (lengthMax: number, description?: string) =>
  Type.String({ maxLength: lengthMax, ...(description && { description }) });
const orNull = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()]);
const count = (description?: string) =>
  Type.Integer({ minimum: 0, maximum: 1_000_000_000_000, ...(description && { description }) });
const time = (description: string) => Type.Integer({ minimum: 0, maximum: 8_640_000_000_000_000, description });
const nano = (description: string) => Type.String({ pattern: "^[0-9]{1,19}$", description });

/**
 * The order of the fields is the order in the array. New fields go to the end; older readers ignore
 * them.
 */
const usageRecordSchema = Type.Object({
  generationId: text(70, "The id of the generation, or of a request that was refused before it became one."),
  requestId: text(70),
  attempt: Type.Integer({
    minimum: 0,
    maximum: 0xffff,
    description: "A later attempt's record replaces an earlier one.",
  }),
  isOwner: Type.Boolean({
    description:
      "The ingress wrote it. Its record replaces that of a worker, which writes only for a vanished ingress.",
  }),
  receivedAt: time("Epoch milliseconds. The generation counts in the periods of this moment."),
  account: orNull(text(100)),
  keyId: text(80),
  group: text(40),
  model: orNull(text(128, "The requested model, as the catalogue names it.")),
  modelAnswered: orNull(text(128)),
  upstream: orNull(text(40)),
  target: orNull(text(256, "The upstream's name of the model.")),
  operation: orNull(text(40)),
  dialect: orNull(text(40, "The caller's.")),
  upstreamDialect: orNull(text(40)),
  queue: orNull(text(40)),
  isStreamed: Type.Boolean(),
  status: Type.Integer({
    minimum: 0,
    maximum: 599,
    description: "The HTTP status that the caller got; 0 if none was decided.",
  }),
  outcome: Type.Enum(["complete", "left", "failed", "refused"] as const, {
    description:
      "left: the caller closed the connection. failed: it ended with an error. refused: an error before any worker took it.",
  }),
  errorCode: orNull(text(60)),
  inputTokens: count("All kinds."),
  cachedInputTokens: count(),
  cacheWriteTokens: count(),
  outputTokens: count("All kinds."),
  reasoningTokens: count(),
  audioInputTokens: count(),
  audioOutputTokens: count(),
  images: count(),
  imageSize: orNull(text(20)),
  imageQuality: orNull(text(20)),
  isEstimated: Type.Boolean({
    description: "Some counts are estimates, because the caller left before the upstream reported.",
  }),
  unitPrices: orNull(
    Type.Array(Type.Integer({ minimum: 0, maximum: unitPriceMax }), {
      minItems: 10,
      maxItems: 10,
      description: "The values of `UnitPrices` in their order; null if nothing is billed.",
    }),
  ),
  priceVersion: orNull(text(64, "The version of the catalogue whose prices apply.")),
  serviceTier: orNull(text(20)),
  groupPpm: count("The price factor of the caller's group, in parts per million."),
  cost: nano("What the caller pays, in nano-units of the catalogue's currency."),
  upstreamCost: orNull(nano("What the operator pays; null if the catalogue does not say.")),
  queuedMs: orNull(count("From the receipt to its place in the admission queue.")),
  dispatchedMs: orNull(count("From the receipt to its job.")),
  boundMs: orNull(count("From the receipt to its first worker.")),
  firstContentMs: orNull(count("From the receipt to the first content.")),
  durationMs: count("From the receipt to the end."),
  calls: count("Calls of upstreams."),
  chunks: count("Parts of the answer that arrived from the worker."),
  bytes: count("Bytes of the answer."),
  bodyBytes: count("Bytes of the request."),
  upstreamRequestId: orNull(text(200)),
  user: orNull(text(200, "The caller's own user, if the request names one.")),
  tags: Type.Array(text(60), { maxItems: 20, description: "The key's tags and those of the request." }),
  traceId: orNull(text(64)),
  callLog: orNull(
    Type.Array(
      Type.Tuple([text(40), text(256), count(), count(), orNull(Type.Integer({ minimum: 0, maximum: 999 })), text(60)]),
      {
        maxItems: 8,
        description:
          "Calls of upstreams: upstream, target, milliseconds from the receipt, duration, HTTP status, and `answered` or the error's code. Null if none failed.",
      },
    ),
  ),
  otherUnits: orNull(
    Type.Array(Type.Tuple([text(40), count(), orNull(Type.Integer({ minimum: 0, maximum: unitPriceMax }))]), {
      maxItems: 20,
      description:
        "Units that some vendors bill apart: kind, count, price per million tokens or per unit. A price of null is unknown. Null if there are none.",
    }),
  ),
  cacheSaving: orNull(
    Type.String({
      pattern: "^-?[0-9]{1,19}$",
      description:
        "The saving by the vendor's prompt cache in nano-units, below zero where writing cost more than reading saved. Null if no cache was used.",
    }),
  ),
  batch: orNull(text(60, "The batch whose line it is.")),
  session: orNull(text(255, "The caller's own name of the session, if the request names one.")),
});

export type UsageRecord = Type.Static<typeof usageRecordSchema>;
type Field = keyof UsageRecord;

const version = 1;
const fields = Object.keys(usageRecordSchema.properties) as Field[];
const validator = Compile(usageRecordSchema);
/** Records of writers that do not know these fields are valid. */
const laterFields: ReadonlySet<string> = new Set<Field>(["callLog", "otherUnits", "cacheSaving", "batch", "session"]);

/** One record as JSON. */
export function encodeUsageRecord(record: UsageRecord): string {
  const values = new Array<unknown>(1 + fields.length);
  values[0] = version;
  for (let index = 0; index < fields.length; index++) values[index + 1] = record[fields[index] as Field];
  return JSON.stringify(values);
}

/** Copies of one object share its shape, which costs a third of making each of its fields. */
const blank: Record<string, unknown> = Object.fromEntries(
  fields.map((field) => [field, laterFields.has(field) ? null : undefined]),
);

/** Undefined for anything but a record of this version. */
export function decodeUsageRecord(value: unknown): UsageRecord | undefined {
  if (!Array.isArray(value) || value[0] !== version) return undefined;
  const record = { ...blank };
  fields.forEach((field, index) => {
    if (index + 1 < value.length) record[field] = value[index + 1];
  });
  return validator.Check(record) ? record : undefined;
}
