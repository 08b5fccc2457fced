/** The message with which the gateway announces the end of a session to its caller. */
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

/** https://platform.openai.com/docs/api-reference/realtime-server-events/error */
export const openaiErrorEventOf = (error: object) => ({
  type: "error",
  event_id: `event_${crypto.randomUUID().replaceAll("-", "")}`,
  error: { ...error, event_id: null },
});
