/** The exchange of each operation: a conversation (`exchange.ts`), or one of the shorter ones. */
import { spokenWith } from "#catalogue/catalogue.ts";
import { codecs } from "#dialects/codecs.ts";
import { parsedObject } from "#dialects/json.ts";
import { imageStreamOf, upstreamErrorOf } from "#dialects/openai-images/verbatim.ts";
import { AttachmentsBusy } from "../attachments/request-attachments.ts";
import {
  answerExchangeOf,
  callerHeadersOf,
  type Exchanged,
  type ExchangeInput,
  foreignErrorReaderOf,
  isConversation,
  lost,
  preparedFor,
  type Reading,
} from "./exchange.ts";
import { type Prepared, refusedFor } from "./prepare.ts";

/** Throws a Refusal for a request that the upstream can't serve. */
export async function exchangeOf(input: ExchangeInput): Promise<Exchanged> {
  try {
    const exchange = await exchangeWithMarks(input);
    if (exchange.kind !== "exchange" || !Buffer.isBuffer(exchange.request.body)) return exchange;
    return { ...exchange, request: { ...exchange.request, body: input.attachments.filled(exchange.request.body) } };
  } catch (error) {
    if (error instanceof AttachmentsBusy) return { kind: "refused", failure: error.failure };
    throw error;
  }
}

/** The request has marks in place of fetched attachments. */
async function exchangeWithMarks(input: ExchangeInput): Promise<Exchanged> {
  if (input.job.operation !== "answer" && input.job.delivered !== undefined) return { kind: "refused", failure: lost };
  switch (input.job.operation) {
    case "answer":
      return answerExchangeOf(input);
    case "compaction":
      return compactionExchangeOf(input);
    case "token-count":
      return tokenCountExchangeOf(input);
    case "embedding":
      return embeddingExchange(input);
    case "image-generation":
    case "image-edit":
      return imageExchangeOf(input);
    default:
      return input.job.operation satisfies never;
  }
}

const json = "application/json";
/** A response with a success status is read as an error only up to this size. */
const errorBytesMax = 64 * 1024;

/** The result of a compaction is opaque, so only an upstream of the caller's dialect serves it. */
async function compactionExchangeOf(input: ExchangeInput): Promise<Exchanged> {
  const { job, model, upstream } = input;
  const { verbatim, upstreamErrorOf: errorOf } = codecs[job.dialect];
  if (spokenWith(upstream, job.dialect) !== job.dialect || verbatim.compaction === undefined)
    return refusedFor("compaction: its upstream does not speak openai-responses");
  const prepared = await preparedFor(input, job.dialect);
  if (prepared.kind !== "conversation") return refusedOr(prepared);
  return {
    kind: "exchange",
    request: prepared.request,
    reading: {
      streams: false,
      contentType: json,
      errorOf,
      whole: (bytes) =>
        input.preparation.read(() => ({ kind: "verbatim", dialect: job.dialect, model: model.id }), bytes),
    },
  };
}

/** Tells callers that the gateway estimated the token count. */
const estimatedHeader = { "x-sluice-token-count": "estimated" };

async function tokenCountExchangeOf(input: ExchangeInput): Promise<Exchanged> {
  const { job, upstream } = input;
  const from = codecs[job.dialect];
  const spoken = spokenWith(upstream, job.dialect);
  if (!isConversation(spoken) || from.tokenCount === undefined) return refusedFor("token counts");
  const to = codecs[spoken];
  const { answerOf } = from.tokenCount;
  const estimated = (tokens: number) => ({
    body: Buffer.from(answerOf(tokens)),
    contentType: json,
    headers: estimatedHeader,
  });
  const prepared = await preparedFor(input, spoken);
  if (prepared.kind === "counted") return { kind: "answered", ...estimated(prepared.tokens) };
  if (prepared.kind !== "conversation") return refusedOr(prepared);
  const { request, decoded } = prepared;
  const counting = to.tokenCount;
  return {
    kind: "exchange",
    request:
      decoded === undefined
        ? { ...request, headers: { ...request.headers, ...callerHeadersOf(job, upstream) } }
        : request,
    reading: {
      streams: false,
      contentType: json,
      errorOf: decoded === undefined ? to.upstreamErrorOf : foreignErrorReaderOf(spoken, decoded.request),
      whole(bytes) {
        const tokens = counting?.countIn(parsedObject(bytes) ?? {});
        return tokens === undefined
          ? { kind: "malformed" }
          : { kind: "answer", body: Buffer.from(answerOf(tokens)), usage: undefined };
      },
    },
    async unlessThere() {
      const counted = await preparedFor(input, spoken, { countsTokens: false });
      if (counted.kind !== "counted") throw new Error("a request that was prepared to be counted can't be estimated");
      return estimated(counted.tokens);
    },
  };
}

/** Passes a refusal on. */
function refusedOr(prepared: Prepared): Exchanged {
  if (prepared.kind === "refused") return prepared;
  throw new Error(`a request was prepared as ${prepared.kind}`);
}

async function embeddingExchange(input: ExchangeInput): Promise<Exchanged> {
  const { job, model, upstream } = input;
  const spoken = spokenWith(upstream, job.dialect);
  if (!isConversation(spoken) || spoken === "anthropic-messages") return refusedFor("embeddings");
  const prepared = await preparedFor(input, spoken);
  if (prepared.kind !== "embeddings") return refusedOr(prepared);
  const { request, asked, tokens } = prepared;
  const errorOf =
    (job.dialect === "gemini") === (spoken === "gemini")
      ? codecs[spoken].upstreamErrorOf
      : foreignErrorReaderOf(spoken, undefined);
  return {
    kind: "exchange",
    request,
    reading: {
      streams: false,
      contentType: json,
      errorOf,
      ...(tokens !== undefined && { headers: estimatedHeader }),
      async whole(bytes) {
        const answer = await input.preparation.read(
          () => ({ kind: "embeddings", from: job.dialect, to: spoken, asked, model: model.id, tokens }),
          bytes,
        );
        if (answer.kind !== "malformed" || bytes.length > errorBytesMax) return answer;
        const body = parsedObject(bytes);
        return body?.error === undefined || body.error === null ? answer : { kind: "error", error: errorOf(body) };
      },
    },
  };
}

async function imageExchangeOf(input: ExchangeInput): Promise<Exchanged> {
  const { job, upstream } = input;
  const streams = job.framing === "sse";
  const common = { streams, contentType: streams ? "text/event-stream; charset=utf-8" : json };
  const spoken = spokenWith(upstream, "openai-images");
  if (spoken !== "openai-images" && spoken !== "gemini") return refusedFor("pictures on these paths");
  const prepared = await preparedFor(input, spoken);
  if (prepared.kind !== "pictures") return refusedOr(prepared);
  const { request, count } = prepared;
  const event = job.operation === "image-edit" ? "image_edit" : "image_generation";
  const createdAt = Math.floor(job.admittedAt / 1_000);
  const read = (bytes: Buffer) =>
    input.preparation.read(() => ({ kind: "pictures", spoken, createdAt, event: streams ? event : undefined }), bytes);
  const reading: Reading = {
    ...common,
    ...(spoken === "openai-images" && { stream: () => imageStreamOf(count) }),
    whole: read,
    errorOf: spoken === "openai-images" ? upstreamErrorOf : foreignErrorReaderOf(spoken, undefined),
    adapted: { toStream: read },
  };
  return { kind: "exchange", request, reading };
}
