/**
 * Requests and results of Anthropic's message batches:
 * https://docs.claude.com/en/api/creating-message-batches
 */
import { plainObjectOf } from "#wire/json/parse.ts";
import {
  type BatchFormat,
  isSuccess,
  LineFault,
  type RequestLine,
  reasonTexts,
  type UnansweredReason,
} from "./format.ts";
import { joined, memberBytes, membersOf } from "./format-parts.ts";

const customIdForm = /^[a-zA-Z0-9_-]{1,64}$/;

const fault = (message: string, param: string) => new LineFault("invalid_request", message, param);
const errored = (type: string, reason: UnansweredReason) => ({
  type: "errored",
  error: { type: "error", error: { type, message: reasonTexts[reason] } },
});

const results: Record<UnansweredReason, object> = {
  cancelled: { type: "canceled" },
  expired: { type: "expired" },
  budget_exhausted: errored("billing_error", "budget_exhausted"),
  invalid_key: errored("authentication_error", "invalid_key"),
  answer_too_large: errored("api_error", "answer_too_large"),
  no_answer: errored("api_error", "no_answer"),
  lost: errored("api_error", "lost"),
};

export const anthropicFormat: BatchFormat = {
  modelParam: "params.model",
  linesMax: 100_000,
  bytesMax: 256 << 20,
  faultsMax: 1,
  hasErrorFile: false,

  read(value, bytes): RequestLine | LineFault {
    const request = plainObjectOf(value);
    if (request === undefined) return fault("Each request must be an object.", "custom_id");
    const { custom_id: customId } = request;
    if (typeof customId !== "string" || !customIdForm.test(customId))
      return fault("'custom_id' must have 1 to 64 letters, digits, hyphens or underscores.", "custom_id");
    const params = plainObjectOf(request.params);
    if (params === undefined) return fault("'params' must be an object.", "params");
    if (params.stream === true) return fault("A request of a batch cannot be streamed.", "params.stream");
    const { model, max_tokens: outputTokens } = params;
    if (typeof model !== "string" || model === "") return fault("'model' is missing.", "params.model");
    if (typeof outputTokens !== "number" || outputTokens < 1)
      return fault("'max_tokens' must be at least 1.", "params.max_tokens");
    return { customId, model, body: memberBytes(bytes, "params") };
  },

  write({ customId }, _id, outcome) {
    const head = `{${membersOf({ custom_id: customId })}"result":`;
    if (outcome.kind === "unanswered") return Buffer.from(`${head}${JSON.stringify(results[outcome.reason])}}`);
    const [type, name] = isSuccess(outcome) ? ["succeeded", "message"] : ["errored", "error"];
    return joined(`${head}{"type":"${type}","${name}":`, outcome.body, "}}");
  },
};
