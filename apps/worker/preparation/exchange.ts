/**
 * What a generation says to its upstream and how it reads what comes back: verbatim where caller and upstream speak the same dialect, translated
 * where they don't.
 */
import { type CatalogueModel, type CatalogueUpstream, matcherOf, spokenWith } from "#catalogue/catalogue.ts";
import type { AttachmentAddress, Data, RemoteAttachment } from "#dialects/attachments.ts";
import { callerFieldOf } from "#dialects/caller-field.ts";
import type { AnswerContext, Codec, StreamRelay, Target, WholeAnswer } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects, type UpstreamDialect } from "#dialects/dialect.ts";
import type { Failure, UpstreamError } from "#dialects/errors.ts";
import { refuse } from "#dialects/field-support.ts";
import { objectOf, parsedObject } from "#dialects/json.ts";
import { type AnswerEvent, eventsOf, foldedOf, type NeutralRequest } from "#dialects/neutral.ts";
import { ResumedAnswer, ResumedDecoder, type ResumeMode, resumed } from "#dialects/resumed.ts";
import { toolNameOf } from "#dialects/tools.ts";
import { TranslatedStream } from "#dialects/translated.ts";
import type { GenerationJob } from "#relay/job.ts";
import type { RequestAttachments } from "../attachments/request-attachments.ts";
import type { UpstreamRequest } from "../upstream/upstreams.ts";
import type { Asked } from "./asked.ts";
import type { Preparation } from "./preparation.ts";
import { type PreparationTask, type Prepared, readableRequestOf } from "./prepare.ts";
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
  adapted?: {
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
  resumed?: ResumedAnswer;
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
  attachments: RequestAttachments;
  /** What was delivered by another target, to be gone on from. */
  resumed: ResumedAnswer | undefined;
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
  const resumes = operation === "answer" && model.resume && framing !== "whole";
  const task = {
    operation,
    dialect,
    framing,
    headers,
    contentType,
    body,
    spoken,
    target: targetOf(input),
    resumes,
    countsTokens: upstream.countsTokens,
  };
  return preparation.prepare({ ...task, ...more }, (found) => resolveAddresses(found, input, spoken), signal);
}

/** Throws Refusal for what the upstream can't be asked. */
export async function answerExchangeOf(input: ExchangeInput): Promise<Exchanged> {
  const { job, body, model, upstream, resumed: earlier } = input;
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
  if (hasDelivered && !prepared.resumes)
    return { kind: "refused", failure: job.delivered === undefined ? notContinued : lost };
  const { asked, settings = body } = prepared;
  if (asked === undefined) {
    const { request } = prepared;
    const adapted = adaptedOf(to, job.dialect, () => {
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
        adapted,
      },
    };
  }

  const context = contextOf(job, model, asked);
  const begin = () => new ResumedAnswer(from.streamEncoder(context), from.answerIdOf?.(context));
  const resumedWith = (delivered: string) =>
    resumed(begin(), from.streamDecoder(), delivered, (callerName) => toolNameOf(asked.request.tools, callerName));
  const resume = prepared.resumes ? resumeOf(input, begin, resumedWith) : undefined;
  if (resume?.kind === "refused") return resume;
  if (resume?.mode === "continue" && continued === undefined) {
    prepared = await preparedFor(input, spoken, { continued: resume.answer.text ?? "" });
    if (prepared.kind !== "conversation")
      return { kind: "refused", failure: prepared.kind === "refused" ? prepared.failure : lost };
  }
  const adapted = adaptedOf(to, job.dialect, () => context);
  return {
    kind: "exchange",
    request: prepared.request,
    ...(resume !== undefined && { resumed: resume.answer }),
    reading: {
      ...common,
      errorOf: foreignErrorReaderOf(spoken, asked.request),
      stream: () =>
        resume !== undefined
          ? new TranslatedStream(
              new ResumedDecoder(resume.answer, to.streamDecoder(), resume.mode),
              resume.answer,
              resume.answer.answerId,
              resume.mode === "first"
                ? undefined
                : { tokens: resume.answer.tokens, isCounted: resume.mode === "repeat" },
            )
          : new TranslatedStream(to.streamDecoder(), from.streamEncoder(context), from.answerIdOf?.(context)),
      whole: (bytes) => input.preparation.read(() => translatedTask(job.dialect, spoken, context), bytes),
      ...((resume === undefined || resume.mode === "first") && { adapted }),
    },
  };
}

/** What becomes of each address: data where it is fetched here. */
async function resolveAddresses(
  found: readonly AttachmentAddress[],
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
  await resolveAttachments(remote, input, spoken);
  return data;
}

/**
 * Fetches what the upstream does not fetch itself. An upstream that is not on the public internet is given only addresses that the worker would call too: it may reach
 * what its callers must not.
 */
async function resolveAttachments(
  found: readonly RemoteAttachment[],
  { upstream, attachments, signal }: ExchangeInput,
  spoken: UpstreamDialect,
): Promise<void> {
  const isFetchedHere = ({ part }: RemoteAttachment) =>
    part !== "server" && (!upstream.fetchesAttachments || (part === "file" && spoken === "openai-chat"));
  for (const attachment of found)
    if (attachment.part === "media" && isFetchedHere(attachment))
      refuse(attachment.path, "must hold the content itself: only images and documents are fetched for this model");
  const passed = found.filter((attachment) => !isFetchedHere(attachment));
  if (passed.length > 0 && !(await attachments.fetcher.isPublic(upstream.baseUrl)))
    for (const attachment of passed) await attachments.fetcher.check(attachment);
  await attachments.inline(found.filter(isFetchedHere), upstream.timeouts.firstContentTimeoutMs, signal);
}

type Resume = { kind: "resume"; answer: ResumedAnswer; mode: ResumeMode } | Extract<Exchanged, { kind: "refused" }>;

const notContinued: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model failed, and no other can continue its answer.",
};
export const lost: Failure = {
  code: "worker_lost",
  message: "The process that ran this request was lost; send it again.",
};

/** How this target's stream joins what was delivered before, if anything was: by a target of this attempt, or by an attempt whose worker was lost. */
function resumeOf(
  { job, resumed: earlier, upstream, model }: ExchangeInput,
  begin: () => ResumedAnswer,
  resumedWith: (delivered: string) => ResumedAnswer | undefined,
): Resume {
  if (earlier === undefined && job.delivered === undefined) return { kind: "resume", answer: begin(), mode: "first" };
  const resumed = earlier ?? resumedWith(job.delivered ?? "");
  if (resumed === undefined) return { kind: "refused", failure: lost };
  if (upstream.prefill && resumed.text !== undefined) return { kind: "resume", answer: resumed, mode: "continue" };
  if (model.deterministic) return { kind: "resume", answer: resumed, mode: "repeat" };
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

function adaptedOf(
  to: Codec,
  dialect: ConversationDialect,
  context: () => AnswerContext,
): NonNullable<Reading["adapted"]> {
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
