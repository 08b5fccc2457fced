import assert from "node:assert/strict";
import { test } from "node:test";
import { childOf, continued, headersOf, newSpanId, newTraceId, remoteContextOf } from "#tracing/trace-context.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";

test("a traceparent is read as the specification says", () => {
  const sampled = { traceId, spanId, isSampled: true, traceState: undefined };
  assert.deepEqual(remoteContextOf(`00-${traceId}-${spanId}-01`, undefined), sampled);
  assert.deepEqual(remoteContextOf(`00-${traceId}-${spanId}-03`, undefined), sampled);
  assert.deepEqual(remoteContextOf(`00-${traceId}-${spanId}-02`, undefined), { ...sampled, isSampled: false });
  // A later version may have more fields.
  assert.deepEqual(remoteContextOf(`cc-${traceId}-${spanId}-01-what-follows`, undefined), sampled);
  for (const wrong of [
    undefined,
    "",
    ["a", "b"],
    `00-${traceId}-${spanId}-01-more`,
    `00-${traceId}-${spanId}-1`,
    `00-${traceId}-${spanId}`,
    `ff-${traceId}-${spanId}-01`,
    `00-${"0".repeat(32)}-${spanId}-01`,
    `00-${traceId}-${"0".repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
    ` 00-${traceId}-${spanId}-01`,
    `cc-${traceId}-${spanId}-01-${"a".repeat(200)}`,
  ])
    assert.equal(remoteContextOf(wrong, undefined), undefined, String(wrong));
});

test("a tracestate is passed on unchanged, unless it is too long or not text", () => {
  const stateOf = (tracestate: unknown) => remoteContextOf(`00-${traceId}-${spanId}-01`, tracestate)?.traceState;
  assert.equal(stateOf("a=1, b=2"), "a=1, b=2");
  assert.equal(stateOf("a".repeat(512)), "a".repeat(512));
  for (const wrong of ["", "a".repeat(513), "a=ü", "a\r\nb", ["a"], undefined]) assert.equal(stateOf(wrong), undefined);
});

test("a span below another one keeps the trace, its state and the decision", () => {
  const parent = { traceId, spanId, isSampled: false, traceState: "a=1" };
  const child = childOf(parent);
  assert.match(child.spanId, /^[0-9a-f]{16}$/);
  assert.deepEqual(child, {
    ...parent,
    spanId: child.spanId,
    parentSpanId: spanId,
    hasRemoteParent: false,
    link: undefined,
  });
  assert.deepEqual(headersOf(child), { traceparent: `00-${traceId}-${child.spanId}-00`, tracestate: "a=1" });
  const { traceparent, tracestate } = headersOf({ ...child, isSampled: true, traceState: undefined });
  assert.equal(tracestate, undefined);
  const next = continued(traceparent, tracestate);
  assert.deepEqual(
    [next?.traceId, next?.parentSpanId, next?.isSampled, next?.hasRemoteParent],
    [traceId, child.spanId, true, true],
  );
  assert.equal(continued(undefined, undefined), undefined);
});

test("ids are hex, and not repeated", () => {
  const spans = new Set(Array.from({ length: 1_000 }, newSpanId));
  const traces = new Set(Array.from({ length: 1_000 }, newTraceId));
  assert.deepEqual([spans.size, traces.size], [1_000, 1_000]);
  for (const id of spans) assert.match(id, /^[0-9a-f]{16}$/);
  for (const id of traces) assert.match(id, /^[0-9a-f]{32}$/);
});
