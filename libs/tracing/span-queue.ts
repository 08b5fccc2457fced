/**
 * Spans on their way to the collector: bounded, in batches, one batch at a time. It drops and
 * counts the spans that the collector does not take.
 */
import type { Logger } from "pino";
import { OutageLog } from "#service/outage-log.ts";
import { batchSpansMax, lastExportMs, waitingSpansMax } from "./bounds.ts";
import type { FinishedSpan } from "./span.ts";

export interface SpanQueueOptions {
  /** Rejects if the collector did not take them; the implementation limits the time. */
  send(spans: readonly FinishedSpan[]): Promise<void>;
  /** How long a span waits at most for others of its batch, while the collector takes them. */
  exportEveryMs: number;
  log: Logger;
  /** For tests: a smaller bound. */
  waitingMax?: number;
}

export class SpanQueue {
  readonly #options: SpanQueueOptions;
  readonly #outage: OutageLog;
  #waiting: FinishedSpan[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #exported = 0;
  #dropped = 0;

  constructor(options: SpanQueueOptions) {
    this.#options = options;
    this.#outage = new OutageLog({
      log: options.log,
      level: "warn",
      failed: "spans were dropped: the collector did not take them",
      works: "the collector takes spans again",
    });
  }

  get counts(): { readonly exported: number; readonly dropped: number; readonly waiting: number } {
    return { exported: this.#exported, dropped: this.#dropped, waiting: this.#waiting.length };
  }

  add(span: FinishedSpan): void {
    if (this.#waiting.length >= (this.#options.waitingMax ?? waitingSpansMax)) {
      this.#dropped++;
      return;
    }
    this.#waiting.push(span);
    if (this.#waiting.length === batchSpansMax) this.#schedule(0);
    else if (this.#timer === undefined) this.#schedule(this.#options.exportEveryMs);
  }

  /** Sends what waits, for two seconds at most. Never rejects. */
  async close(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, lastExportMs);
    let isLate = false;
    void late.then(() => {
      isLate = true;
    });
    while ((this.#sending !== undefined || this.#waiting.length > 0) && !isLate)
      await Promise.race([late, this.#sending ?? this.#send()]);
    clearTimeout(timer);
    clearTimeout(this.#timer);
    this.#dropped += this.#waiting.length;
    this.#waiting = [];
  }

  #schedule(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#sending === undefined) void this.#send();
    }, delayMs).unref();
  }

  /** Never rejects. */
  #send(): Promise<void> {
    const batch = this.#waiting.splice(0, batchSpansMax);
    this.#sending = this.#options
      .send(batch)
      .then(
        () => {
          this.#exported += batch.length;
          this.#outage.worked();
        },
        (error: unknown) => {
          this.#dropped += batch.length;
          this.#outage.failed(error);
        },
      )
      .finally(() => {
        this.#sending = undefined;
        const { length } = this.#waiting;
        if (length > 0) this.#schedule(length >= batchSpansMax ? 0 : this.#options.exportEveryMs);
      });
    return this.#sending;
  }
}
