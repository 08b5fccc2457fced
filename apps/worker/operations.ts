/** What each operation says to an upstream: an answer in a conversation, or one of the shorter exchanges. */
import { spokenWith } from "#catalogue/catalogue.ts";
import { Refusal } from "#wire/carry.ts";
import { codecs } from "#wire/codecs.ts";
import { consistent } from "#wire/consistent.ts";
import { embeddingExchangeOf, withEmbeddingUsage } from "#wire/embeddings.ts";
import { parsedObject, parseJson } from "#wire/json.ts";
import { formOf, valuesOf } from "#wire/openai-images/form.ts";
import { geminiImageAnswerOf, geminiImageRequestOf } from "#wire/openai-images/gemini.ts";
import { imageAnswerOf, imageEditRequestOf, imageEventsOf, imageRequestOf, imageStreamOf, upstreamErrorOf } from "#wire/openai-images/verbatim.ts";
import { remoteSourcesOf } from "#wire/sources.ts";
import { plainUsageOf } from "#wire/usage.ts";
import {
  answerExchangeOf,
  callerHeadersOf,
  type Exchanged,
  type ExchangeInput,
  foreignErrorReaderOf,
  isConversation,
  lost,
  ownBytesOf,
  type Reading,
  readableRequestOf,
  resolveSources,
  targetOf,
} from "./exchange.ts";
import { SourcesBusy } from "./request-sources.ts";
import { estimatedTokensOf, textTokensOf } from "./token-estimate.ts";

/** Throws Refusal for what the upstream can't be asked. */
export async function exchangeOf(input: ExchangeInput): Promise<Exchanged> {
  try {
    const exchange = await exchangeWithMarks(input);
    if (exchange.kind !== "exchange" || !Buffer.isBuffer(exchange.request.body)) return exchange;
    return { ...exchange, request: { ...exchange.request, body: input.sources.filled(exchange.request.body) } };
  } catch (error) {
    if (error instanceof SourcesBusy) return { kind: "refused", failure: error.failure };
    throw error;
  }
}

/** What was fetched is not yet in the request: marks stand for it. */
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

function refusedFor(what: string): Exchanged {
  return { kind: "refused", failure: { code: "invalid_request", message: `This model does not serve ${what}.`, param: "model" } };
}

/** Only upstreams of the same dialect compact conversations; what they make of one is opaque. */
async function compactionExchangeOf(input: ExchangeInput): Promise<Exchanged> {
  const { job, model, upstream, name } = input;
  const { verbatim, upstreamErrorOf: errorOf } = codecs[job.dialect];
  if (spokenWith(upstream, job.dialect) !== job.dialect || verbatim.compaction === undefined)
    return refusedFor("compaction: its upstream does not speak openai-responses");
  const request = verbatim.compaction(await ownBytesOf(input, job.dialect), name);
  if (request === undefined) return refusedFor("requests without a model");
  return { kind: "exchange", request, reading: { streams: false, contentType: json, errorOf, whole: (bytes) => verbatim.answer(bytes, model.id) } };
}

/** How callers are told that a count of tokens is none of the upstream's. */
const estimatedHeader = { "x-sluice-token-count": "estimated" };

async function tokenCountExchangeOf(input: ExchangeInput): Promise<Exchanged> {
  const { job, body, upstream } = input;
  const from = codecs[job.dialect];
  const spoken = spokenWith(upstream, job.dialect);
  if (!isConversation(spoken) || from.tokenCount === undefined) return refusedFor("token counts");
  const to = codecs[spoken];
  const { conversationOf, answerOf, prefixOf } = from.tokenCount;
  const callerBody = parseJson(body) as Record<string, unknown>;
  const conversation = conversationOf(callerBody);
  const within = prefixOf?.(callerBody) ?? "";
  const decoded = () => prefixed(within, () => consistent(from.decodeRequest({ body: conversation, framing: "whole", headers: job.headers })));
  const request = spoken === job.dialect ? undefined : await decoded();
  const estimated = async () => ({
    body: Buffer.from(answerOf(await estimatedTokensOf(request === undefined ? readableRequestOf(from, conversation, "whole") : await decoded()))),
    contentType: json,
    headers: estimatedHeader,
  });

  const counting = to.tokenCount;
  if (counting === undefined || !upstream.countsTokens) return { kind: "answered", ...(await estimated()) };
  const question = await prefixed(request === undefined ? "" : within, async () => {
    if (request === undefined) {
      const bytes = await ownBytesOf(input, spoken);
      return counting.requestOf(bytes === body ? conversation : conversationOf(parsedObject(bytes) ?? {}), targetOf(input));
    }
    await resolveSources(remoteSourcesOf(request), input, spoken);
    return counting.requestOf(parsedObject(to.encodeRequest(request, "whole", targetOf(input)).body) ?? {}, targetOf(input));
  });
  if (request === undefined) Object.assign(question.headers, callerHeadersOf(job, upstream));
  return {
    kind: "exchange",
    request: question,
    reading: {
      streams: false,
      contentType: json,
      errorOf: request === undefined ? to.upstreamErrorOf : foreignErrorReaderOf(spoken, request),
      whole(bytes) {
        const tokens = counting.countIn(parsedObject(bytes) ?? {});
        return tokens === undefined ? { kind: "malformed" } : { kind: "answer", body: Buffer.from(answerOf(tokens)), usage: undefined };
      },
    },
    unlessThere: estimated,
  };
}

