/**
 * Makes the upstream's request from the caller's: verbatim where both speak the same dialect, translated where they don't. Pure except for
 * the attachments, which `resolve` fetches, so that a thread can prepare large requests.
 */
import { type AttachmentAddress, type Data, remoteAttachmentsOf } from "#dialects/attachments.ts";
import type { Codec, Framing, Target, WireRequest } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { consistent } from "#dialects/consistent.ts";
import type { ConversationDialect, Operation, UpstreamDialect } from "#dialects/dialect.ts";
import { type EmbeddingsAsked, embeddingRequestOf } from "#dialects/embeddings.ts";
import type { Failure } from "#dialects/errors.ts";
import { Refusal, refuse } from "#dialects/field-support.ts";
import { parsedObject, parseJson } from "#dialects/json.ts";
import type { Message, NeutralRequest, Settings } from "#dialects/neutral.ts";
import { formOf, valuesOf } from "#dialects/openai-images/form.ts";
import { geminiImageRequestOf } from "#dialects/openai-images/gemini.ts";
import { imageEditRequestOf, imageRequestOf } from "#dialects/openai-images/verbatim.ts";
import type { DecodedRequest } from "./decoded-request.ts";
import { estimatedTokensOf, textTokensOf } from "./token-estimate.ts";

/** A caller's request, and the target that it is prepared for. */
export interface PreparationTask {
  operation: Operation;
  dialect: ConversationDialect;
  framing: Framing;
  headers: Readonly<Record<string, string>>;
  /** Of the body. */
  contentType: string;
  body: Buffer;
  /** The upstream's dialect. */
  spoken: UpstreamDialect;
  target: Target;
  /** Another target may resume the answer, if the request can be decoded. */
  resumes: boolean;
  /** The text of the answer so far, for an upstream that continues it. */
  continued?: string | undefined;
  /** The upstream counts tokens. */
  countsTokens: boolean;
}

export type Prepared =
  | { kind: "refused"; failure: Failure }
  | PreparedConversation
  | { kind: "counted"; tokens: number }
  /** `tokens` is the gateway's own estimate, for an upstream that does not count. */
  | { kind: "embeddings"; request: WireRequest; asked: EmbeddingsAsked; tokens: number | undefined }
  /** `count` is how many images the caller wants. */
  | { kind: "pictures"; request: WireRequest; count: number };

export interface PreparedConversation {
  kind: "conversation";
  request: WireRequest;
  resumes: boolean;
  /** Undefined if the caller's own bytes are sent. */
  decoded: DecodedRequest | undefined;
  /** The settings of a large body, which replace it where only settings are read; undefined for a small body. */
  settings?: Buffer;
}

/** Fetches or checks these attachments, in order; undefined for one that the upstream fetches itself. */
export type ResolveAddresses = (found: readonly AttachmentAddress[]) => Promise<readonly (Data | undefined)[]>;

/** More than any upstream accepts. */
const addressesMax = 4_096;

/** Whether the gateway counts the tokens. That needs a vocabulary of some 70 MB, and takes a while even for short texts. */
export const isEstimated = ({ operation, dialect, spoken, countsTokens }: PreparationTask): boolean =>
  operation === "token-count"
    ? !countsTokens || codecs[spoken as ConversationDialect].tokenCount === undefined
    : operation === "embedding" && spoken === "gemini" && dialect !== "gemini";

export async function prepare(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  const bounded: ResolveAddresses = (found) => {
    const surplus = found[addressesMax];
    if (surplus !== undefined)
      refuse(surplus.path, `is one address too many: a request may name at most ${addressesMax} addresses`);
    return resolve(found);
  };
  try {
    return await prepareFor(task, bounded);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { kind: "refused", failure: { code: "invalid_request", message: error.message, param: error.param } };
  }
}

function prepareFor(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  switch (task.operation) {
    case "answer":
      return prepareAnswer(task, resolve);
    case "compaction":
      return prepareCompaction(task, resolve);
    case "token-count":
      return prepareTokenCount(task, resolve);
    case "embedding":
      return prepareEmbeddings(task, resolve);
    case "image-generation":
    case "image-edit":
      return preparePictures(task);
    default:
      return task.operation satisfies never;
  }
}

const refused = (message: string, param?: string): Prepared => ({
  kind: "refused",
  failure: { code: "invalid_request", message, ...(param !== undefined && { param }) },
});

/** The refusal of an operation that the model's upstream does not have. */
export const refusedFor = (what: string) =>
  refused(`This model does not serve ${what}.`, "model") as Extract<Prepared, { kind: "refused" }>;

async function prepareAnswer(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  const { dialect, framing, body, headers, target, resumes, continued } = task;
  const spoken = task.spoken as ConversationDialect;
  const from = codecs[dialect];
  const isTranslated = spoken !== dialect || resumes;
  const parsed = isTranslated ? (parsedObject(body) ?? {}) : {};
  const decode = () => from.decodeRequest({ body: parsed, framing, headers });
  const decoded = spoken !== dialect ? decode() : resumes ? unlessRefused(decode) : undefined;
  if (decoded === undefined) {
    const request = from.verbatim.request(await ownBytesOf(task, resolve), framing, target);
    if (request === undefined) return refused("The body is not a JSON object with a model.");
    return { kind: "conversation", request, resumes: false, decoded: undefined };
  }
  const request = consistent(decoded);
  await resolveIn(request, resolve);
  if (target.reasons === false) request.settings = withoutThinking(request.settings);
  const messages = continued === undefined ? request.messages : [...request.messages, answeredSoFar(continued)];
  return {
    kind: "conversation",
    request: codecs[spoken].encodeRequest({ ...request, messages }, framing, target),
    resumes,
    decoded: { body: parsed, request },
  };
}

