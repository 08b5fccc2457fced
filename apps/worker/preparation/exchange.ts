/**
 * The exchange of a conversation with an upstream: the request, and how the response is read.
 * Verbatim if caller and upstream speak the same dialect, otherwise translated.
 */
import { type CatalogueModel, type CatalogueUpstream, matcherOf, speaks, spokenWith } from "#catalogue/catalogue.ts";
import {
  type AnswerContext,
  type AnswerIdentity,
  type Codec,
  contentTypes,
  type StreamRelay,
  type Target,
  type WholeAnswer,
} from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect, UpstreamDialect } from "#dialects/dialect.ts";
import type { Failure, UpstreamError } from "#dialects/errors.ts";
import type { AttachmentAddress, Data, RemoteAttachment } from "#dialects/neutral/attachments.ts";
import { continuationsOf, type RelayedText } from "#dialects/neutral/continuation.ts";
import { refuse } from "#dialects/neutral/field-support.ts";
import { modelTraitsOf } from "#dialects/neutral/model-traits.ts";
import { type AnswerEvent, eventsOf, foldedOf } from "#dialects/neutral/neutral.ts";
import type { Produced } from "#dialects/neutral/produced.ts";
import { toolNameOf } from "#dialects/neutral/tools.ts";
import { roughUsageOf } from "#dialects/neutral/usage-estimate.ts";
import { profiles } from "#dialects/profiles.ts";
import { withCallRules } from "#dialects/relay/call-rules.ts";
import { ResumedAnswer, ResumedDecoder, type ResumeMode, resumed, resumedText } from "#dialects/relay/resumed.ts";
import { answersOf } from "#dialects/relay/stop-cutter.ts";
import { TranslatedStream } from "#dialects/relay/translated.ts";
import { betaPath } from "#dialects/repairs/omitted-fields.ts";
import type { Repair } from "#dialects/repairs/repairs.ts";
import type { Usage } from "#dialects/usage.ts";
import { mayBeContinued, wholeOf } from "#operations/answer/exchange.ts";
import { usualAnswerBytesMax } from "#operations/bounds.ts";
import { isConversation, readableRequestOf } from "#operations/conversation.ts";
import type {
  DecodedRequest,
  GatewayAnswer,
  PreparationTask,
  Prepared,
  PreparedConversation,
  RawResponse,
  Refused,
} from "#operations/exchange.ts";
import { foreignErrorReaderOf } from "#operations/upstream-errors.ts";
import type { GenerationJob } from "#relay/job.ts";
import { defined, parsedObject } from "#wire/json/parse.ts";
import type { RequestAttachments } from "../attachments/request-attachments.ts";
import { firstContentMsMax } from "../bounds.ts";
import type { UpstreamRequest } from "../upstream/upstreams.ts";
import type { Preparation } from "./preparation.ts";
import { translatedTask, verbatimTask } from "./whole.ts";

/** How an upstream's response is read. */
export interface Reading {
  /** The caller gets events, or a growing array, instead of one body. */
  streams: boolean;
  /** Undefined if the caller gets the upstream's own. */
  contentType: string | undefined;
  /** Bytes of a whole answer, or of one event. */
  bytesMax: number;
  /** Set for a response that is neither JSON nor events. */
  raw?: RawResponse | undefined;
  /** Further headers of the caller's response. */
  headers?: Record<string, string>;
  /** Reads a stream for a caller who wants a stream. */
  stream?(): StreamRelay;
  /**
   * Reads a whole answer for a caller who wants a whole answer. A large one is read in a thread.
   */
  whole(bytes: Buffer): WholeAnswer | Promise<WholeAnswer>;
  /**
   * Reads a whole answer for a caller who wants a stream, and the reverse. Undefined if that is not
   * possible.
   */
  adapted?: {
    toStream(bytes: Buffer): WholeAnswer | Promise<WholeAnswer>;
    events?(): Pick<StreamEvents, "push" | "end" | "usage"> & { whole(events: readonly AnswerEvent[]): WholeAnswer };
  };
  errorOf(body: unknown): UpstreamError;
}

type StreamEvents = ReturnType<Codec["streamDecoder"]>;

