/** Reads whole answers. Pure, so that a thread can read large ones. */
import type { AnswerContext, WholeAnswer } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { type EmbeddingsAsked, embeddingAnswerOf, withEmbeddingUsage } from "#dialects/embeddings.ts";
import { parsedObject } from "#dialects/json.ts";
import { type AnswerEvent, foldedOf } from "#dialects/neutral.ts";
import { geminiImageAnswerOf } from "#dialects/openai-images/gemini.ts";
import { imageAnswerOf, imageEventsOf } from "#dialects/openai-images/verbatim.ts";
import { plainUsageOf } from "#dialects/usage.ts";
import { settingsTextOf, shortened } from "./decoded-request.ts";

/** How an answer is read. `from` is the caller's dialect, `to` the upstream's. */
export type WholeTask =
  | { kind: "verbatim"; dialect: ConversationDialect; model: string }
  /** The caller's body is a text, so that numbers stay as the caller wrote them. */
  | {
      kind: "translated";
      from: ConversationDialect;
      to: ConversationDialect;
      context: Omit<AnswerContext, "body">;
      body: string;
    }
  /** `tokens` is the gateway's own estimate, if the upstream does not count. */
  | {
      kind: "embeddings";
      from: ConversationDialect;
      to: ConversationDialect;
      asked: EmbeddingsAsked;
      model: string;
      tokens: number | undefined;
    }
  /** `event` is the prefix of event names; undefined for a caller who wants no stream. */
  | { kind: "pictures"; spoken: "gemini" | "openai-images"; createdAt: number; event: string | undefined };

export const translatedTask = (
  from: ConversationDialect,
  to: ConversationDialect,
  { body, request, ...context }: AnswerContext,
): WholeTask => ({
  kind: "translated",
  from,
  to,
  context: { ...context, request: shortened(request) },
  body: settingsTextOf(body),
});

export function readWhole(task: WholeTask, bytes: Buffer): WholeAnswer {
  switch (task.kind) {
    case "verbatim":
      return codecs[task.dialect].verbatim.answer(bytes, task.model);
    case "translated":
      return translatedAnswerOf(bytes, task.from, task.to, {
        ...task.context,
        body: parsedObject(Buffer.from(task.body)) ?? {},
      });
    case "embeddings":
      return embeddingsOf(bytes, task);
    case "pictures":
      if (task.spoken === "gemini") return geminiImageAnswerOf(parsedObject(bytes) ?? {}, task.createdAt, task.event);
      return task.event === undefined ? imageAnswerOf(bytes) : imageEventsOf(bytes, task.event);
    default:
      return task satisfies never;
  }
}

export function translatedAnswerOf(
  bytes: Buffer,
  from: ConversationDialect,
  to: ConversationDialect,
  context: AnswerContext,
): WholeAnswer {
  const value = parsedObject(bytes);
  return value === undefined ? { kind: "malformed" } : wholeOf(codecs[to].decodeAnswer(value), from, context);
}

export function wholeOf(
  events: readonly AnswerEvent[],
  from: ConversationDialect,
  context: AnswerContext,
): WholeAnswer {
  const answer = foldedOf(events);
  if (answer === undefined) return { kind: "malformed" };
  if ("error" in answer) return { kind: "error", error: answer.error };
  return { kind: "answer", body: Buffer.from(codecs[from].encodeAnswer(answer, context)), usage: answer.usage };
}

/** Malformed also for an error body, which the caller of this function recognizes. */
function embeddingsOf(
  bytes: Buffer,
  { from, to, asked, model, tokens }: Extract<WholeTask, { kind: "embeddings" }>,
): WholeAnswer {
  const answer = embeddingAnswerOf(from, to, asked, model, bytes);
  if (answer === undefined) return { kind: "malformed" };
  if (tokens === undefined) return { kind: "answer", ...answer };
  return { kind: "answer", body: withEmbeddingUsage(answer.body, tokens), usage: plainUsageOf(tokens) };
}
