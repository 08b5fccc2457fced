/**
 * Requests and results of OpenAI's batches:
 * https://platform.openai.com/docs/api-reference/batch/request-input
 */
import { plainObjectOf } from "#wire/json/parse.ts";
import { inputFaultsMax } from "../bounds.ts";
import { type BatchFormat, LineFault, type RequestLine, reasonTexts, type UnansweredReason } from "./format.ts";
import { joined, memberBytes, membersOf } from "./format-parts.ts";

const customIdLengthMax = 512;
const fault = (message: string, param: string) => new LineFault("invalid_request", message, param);

/** Some clients leave out the version. */
const withoutVersion = (url: string) => url.replace(/^\/v1(?=\/)/, "");

const errorCodes: Record<UnansweredReason, string> = {
  cancelled: "batch_cancelled",
  expired: "batch_expired",
  budget_exhausted: "insufficient_quota",
  invalid_key: "invalid_api_key",
  answer_too_large: "server_error",
  no_answer: "server_error",
  lost: "server_error",
};

export const openaiFormat: BatchFormat = {
  modelParam: "body.model",
  linesMax: 50_000,
  bytesMax: 200 << 20,
  faultsMax: inputFaultsMax,
  hasErrorFile: true,

  read(value, bytes, endpoint): RequestLine | LineFault {
    const line = plainObjectOf(value);
    if (line === undefined) return fault("Each line must be a JSON object.", "custom_id");
    const { custom_id: customId, method, url } = line;
    if (typeof customId !== "string" || customId === "" || customId.length > customIdLengthMax)
      return fault(`'custom_id' must be a string of 1 to ${customIdLengthMax} characters.`, "custom_id");
    if (method !== "POST") return fault("'method' must be \"POST\".", "method");
    if (typeof url !== "string" || withoutVersion(url) !== withoutVersion(endpoint))
      return new LineFault("url_mismatch", `'url' must be the endpoint of the batch, ${endpoint}.`, "url");
    const body = plainObjectOf(line.body);
    if (body === undefined) return fault("'body' must be a JSON object.", "body");
    if (body.stream === true) return fault("A request of a batch cannot be streamed.", "body.stream");
    if (body.background === true) return fault("A request of a batch cannot run in the background.", "body.background");
    const { model } = body;
    if (model !== undefined && typeof model !== "string") return fault("'model' must be a string.", "body.model");
    if (model === undefined && !endpoint.endsWith("/moderations")) return fault("'model' is missing.", "body.model");
    return { customId, model, body: memberBytes(bytes, "body") };
  },

  write({ customId }, id, outcome) {
    const head = membersOf({ id: `batch_req_${id}`, custom_id: customId });
    if (outcome.kind === "unanswered") {
      const { reason } = outcome;
      return Buffer.from(
        `{${head}"response":null,"error":${JSON.stringify({ code: errorCodes[reason], message: reasonTexts[reason] })}}`,
      );
    }
    const { status, requestId, body } = outcome;
    const response = membersOf({ status_code: status, request_id: requestId });
    return joined(`{${head}"response":{${response}"body":`, body, '},"error":null}');
  },
};