export interface Exchange {
  kind: "exchange";
  request: UpstreamRequest;
  reading: Reading;
  /** The gateway may end the answer before its upstream does. */
  mayEndEarly?: boolean;
  /**
   * The dialect of the request, if it is not the one that the upstream speaks with callers of this
   * dialect.
   */
  spoken?: UpstreamDialect;
  /** The answer so far, which another target can resume. */
  resumed?: ResumedAnswer;
  /** How the answer goes on with an earlier one. */
  mode?: ResumeMode;
  /** The gateway's own answer if the upstream has no such endpoint. */
  unlessThere?: () => Promise<GatewayAnswer>;
}

export type Exchanged = Exchange | GatewayAnswer | Refused;

export interface ExchangeInput {
  job: GenerationJob;
  body: Buffer;
  model: CatalogueModel;
  upstream: CatalogueUpstream;
  /** The upstream's name of the model. */
  name: string;
  promptCache: CatalogueModel["promptCache"];
  /** Changes of the request that this target asked for by refusing it, or requests like it. */
  repairs: readonly Repair[];
  preparation: Preparation;
  attachments: RequestAttachments;
  /** The answer so far, from an earlier target of this attempt. */
  resumed: ResumedAnswer | undefined;
  /** The same, of an answer that was relayed unchanged. */
  relayed: RelayedText | undefined;
  /** Another target may go on with plain text, although the model does not say so. */
  mayResume: boolean;
  /** The target did not refuse to continue the answer. */
  mayContinue: boolean;
  /** Aborted when the attempt is over. */
  signal: AbortSignal;
}

const targetOf = ({ model, upstream, name }: ExchangeInput, spoken: UpstreamDialect): Target => ({
  model: name,
  traits: modelTraitsOf(spoken, name, upstream.prefill ? { prefill: true, ...model.traits } : model.traits),
  outputTokensMax: model.outputTokensMax,
  contextWindow: model.contextWindow,
  reasons: reasonsOf(model),
  streamUsage: upstream.streamUsage,
  tokenLimitField: upstream.tokenLimitField,
});

/**
 * The request for this upstream, with marks in place of fetched attachments. Throws a Refusal for
 * attachments that can't be fetched.
 */
export function preparedFor(
  input: ExchangeInput,
  spoken: UpstreamDialect,
  { continued, countsTokens = input.upstream.countsTokens }: Partial<PreparationTask> = {},
): Promise<Prepared> {
  const { job, body, model, promptCache, repairs, preparation, signal } = input;
  const { operation, dialect, framing, headers, contentType, admittedAt } = job;
  const isTranslated = spoken !== dialect || input.resumed !== undefined || input.relayed !== undefined;
  const resumes =
    operation === "answer" && framing !== "whole" && (model.resume === true || (input.mayResume && isTranslated));
  const task: PreparationTask = {
    operation,
    dialect,
    framing,
    headers,
    contentType,
    body,
    model: model.id,
    createdAt: Math.floor(admittedAt / 1_000),
    spoken,
    target: targetOf(input, spoken),
    resumes,
    continued,
    countsTokens,
    promptCache: promptCache?.auto === true ? { ...promptCache, key: job.session } : undefined,
    omits: omitsOf(input),
    repairs,
  };
  return preparation.prepare(task, (unresolved) => resolveAddresses(unresolved, input, spoken), signal);
}

/** The paths of all fields that the target gets none of. */
const omitsOf = ({ upstream, repairs }: ExchangeInput): readonly string[] =>
  repairs.length === 0
    ? upstream.omits
    : [...upstream.omits, ...repairs.flatMap((repair) => (repair.kind === "omit" ? repair.fields : []))];

/** Throws a Refusal for a request that the upstream can't serve. */
export function answerExchangeOf(input: ExchangeInput): Promise<Exchanged> {
  const own = spokenWith(input.upstream, input.job.dialect);
  return refusesCallsWhileReasoning(input, own) ? responsesExchangeOf(input, own) : exchangeSpeaking(input, own);
}

async function responsesExchangeOf(input: ExchangeInput, own: UpstreamDialect): Promise<Exchanged> {
  const exchange = await exchangeSpeaking(input, "openai-responses");
  // A request that Responses can't express goes without reasoning.
  if (exchange.kind === "refused") return exchangeSpeaking(input, own);
  return exchange.kind === "exchange" ? { ...exchange, spoken: "openai-responses" } : exchange;
}

/**
 * True for functions beside reasoning, which chat completions of some models refuse, at an upstream
 * that has Responses too.
 */
