/** Speech from upstreams with OpenAI's endpoint for it, as bytes or as events. */

import { speechStreamOf } from "#dialects/openai/audio.ts";
import { plainUsageOf, type Usage } from "#dialects/usage.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { type CallExchange, ownCall, refusedFor } from "../exchange.ts";
import { errorIn, requestFor } from "../openai-call.ts";
import { charactersIn } from "./characters.ts";

interface Context {
  /** The caller wants events. */
  streams: boolean;
  /** Billed if the upstream reports no usage. */
  usage: Usage;
}

export const speechExchange: CallExchange<Context> = {
  wantedOf: () => "openai-chat",
  async prepare({ body, framing, spoken, target }) {
    if (spoken !== "openai-chat") return refusedFor("speech");
    const { input } = parsedObject(body) ?? {};
    const usage: Usage = { ...plainUsageOf(charactersIn(input)), isEstimated: true };
    return ownCall<Context>(requestFor("/audio/speech", body, target.model), { streams: framing === "sse", usage });
  },
  rawOf: ({ streams, usage }) => (streams ? undefined : { kind: "bytes", usage }),
  stream: ({ usage }) => speechStreamOf(usage),
  /** Speech is never JSON: an error at most. */
  read: (_context, bytes) => errorIn(parsedObject(bytes)),
};
