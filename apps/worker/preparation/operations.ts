/**
 * The exchange of each operation with an upstream: a conversation (exchange.ts), or a single call.
 */
import { spokenWith } from "#catalogue/catalogue.ts";
import { contentTypes } from "#dialects/codec.ts";
import { usualAnswerBytesMax } from "#operations/bounds.ts";
import type { PreparedCall, RawResponse } from "#operations/exchange.ts";
import { callExchanges } from "#operations/exchanges.ts";
import type { OperationName } from "#operations/operations.ts";
import { errorReaderOf, foreignErrorReaderOf } from "#operations/upstream-errors.ts";
import { AttachmentsBusy } from "../attachments/request-attachments.ts";
import {
  answerExchangeOf,
  callerHeadersOf,
  type Exchanged,
  type ExchangeInput,
  lost,
  preparedFor,
  type Reading,
} from "./exchange.ts";

/** Throws a Refusal for a request that the upstream can't serve. */
export async function exchangeOf(input: ExchangeInput): Promise<Exchanged> {
  try {
    const { operation } = input.job;
    const exchange = operation === "answer" ? await answerExchangeOf(input) : await callExchangeOf(input, operation);
    if (exchange.kind !== "exchange" || !Buffer.isBuffer(exchange.request.body)) return exchange;
    const body = input.attachments.filled(exchange.request.body);
    return body === exchange.request.body ? exchange : { ...exchange, request: { ...exchange.request, body } };
  } catch (error) {
    if (error instanceof AttachmentsBusy) return { kind: "refused", failure: error.failure };
    throw error;
  }
}

type CallName = Exclude<OperationName, "answer">;

/** The request has marks in place of fetched attachments. */
async function callExchangeOf(input: ExchangeInput, operation: CallName): Promise<Exchanged> {
  const { job, upstream } = input;
  if (job.delivered !== undefined) return { kind: "refused", failure: lost };
  const { wantedOf, canEstimate } = callExchanges[operation];
  const spoken = spokenWith(upstream, wantedOf(job.dialect));
  const prepared = await preparedFor(input, spoken);
  if (prepared.kind === "refused" || prepared.kind === "answered") return prepared;
  if (prepared.kind !== "call") throw new Error(`a call was prepared as ${prepared.kind}`);
  const { request, errors, decoded } = prepared;
  const headers = errors === "own" ? { ...request.headers, ...callerHeadersOf(input) } : request.headers;
  return {
    kind: "exchange",
    request: { ...request, headers },
    reading: {
      ...readingOf(input, operation, prepared),
      errorOf: errors === "own" ? errorReaderOf(spoken) : foreignErrorReaderOf(spoken, decoded),
    },
    ...(canEstimate && {
      async unlessThere() {
        const estimated = await preparedFor(input, spoken, { countsTokens: false });
        if (estimated.kind !== "answered")
          throw new Error("a request that was prepared to be counted can't be estimated");
        return estimated;
      },
    }),
  };
}

function readingOf(
  { job, preparation }: ExchangeInput,
  operation: CallName,
  { context, headers }: PreparedCall,
): Omit<Reading, "errorOf"> {
  const exchange = callExchanges[operation];
  const raw = exchange.rawOf?.(context);
  const streams = raw?.kind === "session" || (exchange.stream !== undefined && job.framing === "sse");
  const relay = streams ? exchange.stream?.(context) : undefined;
  const whole = (bytes: Buffer) => preparation.read(() => ({ operation, context }), bytes);
  return {
    streams,
    bytesMax: job.answerBytesMax ?? usualAnswerBytesMax,
    raw,
    contentType: contentTypeOf(raw, streams),
    ...(headers !== undefined && { headers }),
    whole,
    ...(relay !== undefined && { stream: () => relay }),
    ...(streams && { adapted: { toStream: whole } }),
  };
}

function contentTypeOf(raw: RawResponse | undefined, streams: boolean): string | undefined {
  if (raw?.kind === "bytes") return undefined;
  if (raw?.kind === "session") return contentTypes.messages;
  return streams ? contentTypes.sse : (raw?.contentType ?? contentTypes.whole);
}