function refusesCallsWhileReasoning({ model, upstream, name, body }: ExchangeInput, own: UpstreamDialect): boolean {
  if (own !== "openai-chat" || !speaks(upstream, "openai-responses")) return false;
  const { callsWhileReasoning } = modelTraitsOf(own, name, model.traits);
  return !callsWhileReasoning && reasonsOf(model) !== false && body.includes('"tools"');
}

async function exchangeSpeaking(input: ExchangeInput, spoken: UpstreamDialect): Promise<Exchanged> {
  const { job, resumed: earlier } = input;
  if (!isConversation(spoken)) return { kind: "refused", failure: imagesOnly };
  const continued = canContinue(input) ? (earlier?.text ?? input.relayed?.text) : undefined;
  // Only the caller's own turn can be followed by an instruction.
  if (continued !== undefined && input.repairs.some(({ kind }) => kind === "ending"))
    return { kind: "refused", failure: notContinued };
  const prepared = await preparedFor(input, spoken, { continued });
  if (prepared.kind === "refused") return prepared;
  if (prepared.kind !== "conversation") throw new Error(`a conversation was prepared as ${prepared.kind}`);
  const hasDelivered = job.delivered !== undefined || earlier !== undefined || input.relayed !== undefined;
  if (hasDelivered && !prepared.resumes)
    return { kind: "refused", failure: job.delivered === undefined ? notContinued : lost };
  const { decoded } = prepared;
  return decoded === undefined
    ? verbatimExchangeOf(input, spoken, prepared)
    : translatedExchangeOf(input, spoken, prepared, decoded);
}

const commonReadingOf = (
  { framing, answerBytesMax = usualAnswerBytesMax }: GenerationJob,
  spoken: ConversationDialect,
) => ({
  streams: framing !== "whole",
  bytesMax: answerBytesMax,
  contentType: contentTypes[framing],
  errorOf: codecs[spoken].upstreamErrorOf,
});

/**
 * Caller and upstream speak the same dialect, so the bytes stay unchanged except for what
 * identifies the answer.
 */
function verbatimExchangeOf(
  input: ExchangeInput,
  spoken: ConversationDialect,
  { request, settings = input.body, customNames, namesTool }: PreparedConversation,
): Exchange {
  const { job, model, name, preparation } = input;
  const from = codecs[job.dialect];
  const identity: AnswerIdentity = { ...identityOf(job, model), ...defined({ customNames, namesTool }) };
  const callerHeaders = callerHeadersOf(input);
  const headers = request.headers === undefined ? callerHeaders : { ...request.headers, ...callerHeaders };
  const adapted = adaptedOf(codecs[spoken], job.dialect, () => {
    const callerBody = parsedObject(settings) ?? {};
    const request = readableRequestOf(from, callerBody, job.framing);
    return { ...contextOf(job, model, { body: callerBody, request }), upstreamModel: name };
  });
  return {
    kind: "exchange",
    request: { ...request, headers },
    reading: {
      ...commonReadingOf(job, spoken),
      stream() {
        const relay = from.verbatim.stream(settings, job.framing, identity);
        if (input.mayResume) relay.produced.keepPlain();
        return relay;
      },
      whole: (bytes) => preparation.read(() => verbatimTask(job.dialect, identity), bytes),
      adapted,
    },
  };
}

async function translatedExchangeOf(
  input: ExchangeInput,
  spoken: ConversationDialect,
  prepared: PreparedConversation,
  decoded: DecodedRequest,
): Promise<Exchanged> {
  const { job, model, preparation } = input;
  const from = codecs[job.dialect];
  const to = withCallRules(answersOf(codecs[spoken], decoded.cut), decoded.request, spoken);
  const { relayed } = input;
  const continues = relayed && continuationsOf[job.dialect](relayed.last);
  if (relayed !== undefined && continues === undefined) return { kind: "refused", failure: notContinued };
  const context = { ...contextOf(job, model, decoded), upstreamModel: input.name, continues };
  const usageOf = (produced: Produced) => roughUsageOf(context, produced);
  const begin = () => new ResumedAnswer(from.streamEncoder(context));
  const resumedWith = (delivered: string) =>
    resumed(begin(), from.streamDecoder(), delivered, (callerName) => toolNameOf(decoded.request.tools, callerName));
  const earlier = input.resumed ?? (relayed && resumedText(begin(), relayed.text));
  const mayContinue = canContinue(input) && mayBeContinued(decoded.request);
  const resume = prepared.resumes ? resumeOf({ ...input, mayContinue }, earlier, begin, resumedWith) : undefined;
  if (resume?.kind === "refused") return resume;
  let { request } = prepared;
  if (resume?.mode === "continue" && earlier === undefined) {
    const again = await preparedFor(input, spoken, { continued: resume.answer.text ?? "" });
    if (again.kind !== "conversation")
      return { kind: "refused", failure: again.kind === "refused" ? again.failure : lost };
    request = again.request;
  }
  return {
    kind: "exchange",
    request,
    ...(resume !== undefined && { resumed: resume.answer, mode: resume.mode }),
    ...(decoded.cut !== undefined && { mayEndEarly: true }),
    reading: {
      ...commonReadingOf(job, spoken),
      ...(prepared.headers !== undefined && { headers: prepared.headers }),
      errorOf: foreignErrorReaderOf(spoken, decoded.request),
      stream: () =>
        resume === undefined
          ? new TranslatedStream(to.streamDecoder(), from.streamEncoder(context), undefined, usageOf)
          : resumedStreamOf(resume, to, usageOf),
      whole: (bytes) => preparation.read(() => translatedTask(job.dialect, spoken, context), bytes),
      ...((resume === undefined || resume.mode === "first") && { adapted: adaptedOf(to, job.dialect, () => context) }),
    },
  };
}

