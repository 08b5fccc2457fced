/** The messages of Gemini's Live: https://ai.google.dev/api/live#receive-messages */
import type { UpstreamError } from "#dialects/errors.ts";
import { usageOf } from "#dialects/gemini/answer.ts";
import { objectOf } from "#dialects/json.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors.ts";
import type { Usage } from "#dialects/usage.ts";
import { readIfNaming, type SessionMessage, sumOf, type UpstreamSession } from "./upstream-session.ts";

/** The close code for a setup that is not valid: https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1 */
const invalidPayload = 1007;

export class GeminiSession implements UpstreamSession {
  /** Of the turns that are complete. */
  #complete: Usage | undefined;
  /** The last report of the turn in progress: each replaces the one before it. */
  #current: Usage | undefined;

  get usage(): Usage | undefined {
    return sumOf(this.#complete, this.#current);
  }

  read(message: Buffer): SessionMessage {
    const value = readIfNaming(message, ["usageMetadata", "turnComplete"]);
    if (value?.usageMetadata !== undefined) this.#current = reportOf(value.usageMetadata) ?? this.#current;
    if (objectOf(value?.serverContent).turnComplete === true) {
      this.#complete = this.usage;
      this.#current = undefined;
    }
    return { kind: "message", bytes: message };
  }

  /** Google's server names the reason in the close frame. */
  closedWith(code: number | undefined, reason: string): UpstreamError {
    const status = code === invalidPayload ? 400 : 502;
    return { ...upstreamErrorOf({ error: { message: reason, code: status } }), status };
  }
}

/** Undefined for a report without tokens. */
function reportOf(value: unknown): Usage | undefined {
  const usage = usageOf(value);
  return usage !== undefined && usage.inputTokens + usage.outputTokens > 0 ? usage : undefined;
}
