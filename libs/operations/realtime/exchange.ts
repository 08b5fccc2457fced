/**
 * Sessions at upstreams of the caller's own API. There is no translation between OpenAI's Realtime
 * and Gemini's Live.
 */

import { withMember } from "#dialects/relay/verbatim.ts";
import type { UsageBounds } from "#dialects/usage.ts";
import { jsonBytesOf, parsedObject } from "#wire/json/parse.ts";
import { plainDemandOf } from "../demand.ts";
import { type CallExchange, refused } from "../exchange.ts";
import { errorIn } from "../openai-call.ts";
import { usageBoundsOf } from "../usage-bounds.ts";
import { GeminiSession } from "./gemini-session.ts";
import { OpenaiSession } from "./openai-session.ts";
import { livePath, transcriptionModelPath } from "./operation.ts";

interface Context {
  api: "openai" | "gemini";
  /** The catalogue's id. */
  model: string;
  /** The bounds of each answer. */
  bounds: UsageBounds;
}

const openaiDialects = ["openai-chat", "openai-responses"];

export const realtimeExchange: CallExchange<Context> = {
  wantedOf: (dialect) => (dialect === "gemini" ? "gemini" : "openai-chat"),
  async prepare({ dialect, spoken, body, target, model }) {
    const common = { kind: "call", errors: "own" } as const;
    const bounds = usageBoundsOf(target, plainDemandOf());
    if (dialect === "gemini") {
      if (spoken !== "gemini") return refused("This model does not serve Gemini's Live API.", "setup.model");
      const setup = withMember(body, ["setup", "model"], jsonBytesOf(`models/${target.model}`));
      return {
        ...common,
        request: { path: livePath, body: setup },
        context: { api: "gemini", model, bounds },
      };
    }
    if (!openaiDialects.includes(spoken))
      return refused("This model does not serve OpenAI's Realtime API; it may serve Gemini's Live API.", "model");
    const { session, transcription } = parsedObject(body) ?? {};
    if (typeof transcription === "string") {
      const update = withMember(Buffer.from(transcription), transcriptionModelPath, jsonBytesOf(target.model));
      const request = { path: "/realtime?intent=transcription", body: update };
      return { ...common, request, context: { api: "openai", model, bounds } };
    }
    // The settings of a client secret.
    const first = session === undefined ? Buffer.alloc(0) : jsonBytesOf({ type: "session.update", session });
    const path = `/realtime?model=${encodeURIComponent(target.model)}`;
    return {
      ...common,
      request: { path, body: first },
      context: { api: "openai", model, bounds },
    };
  },
  rawOf: ({ api, model, bounds }) => ({
    kind: "session",
    session: api === "gemini" ? new GeminiSession(bounds) : new OpenaiSession(model, bounds),
  }),
  /** A session has no whole response. */
  read: () => errorIn(undefined),
};
