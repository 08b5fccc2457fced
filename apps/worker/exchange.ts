/**
 * What a generation says to its upstream and how it reads what comes back: verbatim where caller and upstream speak the same dialect, translated
 * where they don't.
 */
import { type CatalogueModel, type CatalogueUpstream, matcherOf, spokenWith } from "#catalogue/catalogue.ts";
import type { GenerationJob } from "#relay/job.ts";
import { callerFieldOf } from "#wire/caller-field.ts";
import { refuse } from "#wire/carry.ts";
import type { AnswerContext, Codec, StreamRelay, Target, WholeAnswer } from "#wire/codec.ts";
import { codecs } from "#wire/codecs.ts";
import { type ConversationDialect, conversationDialects, type UpstreamDialect } from "#wire/dialect.ts";
import type { Failure, UpstreamError } from "#wire/errors.ts";
import { objectOf, parsedObject } from "#wire/json.ts";
import { type AnswerEvent, eventsOf, foldedOf, type NeutralRequest } from "#wire/neutral.ts";
import type { Data, RemoteSource, SourceAddress } from "#wire/sources.ts";
import { resumed, SplicedAnswer, SplicedDecoder, type SpliceMode } from "#wire/spliced.ts";
import { toolNameOf } from "#wire/tools.ts";
import { TranslatedStream } from "#wire/translated.ts";
import type { Asked } from "./asked.ts";
import type { Preparation } from "./preparation.ts";
import { type PreparationTask, type Prepared, readableRequestOf } from "./prepare.ts";
import type { RequestSources } from "./request-sources.ts";
import type { UpstreamRequest } from "./upstream.ts";
import { translatedTask, wholeOf } from "./whole.ts";

/** How an upstream's answer is to be read. */
export interface Reading {
  /** The caller is sent events, or a growing array, rather than one body. */
  streams: boolean;
  contentType: string;
  /** Further headers of the caller's answer. */
  headers?: Record<string, string>;
  /** Reads a stream of the upstream's for a caller who wants one. */
  stream?(): StreamRelay;
  /** Reads a whole answer for a caller who wants one; a large one takes a while. */
  whole(bytes: Buffer): WholeAnswer | Promise<WholeAnswer>;
  /** What an answer that came the other way, whole for a stream or streamed for a whole, comes to; nothing where that can't be. */
  turned?: {
    toStream(bytes: Buffer): WholeAnswer | Promise<WholeAnswer>;
    events?(): Pick<StreamEvents, "push" | "end" | "usage"> & { whole(events: readonly AnswerEvent[]): WholeAnswer };
  };
  errorOf(body: unknown): UpstreamError;
}

type StreamEvents = ReturnType<Codec["streamDecoder"]>;

/** An answer without an upstream. */
export interface OwnAnswer {
  body: Buffer;
  contentType: string;
  headers: Record<string, string>;
}

export interface Exchange {
  kind: "exchange";
  request: UpstreamRequest;
  reading: Reading;
  /** The answer as it may go on from another target. */
  spliced?: SplicedAnswer;
  /** The answer in case the upstream has no such endpoint. */
  unlessThere?: () => Promise<OwnAnswer>;
}

export type Exchanged = Exchange | ({ kind: "answered" } & OwnAnswer) | { kind: "refused"; failure: Failure };

export interface ExchangeInput {
  job: GenerationJob;
  body: Buffer;
  model: CatalogueModel;
  upstream: CatalogueUpstream;
  /** The upstream's name of the model. */
  name: string;
  preparation: Preparation;
  sources: RequestSources;
  /** What was delivered by another target, to be gone on from. */
  spliced: SplicedAnswer | undefined;
  /** The caller has left. */
  signal: AbortSignal;
}

const targetOf = ({ model, upstream, name }: Pick<ExchangeInput, "model" | "upstream" | "name">): Target => ({
  model: name,
  outputTokensMax: model.outputTokensMax,
  reasons: reasonsOf(model),
  streamUsage: upstream.streamUsage,
  tokenLimitField: upstream.tokenLimitField,
});

export const isConversation = (dialect: string): dialect is ConversationDialect =>
  conversationDialects.some((known) => known === dialect);

/** The request as it is sent to this upstream, with marks where what was fetched goes. Throws Refusal for attachments that can't be had. */
export function preparedFor(
  input: ExchangeInput,
  spoken: UpstreamDialect,
  more: Partial<PreparationTask> = {},
): Promise<Prepared> {
  const { job, body, model, upstream, preparation, signal } = input;
  const { operation, dialect, framing, headers, contentType } = job;
  const splices = operation === "answer" && model.splice && framing !== "whole";
  const task = {
    operation,
    dialect,
    framing,
    headers,
    contentType,
    body,
    spoken,
    target: targetOf(input),
    splices,
    countsTokens: upstream.countsTokens,
  };
  return preparation.prepare({ ...task, ...more }, (found) => resolveAddresses(found, input, spoken), signal);
}

