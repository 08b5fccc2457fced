/** The messages of sessions that the gateway itself sends to their callers. */
import type { ConversationDialect } from "#dialects/dialect.ts";
import { jsonBytesOf } from "#wire/json/parse.ts";

/**
 * Gemini's Live has a message for this (https://ai.google.dev/api/live#goaway). OpenAI's clients
 * get an `error` event, after which a session goes on.
 */
export const announcementOf = (dialect: ConversationDialect, seconds: number) =>
  jsonBytesOf(
    dialect === "gemini"
      ? { goAway: { timeLeft: `${seconds}s` } }
      : openaiErrorEventOf({
          type: "server_error",
          code: "session_ending",
          message: `This session ends in ${seconds} s, because a process of the gateway is stopping. Open a new session to go on.`,
          param: null,
        }),
  );

const randomId = (prefix: string) => `${prefix}_${crypto.randomUUID().replaceAll("-", "")}`;

/** https://platform.openai.com/docs/api-reference/realtime-server-events/error */
export const openaiErrorEventOf = (error: object) => ({
  type: "error",
  event_id: randomId("event"),
  error: { ...error, event_id: null },
});

/** https://platform.openai.com/docs/api-reference/realtime-server-events/session/created */
export const transcriptionCreated = () =>
  jsonBytesOf({
    type: "session.created",
    event_id: randomId("event"),
    session: { type: "transcription", object: "realtime.transcription_session", id: randomId("sess") },
  });

/** Whether a message is, or begins as, the one with which OpenAI's sessions begin. */
export const isCreated = (message: Buffer): boolean => message.includes('session.created"');
