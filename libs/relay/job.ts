/** The content of jobs, and the payloads of frames. */
import Type from "typebox";
import { Compile } from "typebox/compile";
import { framings } from "#dialects/codec.ts";
import { conversationDialects } from "#dialects/dialect.ts";
import { type ErrorCode, type Failure, isErrorCode } from "#dialects/errors.ts";
import type { Usage } from "#dialects/usage.ts";
import { answerBytesMax } from "#operations/bounds.ts";
import { operationNames } from "#operations/operations.ts";
import { contentTypeLengthMax, generationsPerJobMax, payloadBytesMax } from "./bounds.ts";

/** One attempt of one generation: the caller's request, its key, and the mailbox for the answer. */
const generationJobSchema = Type.Object({
  generation: Type.String({
    pattern: "^gen_[0-9a-z]{1,60}$",
    description: "Also the stem of its job's id, if it is the first generation of the job.",
  }),
  owner: Type.String({ pattern: "^[0-9A-Za-z-]{1,100}$", description: "The owner's mailbox." }),
  number: Type.Integer({ minimum: 1, maximum: 0xffff_ffff, description: "The generation's number at its owner." }),
  attempt: Type.Integer({ minimum: 1, maximum: 0xffff }),
  dialect: Type.Enum(conversationDialects),
  operation: Type.Enum(operationNames),
  framing: Type.Enum(framings, { description: "How the caller wants the answer." }),
  contentType: Type.String({ maxLength: contentTypeLengthMax, description: "Of the body." }),
  headers: Type.Record(Type.String(), Type.String({ maxLength: 4_096 }), {
    description: "The caller's headers that upstreams of its dialect read.",
  }),
  model: Type.String({ description: "The catalogue's model id." }),
  fallbacks: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: 10,
      description: "Other models that may answer: those of the model's fallbacks that the caller's key may use.",
    }),
  ),
  group: Type.String(),
  account: Type.Optional(Type.String({ description: "Of the caller's key." })),
  keyId: Type.String({ description: "The id of the caller's key, never the key." }),
  admittedAt: Type.Number({ description: "When the caller's request was admitted: epoch milliseconds." }),
  recorded: Type.Optional(
    Type.Object(
      { generation: Type.String({ maxLength: 70 }), attempt: Type.Integer({ minimum: 1, maximum: 0xffff }) },
      { description: "How usage records name the attempt, where that differs: it repeats one of a lost ingress." },
    ),
  ),
  user: Type.Optional(Type.String({ description: "The caller's own user, for its usage record." })),
  sessionName: Type.Optional(Type.String({ description: "The caller's own name of the session, likewise." })),
  tags: Type.Optional(Type.Array(Type.String(), { description: "Those of the key and the request, likewise." })),
  batch: Type.Optional(Type.String({ maxLength: 60, description: "The batch whose line the request is, likewise." })),
  priceVersion: Type.Optional(
    Type.String({ maxLength: 64, description: "The version of the catalogue whose prices apply." }),
  ),
  usageMax: Type.Optional(
    Type.Array(Type.Integer({ minimum: 0 }), {
      minItems: 5,
      maxItems: 5,
      description:
        "The values of `UsageBounds` in their order; absent for a request with one choice and nothing unusual.",
    }),
  ),
  inputTokens: Type.Optional(
    Type.Integer({
      minimum: 0,
      description: "An estimate; absent where a token for each four bytes of the body is one.",
    }),
  ),
  session: Type.Optional(
    Type.String({
      pattern: "^[0-9A-Za-z_-]{22}$",
      description: "Names the caller's session, for its key and model: a hash. Absent where no choice depends on it.",
    }),
  ),
  sessionIsAssumed: Type.Optional(
    Type.Boolean({
      description: "The request opens an unnamed conversation, so its session is not bound to a place yet.",
    }),
  ),
  whenFlexFull: Type.Optional(
    Type.Enum(["wait", "standard"] as const, {
      description: "What the caller wants if there is no capacity for flex; absent for the model's setting.",
    }),
  ),
  isMirrored: Type.Optional(
    Type.Boolean({ description: "A copy of a caller's request, for the target in the model's `mirror`." }),
  ),
  trial: Type.Optional(
    Type.Array(Type.String(), {
      description: "An operator's trial: these targets count as failing, and each one passed over is in the call log.",
    }),
  ),
  vendorBatch: Type.Optional(
    Type.Object(
      {
        name: Type.String({ maxLength: 200 }),
        place: Type.Integer({ minimum: 0 }),
        answeredBy: Type.Optional(
          Type.Object(
            { upstream: Type.String(), model: Type.String() },
            { description: "The target whose answer is in Redis." },
          ),
        ),
      },
      { description: "The vendor's batch in which a request of a batch may be sent, or was." },
    ),
  ),
  traceparent: Type.Optional(
    Type.String({
      maxLength: 200,
      description: "The request's span, for those below it; absent while tracing is off.",
    }),
  ),
  tracestate: Type.Optional(Type.String({ maxLength: 512 })),
  storage: Type.Optional(
    Type.Object(
      {
        store: Type.Optional(Type.Boolean()),
        previous_response_id: Type.Optional(Type.String()),
        conversation: Type.Optional(Type.Object({ id: Type.String() })),
      },
      {
        description:
          "What the answer says of its storage; absent for an answer that is not stored and continues nothing stored.",
      },
    ),
  ),
  delivered: Type.Optional(
    Type.String({
      description:
        "The part of the answer that the caller has received, as whole events; the attempt resumes from there.",
    }),
  ),
  answerBytesMax: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: answerBytesMax,
      description: "The most bytes of a whole answer, and of one event; absent for the usual bound.",
    }),
  ),
  body: Type.Union([Type.String(), Type.Null()], {
    description: "The caller's body; null if it is stored under the keyspace's `body` key of this generation.",
  }),
});

