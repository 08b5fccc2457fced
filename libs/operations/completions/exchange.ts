/**
 * Completions from upstreams of openai-chat that have OpenAI's endpoint for them, unchanged; from
 * all others as the answer to a conversation whose only turn is the prompt.
 */
import { randomUUID } from "node:crypto";
import type { Cut, Target } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { type RefusedFields, refuseFields } from "#dialects/neutral/caller-request.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { refuse } from "#dialects/neutral/field-support.ts";
import { foldedOf, type NeutralRequest } from "#dialects/neutral/neutral.ts";
import { Produced, type ProducedCounts, plainCountsOf, unreportedCountsOf } from "#dialects/neutral/produced.ts";
import { stopsOf } from "#dialects/neutral/within-bounds.ts";
import { type RequestedAnswer, requestedAnswerIn, verbatimCompletions } from "#dialects/openai-chat/verbatim.ts";
import { answersOf } from "#dialects/relay/stop-cutter.ts";
import { TranslatedStream } from "#dialects/relay/translated.ts";
import { type JsonObject, jsonBytesOf, listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { withMembers } from "#wire/json/spans.ts";
import { cutOf, isConversation, unlessRefused } from "../conversation.ts";
import { type CallExchange, ownCall, type PreparationTask, refusedFor } from "../exchange.ts";
import {
  CompletionEncoder,
  type CompletionHead,
  completionEventsOf,
  completionOf,
  completionReader,
} from "./answer.ts";
import { promptsIn } from "./prompts.ts";

type Context =
  | { kind: "own"; requested: RequestedAnswer; model: string }
  /** `spoken` is the dialect of the conversation; undefined for the upstream's own completion. */
  | {
      kind: "read";
      spoken: ConversationDialect | undefined;
      head: CompletionHead;
      streams: boolean;
      cut: Cut | undefined;
    };

export const completionExchange: CallExchange<Context> = {
  wantedOf: () => "openai-chat",
  async prepare(task) {
    const { body, framing, spoken, target, model, createdAt } = task;
    if (!isConversation(spoken)) return refusedFor("completions");
    const requested = requestedAnswerIn(body);
    const readAs = (spoken: ConversationDialect | undefined, cut: Cut | undefined): Context => {
      const id = `cmpl-${randomUUID().replaceAll("-", "")}`;
      const head = { id, model, createdAt, usageShown: requested.usageShown };
      return { kind: "read", spoken, head, streams: framing === "sse", cut };
    };
    if (isServedBy(spoken, target)) {
      const { sent, cut } = withoutSurplusStops(task);
      const request = verbatimCompletions.request(sent, framing, target);
      if (request === undefined) return refusedFor("requests without a model");
      if (cut !== undefined) return ownCall(request, readAs(undefined, cut));
      const choices = requested.choices * promptsIn(parsedObject(body)?.prompt);
      return ownCall<Context>(request, { kind: "own", requested: { ...requested, choices }, model });
    }
    const decoded = consistent(conversationOf(parsedObject(body) ?? {}));
    return {
      kind: "call",
      request: codecs[spoken].encodeRequest(decoded, framing, target),
      context: readAs(spoken, cutOf(decoded, task)),
      errors: "foreign",
      decoded,
    };
  },
  read(context, bytes) {
    if (context.kind === "own") {
      const own = verbatimCompletions.answer(bytes, context.model);
      return own.kind === "answer" && own.usage === undefined ? { ...own, produced: textCountsIn(bytes) } : own;
    }
    const value = parsedObject(bytes);
    const answer = value && foldedOf(readerOf(context).decodeAnswer(value));
    if (answer === undefined) return { kind: "malformed" };
    if ("error" in answer) return { kind: "error", error: answer.error };
    const text = (context.streams ? completionEventsOf : completionOf)(answer, context.head);
    const { usage, finish } = answer;
    return { kind: "answer", body: Buffer.from(text), usage, finish, produced: unreportedCountsOf(answer) };
  },
  stream: (context) =>
    context.kind === "own"
      ? verbatimCompletions.stream(context.requested, context.model)
      : new TranslatedStream(readerOf(context).streamDecoder(), new CompletionEncoder(context.head)),
};

const readerOf = ({ spoken, cut }: Context & { kind: "read" }) =>
  answersOf(spoken === undefined ? completionReader : codecs[spoken], cut);

/**
 * The caller's bytes without the stop sequences that the upstream refuses, and the gateway's end at
 * them, where a conversation can express the request.
 */
function withoutSurplusStops(task: PreparationTask): { sent: Buffer; cut?: Cut | undefined } {
  const { body, target, repairs = [] } = task;
  const isRefused = !target.traits.stops || repairs.some(({ kind }) => kind === "stops");
  const request =
    isRefused && body.includes('"stop"') ? unlessRefused(() => conversationOf(parsedObject(body) ?? {})) : undefined;
  const cut = request && cutOf(request, task);
  if (request === undefined || cut === undefined) return { sent: body };
  const { sent: stops } = stopsOf(request.settings, "openai-chat", target);
  return { sent: withMembers(body, "stop", () => (stops.length === 0 ? undefined : jsonBytesOf(stops))), cut };
}

function textCountsIn(bytes: Buffer): ProducedCounts {
  const produced = new Produced();
  for (const choice of listOf(parsedObject(bytes)?.choices)) produced.text(objectOf(choice).text);
  return plainCountsOf(produced);
}

const isServedBy = (spoken: ConversationDialect, { traits }: Target) => spoken === "openai-chat" && traits.completions;

/** Fields that a conversation can't express, and the values that have no effect. */
const refused: RefusedFields = [
  ["suffix", (value) => value === ""],
  ["echo", (value) => value === false],
  ["logprobs", () => false],
  ["best_of", (value) => value === 1],
];

/** A conversation whose only turn is the prompt. Throws Refusal, naming the field. */
function conversationOf({ prompt, ...settings }: JsonObject): NeutralRequest {
  refuseFields(settings, refused);
  const text = Array.isArray(prompt) && prompt.length === 1 ? prompt[0] : prompt;
  if (typeof text !== "string" || text === "")
    return refuse("prompt", "must be one text that is not empty, for the upstream of this model");
  const messages = [{ role: "user", content: text }];
  const decoded = codecs["openai-chat"].decodeRequest({ body: { ...settings, messages }, framing: "whole" });
  return { ...decoded, messages: [{ role: "user", parts: [{ kind: "text", text, path: "prompt" }], path: "prompt" }] };
}
