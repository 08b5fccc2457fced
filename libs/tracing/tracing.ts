/** Tracing of one process. Undefined where it is off; then nothing of OpenTelemetry is loaded. */
import type { Logger } from "pino";
import { Counter, Gauge, type Registry } from "prom-client";
import { readSettings } from "#service/config.ts";
import { headersInFiles, tracingSettings } from "./config.ts";
import { samplerOf } from "./sampling.ts";
import type { ExportSpan } from "./span.ts";
import { SpanQueue } from "./span-queue.ts";
import { childOf, newSpanId, newTraceId, remoteContextOf, type TraceContext } from "./trace-context.ts";

/** Begins the trace of a request, or continues its caller's. */
export type BeginTrace = (headers: Readonly<Record<string, unknown>>) => TraceContext;

export interface Tracing {
  begin: BeginTrace;
  export: ExportSpan;
  readonly counts: SpanQueue["counts"];
  /** Sends what waits, for two seconds at most. Never rejects. */
  close(): Promise<void>;
}

/**
 * `role` names the process. `environment` is the process's own: the exporter reads it as well.
 * Throws StartupFault.
 */
export async function openTracing(
  role: string,
  environment: Record<string, string | undefined>,
  log: Logger,
): Promise<Tracing | undefined> {
  const { endpoint, tracesEndpoint, disabled, ...others } = tracingSettings;
  const settings = readSettings({ endpoint, tracesEndpoint, disabled }, environment);
  if ((settings.endpoint === "" && settings.tracesEndpoint === "") || settings.disabled.toLowerCase() === "true")
    return undefined;
  // Only now, because platforms set such variables for all programs: while tracing is off they do
  // not matter.
  const { exportEveryMs, ...sampling } = readSettings(others, environment);
  const { openExporter } = await import("./otlp.ts");
  const queue = new SpanQueue({ send: openExporter(role, headersInFiles(environment)), exportEveryMs, log });
  return {
    begin: traceBeginner(sampling),
    export: (span) => queue.add(span),
    get counts() {
      return queue.counts;
    },
    close: () => queue.close(),
  };
}

type Sampling = Pick<ReturnType<typeof readSettings<typeof tracingSettings>>, "sampler" | "ratio" | "callers">;

export function traceBeginner({ sampler: name, ratio, callers }: Sampling): BeginTrace {
  const sampler = samplerOf(name, ratio);
  return ({ traceparent, tracestate }) => {
    const caller = remoteContextOf(traceparent, tracestate);
    if (caller !== undefined && callers === "continue")
      return childOf({ ...caller, isSampled: sampler(caller.traceId, caller) }, true);
    const traceId = newTraceId();
    return {
      traceId,
      spanId: newSpanId(),
      isSampled: sampler(traceId, undefined),
      traceState: undefined,
      parentSpanId: undefined,
      hasRemoteParent: false,
      link: caller,
    };
  };
}

export function registerTracingMetrics(registry: Registry, tracing: Pick<Tracing, "counts">): void {
  const counter = (name: string, help: string, read: () => number) =>
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  counter("sluice_spans_exported_total", "Spans that the collector took.", () => tracing.counts.exported);
  counter(
    "sluice_spans_dropped_total",
    "Spans that were dropped: the collector was away, slow or refused them.",
    () => tracing.counts.dropped,
  );
  new Gauge({
    name: "sluice_spans_waiting",
    help: "Spans that wait for the collector.",
    registers: [registry],
    collect() {
      this.set(tracing.counts.waiting);
    },
  });
}
