/**
 * Sends spans to a collector by OTLP over HTTP. Import it only when tracing is on: it loads
 * OpenTelemetry's exporter, which takes a tenth of a second. The exporter reads its other settings
 * from the process's environment (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT and so
 * on), and repeats what fails for a moment:
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
import { randomUUID } from "node:crypto";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { build } from "#service/version.ts";
import { sendMsMax } from "./bounds.ts";
import { type FinishedSpan, type SpanEvent, spanKinds } from "./span.ts";

type OtlpSpan = Parameters<OTLPTraceExporter["export"]>[0][number];
type SpanContext = ReturnType<OtlpSpan["spanContext"]>;
type Time = OtlpSpan["startTime"];

const noTime: Time = [0, 0];
const errorStatus = 2;
const noStatus = { code: 0 };
const scope = { name: "sluice", version: build };

/**
 * `headers` are sent besides those of the environment. `role` names the process: the service is
 * called `sluice-<role>` unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES name it.
 */
export function openExporter(
  role: string,
  headers: Record<string, string>,
): (spans: readonly FinishedSpan[]) => Promise<void> {
  const exporter = new OTLPTraceExporter({ headers });
  const resource = resourceFromAttributes({
    "service.name": `sluice-${role}`,
    "service.version": build,
    "service.instance.id": randomUUID(),
  }).merge(detectResources({ detectors: [envDetector] }));
  return (spans) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("the collector did not answer in time")), sendMsMax);
      exporter.export(
        spans.map((span) => otlpSpanOf(span, resource)),
        ({ code, error }) => {
          clearTimeout(timer);
          if (code === 0) resolve();
          else reject(reasonOf(error));
        },
      );
    });
}

/** Without the collector's response, which the log does not need. */
function reasonOf(error: (Error & { code?: unknown }) | undefined): Error {
  const code = error?.code;
  return Object.assign(
    new Error(error?.message || "the collector refused them"),
    code !== undefined && { code: String(code) },
  );
}

const none: never[] = [];

/** Without spreads and copies, because this is a large part of what tracing costs. */
function otlpSpanOf(span: FinishedSpan, resource: OtlpSpan["resource"]): OtlpSpan {
  const { context, events, error } = span;
  const { traceId, parentSpanId, link } = context;
  const own: SpanContext = { traceId, spanId: context.spanId, traceFlags: 1 };
  if (context.traceState !== undefined) own.traceState = stateOf(context.traceState);
  return {
    name: span.name,
    kind: spanKinds[span.kind],
    spanContext: () => own,
    // An id of "" counts as none.
    parentSpanContext: { traceId, spanId: parentSpanId ?? "", traceFlags: 1, isRemote: context.hasRemoteParent },
    startTime: timeOf(span.startedAt),
    endTime: timeOf(span.endedAt),
    duration: noTime,
    status: error === undefined ? noStatus : { code: errorStatus, message: error },
    attributes: span.attributes,
    links: link === undefined ? none : [{ context: { ...link, traceFlags: 1 } }],
    events: events.length === 0 ? none : events.map(otlpEventOf),
    ended: true,
    resource,
    instrumentationScope: scope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

/** The exporter's part of the class TraceState. */
const stateOf = (text: string) => {
  const state = { serialize: () => text, get: () => undefined, set: () => state, unset: () => state };
  return state;
};

const otlpEventOf = ({ name, at, attributes }: SpanEvent): OtlpSpan["events"][number] =>
  attributes === undefined ? { name, time: timeOf(at) } : { name, time: timeOf(at), attributes };

const timeOf = (at: number): Time => {
  const seconds = Math.floor(at / 1_000);
  return [seconds, Math.round((at - seconds * 1_000) * 1_000_000)];
};