/** Throws Refusal for what the upstream can't be asked. */
export async function answerExchangeOf(input: ExchangeInput): Promise<Exchanged> {
  const { job, body, model, upstream, spliced: earlier } = input;
  const spoken = spokenWith(upstream, job.dialect);
  if (!isConversation(spoken))
    return {
      kind: "refused",
      failure: {
        code: "invalid_request",
        message: "This model makes pictures: ask for them at /v1/images/generations.",
        param: "model",
      },
    };
  const from = codecs[job.dialect];
  const to = codecs[spoken];
  const common = {
    streams: job.framing !== "whole",
    contentType: job.framing === "sse" ? "text/event-stream; charset=utf-8" : "application/json",
    errorOf: to.upstreamErrorOf,
  };

  const hasDelivered = job.delivered !== undefined || earlier !== undefined;
  const continued = earlier !== undefined && upstream.prefill ? earlier.text : undefined;
  let prepared = await preparedFor(input, spoken, { continued });
  if (prepared.kind === "refused") return prepared;
  if (prepared.kind !== "conversation") throw new Error("a conversation was prepared as something else");
  if (hasDelivered && !prepared.splices)
    return { kind: "refused", failure: job.delivered === undefined ? notContinued : lost };
  const { asked, settings = body } = prepared;
  if (asked === undefined) {
    const { request } = prepared;
    const turned = turnedOf(to, job.dialect, () => {
      const callerBody = parsedObject(settings) ?? {};
      return contextOf(job, model, { body: callerBody, request: readableRequestOf(from, callerBody, job.framing) });
    });
    return {
      kind: "exchange",
      request: { ...request, headers: { ...request.headers, ...callerHeadersOf(job, upstream) } },
      reading: {
        ...common,
        stream: () => from.verbatim.stream(settings, job.framing, model.id),
        whole: (bytes) =>
          input.preparation.read(() => ({ kind: "verbatim", dialect: job.dialect, model: model.id }), bytes),
        turned,
      },
    };
  }

  const context = contextOf(job, model, asked);
  const begin = () => new SplicedAnswer(from.streamEncoder(context), from.answerIdOf?.(context));
  const resume = (delivered: string) =>
    resumed(begin(), from.streamDecoder(), delivered, (callerName) => toolNameOf(asked.request.tools, callerName));
  const splice = prepared.splices ? spliceOf(input, begin, resume) : undefined;
  if (splice?.kind === "refused") return splice;
  if (splice?.mode === "continue" && continued === undefined) {
    prepared = await preparedFor(input, spoken, { continued: splice.answer.text ?? "" });
    if (prepared.kind !== "conversation")
      return { kind: "refused", failure: prepared.kind === "refused" ? prepared.failure : lost };
  }
  const turned = turnedOf(to, job.dialect, () => context);
  return {
    kind: "exchange",
    request: prepared.request,
    ...(splice !== undefined && { spliced: splice.answer }),
    reading: {
      ...common,
      errorOf: foreignErrorReaderOf(spoken, asked.request),
      stream: () =>
        splice !== undefined
          ? new TranslatedStream(
              new SplicedDecoder(splice.answer, to.streamDecoder(), splice.mode),
              splice.answer,
              splice.answer.answerId,
              splice.mode === "first"
                ? undefined
                : { tokens: splice.answer.tokens, isCounted: splice.mode === "repeat" },
            )
          : new TranslatedStream(to.streamDecoder(), from.streamEncoder(context), from.answerIdOf?.(context)),
      whole: (bytes) => input.preparation.read(() => translatedTask(job.dialect, spoken, context), bytes),
      ...((splice === undefined || splice.mode === "first") && { turned }),
    },
  };
}

/** What becomes of each address: data where it is fetched here. */
async function resolveAddresses(
  found: readonly SourceAddress[],
  input: ExchangeInput,
  spoken: UpstreamDialect,
): Promise<(Data | undefined)[]> {
  const data = new Array<Data | undefined>(found.length).fill(undefined);
  const remote = found.map((address, place) => ({
    ...address,
    replace(fetched: Data) {
      data[place] = fetched;
    },
  }));
  await resolveSources(remote, input, spoken);
  return data;
}

/**
 * Fetches what the upstream does not fetch itself. An upstream that is not on the public internet is given only addresses that the worker would call too: it may reach
 * what its callers must not.
 */
async function resolveSources(
  found: readonly RemoteSource[],
  { upstream, sources, signal }: ExchangeInput,
  spoken: UpstreamDialect,
): Promise<void> {
  const isFetchedHere = ({ part }: RemoteSource) =>
    part !== "server" && (!upstream.fetchesSources || (part === "file" && spoken === "openai-chat"));
  for (const source of found)
    if (source.part === "media" && isFetchedHere(source))
      refuse(source.path, "must hold the content itself: only images and documents are fetched for this model");
  const passed = found.filter((source) => !isFetchedHere(source));
  if (passed.length > 0 && !(await sources.fetcher.isPublic(upstream.baseUrl)))
    for (const source of passed) await sources.fetcher.check(source);
  await sources.inline(found.filter(isFetchedHere), upstream.limits.firstContentTimeoutMs, signal);
}

