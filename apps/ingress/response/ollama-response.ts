/**
 * A response to one of Ollama's clients: translates what is written in the format of chat
 * completions or embeddings.
 */
import { jsonOf } from "#wire/json/parse.ts";
import type { Claim } from "../common/capacity.ts";
import { ollamaErrorOf } from "../server/refusals.ts";
import type { AnswerResponse } from "./generation-response.ts";
import { messageIn, type OllamaAnswer } from "./ollama-answer.ts";
import { translatedResponseOf } from "./translated-response.ts";

/**
 * The response of a request for a stream, or for a whole answer. `held` is the claim on memory for
 * a whole answer that does not come at once.
 */
export const ollamaResponseOf = (
  inner: AnswerResponse,
  answer: OllamaAnswer,
  streams: boolean,
  held: Claim,
): AnswerResponse => translatedResponseOf(inner, translationOf(answer), streams, held);

const lineOf = (value: object): string => `${jsonOf(value)}\n`;

const translationOf = (answer: OllamaAnswer) => ({
  streamType: "application/x-ndjson",
  keepAlive: () => lineOf(answer.keepAlive),
  textOf: (data: Buffer) => answer.linesOf(data).map(lineOf).join(""),
  wholeOf(body: Buffer) {
    const whole = answer.wholeOf(body);
    return whole && jsonOf(whole);
  },
  errorOf: (_status: number, body: Buffer) => ollamaErrorOf(messageIn(body)),
  failureOf: ollamaErrorOf,
});