const resumedStreamOf = (
  { answer, mode }: Extract<Resume, { kind: "resume" }>,
  to: Answers,
  usageOf: (produced: Produced) => Usage,
): StreamRelay =>
  new TranslatedStream(
    new ResumedDecoder(answer, to.streamDecoder(), mode),
    answer,
    mode === "first" ? undefined : { tokens: answer.tokens, isCounted: mode === "repeat" },
    usageOf,
  );

/**
 * The data of each address that the worker fetches; undefined for those that the upstream fetches.
 */
async function resolveAddresses(
  unresolved: readonly AttachmentAddress[],
  input: ExchangeInput,
  spoken: UpstreamDialect,
): Promise<(Data | undefined)[]> {
  const data = new Array<Data | undefined>(unresolved.length).fill(undefined);
  const remote = unresolved.map((address, place) => ({
    ...address,
    replace(fetched: Data) {
      data[place] = fetched;
    },
  }));
  await resolveAttachments(remote, input, spoken);
  return data;
}

/**
 * Fetches what the upstream does not fetch itself. An upstream on a private network may reach
 * servers that callers must not reach, so it gets only addresses that the worker would call too.
 */
async function resolveAttachments(
  remotes: readonly RemoteAttachment[],
  { upstream, attachments, signal }: ExchangeInput,
  spoken: UpstreamDialect,
): Promise<void> {
  const isFetchedHere = ({ part }: RemoteAttachment) =>
    part !== "server" &&
    (!upstream.fetchesAttachments || (part === "file" && isConversation(spoken) && !profiles[spoken].fetchesFiles));
  for (const attachment of remotes)
    if (attachment.part === "media" && isFetchedHere(attachment))
      refuse(
        attachment.path,
        "must contain the data itself: the gateway fetches only images and documents for this model",
      );
  const passed = remotes.filter((attachment) => !isFetchedHere(attachment));
  if (passed.length > 0 && !(await attachments.fetcher.isPublic(upstream.baseUrl)))
    for (const attachment of passed) await attachments.fetcher.check(attachment);
  await attachments.inline(
    remotes.filter(isFetchedHere),
    upstream.timeouts.firstContentTimeoutMs ?? firstContentMsMax,
    signal,
  );
}

type Resume = { kind: "resume"; answer: ResumedAnswer; mode: ResumeMode } | Refused;

const imagesOnly: Failure = {
  code: "invalid_request",
  message: "This model only makes images. Send image requests to /v1/images/generations.",
  param: "model",
};
const notContinued: Failure = {
  code: "upstream_failed",
  message: "The upstream of this model failed, and no other can continue its answer.",
};
export const lost: Failure = {
  code: "worker_lost",
  message: "The worker that ran this request was lost; send the request again.",
};

/** Whether the target continues an assistant turn that a request ends in. */
export const continues = ({ prefill }: CatalogueUpstream, { traits }: CatalogueModel): boolean =>
  traits?.prefill ?? prefill;

const canContinue = ({ upstream, model, mayContinue }: ExchangeInput): boolean =>
  mayContinue && continues(upstream, model);

/**
 * How this target's stream continues what the caller has, from an earlier target of this attempt or
 * from an attempt whose worker was lost.
 */
