/** The messages of OpenAI's Realtime: https://platform.openai.com/docs/api-reference/realtime-server-events */
import type { UpstreamError } from "#dialects/errors.ts";
import { jsonBytesOf, objectOf } from "#dialects/json.ts";
import { audioUsageOf } from "#dialects/openai-audio.ts";
import { modalitiesOf } from "#dialects/openai-parts.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors.ts";
import { plausible, tokensOf, type Usage } from "#dialects/usage.ts";
import { withMember } from "#dialects/verbatim.ts";
import { transcriptionModelPath } from "./operation.ts";
import { readIfNaming, type SessionMessage, sumOf, type UpstreamSession } from "./upstream-session.ts";

export class OpenaiSession implements UpstreamSession {
  usage: Usage | undefined;
  readonly #model: Buffer;
  #hasBegun = false;

  /** `model` is the catalogue's id. */
  constructor(model: string) {
    this.#model = jsonBytesOf(model);
  }

  read(message: Buffer): SessionMessage {
    const isFirst = !this.#hasBegun;
    this.#hasBegun = true;
    const value = readIfNaming(message, isFirst ? ["type"] : ["model", "usage"]);
    switch (value?.type) {
      case "error":
        return isFirst ? { kind: "refused", error: upstreamErrorOf(value) } : { kind: "message", bytes: message };
      case "session.created":
      case "session.updated": {
        const isTranscription = objectOf(value.session).type === "transcription";
        const path = isTranscription ? transcriptionModelPath : (["session", "model"] as const);
        return { kind: "message", bytes: withMember(message, path, this.#model) };
      }
      case "response.done":
        this.usage = sumOf(this.usage, responseUsageOf(objectOf(value.response).usage));
        return { kind: "message", bytes: withMember(message, ["response", "model"], this.#model) };
      case "response.created":
        return { kind: "message", bytes: withMember(message, ["response", "model"], this.#model) };
      case "conversation.item.input_audio_transcription.completed":
        this.usage = sumOf(this.usage, audioUsageOf(value.usage));
        return { kind: "message", bytes: message };
      default:
        return { kind: "message", bytes: message };
    }
  }

  closedWith(_code: number | undefined, reason: string): UpstreamError {
    return upstreamErrorOf({ error: { message: reason } });
  }
}

function responseUsageOf(value: unknown): Usage | undefined {
  const {
    input_tokens: input,
    output_tokens: output,
    input_token_details: details,
    output_token_details: outputDetails,
  } = objectOf(value);
  if (tokensOf(input) + tokensOf(output) === 0) return undefined;
  return plausible({
    inputTokens: tokensOf(input),
    cachedInputTokens: tokensOf(objectOf(details).cached_tokens),
    cacheWriteTokens: 0,
    outputTokens: tokensOf(output),
    reasoningTokens: 0,
    ...modalitiesOf(objectOf(details), objectOf(outputDetails)),
  });
}