export type GenerationJob = Type.Static<typeof generationJobSchema>;

/** A job before it is text, which has no members that are undefined. */
export type WrittenJob = {
  [Name in keyof GenerationJob]: Partial<Pick<GenerationJob, Name>> extends Pick<GenerationJob, Name>
    ? GenerationJob[Name] | undefined
    : GenerationJob[Name];
};

/** The data of a job: generations of one owner that were added together. */
export interface QueuedJob {
  generations: WrittenJob[];
}

const validator = Compile(generationJobSchema);

/** The data of a job as text. */
export const encodeJob = (generations: WrittenJob[]): string => JSON.stringify({ generations } satisfies QueuedJob);

/** The valid generations of a job, and whether it has no others. Nothing else on a queue is run. */
export function decodeJob(text: string): { generations: GenerationJob[]; isValid: boolean } {
  const members = (parsed(text) as Partial<QueuedJob> | undefined)?.generations;
  if (!Array.isArray(members) || members.length > generationsPerJobMax) return { generations: [], isValid: false };
  const generations = members.filter((member) => validator.Check(member));
  return { generations, isValid: generations.length === members.length && members.length > 0 };
}

/** A job has the id of its first generation. */
export const jobIdOf = ({ generation, attempt }: Pick<GenerationJob, "generation" | "attempt">): string =>
  `${generation}-${attempt}`;

/** The response header with the upstream's own request id. */
export const upstreamRequestIdHeader = "x-upstream-request-id";

/** Payload of `head`: status and headers of the caller's response. */
export interface AnswerHead {
  status: number;
  headers: Record<string, string>;
}

/** One call of an upstream: as an array, because records of it travel far. */
export type CallRecord = [
  upstream: string,
  /** The upstream's name of the model. */
  target: string,
  /** From the receipt of the request. */
  startedMs: number,
  durationMs: number,
  /** The HTTP status; null if no response arrived. */
  status: number | null,
  outcome: "answered" | ErrorCode | PassedOver,
];
/** Why a target was not called. Only trials list it. */
type PassedOver = "simulated" | "unsuitable" | "circuit breaker" | "concurrency" | "credential" | "rate-limit";
/** The calls that are listed; of more, the first ones and the last. */
export const callRecordsMax = 8;

