/** Reads the messages of a session, each of which comes whole. */
import { failureOf } from "#dialects/errors.ts";
import type { ProducedCounts } from "#dialects/neutral/produced.ts";
import type { Usage } from "#dialects/usage.ts";
import { sumOf, type UpstreamSession } from "#operations/realtime/upstream-session.ts";
import { decodeClose, encodeMessage, type MessagePartKind } from "#relay/session-messages.ts";
import { type AnswerReader, type AnswerStep, failedWith, incomplete } from "./answer-reader.ts";

export class SessionReader implements AnswerReader {
  committed = false;
  readonly #session: UpstreamSession;

  constructor(session: UpstreamSession) {
    this.#session = session;
  }

  /** With an estimate of what the upstream has not reported. */
  get usage(): Usage | undefined {
    const { usage, unreported } = this.#session;
    return sumOf(usage, unreported);
  }

  get produced(): ProducedCounts {
    const { usage, unreported } = this.#session;
    return {
      outputTokens: (usage?.outputTokens ?? 0) + (unreported?.outputTokens ?? 0),
      reasoningTokens: usage?.reasoningTokens ?? 0,
      reported: usage,
      ...(unreported !== undefined && { unreported }),
    };
  }

  push(chunk: Buffer, kind: MessagePartKind = "text"): AnswerStep {
    if (kind === "close") return this.#closed(chunk);
    const message = this.#session.read(chunk);
    if (message.kind === "refused") return failedWith(message.error);
    this.committed = true;
    return { kind: "more", bytes: encodeMessage([{ kind, bytes: message.bytes }]) };
  }

  end(): AnswerStep {
    return this.committed ? { kind: "end", bytes: [] } : { kind: "failed", bytes: [], failure: incomplete };
  }

  /** Before its first message an upstream closes the connection to refuse the session. */
  #closed(bytes: Buffer): AnswerStep {
    if (this.committed) return { kind: "more", bytes: encodeMessage([{ kind: "close", bytes }]) };
    const { code, reason } = decodeClose(bytes);
    const error = this.#session.closedWith(code, reason);
    return { kind: "failed", bytes: [], failure: failureOf(error.status ?? 502, error), reason };
  }
}
