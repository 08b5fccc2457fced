/**
 * The position of a piece of work in a trace, and its form in headers:
 * https://www.w3.org/TR/trace-context/
 */
import { randomUUID } from "node:crypto";
import { randomHex } from "#service/random-hex.ts";
import { traceStateLengthMax } from "./bounds.ts";

/** A span by its ids, in lower-case hex. */
interface SpanReference {
  /** 32 digits. */
  readonly traceId: string;
  /** 16 digits. */
  readonly spanId: string;
}

/** A span of this gateway, whether or not it is exported. */
export interface TraceContext extends SpanReference {
  /** Its spans are exported, and those of the services that it calls should be. */
  readonly isSampled: boolean;
  /** Other vendors' data, passed on unchanged. */
  readonly traceState: string | undefined;
  /** The span that caused it; undefined at the beginning of a trace. */
  readonly parentSpanId: string | undefined;
  /** The parent is a span of another process. */
  readonly hasRemoteParent: boolean;
  /** The caller's span, where this trace does not continue the caller's. */
  readonly link: SpanReference | undefined;
}

/** The headers that carry a context to another service. */
export interface TraceHeaders {
  traceparent: string;
  tracestate?: string;
}

/** The context that another service sent. */
export type RemoteContext = Pick<TraceContext, "traceId" | "spanId" | "isSampled" | "traceState">;

const form = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Undefined without a valid `traceparent`. An invalid or overlong `tracestate` is left out. */
export function remoteContextOf(traceparent: unknown, tracestate: unknown): RemoteContext | undefined {
  if (typeof traceparent !== "string" || traceparent.length > 200) return undefined;
  const [, version, traceId, spanId, flags, more] = form.exec(traceparent) ?? [];
  if (traceId === undefined || spanId === undefined || (version === "00" && more !== undefined)) return undefined;
  const isGood =
    typeof tracestate === "string" &&
    tracestate.length > 0 &&
    tracestate.length <= traceStateLengthMax &&
    /^[\x20-\x7e]+$/.test(tracestate);
  return {
    traceId,
    spanId,
    isSampled: (Number.parseInt(flags as string, 16) & 1) === 1,
    traceState: isGood ? tracestate : undefined,
  };
}

export const headersOf = ({ traceId, spanId, isSampled, traceState }: TraceContext): TraceHeaders => ({
  traceparent: `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`,
  ...(traceState !== undefined && { tracestate: traceState }),
});

/** A span below one of another process. Undefined without a valid `traceparent`. */
export function continued(traceparent: string | undefined, tracestate: string | undefined): TraceContext | undefined {
  if (traceparent === undefined) return undefined;
  const remote = remoteContextOf(traceparent, tracestate);
  return remote && childOf(remote, true);
}

/** A span below another one. */
export const childOf = (
  { traceId, spanId, isSampled, traceState }: RemoteContext,
  hasRemoteParent = false,
): TraceContext => ({
  traceId,
  spanId: newSpanId(),
  isSampled,
  traceState,
  parentSpanId: spanId,
  hasRemoteParent,
  link: undefined,
});

/**
 * The last 14 digits are random, as samplers of other services expect:
 * https://www.w3.org/TR/trace-context-2/#random-trace-id-flag
 */
export const newTraceId = (): string => randomHex();

/** The second half of a UUID, which is never zero. */
export const newSpanId = (): string => {
  const id = randomUUID();
  return id.slice(19, 23) + id.slice(24);
};
