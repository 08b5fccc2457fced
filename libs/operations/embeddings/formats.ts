/**
 * Embeddings in OpenAI's and Google's formats, in both directions.
 * https://platform.openai.com/docs/api-reference/embeddings, https://ai.google.dev/api/embeddings
 */
import type { WireRequest } from "#dialects/codec.ts";
import { usageOf as googleUsageOf } from "#dialects/gemini/answer.ts";
import { camelOf, itemsOf, pathOf, resourceOf } from "#dialects/gemini/names.ts";
import { refuse } from "#dialects/neutral/field-support.ts";
import type { Profile } from "#dialects/profile.ts";
import { withMember } from "#dialects/relay/verbatim.ts";
import type { Usage } from "#dialects/usage.ts";
import { type JsonObject, jsonBytesOf, jsonOf, listOf, objectOf, parsedObject, textOf } from "#wire/json/parse.ts";
import { readSpan, withElements, withMembers } from "#wire/json/spans.ts";
import { embeddedTextsMax } from "../bounds.ts";
import { namedAnswerOf, reportedUsageOf, requestFor, withModel } from "../openai-call.ts";

/**
 * In one request to Google: https://ai.google.dev/api/embeddings#method:-models.batchembedcontents
 */
const googleInputsMax = 100;
export type EmbeddingFormat = NonNullable<Profile["embeddings"]>;

/** The inputs and settings of a request, in either format. */
interface Wanted {
  texts: string[];
  dimensions: number | undefined;
}

/** Throws Refusal for a field that the other format does not have. */
function wantedOf(format: EmbeddingFormat, written: JsonObject): Wanted {
  if (format === "openai") {
    const body = written;
    const inputs = typeof body.input === "string" ? [body.input] : listOf(body.input);
    const texts = inputs.map((input, place) =>
      typeof input === "string"
        ? input
        : refuse(`input[${place}]`, "must be a text: tokens of one model mean nothing to another"),
    );
    if (texts.length > embeddedTextsMax) refuse("input", `may hold ${embeddedTextsMax} texts at most`);
    return { texts, dimensions: typeof body.dimensions === "number" ? body.dimensions : undefined };
  }
  const body = objectOf(camelOf(written));
  const requests = isBatch(body) ? listOf(body.requests).map(objectOf) : [body];
  const texts = requests.map((request, place) => {
    const path = isBatch(body) ? `requests[${place}].content` : "content";
    return itemsOf(objectOf(request.content).parts, `${path}.parts`)
      .map(([part, at]) => textOf(objectOf(part).text) ?? refuse(at, "must be a text for this model"))
      .join("\n");
  });
  const sizes = new Set(
    requests.map(
      (request) => request.outputDimensionality ?? objectOf(request.embedContentConfig).outputDimensionality,
    ),
  );
  if (sizes.size > 1) refuse("requests", "must all ask for one outputDimensionality for this model");
  const [dimensions] = sizes;
  return { texts, dimensions: typeof dimensions === "number" ? dimensions : undefined };
}

/** The request to an upstream. */
export interface EmbeddingRequest {
  request: WireRequest;
  /** All texts, for upstreams that do not report token counts. */
  texts: string[];
  requested: RequestedEmbeddings;
}

/**
 * LiteLLM sends null for the encoding, which strict servers refuse:
 * https://github.com/BerriAI/litellm/issues/19174
 */
const withoutEncoding = (bytes: Buffer) => withMembers(bytes, "encoding_format", () => undefined);

/** The parts of a request that are needed to read its answer. */
export interface RequestedEmbeddings {
  /** The number of requested embeddings. */
  count: number;
  isBatched: boolean;
  isBase64: boolean;
}

export interface EmbeddingAnswer {
  body: Buffer;
  usage: Usage | undefined;
}

/** `model` is the upstream's name. Throws Refusal. */
export function embeddingRequestOf(
  from: EmbeddingFormat,
  to: EmbeddingFormat,
  bytes: Buffer,
  model: string,
): EmbeddingRequest {
  const body = parsedObject(bytes) ?? {};
  const isBase64 = body.encoding_format === "base64";
  const isBatched = isBatch(body);
  if (from === to) {
    const { input } = body;
    const count =
      from === "gemini"
        ? isBatched
          ? listOf(body.requests).length
          : 1
        : Array.isArray(input) && typeof input[0] !== "number"
          ? input.length
          : 1;
    const request =
      from === "gemini"
        ? googleRequestOf(bytes, isBatched, model)
        : requestFor("/embeddings", body.encoding_format === null ? withoutEncoding(bytes) : bytes, model);
    return { request, texts: [], requested: { count, isBatched, isBase64 } };
  }
  const { texts, dimensions } = wantedOf(from, body);
  const request =
    to === "gemini" ? googleRequestFor(texts, dimensions, model) : openaiRequestFor(texts, dimensions, model);
  return { request, texts, requested: { count: texts.length, isBatched, isBase64 } };
}

/**
 * An upstream's answer for the caller, with the catalogue's id of the model; undefined if an
 * embedding is missing.
 */
export function embeddingAnswerOf(
  from: EmbeddingFormat,
  to: EmbeddingFormat,
  requested: RequestedEmbeddings,
  id: string,
  bytes: Buffer,
): EmbeddingAnswer | undefined {
  if (to === "gemini")
    return from === "gemini" ? googleAnswerOf(bytes, requested) : openaiAnswerFrom(bytes, requested, id);
  return from === "gemini" ? googleAnswerFrom(bytes, requested) : openaiAnswerOf(bytes, requested, id);
}

/**
 * Bytes stay unchanged except for the name of the model, an encoding that was not requested, and a
 * usage that does not count the prompt, as Voyage's.
 */
