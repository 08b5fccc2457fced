/** What OpenAI's Realtime and Gemini's Live have each for itself: where a session names its model, and how it reports an error. */
import type { ConversationDialect } from "#dialects/dialect.ts";
import { jsonBytesOf, objectSpansOf, parsedObject, readSpan, type Span } from "#dialects/json.ts";
import { profiles } from "#dialects/profiles.ts";
import { openaiErrorEventOf } from "#operations/realtime/announcement.ts";
import { livePath, realtimePath } from "#operations/realtime/operation.ts";
import { namedMessageBytesMax } from "../../bounds.ts";
import type { Grant } from "../../http/client-secrets.ts";
import { Refused } from "../../http/refused.ts";

export interface SessionApi {
  path: string;
  dialect: ConversationDialect;
  /** The body of the session's job, and its model; undefined until the caller sent the message with it. Throws Refused. */
  openedBy(query: URLSearchParams, grant: Grant | undefined): Opening | undefined;
  /** The same for the caller's first message. */
  openedWith(message: Buffer): Opening;
  /** Where a caller's message names the session's model, which is one of these. Throws Refused for a message that names another. */
  modelIn(message: Buffer, models: readonly string[]): Span | undefined;
  /** The message that reports an error, from a response's body; undefined if the reason of the close frame does. */
  errorMessageOf(body: string): Buffer | undefined;
}

export interface Opening {
  model: string;
  body: Buffer;
}

const openaiApi: SessionApi = {
  path: realtimePath,
  dialect: "openai-chat",
  openedBy(query, grant) {
    const model = query.get("model") ?? query.get("deployment") ?? grant?.model ?? "";
    if (grant !== undefined && model !== grant.model)
      throw new Refused({
        code: "invalid_request",
        message: `This client secret is for the model ${JSON.stringify(grant.model)}.`,
        param: "model",
      });
    if (model !== "") return { model, body: jsonBytesOf({ model, session: grant?.session }) };
    throw new Refused({
      code: "invalid_request",
      message: query.has("call_id")
        ? "Calls over WebRTC or SIP are not supported: open a session of its own with ?model=."
        : "The address must name a model, as in /v1/realtime?model=<model>.",
      param: "model",
    });
  },
  openedWith() {
    throw new Error("the model of this session is in its address");
  },
  modelIn(message, models) {
    if (message.length > namedMessageBytesMax || !message.includes('"model"')) return undefined;
    const { type, session } = objectSpansOf(message, ["type", "session"])?.members ?? {};
    if (type === undefined || session === undefined || readSpan(message, type) !== "session.update") return undefined;
    const inner = objectSpansOf(message.subarray(session.start, session.end), ["model"])?.members.model;
    if (inner === undefined) return undefined;
    const span = { start: session.start + inner.start, end: session.start + inner.end };
    if (models.some((model) => model === readSpan(message, span))) return span;
    throw new Refused({
      code: "invalid_request",
      message: `The model of a session cannot be changed; it is ${JSON.stringify(models[0])}.`,
      param: "session.model",
    });
  },
  errorMessageOf: (body) => jsonBytesOf(openaiErrorEventOf(parsedObject(Buffer.from(body))?.error as object)),
};

const geminiApi: SessionApi = {
  path: livePath,
  dialect: "gemini",
  openedBy: () => undefined,
  openedWith(message) {
    const setup = objectSpansOf(message, ["setup"])?.members.setup;
    const inner = setup && objectSpansOf(message.subarray(setup.start, setup.end), ["model"])?.members.model;
    const named = setup && inner && readSpan(message.subarray(setup.start, setup.end), inner);
    const model = typeof named === "string" ? named.replace(/^models\//, "") : "";
    if (model !== "") return { model, body: Buffer.from(message) };
    throw new Refused({
      code: "invalid_request",
      message: 'The first message must be a setup that names a model, as in {"setup": {"model": "models/<model>"}}.',
      param: "setup.model",
    });
  },
  modelIn: () => undefined,
  errorMessageOf: () => undefined,
};

export const realtimeApis: readonly SessionApi[] = [openaiApi, geminiApi];

/** The text of the error in a response's body. */
export const messageOf = (body: string): string => {
  const error = parsedObject(Buffer.from(body))?.error as { message?: unknown } | undefined;
  return typeof error?.message === "string" ? error.message : "";
};

/** An error as a response would report it. */
export const errorBodyOf = (api: SessionApi, failure: Refused["failure"], requestId: string): string =>
  profiles[api.dialect].errorBodyOf(failure, requestId);
