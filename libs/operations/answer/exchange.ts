/**
 * Answers to conversations: verbatim if caller and upstream speak the same dialect, otherwise
 * translated.
 */

import type { AnswerContext, AnswerIdentity, WholeAnswer } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import {
  type AnswerEvent,
  foldedOf,
  type Message,
  type NeutralRequest,
  type Settings,
} from "#dialects/neutral/neutral.ts";
import { countsOf, unreportedCountsOf } from "#dialects/neutral/produced.ts";
import { roughTokensOf, roughUsageOf } from "#dialects/neutral/usage-estimate.ts";
import { customNamesIn } from "#dialects/openai/custom-calls.ts";
import { foreignShapeOf } from "#dialects/openai-chat/foreign-shape.ts";
import { namesToolIn } from "#dialects/openai-chat/verbatim.ts";
import { mayHaveOtherTools } from "#dialects/openai-responses/tools.ts";
import { withCallRules } from "#dialects/relay/call-rules.ts";
import { repairedBytes, repairedRequest, repairedTarget } from "#dialects/relay/repaired.ts";
import { answersOf } from "#dialects/relay/stop-cutter.ts";
import { isPresent, parsedObject } from "#wire/json/parse.ts";
import { cutOf, hasSurplusStops, ownBytesOf, resolveIn, unlessRefused } from "../conversation.ts";
import {
  type OperationExchange,
  type PreparationTask,
  type Prepared,
  type ResolveAddresses,
  refused,
  warningHeaderOf,
} from "../exchange.ts";

/** How a whole answer is read. `from` is the caller's dialect, `to` the upstream's. */
export type AnswerReading =
  | { kind: "verbatim"; dialect: ConversationDialect; identity: AnswerIdentity }
  /** The caller's body is text, so that numbers stay as the caller wrote them. */
  | {
      kind: "translated";
      from: ConversationDialect;
      to: ConversationDialect;
      context: Omit<AnswerContext, "body">;
      body: string;
    };

export const answerExchange: OperationExchange<AnswerReading> = {
  prepare,
  read(reading, bytes) {
    if (reading.kind === "verbatim") return verbatimAnswerOf(bytes, reading);
    const { from, to, context, body } = reading;
    return translatedAnswerOf(bytes, from, to, { ...context, body: parsedObject(Buffer.from(body)) ?? {} });
  },
};

