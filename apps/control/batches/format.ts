/** How an API writes the requests and the results of a batch. */

export type InputFaultCode =
  | "invalid_json_line"
  | "invalid_request"
  | "duplicate_custom_id"
  | "url_mismatch"
  | "model_not_found"
  | "line_too_long"
  | "too_many_tasks"
  | "file_too_large"
  | "empty_file"
  | "file_not_readable"
  | "token_limit_exceeded";

/** A request of a batch as the gateway runs it. */
export interface RequestLine {
  /** Undefined where the API lets a request have none. */
  customId: string | undefined;
  /** Repeated in the result: the caller's own JSON. */
  metadata?: string | undefined;
  /** Undefined where the batch names the model. */
  model: string | undefined;
  /** JSON on one line. */
  body: Buffer;
}

/** A request and the estimate of its input tokens. */
export interface CheckedLine extends RequestLine {
  inputTokens: number;
}

export class LineFault {
  readonly code: InputFaultCode;
  readonly message: string;
  readonly param: string | null;

  constructor(code: InputFaultCode, message: string, param: string | null = null) {
    this.code = code;
    this.message = message;
    this.param = param;
  }
}

/** Why a request has no response. */
export type UnansweredReason =
  | "cancelled"
  | "expired"
  | "budget_exhausted"
  | "invalid_key"
  | "answer_too_large"
  | "no_answer"
  | "lost";

/** In words, for results of every format. */
export const reasonTexts: Record<UnansweredReason, string> = {
  cancelled: "The batch was cancelled before this request could be executed.",
  expired: "This request could not be executed before the completion window expired.",
  budget_exhausted: "This request was not executed: a budget of its key, group or account is spent.",
  invalid_key: "This request was not executed: the key of the batch is not valid any more.",
  answer_too_large: "The answer to this request is too large for a batch.",
  lost: "The object store has lost this request or its result; send it in another batch.",
  no_answer: "The connection broke at every attempt to get an answer to this request.",
};

/** The outcome of a request of a batch. */
export type LineOutcome =
  | { kind: "answered"; status: number; requestId: string; body: Buffer }
  | { kind: "unanswered"; reason: UnansweredReason };

export interface BatchFormat {
  /** The field of a request that names the model. */
  modelParam: string;
  /** The vendor's bounds. */
  linesMax: number;
  bytesMax: number;
  /** So many faults of an input are told; it is read no further after the last one. */
  faultsMax: number;
  /** Errors have a file of their own. */
  hasErrorFile: boolean;
  /** Reads and checks a line, or an element of the array of requests, which is valid JSON. */
  read(value: unknown, bytes: Buffer, endpoint: string): RequestLine | LineFault;
  /** The result on one line, without its end. `id` names the request of the gateway. */
  write(request: Pick<RequestLine, "customId" | "metadata">, id: string, outcome: LineOutcome): Buffer;
}

/** Whether the outcome of a request is a success. */
export const isSuccess = (outcome: LineOutcome): boolean =>
  outcome.kind === "answered" && outcome.status >= 200 && outcome.status < 300;