/** What is refused of a conversation that stands within a body, by its name in that body. */
async function prefixed<Result>(prefix: string, act: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof Refusal) || prefix === "") throw error;
    throw new Refusal(`${prefix}${error.param}`, error.message.startsWith(error.param) ? `${prefix}${error.message}` : error.message);
  }
}

async function embeddingExchange(input: ExchangeInput): Promise<Exchanged> {
  const { job, model, upstream, name } = input;
  const spoken = spokenWith(upstream, job.dialect);
  if (!isConversation(spoken) || spoken === "anthropic-messages") return refusedFor("embeddings");
  const body = spoken === "gemini" && job.dialect === "gemini" ? await ownBytesOf(input, spoken) : input.body;
  const { request, texts, answerOf } = embeddingExchangeOf(job.dialect, spoken, body, name, model.id);
  const errorOf = (job.dialect === "gemini") === (spoken === "gemini") ? codecs[spoken].upstreamErrorOf : foreignErrorReaderOf(spoken, undefined);
  const counted = texts.length === 0 || spoken !== "gemini" ? undefined : Math.ceil(await textTokensOf(texts));
  return {
    kind: "exchange",
    request,
    reading: {
      streams: false,
      contentType: json,
      errorOf,
      ...(counted !== undefined && { headers: estimatedHeader }),
      whole(bytes) {
        const answer = answerOf(bytes);
        if (answer === undefined) {
          const body = parsedObject(bytes);
          return body?.error === undefined || body.error === null ? { kind: "malformed" } : { kind: "error", error: errorOf(body) };
        }
        if (counted === undefined) return { kind: "answer", ...answer };
        return { kind: "answer", body: withEmbeddingUsage(answer.body, counted), usage: plainUsageOf(counted) };
      },
    },
  };
}

async function imageExchangeOf({ job, body, upstream, name }: ExchangeInput): Promise<Exchanged> {
  const isEdit = job.operation === "image-edit";
  const streams = job.framing === "sse";
  const common = { streams, contentType: streams ? "text/event-stream; charset=utf-8" : json };
  const form = isEdit ? await formOf(body, job.contentType) : undefined;
  const values = form === undefined ? (parsedObject(body) ?? {}) : valuesOf(form);
  const count = typeof values.n === "number" ? values.n : 1;
  const spoken = spokenWith(upstream, "openai-images");
  if (spoken === "openai-images") {
    const request = isEdit ? await imageEditRequestOf(body, job.contentType, name) : imageRequestOf(body, name);
    if (request === undefined) return refusedFor("requests without a model");
    const reading: Reading = {
      ...common,
      stream: () => imageStreamOf(count),
      whole: imageAnswerOf,
      errorOf: upstreamErrorOf,
      turned: { toStream: (bytes) => imageEventsOf(bytes, isEdit ? "image_edit" : "image_generation") },
    };
    return { kind: "exchange", request, reading };
  }
  if (spoken !== "gemini") return refusedFor("pictures on these paths");
  const createdAt = Math.floor(job.admittedAt / 1_000);
  const event = streams ? (isEdit ? "image_edit" : "image_generation") : undefined;
  const read = (bytes: Buffer) => geminiImageAnswerOf(parsedObject(bytes) ?? {}, createdAt, event);
  return {
    kind: "exchange",
    request: await geminiImageRequestOf(values, form, name),
    reading: { ...common, whole: read, errorOf: foreignErrorReaderOf(spoken, undefined), turned: { toStream: read } },
  };
}