const answeredSoFar = (text: string): Message => ({
  role: "assistant",
  parts: [{ kind: "text", text, path: "messages" }],
  path: "messages",
});

/** The result of a compaction is opaque, so only an upstream of the caller's dialect serves it. */
async function prepareCompaction(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  const request = codecs[task.dialect].verbatim.compaction?.(await ownBytesOf(task, resolve), task.target.model);
  return request === undefined
    ? refusedFor("requests without a model")
    : { kind: "conversation", request, resumes: false, decoded: undefined };
}

async function prepareTokenCount(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  const { dialect, body, headers, target } = task;
  const spoken = task.spoken as ConversationDialect;
  const from = codecs[dialect];
  const to = codecs[spoken];
  if (from.tokenCount === undefined) return refusedFor("token counts");
  const { conversationOf, prefixOf } = from.tokenCount;
  const callerBody = parseJson(body) as Record<string, unknown>;
  const conversation = conversationOf(callerBody);
  const within = prefixOf?.(callerBody) ?? "";
  const request =
    spoken === dialect
      ? undefined
      : await prefixed(within, () => consistent(from.decodeRequest({ body: conversation, framing: "whole", headers })));
  const counting = to.tokenCount;
  if (counting === undefined || isEstimated(task))
    return {
      kind: "counted",
      tokens: await estimatedTokensOf(request ?? readableRequestOf(from, conversation, "whole")),
    };
  if (request === undefined) {
    const bytes = await ownBytesOf(task, resolve);
    const question = counting.requestOf(
      bytes === body ? conversation : conversationOf(parsedObject(bytes) ?? {}),
      target,
    );
    return { kind: "conversation", request: question, resumes: false, decoded: undefined };
  }
  const question = await prefixed(within, async () => {
    await resolveIn(request, resolve);
    return counting.requestOf(parsedObject(to.encodeRequest(request, "whole", target).body) ?? {}, target);
  });
  return { kind: "conversation", request: question, resumes: false, decoded: { body: callerBody, request } };
}

/** Names a refused field of an embedded conversation by its path in the whole body. */
async function prefixed<Result>(prefix: string, act: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof Refusal) || prefix === "") throw error;
    throw new Refusal(
      `${prefix}${error.param}`,
      error.message.startsWith(error.param) ? `${prefix}${error.message}` : error.message,
    );
  }
}

async function prepareEmbeddings(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  const { dialect, target } = task;
  const spoken = task.spoken as ConversationDialect;
  const body = spoken === "gemini" && dialect === "gemini" ? await ownBytesOf(task, resolve) : task.body;
  const { request, texts, asked } = embeddingRequestOf(dialect, spoken, body, target.model);
  const tokens = isEstimated(task) && texts.length > 0 ? Math.ceil(await textTokensOf(texts)) : undefined;
  return { kind: "embeddings", request, asked, tokens };
}

async function preparePictures({ operation, body, contentType, spoken, target }: PreparationTask): Promise<Prepared> {
  const form = operation === "image-edit" ? await formOf(body, contentType) : undefined;
  const values = form === undefined ? (parsedObject(body) ?? {}) : valuesOf(form);
  const count = typeof values.n === "number" ? values.n : 1;
  if (spoken === "gemini")
    return { kind: "pictures", request: await geminiImageRequestOf(values, form, target.model), count };
  const request =
    form === undefined ? imageRequestOf(body, target.model) : await imageEditRequestOf(form, target.model);
  return request === undefined ? refusedFor("requests without a model") : { kind: "pictures", request, count };
}

/** The caller's own bytes, with the data of the attachments that the upstream does not fetch itself. */
async function ownBytesOf({ dialect, body }: PreparationTask, resolve: ResolveAddresses): Promise<Buffer> {
  const { verbatim } = codecs[dialect];
  const found: AttachmentAddress[] = [];
  verbatim.withAddresses(body, (address) => {
    if (found.length <= addressesMax) found.push(address);
    return undefined;
  });
  if (found.length === 0) return body;
  const data = await resolve(found);
  if (!data.some((one) => one !== undefined)) return body;
  let place = 0;
  return verbatim.withAddresses(body, () => data[place++]);
}

async function resolveIn(request: NeutralRequest, resolve: ResolveAddresses): Promise<void> {
  const found = remoteAttachmentsOf(request);
  if (found.length === 0) return;
  const data = await resolve(found.map(({ part, url, path }) => ({ part, url, path })));
  for (const [place, { replace }] of found.entries()) {
    const fetched = data[place];
    if (fetched !== undefined) replace(fetched);
  }
}

/** Upstreams refuse reasoning settings for a model that does not reason. */
const withoutThinking = ({
  effort: _effort,
  thinkingTokensMax: _tokens,
  thinkingShown: _shown,
  ...settings
}: Settings): Settings => settings;

/** Undefined for a request that the neutral form can't express. */
function unlessRefused(decode: () => NeutralRequest): NeutralRequest | undefined {
  try {
    return decode();
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** A request in the neutral form; an empty one if that can't express it. */
export const readableRequestOf = (codec: Codec, body: Record<string, unknown>, framing: Framing): NeutralRequest =>
  unlessRefused(() => codec.decodeRequest({ body, framing })) ?? { system: [], messages: [], tools: [], settings: {} };
