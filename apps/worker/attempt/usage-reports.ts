/**
 * Reports to the owner what the upstream has produced so far, because the owner bills a caller who
 * leaves before the answer is complete. Only text is reported: other operations are billed by their
 * reservation.
 */

import type { ProducedCounts } from "#dialects/neutral/produced.ts";
import { type OperationName, operations } from "#operations/operations.ts";
import { type AnswerProgress, type AnswerSource, encodePayload } from "#relay/job.ts";
import type { AnswerKind } from "#relay/owner.ts";

export type SendFrame = (kind: AnswerKind, payload: Buffer) => void;

/** The call that the answer comes from. */
export interface AnsweringCall {
  /** The catalogue's id of the model that answers. */
  readonly model: string;
  /** Undefined for a whole answer whose upstream reports its usage. */
  readonly produced: ProducedCounts | undefined;
  readonly source: AnswerSource;
}

const inputCounts = ["inputTokens", "cachedInputTokens", "cacheWriteTokens"] as const;

export class UsageReports {
  readonly #operation: OperationName;
  readonly #send: SendFrame;
  /** The last report; undefined for none. */
  #last: AnswerProgress | undefined;

  constructor(operation: OperationName, send: SendFrame) {
    this.#operation = operation;
    this.#send = send;
  }

  report({ model, produced, source }: AnsweringCall): void {
    if (operations[this.#operation].reportsProgress !== true) return;
    const { outputTokens = 0, reasoningTokens = 0, reported, unreported } = produced ?? {};
    this.#last = {
      model,
      outputTokens,
      reasoningTokens,
      ...(reported !== undefined && { reported }),
      ...(unreported !== undefined && { unreported }),
      source,
    };
    this.#send("usage", encodePayload(this.#last));
  }

  /** Reports if the upstream produced more than the owner knows. */
  reportGrowth(call: AnsweringCall): void {
    const { outputTokens = 0, unreported } = call.produced ?? {};
    const isKnown = unreported?.outputTokens === this.#last?.unreported?.outputTokens;
    if (outputTokens > (this.#last?.outputTokens ?? 0) || !isKnown) this.report(call);
  }

  /** Reports if an input count differs from the last report. */
  reportNewInput(call: AnsweringCall): void {
    const { reported, unreported } = call.produced ?? {};
    const lastReport = this.#last;
    const isNew = reported !== undefined && inputCounts.some((name) => reported[name] !== lastReport?.reported?.[name]);
    if (isNew || unreported?.inputTokens !== lastReport?.unreported?.inputTokens) this.report(call);
  }

  /** A failed call is not billed if its caller has nothing of its answer. */
  withdraw(): void {
    if (this.#last === undefined) return;
    this.#last = undefined;
    this.#send("usage", encodePayload(null));
  }

  /** A data frame tells the owner this count as well. */
  sentWithData(outputTokens: number): void {
    if (this.#last !== undefined) this.#last.outputTokens = outputTokens;
  }
}