type Splice = { kind: "splice"; answer: SplicedAnswer; mode: SpliceMode } | Extract<Exchanged, { kind: "refused" }>;

const notContinued: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model failed, and no other can continue its answer.",
};
export const lost: Failure = {
  code: "worker_lost",
  message: "The process that ran this request was lost; send it again.",
};

/** How this target's stream joins what was delivered before, if anything was: by a target of this attempt, or by an attempt whose worker was lost. */
function spliceOf(
  { job, spliced: earlier, upstream, model }: ExchangeInput,
  begin: () => SplicedAnswer,
  resume: (delivered: string) => SplicedAnswer | undefined,
): Splice {
  if (earlier === undefined && job.delivered === undefined) return { kind: "splice", answer: begin(), mode: "first" };
  const spliced = earlier ?? resume(job.delivered ?? "");
  if (spliced === undefined) return { kind: "refused", failure: lost };
  if (upstream.prefill && spliced.text !== undefined) return { kind: "splice", answer: spliced, mode: "continue" };
  if (model.deterministic) return { kind: "splice", answer: spliced, mode: "repeat" };
  return { kind: "refused", failure: notContinued };
}

/**
 * How the error of an upstream of another dialect than the caller's is read. The field that it names is its own: the caller is told the one of its own that
 * it stands for, if there is one, and the upstream's in the message.
 */
export function foreignErrorReaderOf(
  upstream: ConversationDialect,
  request: NeutralRequest | undefined,
): Reading["errorOf"] {
  return (body) => {
    const { param, ...error } = codecs[upstream].upstreamErrorOf(body);
    const named = param ?? /^[\w.]+(?=: )/.exec(error.message)?.[0];
    const own = named === undefined || request === undefined ? undefined : callerFieldOf(named, request);
    const message = param === undefined || error.message.includes(param) ? error.message : `${param}: ${error.message}`;
    return { ...error, message, ...(own !== undefined && { param: own }) };
  };
}

/** Whether a model reasons; undefined where its catalogue entry lists no capabilities. */
const reasonsOf = ({ capabilities }: CatalogueModel): boolean | undefined =>
  capabilities.length === 0 ? undefined : capabilities.includes("reasoning");

/** What of the caller's own headers its upstream is given: a version, and the betas that it knows. */
export function callerHeadersOf({ headers }: GenerationJob, { betas }: CatalogueUpstream): Record<string, string> {
  const { "anthropic-beta": asked, ...others } = headers;
  if (asked === undefined) return others;
  const isKnown = matcherOf(betas);
  const known = asked
    .split(",")
    .map((beta) => beta.trim())
    .filter((beta) => beta !== "" && isKnown(beta));
  return { ...others, ...(known.length > 0 && { "anthropic-beta": known.join(",") }) };
}

function contextOf(job: GenerationJob, model: CatalogueModel, { body, request }: Asked): AnswerContext {
  return {
    id: job.generation.slice("gen_".length),
    model: model.id,
    createdAt: Math.floor(job.admittedAt / 1_000),
    framing: job.framing,
    request,
    body,
  };
}

/** Does a request ask for several choices? The neutral form of an answer has one, and an answer that lacks the others is none. */
function asksSeveral({ n, generationConfig, generation_config: otherConfig }: Record<string, unknown>): boolean {
  const { candidateCount, candidate_count: otherCount } = objectOf(generationConfig ?? otherConfig);
  return Number(n ?? candidateCount ?? otherCount ?? 1) > 1;
}

function turnedOf(
  to: Codec,
  dialect: ConversationDialect,
  context: () => AnswerContext,
): NonNullable<Reading["turned"]> {
  const from = codecs[dialect];
  return {
    toStream(bytes) {
      if (asksSeveral(context().body)) return { kind: "malformed" };
      const value = parsedObject(bytes);
      if (value === undefined) return { kind: "malformed" };
      const answer = foldedOf(to.decodeAnswer(value));
      if (answer === undefined) return { kind: "malformed" };
      if ("error" in answer) return { kind: "error", error: answer.error };
      const encoder = from.streamEncoder(context());
      const text = eventsOf(answer).map((event) => (event.kind === "error" ? "" : encoder.push(event)));
      return { kind: "answer", body: Buffer.from(text.join("")), usage: answer.usage };
    },
    events() {
      const decoder = to.streamDecoder();
      return {
        get usage() {
          return decoder.usage;
        },
        push: (event) => decoder.push(event),
        end: () => decoder.end(),
        whole: (events) => (asksSeveral(context().body) ? { kind: "malformed" } : wholeOf(events, dialect, context())),
      };
    },
  };
}