function openaiAnswerOf(
  sent: Buffer,
  { count, isBase64 }: RequestedEmbeddings,
  id: string,
): EmbeddingAnswer | undefined {
  const encode = isBase64 ? base64Of : numbersTextOf;
  const answer = parsedObject(sent);
  const data = listOf(answer?.data).map(objectOf);
  if (data.length !== count || !data.every(({ embedding }) => isEmbedding(embedding))) return undefined;
  const encoded = withMembers(sent, "data", (items) =>
    withElements(items, (item) => withMembers(item, "embedding", encode)),
  );
  const body = namedAnswerOf(encoded, id);
  const usage = reportedUsageOf(answer?.usage);
  const isNamed = usage === undefined || objectOf(answer?.usage).prompt_tokens !== undefined;
  return { body: isNamed ? body : withEmbeddingUsage(body, usage.inputTokens), usage };
}

/** Bytes stay unchanged except for the name of the model. */
function googleRequestOf(bytes: Buffer, isBatched: boolean, model: string): WireRequest {
  const named = (request: Buffer) => withModel(request, resourceOf(model));
  return {
    path: pathOf(model, isBatched ? "batchEmbedContents" : "embedContent"),

    body: isBatched
      ? withMembers(withMember(bytes, ["model"], jsonBytesOf(resourceOf(model))), "requests", (requests) =>
          withElements(requests, named),
        )
      : named(bytes),
  };
}

function googleAnswerOf(sent: Buffer, { count, isBatched }: RequestedEmbeddings): EmbeddingAnswer | undefined {
  const { embedding, embeddings, usageMetadata } = parsedObject(sent) ?? {};
  const vectors = isBatched ? listOf(embeddings) : [embedding ?? listOf(embeddings)[0]];
  return vectors.length === count && vectors.every((one) => isEmbedding(objectOf(one).values))
    ? { body: sent, usage: googleUsageOf(usageMetadata) }
    : undefined;
}

function googleRequestFor(texts: readonly string[], dimensions: number | undefined, model: string): WireRequest {
  if (texts.length > googleInputsMax) refuse("input", `may hold ${googleInputsMax} texts at most for this model`);
  const requests = texts.map((text) => ({
    model: resourceOf(model),
    content: { parts: [{ text }] },
    outputDimensionality: dimensions,
  }));
  return { path: pathOf(model, "batchEmbedContents"), body: jsonBytesOf({ requests }) };
}

function openaiAnswerFrom(
  sent: Buffer,
  { count, isBase64 }: RequestedEmbeddings,
  id: string,
): EmbeddingAnswer | undefined {
  const { embeddings, usageMetadata } = parsedObject(sent) ?? {};
  const vectors = listOf(embeddings).map((embedding) => numbersOf(objectOf(embedding).values));
  return isComplete(vectors, count)
    ? { body: Buffer.from(openaiTextOf(vectors, isBase64, id)), usage: googleUsageOf(usageMetadata) }
    : undefined;
}

function openaiRequestFor(texts: readonly string[], dimensions: number | undefined, model: string): WireRequest {
  const sent = { model, input: texts, encoding_format: "float", dimensions };
  return { path: "/embeddings", body: jsonBytesOf(sent) };
}

function googleAnswerFrom(sent: Buffer, { count, isBatched }: RequestedEmbeddings): EmbeddingAnswer | undefined {
  const answer = parsedObject(sent);
  const vectors = listOf(answer?.data).map((item) => numbersOf(objectOf(item).embedding));
  if (!isComplete(vectors, count)) return undefined;
  const embeddings = vectors.map((values) => ({ values }));
  return {
    body: jsonBytesOf(isBatched ? { embeddings } : { embedding: embeddings[0] }),
    usage: reportedUsageOf(answer?.usage),
  };
}

const isBatch = (body: JsonObject) => Array.isArray(body.requests);

const isEmbedding = (value: unknown) => listOf(value).length > 0 || textOf(value) !== undefined;

/** True if there is an embedding for each text. */
const isComplete = (vectors: readonly number[][], count: number) =>
  vectors.length === count && vectors.every(({ length }) => length > 0);

/** The embedding as base64; the same bytes if it is already. */
const base64Of = (embedding: Buffer) => (isText(embedding) ? embedding : jsonBytesOf(packed(numbersIn(embedding))));
const numbersTextOf = (embedding: Buffer) => (isText(embedding) ? jsonBytesOf(numbersIn(embedding)) : embedding);

const isText = (json: Buffer) => json[0] === 0x22;
const numbersIn = (json: Buffer) => numbersOf(readSpan(json, { start: 0, end: json.length }));

/** The answer with this count of tokens, for an upstream that reports none in OpenAI's names. */
export const withEmbeddingUsage = (body: Buffer, tokens: number) =>
  withMember(body, ["usage"], jsonBytesOf({ prompt_tokens: tokens, total_tokens: tokens }));

function openaiTextOf(vectors: number[][], base64: boolean, model: string): string {
  const data = vectors.map((vector, index) => ({
    object: "embedding",
    index,
    embedding: base64 ? packed(vector) : vector,
  }));
  return jsonOf({ object: "list", data, model, usage: { prompt_tokens: 0, total_tokens: 0 } });
}

/** Little-endian 32-bit floats. */
function packed(vector: number[]): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [place, value] of vector.entries()) bytes.writeFloatLE(value, place * 4);
  return bytes.toString("base64");
}

/** Numbers; some servers send base64 although numbers were requested. */
function numbersOf(value: unknown): number[] {
  const text = textOf(value);
  if (text === undefined) return listOf(value).map(Number);
  const bytes = Buffer.from(text, "base64");
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_, place) => bytes.readFloatLE(place * 4));
}
