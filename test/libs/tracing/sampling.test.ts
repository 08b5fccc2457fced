import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { readSettings } from "#service/config.ts";
import { StartupFault } from "#service/startup.ts";
import { tracingSettings } from "#tracing/config.ts";
import { openTracing, traceBeginner } from "#tracing/tracing.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";
const headersWith = (flags: string) => ({ traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: "a=1" });

const beginnerOf = (environment: Record<string, string> = {}) =>
  traceBeginner(readSettings(tracingSettings, environment));

test("the caller decides by default, and a trace that begins here is exported", () => {
  const begin = beginnerOf();
  assert.equal(begin(headersWith("01")).isSampled, true);
  assert.equal(begin(headersWith("00")).isSampled, false);
  assert.equal(begin({}).isSampled, true);
  const { parentSpanId, traceState, hasRemoteParent, ...context } = begin(headersWith("01"));
  assert.deepEqual([context.traceId, parentSpanId, traceState, hasRemoteParent], [traceId, spanId, "a=1", true]);
  const own = begin({});
  assert.equal(own.parentSpanId, undefined);
  assert.notEqual(own.traceId, begin({}).traceId);
});

test("the sampler of OTEL_TRACES_SAMPLER decides", () => {
  const decisions = (name: string, share = "") => {
    const begin = beginnerOf({ OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: share });
    return [begin(headersWith("01")), begin(headersWith("00")), begin({})].map(({ isSampled }) => isSampled);
  };
  assert.deepEqual(decisions("always_on"), [true, true, true]);
  assert.deepEqual(decisions("always_off"), [false, false, false]);
  assert.deepEqual(decisions("traceidratio", "1"), [true, true, true]);
  assert.deepEqual(decisions("traceidratio", "0"), [false, false, false]);
  assert.deepEqual(decisions("parentbased_always_on"), [true, false, true]);
  assert.deepEqual(decisions("parentbased_always_off"), [true, false, false]);
  assert.deepEqual(decisions("parentbased_traceidratio", "0"), [true, false, false]);
});

test("a share of the traces is exported, and the same trace everywhere", () => {
  const sampler = { OTEL_TRACES_SAMPLER: "traceidratio" };
  const begin = beginnerOf({ ...sampler, OTEL_TRACES_SAMPLER_ARG: "0.25" });
  const begun = Array.from({ length: 20_000 }, () => begin({}));
  const exported = begun.filter(({ isSampled }) => isSampled);
  // Five standard deviations of a fair quarter.
  assert.ok(Math.abs(exported.length - 5_000) < 310, String(exported.length));
  const larger = beginnerOf({ ...sampler, OTEL_TRACES_SAMPLER_ARG: "0.5" });
  for (const context of exported)
    assert.equal(larger({ traceparent: `00-${context.traceId}-${context.spanId}-00` }).isSampled, true);
});

test("TRACE_CALLERS=link begins a trace with a link to the caller's", () => {
  const own = beginnerOf({ TRACE_CALLERS: "link", OTEL_TRACES_SAMPLER: "parentbased_always_off" })(headersWith("01"));
  assert.notEqual(own.traceId, traceId);
  assert.deepEqual([own.parentSpanId, own.traceState, own.isSampled], [undefined, undefined, false]);
  assert.deepEqual([own.link?.traceId, own.link?.spanId], [traceId, spanId]);
});

test("a wrong setting is named", () => {
  for (const [name, value] of Object.entries({
    OTEL_TRACES_SAMPLER: "jaeger_remote",
    OTEL_TRACES_SAMPLER_ARG: "1.5",
    OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
    OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318",
    TRACE_CALLERS: "yes",
  }))
    assert.throws(
      () => beginnerOf({ [name]: value }),
      (error) => error instanceof StartupFault && error.message.startsWith(name),
    );
});

test("settings that the gateway does not support matter only where tracing is on", async () => {
  const log = pino({ level: "silent" });
  const unsupported = { OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" };
  assert.equal(await openTracing("ingress", unsupported, log), undefined);
  await assert.rejects(
    openTracing("ingress", { ...unsupported, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4317" }, log),
    /OTEL_EXPORTER_OTLP_PROTOCOL must be http\/protobuf, not "grpc"/,
  );
});
