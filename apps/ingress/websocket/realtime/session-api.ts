/**
 * The differences of OpenAI's Realtime and Gemini's Live: where a session names its model,
 * and how it reports an error.
 */
import type { ConversationDialect } from "#dialects/dialect.ts";
import { profiles } from "#dialects/profiles.ts";
import { openaiErrorEventOf, transcriptionCreated } from "#operations/realtime/announcement.ts";
import { livePath, realtimePath, transcriptionModelPath } from "#operations/realtime/operation.ts";
import { jsonBytesOf, parsedObject } from "#wire/json/parse.ts";
import { objectSpansOf, readSpan, type Span } from "#wire/json/spans.ts";
import { namedMessageBytesMax } from "../../common/bounds.ts";
import { Refusal, type Result, refusalOf } from "../../common/refusal.ts";
import { readJson } from "../../request/body.ts";
import type { Grant } from "../../server/client-secrets.ts";

export interface SessionApi {
  path: string;
  dialect: ConversationDialect;
  /**
   * The body of the session's job, and its model; undefined until the caller sent the message with
   * it.
   */
  openedBy(query: URLSearchParams, grant: Grant | undefined): Result<Opening> | undefined;
  /** The message that a caller gets before it sends that one; OpenAI's clients may wait for it. */
  greeting?(): Buffer;
  /** Whether this message may come before the one that names the model; it then waits for it. */
  mayPrecede?(message: Buffer): boolean;
  /** The same as `openedBy` for the caller's first message. */
  openedWith(message: Buffer): Result<Opening>;
  /** Where a caller's message names the session's model. Refuses a message that names another. */
  modelIn(message: Buffer, session: SessionModel): Result<Span> | undefined;
  /**
   * The message that reports an error, from a response's body; undefined if the reason of the close
   * frame does.
   */
  errorMessageOf(body: string): Buffer | undefined;
}

export interface Opening {
  model: string;
  body: Buffer;
  /** The session's model is the one that transcribes. */
  isTranscription?: true;
}

export interface SessionModel extends Pick<Opening, "isTranscription"> {
  /** The names by which a message may name the model. */
  models: readonly string[];
}

const transcriptionModel = transcriptionModelPath.join(".");

const openaiApi: SessionApi = {
  path: realtimePath,
  dialect: "openai-chat",
  openedBy(query, grant) {
    const model = query.get("model") ?? query.get("deployment") ?? grant?.model ?? "";
    if (query.get("intent") === "transcription") {
      if (grant === undefined && model === "") return undefined;
      return refusalOf(
        `A transcription session has no model in its address: open /v1/realtime?intent=transcription with an API key, and name the model in ${transcriptionModel} of a session.update. Recordings are transcribed at POST /v1/audio/transcriptions.`,
        "model",
      );
    }
    if (grant !== undefined && model !== grant.model)
      return refusalOf(`This client secret is for the model ${JSON.stringify(grant.model)}.`, "model");
    if (model !== "") return { model, body: jsonBytesOf({ model, session: grant?.session }) };
    return refusalOf(
      query.has("call_id")
        ? "Calls over WebRTC or SIP are not supported: open a session of its own with ?model=."
        : "The address must name a model, as in /v1/realtime?model=<model>.",
      "model",
    );
  },
  /**
   * OpenAI's transcription sessions begin before they are told the model, and hear from then on:
   * https://github.com/pipecat-ai/pipecat/blob/main/src/pipecat/services/openai/stt.py
   */
  greeting: transcriptionCreated,
  mayPrecede: (message) => readAt(message, ["type"]) === "input_audio_buffer.append",
  /** A transcription session. */
  openedWith(message) {
    const type = readAt(message, ["type"]);
    const kind = readAt(message, ["session", "type"]);
    const model = readAt(message, transcriptionModelPath);
    if (type === "session.update" && kind === "transcription" && typeof model === "string" && model !== "")
      return openingOf(message, {
        ...{ model, body: jsonBytesOf({ model, transcription: message.toString() }) },
        isTranscription: true,
      });
    return refusalOf(
      `The first message of a transcription session must be a session.update with the session.type transcription and a model in ${transcriptionModel}. Recordings are transcribed at POST /v1/audio/transcriptions.`,
      transcriptionModel,
    );
  },
  /**
   * The model that transcribes a conversation's input is another one:
   * https://developers.openai.com/api/reference/resources/realtime/client-events
   */
  modelIn(message, { models, isTranscription }) {
    const isLong = message.length > namedMessageBytesMax;
    // A name may be spelled with escapes.
    if (!isLong && !message.includes('"model"') && !message.includes("\\u")) return undefined;
    const types = objectSpansOf(message, ["type"])?.all ?? [];
    if (!types.some((type) => readSpan(message, type) === "session.update")) return undefined;
    if (isLong) return refusalOf(`A session.update may have ${namedMessageBytesMax} bytes at most.`);
    const read = readJson(message);
    if (read instanceof Refusal) return read;
    const paths = [["session", "model"], ...(isTranscription ? [transcriptionModelPath] : [])];
    const spans = paths.flatMap((path) => spanAt(message, path) ?? []);
    if (spans.every((span) => models.some((model) => model === readSpan(message, span)))) return spans.at(-1);
    return refusalOf(`The model of a session cannot be changed; it is ${JSON.stringify(models[0])}.`, "session.model");
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
    if (model !== "") return openingOf(message, { model, body: Buffer.from(message) });
    return refusalOf(
      'The first message must be a setup that names a model, as in {"setup": {"model": "models/<model>"}}.',
      "setup.model",
    );
  },
  modelIn: () => undefined,
  errorMessageOf: () => undefined,
};

/** The opening by a message that the upstream reads as the gateway does. */
function openingOf(message: Buffer, opening: Opening): Result<Opening> {
  const read = readJson(message);
  return read instanceof Refusal ? read : opening;
}

/** Where a member is in an object; undefined if it is not there. */
function spanAt(json: Buffer, [name, ...others]: readonly string[]): Span | undefined {
  if (name === undefined) return undefined;
  const span = objectSpansOf(json, [name])?.members[name];
  if (span === undefined || others.length === 0) return span;
  const inner = spanAt(json.subarray(span.start, span.end), others);
  return inner && { start: span.start + inner.start, end: span.start + inner.end };
}

function readAt(json: Buffer, path: readonly string[]): unknown {
  const span = spanAt(json, path);
  return span && readSpan(json, span);
}

export const realtimeApis: readonly SessionApi[] = [openaiApi, geminiApi];

/** The text of the error in a response's body. */
export const messageOf = (body: string): string => {
  const error = parsedObject(Buffer.from(body))?.error as { message?: unknown } | undefined;
  return typeof error?.message === "string" ? error.message : "";
};

/** An error as a response would report it. */
export const errorBodyOf = (api: SessionApi, failure: Refusal["failure"], requestId: string): string =>
  profiles[api.dialect].errorBodyOf(failure, requestId);
