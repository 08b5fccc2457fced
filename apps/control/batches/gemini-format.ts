/**
 * Requests and results of Gemini's batches, inline and in files:
 * https://ai.google.dev/api/batch-api
 */
import { objectOf, parsedObject, plainObjectOf } from "#wire/json/parse.ts";
import {
  type BatchFormat,
  isSuccess,
  LineFault,
  type RequestLine,
  reasonTexts,
  type UnansweredReason,
} from "./format.ts";
import { joined, memberBytes, membersOf } from "./format-parts.ts";

const keyLengthMax = 512;

const fault = (message: string, param: string) => new LineFault("invalid_request", message, param);

/** https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto */
const rpcCodes: Record<string, number> = {
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
};
const unknownCode = 2;

const statusOf = (status: string, message: string) => ({ code: rpcCodes[status] ?? unknownCode, message, status });

const statuses: Record<UnansweredReason, string> = {
  cancelled: "CANCELLED",
  expired: "DEADLINE_EXCEEDED",
  budget_exhausted: "RESOURCE_EXHAUSTED",
  invalid_key: "UNAUTHENTICATED",
  answer_too_large: "INTERNAL",
  no_answer: "UNAVAILABLE",
  lost: "DATA_LOSS",
};

export const geminiFormat: BatchFormat = {
  modelParam: "model",
  linesMax: 100_000,
  bytesMax: 2 ** 31,
  faultsMax: 1,
  hasErrorFile: false,

  read(value, bytes): RequestLine | LineFault {
    const line = plainObjectOf(value);
    if (line === undefined) return fault("Each request must be an object.", "request");
    const { key, metadata } = line;
    if (key !== undefined && (typeof key !== "string" || key.length > keyLengthMax))
      return fault(`'key' must be a string of at most ${keyLengthMax} characters.`, "key");
    if (plainObjectOf(line.request) === undefined) return fault("'request' must be an object.", "request");
    if (metadata !== undefined && plainObjectOf(metadata) === undefined)
      return fault("'metadata' must be an object.", "metadata");
    return {
      customId: key as string | undefined,
      metadata: metadata === undefined ? undefined : memberBytes(bytes, "metadata").toString(),
      model: undefined,
      body: memberBytes(bytes, "request"),
    };
  },

  write({ customId, metadata }, _id, outcome) {
    const head = `{${membersOf({ key: customId })}`;
    const end = metadata === undefined ? "}" : `,"metadata":${metadata}}`;
    if (outcome.kind === "unanswered") {
      const error = statusOf(statuses[outcome.reason], reasonTexts[outcome.reason]);
      return Buffer.from(`${head}"error":${JSON.stringify(error)}${end}`);
    }
    if (isSuccess(outcome)) return joined(`${head}"response":`, outcome.body, end);
    const { message = "", status = "" } = objectOf(parsedObject(outcome.body)?.error);
    return Buffer.from(`${head}"error":${JSON.stringify(statusOf(String(status), String(message)))}${end}`);
  },
};
