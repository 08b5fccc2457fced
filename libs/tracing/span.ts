/**
 * Spans as they are exported. They are made when they are over, from events, so nothing of them is
 * kept before.
 */
import type { TraceContext } from "./trace-context.ts";

/** Without content and without secrets. */
export type SpanAttributes = Record<string, string | number | boolean | string[]>;

/**
 * As in OTLP:
 * https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
 */
export const spanKinds = { internal: 0, server: 1, client: 2, consumer: 4 } as const;

export interface SpanEvent {
  readonly name: string;
  /** Epoch milliseconds, with fractions. */
  readonly at: number;
  readonly attributes?: SpanAttributes;
}

export interface FinishedSpan {
  readonly context: TraceContext;
  readonly name: string;
  readonly kind: keyof typeof spanKinds;
  /** Epoch milliseconds, with fractions. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: SpanAttributes;
  readonly events: readonly SpanEvent[];
  /** The code of the error that it ended with; undefined for none. */
  readonly error: string | undefined;
}

/** Takes spans that are over. */
export type ExportSpan = (span: FinishedSpan) => void;