function resumeOf(
  input: ExchangeInput,
  earlier: ResumedAnswer | undefined,
  begin: () => ResumedAnswer,
  resumedWith: (delivered: string) => ResumedAnswer | undefined,
): Resume {
  const { job, model, mayResume, mayContinue } = input;
  if (earlier === undefined && job.delivered === undefined) return { kind: "resume", answer: begin(), mode: "first" };
  const resumed = earlier ?? resumedWith(job.delivered ?? "");
  if (resumed === undefined) return { kind: "refused", failure: lost };
  if (mayContinue && resumed.text !== undefined) return { kind: "resume", answer: resumed, mode: "continue" };
  // One model rarely gives another's answer, but then nothing of it is lost: what the caller has is
  // a beginning of this answer, or the call ends at once.
  const mayRepeat = model.deterministic || (earlier !== undefined && mayResume && resumed.text !== undefined);
  if (mayRepeat) return { kind: "resume", answer: resumed, mode: "repeat" };
  return { kind: "refused", failure: notContinued };
}

/** Whether a model reasons; undefined where its catalogue entry lists no capabilities. */
const reasonsOf = ({ capabilities }: CatalogueModel): boolean | undefined =>
  capabilities.length === 0 ? undefined : capabilities.includes("reasoning");

/**
 * The caller's headers that are passed on; of a list of features, those that the upstream supports.
 */
export function callerHeadersOf(input: ExchangeInput): Record<string, string> {
  const { headers, dialect } = input.job;
  const { betas } = input.upstream;
  const { featuresHeader } = profiles[dialect];
  const requestedBetas = featuresHeader === undefined ? undefined : headers[featuresHeader];
  if (featuresHeader === undefined || requestedBetas === undefined) return headers;
  const { [featuresHeader]: _, ...others } = headers;
  const isKnown = matcherOf(betas);
  const refused = omitsOf(input);
  if (refused.includes(betaPath)) return others;
  const supportedBetas = requestedBetas
    .split(",")
    .map((feature) => feature.trim())
    .filter((feature) => feature !== "" && isKnown(feature) && !refused.includes(`${betaPath}${feature}`));
  return { ...others, ...(supportedBetas.length > 0 && { [featuresHeader]: supportedBetas.join(",") }) };
}

const identityOf = ({ generation, admittedAt, storage }: GenerationJob, model: CatalogueModel) => ({
  id: generation.slice("gen_".length),
  model: model.id,
  createdAt: Math.floor(admittedAt / 1_000),
  ...(storage !== undefined && { storage }),
});

function contextOf(
  job: GenerationJob,
  model: CatalogueModel,
  { body, request, cut, inputTokens }: DecodedRequest,
): AnswerContext {
  return {
    ...identityOf(job, model),
    framing: job.framing,
    request,
    body,
    cut,
    inputTokens,
  };
}

/** The neutral form has one choice, so an answer to a request for several can't be adapted. */
const asksSeveral = (dialect: ConversationDialect, body: Record<string, unknown>): boolean =>
  profiles[dialect].requestedLengthOf(body).choices > 1;

type Answers = Pick<Codec, "streamDecoder" | "decodeAnswer">;

function adaptedOf(
  to: Answers,
  dialect: ConversationDialect,
  context: () => AnswerContext,
): NonNullable<Reading["adapted"]> {
  const from = codecs[dialect];
  return {
    toStream(bytes) {
      if (asksSeveral(dialect, context().body)) return { kind: "malformed" };
      const value = parsedObject(bytes);
      if (value === undefined) return { kind: "malformed" };
      const answer = foldedOf(to.decodeAnswer(value));
      if (answer === undefined) return { kind: "malformed" };
      if ("error" in answer) return { kind: "error", error: answer.error };
      const encoder = from.streamEncoder(context());
      const text = eventsOf(answer).map((event) => (event.kind === "error" ? "" : encoder.push(event, answer.usage)));
      return { kind: "answer", body: Buffer.from(text.join("")), usage: answer.usage, finish: answer.finish };
    },
    events() {
      const decoder = to.streamDecoder();
      return {
        get usage() {
          return decoder.usage;
        },
        push: (event) => decoder.push(event),
        end: () => decoder.end(),
        whole: (events) =>
          asksSeveral(dialect, context().body) ? { kind: "malformed" } : wholeOf(events, dialect, context()),
      };
    },
  };
}