async function prepare(task: PreparationTask, resolve: ResolveAddresses): Promise<Prepared> {
  const { dialect, framing, body, headers, target, resumes, continued, repairs = [] } = task;
  const spoken = task.spoken as ConversationDialect;
  const from = codecs[dialect];
  // A model that refuses stop sequences gets none, so the gateway must read the answer to end it at
  // them. Responses has none at all.
  const takesStops = dialect === "openai-chat" ? target.traits.stops : dialect !== "openai-responses";
  const mayStop = spoken === dialect && !takesStops && body.includes('"stop"');
  const foreign = spoken === dialect && dialect === "openai-chat" ? foreignShapeOf(body) : undefined;
  const refusesStops = repairs.some(({ kind }) => kind === "stops");
  const isFlat =
    spoken === dialect &&
    dialect === "openai-responses" &&
    (target.traits.functionsOnly || repairs.some(({ kind }) => kind === "tools")) &&
    mayHaveOtherTools(body);
  const isParsed = spoken !== dialect || resumes || isFlat || mayStop || refusesStops || foreign !== undefined;
  const parsed = isParsed ? (parsedObject(body) ?? {}) : {};
  const isTranslated = resumes || isFlat || foreign === "tools" || (mayStop && isPresent(parsed.stop));
  const decode = () => from.decodeRequest({ body: parsed, framing, headers });
  const readable =
    spoken !== dialect || foreign === "body"
      ? decode()
      : isTranslated || refusesStops
        ? unlessRefused(decode)
        : undefined;
  // An upstream of the caller's dialect may read what others don't.
  const isForwarded =
    !isFlat && (readable?.warnings !== undefined || !(isTranslated || hasSurplusStops(readable, task)));
  const decoded = spoken === dialect && foreign !== "body" && isForwarded ? undefined : readable;
  if (decoded === undefined) {
    const own = repairs.length === 0 ? body : repairedBytes(from, dialect, { body, framing, headers }, target, repairs);
    const complete = ownBytesOf({ dialect, body: own }, resolve);
    const sent = Buffer.isBuffer(complete) ? complete : await complete;
    const request = from.verbatim.request(sent, framing, target);
    if (request === undefined) return refused("The body is not a JSON object with a model.");
    const customNames = isOpenai(dialect) ? customNamesIn(body) : undefined;
    const namesTool = dialect === "openai-chat" && framing === "whole" && namesToolIn(body);
    return {
      kind: "conversation",
      request,
      resumes: false,
      decoded: undefined,
      ...(customNames !== undefined && { customNames }),
      ...(namesTool && { namesTool }),
    };
  }
  const request = repairedRequest(consistent(decoded), repairs, spoken);
  await resolveIn(request, resolve);
  if (target.reasons === false) request.settings = withoutThinking(request.settings);
  const isContinued = continued !== undefined && mayBeContinued(request);
  const messages = isContinued ? [...request.messages, answeredSoFar(continued)] : request.messages;
  const repaired = repairedTarget(target, repairs);
  const fitted = isContinued ? { ...repaired, traits: { ...repaired.traits, prefill: true } } : repaired;
  return {
    kind: "conversation",
    request: codecs[spoken].encodeRequest({ ...request, messages }, framing, fitted),
    resumes,
    decoded: {
      body: parsed,
      request,
      cut: cutOf(request, task),
      ...(dialect === "anthropic-messages" && framing === "sse" && { inputTokens: roughTokensOf(request) }),
    },
    ...(request.warnings !== undefined && { headers: warningHeaderOf(request.warnings) }),
  };
}

const isOpenai = (dialect: ConversationDialect) => dialect === "openai-chat" || dialect === "openai-responses";

/**
 * False for an answer that must be JSON: after a beginning in a turn of its own, a constrained
 * model writes a whole document.
 */
export const mayBeContinued = ({ settings }: NeutralRequest) => settings.format === undefined;

const answeredSoFar = (text: string): Message => ({
  role: "assistant",
  parts: [{ kind: "text", text, path: "messages" }],
  path: "messages",
});

/** Upstreams reject reasoning settings for a model that does not reason. */
const withoutThinking = ({
  effort: _effort,
  thinkingTokensMax: _tokens,
  thinkingShown: _shown,
  ...settings
}: Settings): Settings => settings;

function verbatimAnswerOf(bytes: Buffer, { dialect, identity }: AnswerReading & { kind: "verbatim" }): WholeAnswer {
  const answer = codecs[dialect].verbatim.answer(bytes, identity);
  if (answer.kind !== "answer" || answer.usage !== undefined) return answer;
  return { ...answer, produced: countsOf(codecs[dialect].decodeAnswer(parsedObject(bytes) ?? {})) };
}

export function translatedAnswerOf(
  bytes: Buffer,
  from: ConversationDialect,
  to: ConversationDialect,
  context: AnswerContext,
): WholeAnswer {
  const value = parsedObject(bytes);
  return value === undefined
    ? { kind: "malformed" }
    : wholeOf(
        withCallRules(answersOf(codecs[to], context.cut), context.request, to).decodeAnswer(value),
        from,
        context,
      );
}

export function wholeOf(
  events: readonly AnswerEvent[],
  from: ConversationDialect,
  context: AnswerContext,
): WholeAnswer {
  const answer = foldedOf(events);
  if (answer === undefined) return { kind: "malformed" };
  if ("error" in answer) return { kind: "error", error: answer.error };
  const { usage, finish } = answer;
  const produced = unreportedCountsOf(answer);
  const shown = produced === undefined ? answer : { ...answer, usage: roughUsageOf(context, produced) };
  return { kind: "answer", body: Buffer.from(codecs[from].encodeAnswer(shown, context)), usage, finish, produced };
}
