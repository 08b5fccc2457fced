/** What is handed over on a queue, and what the ends of a relay say to each other in their frames' payloads. */
import Type from "typebox";
import { Compile } from "typebox/compile";
import { framings } from "#dialects/codec.ts";
import { conversationDialects, operations } from "#dialects/dialect.ts";
import { type Failure, isErrorCode } from "#dialects/errors.ts";
import type { Usage } from "#dialects/usage.ts";
import { payloadBytesMax } from "./bounds.ts";

/** Of a body's type; more than any client sends. */
export const contentTypeLengthMax = 500;

/** One attempt of one generation: the caller's own words, who asks, and where to answer. */
const generationJobSchema = Type.Object({
  generation: Type.String({
    pattern: "^gen_[0-9a-z]{1,60}$",
    description: "Also the stem of its job's id, if it is the first of it.",
  }),
  owner: Type.String({ pattern: "^[0-9A-Za-z-]{1,100}$", description: "The owner's mailbox." }),
  number: Type.Integer({ minimum: 1, maximum: 0xffff_ffff, description: "The generation's number at its owner." }),
  attempt: Type.Integer({ minimum: 1, maximum: 0xffff }),
  dialect: Type.Enum(conversationDialects),
  operation: Type.Enum(operations),
  framing: Type.Enum(framings, { description: "How the caller wants the answer." }),
  contentType: Type.String({ maxLength: contentTypeLengthMax, description: "Of the body." }),
  headers: Type.Record(Type.String(), Type.String({ maxLength: 4_096 }), {
    description: "The caller's own, of those that upstreams of its dialect read.",
  }),
  model: Type.String({ description: "The catalogue's model id." }),
  fallbacks: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: 10,
      description: "Other models that may answer: those of the model's fallbacks that the caller's key may use.",
    }),
  ),
  group: Type.String(),
  keyId: Type.String({ description: "The id of the caller's key, never the key." }),
  admittedAt: Type.Number({ description: "When the caller's request was admitted: epoch milliseconds." }),
  delivered: Type.Optional(
    Type.String({
      description:
        "What the caller has of the answer, from an attempt whose worker was lost: whole events, to be gone on from.",
    }),
  ),
  body: Type.Union([Type.String(), Type.Null()], {
    description: "The caller's body; null when it lies under the keyspace's `body` key of this generation.",
  }),
});

export type GenerationJob = Type.Static<typeof generationJobSchema>;

/** Generations of one queue job at most, and of them as many as bear so many characters together. */
export const generationsPerJobMax = 16;
export const jobCharactersMax = 64 * 1024;

/** A job as it lies on its queue: generations of one owner that were put there in one go. */
export interface QueuedJob {
  generations: GenerationJob[];
}

const validator = Compile(generationJobSchema);
const membersOf = (data: unknown): unknown[] => {
  const { generations } = (data ?? {}) as Partial<QueuedJob>;
  return Array.isArray(generations) && generations.length <= generationsPerJobMax ? generations : [];
};

/** How many stand in a job, ours or not; 1 for what is no job at all. */
export const sizeOf = (data: unknown): number => Math.max(1, membersOf(data).length);

/** Those of a job that are ours: whatever else may lie on a queue is not run. */
export const generationsIn = (data: unknown): GenerationJob[] =>
  membersOf(data).filter((member): member is GenerationJob => validator.Check(member));

/** A body up to this size rides in its job; a larger one lies under a key of its own. */
export const jobBodyBytesMax = 32 * 1024;

/** Bytes of an answer that another attempt may go on from; a longer one is not gone on with. */
export const deliveredBytesMax = 1 << 20;

/** A queue job is called by its first generation. */
export const jobIdOf = ({ generation, attempt }: Pick<GenerationJob, "generation" | "attempt">): string =>
  `${generation}-${attempt}`;

/** The header that tells the caller the upstream's own id of its request. */
export const upstreamRequestIdHeader = "x-upstream-request-id";

/** Payload of `head`: the status and the headers that the caller gets. */
export interface AnswerHead {
  status: number;
  headers: Record<string, string>;
  /** The id by which the caller knows the answer, where its dialect names it again to report a failure. */
  answerId?: string;
}

/** Payload of `usage`: what was produced for an answer that is under way. Null: nothing, for the call that produced it failed and another target is asked. */
export interface AnswerProgress {
  /** The catalogue's id of the model that answers; it is the one that is billed. */
  model: string;
  /** Thinking included. Each `data` frame says them anew. */
  outputTokens: number;
  reasoningTokens: number;
  /** The upstream's own count as of now, where it has told one. */
  reported?: Usage;
}

/** Payload of `end`. */
export interface AnswerEnd {
  usage: Usage | null;
  /** The catalogue's id of the model that answered, which may be a fallback; it is the one that is billed. */
  model?: string;
}

/** Payload of `fail`. */
export type AnswerFailure = Failure;

export const encodePayload = (payload: AnswerHead | AnswerProgress | null | AnswerEnd | AnswerFailure): Buffer =>
  Buffer.from(JSON.stringify(payload));

/** Before the bytes in the payload of `data`: a u32, how many output tokens were produced so far. */
const dataHeadBytes = 4;
/** Bytes of the answer in one `data` frame at most. */
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

/** Undefined where nothing was produced. */
export function decodeProgress(payload: Buffer): AnswerProgress | undefined {
  const progress = parsed(payload) as Partial<AnswerProgress> | undefined;
  return typeof progress?.model === "string" && Number.isInteger(progress.outputTokens)
    ? (progress as AnswerProgress)
    : undefined;
}

/** Undefined for what no worker of ours sends. */
export function decodeHead(payload: Buffer): AnswerHead | undefined {
  const head = parsed(payload) as Partial<AnswerHead> | undefined;
  const isGood =
    Number.isInteger(head?.status) &&
    Number(head?.status) >= 200 &&
    Number(head?.status) <= 599 &&
    Object.values(head?.headers ?? {}).every((value) => typeof value === "string" && /^[\x20-\x7e]*$/.test(value));
  if (!isGood) return undefined;
  return {
    status: Number(head?.status),
    headers: head?.headers ?? {},
    ...(typeof head?.answerId === "string" && { answerId: head.answerId.slice(0, 200) }),
  };
}

export function decodeEnd(payload: Buffer): AnswerEnd {
  const { usage, model } = (parsed(payload) ?? {}) as Partial<AnswerEnd>;
  return { usage: usage ?? null, ...(typeof model === "string" && { model }) };
}

/** Undefined for what no worker of ours sends. */
export function decodeFailure(payload: Buffer): AnswerFailure | undefined {
  const failure = parsed(payload) as Partial<AnswerFailure> | undefined;
  return typeof failure?.message === "string" && isErrorCode(failure.code) ? (failure as AnswerFailure) : undefined;
}

function parsed(payload: Buffer): object | undefined {
  try {
    const value: unknown = JSON.parse(payload.toString("utf8"));
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