/** Where an answer, or the last failure, came from. */
export interface AnswerSource {
  upstream: string;
  /** The upstream's name of the model. */
  target: string;
  /** The upstream's dialect. */
  dialect: string;
  /** Calls of upstreams so far, this one included. */
  calls: number;
  /** The calls that are over, if any of them failed. */
  callLog?: readonly CallRecord[];
}

/**
 * Payload of `usage`: what the model has produced so far. Null: the call failed, its output does
 * not count, and another target is tried.
 */
export interface AnswerProgress {
  /** The catalogue's id of the model that answers and is charged. */
  model: string;
  /** Including thinking. Each `data` frame repeats it. */
  outputTokens: number;
  reasoningTokens: number;
  /** The upstream's own count, if it has reported one. */
  reported?: Usage;
  /** The estimated output of a session's upstream since then. */
  unreported?: Usage;
  source?: AnswerSource;
}

/** Payload of `end`. */
export interface AnswerEnd {
  usage: Usage | null;
  /** The catalogue's id of the model that answered and is charged; it may be a fallback. */
  model?: string;
  /** Absent for an answer without an upstream. */
  source?: AnswerSource;
  /** The request waits for its vendor's batch, so this is no answer to it. */
  isDeferred?: true;
}

/**
 * Payload of `fail`. For an answer that was paid: the catalogue's id of its model, and the
 * upstream's count if it is known.
 */
export type AnswerFailure = Failure & { source?: AnswerSource; model?: string; usage?: Usage | undefined };

export const encodePayload = (payload: AnswerHead | AnswerProgress | null | AnswerEnd | AnswerFailure): Buffer =>
  Buffer.from(JSON.stringify(payload));

/** The payload of `data` begins with a u32: the output tokens produced so far. */
const dataHeadBytes = 4;
/** The most bytes of the answer in one `data` frame. */
export const dataBytesMax = payloadBytesMax - dataHeadBytes;

export function encodeData(outputTokens: number, bytes: Buffer): Buffer {
  const payload = Buffer.allocUnsafe(dataHeadBytes + bytes.length);
  payload.writeUInt32LE(Math.min(outputTokens, 0xffff_ffff));
  bytes.copy(payload, dataHeadBytes);
  return payload;
}

export const decodeData = (payload: Buffer): { outputTokens: number; bytes: Buffer } => ({
  outputTokens: payload.length < dataHeadBytes ? 0 : payload.readUInt32LE(),
  bytes: payload.subarray(dataHeadBytes),
});

/** Undefined if nothing was produced. */
export function decodeProgress(payload: Buffer): AnswerProgress | undefined {
  const progress = parsed(payload) as Partial<AnswerProgress> | undefined;
  return typeof progress?.model === "string" && Number.isInteger(progress.outputTokens)
    ? (progress as AnswerProgress)
    : undefined;
}

/** Undefined if the payload is malformed. */
export function decodeHead(payload: Buffer): AnswerHead | undefined {
  const head = parsed(payload) as Partial<AnswerHead> | undefined;
  const isGood =
    Number.isInteger(head?.status) &&
    Number(head?.status) >= 200 &&
    Number(head?.status) <= 599 &&
    Object.values(head?.headers ?? {}).every((value) => typeof value === "string" && /^[\x20-\x7e]*$/.test(value));
  if (!isGood) return undefined;
  return { status: Number(head?.status), headers: head?.headers ?? {} };
}

export function decodeEnd(payload: Buffer): AnswerEnd {
  const { usage, model, source, isDeferred } = (parsed(payload) ?? {}) as Partial<AnswerEnd>;
  return {
    usage: usage ?? null,
    ...(typeof model === "string" && { model }),
    ...(source && { source }),
    ...(isDeferred === true && { isDeferred }),
  };
}

/** Undefined if the payload is malformed. */
export function decodeFailure(payload: Buffer): AnswerFailure | undefined {
  const failure = parsed(payload) as Partial<AnswerFailure> | undefined;
  return typeof failure?.message === "string" && isErrorCode(failure.code) ? (failure as AnswerFailure) : undefined;
}

function parsed(json: Buffer | string): object | undefined {
  try {
    const value: unknown = JSON.parse(json.toString());
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
