/** What rides on a lane, and what the ends of a relay say to each other in their frames' payloads. */
import type { CallerDialect } from "#wire/dialect.ts";
import type { Failure } from "#wire/errors.ts";
import type { Usage } from "#wire/usage.ts";

/** One attempt of one generation: the caller's own words, who asks, and where to answer. */
export interface GenerationJob {
  /** `gen_…`, also the stem of the job's id. */
  generation: string;
  /** The owner's mailbox, and the generation's number there. */
  owner: string;
  number: number;
  attempt: number;
  dialect: CallerDialect;
  /** The catalogue's model id. */
  model: string;
  group: string;
  /** The id of the caller's key, never the key. */
  keyId: string;
  /** When the caller's request was admitted: epoch milliseconds. */
  admittedAt: number;
  /** The caller's body; null when it lies under the keyspace's `body` key of this generation. */
  body: string | null;
}

/** A body up to this size rides in its job; a larger one lies under a key of its own. */
export const jobBodyBytesMax = 32 * 1024;

export const jobIdOf = (generation: string, attempt: number): string => `${generation}-${attempt}`;

/** Payload of `head`: the status and the headers that the caller gets. */
export interface AnswerHead {
  status: number;
  headers: Record<string, string>;
}

/** Payload of `end`. */
export interface AnswerEnd {
  usage: Usage | null;
}

/** Payload of `fail`. */
export type AnswerFailure = Failure;

export const encodePayload = (payload: AnswerHead | AnswerEnd | AnswerFailure): Buffer => Buffer.from(JSON.stringify(payload));
export const decodeHead = (payload: Buffer): AnswerHead => JSON.parse(payload.toString("utf8")) as AnswerHead;
export const decodeEnd = (payload: Buffer): AnswerEnd => JSON.parse(payload.toString("utf8")) as AnswerEnd;
export const decodeFailure = (payload: Buffer): AnswerFailure => JSON.parse(payload.toString("utf8")) as AnswerFailure;
