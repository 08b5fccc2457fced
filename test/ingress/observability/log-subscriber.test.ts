import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { plainUsageOf } from "#dialects/usage.ts";
import { EventStream } from "#events/event-stream.ts";
import type { GenerationEnded, IngressEvents, RequestEnded } from "#events/ingress-events.ts";
import { unitPricesOf } from "#ledger/prices.ts";
import { childOf } from "#tracing/trace-context.ts";
import { logSubscriber } from "../../../apps/ingress/observability/log-subscriber.ts";

const free = { inputPerMillion: 0, outputPerMillion: 0, images: [], tiers: [], serviceTiers: {} };
const ended: GenerationEnded = {
  generation: {
    generationId: "gen_1",
    requestId: "req_1",
    keyId: "key_1",
    group: "default",
    account: undefined,
    user: "the caller's own user",
    session: null,
    tags: ["secret"],
    model: "asked",
    queue: "chat",
    dialect: "gemini",
    operation: "answer",
    framing: "array",
    bodyBytes: 10,
    receivedAt: 0,
    trace: undefined,
  },
  outcome: "complete",
  status: 200,
  modelAnswered: "fallback",
  upstreamRequestId: "up_1",
  waitedMs: 1.4,
  firstTokenMs: 2.6,
  durationMs: 3.5,
  bill: {
    usage: plainUsageOf(7, 8),
    model: "fallback",
    unitPrices: unitPricesOf(free, plainUsageOf(7, 8)),
    groupPpm: 1_000_000,
    priceVersion: "v1",
    cost: 15n,
  },
  source: undefined,
  attempt: 1,
  queuedMs: 0,
  dispatchedMs: 1,
  chunks: 1,
  bytes: 10,
};

const request: RequestEnded = {
  requestId: "req_1",
  transport: "http",
  method: "GET",
  path: "/v1/models",
  status: 200,
  keyId: "key_1",
  group: "default",
  account: undefined,
  user: "the caller's own user",
  session: null,
  tags: ["secret"],
  errorCode: undefined,
  outcome: "answered",
  durationMs: 1.2,
  retries: "1",
  trace: undefined,
};

function setUp() {
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { base: null, timestamp: false, formatters: { level: (level) => ({ level }) } },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  );
  return { lines, events: new EventStream<IngressEvents>(logSubscriber(log)) };
}

test("the end of a generation is one line with its times in whole milliseconds, its usage and the model that answered", () => {
  const { lines, events } = setUp();
  events.emit("ended", { ...ended, source: { upstream: "far", target: "theirs", dialect: "gemini", calls: 2 } });
  assert.deepEqual(lines, [
    {
      level: "info",
      requestId: "req_1",
      generation: "gen_1",
      keyId: "key_1",
      group: "default",
      model: "asked",
      answeredBy: "fallback",
      queue: "chat",
      dialect: "gemini",
      operation: "answer",
      stream: true,
      outcome: "complete",
      status: 200,
      upstream: "far",
      target: "far/theirs",
      calls: 2,
      upstreamRequestId: "up_1",
      waitedMs: 1,
      firstTokenMs: 3,
      durationMs: 4,
      ...plainUsageOf(7, 8),
      msg: "generation",
    },
  ]);
});

test("a request has a line when the ingress answered it, and none when a generation, a caller that left or a WebSocket ended it", () => {
  const { lines, events } = setUp();
  for (const outcome of ["answered", "generation", "left", "upgraded"] as const)
    events.emit("requestEnded", { ...request, outcome });
  assert.deepEqual(lines, [
    {
      level: "info",
      requestId: "req_1",
      method: "GET",
      path: "/v1/models",
      status: 200,
      keyId: "key_1",
      durationMs: 1,
      retries: "1",
      msg: "request",
    },
  ]);
});

test("hot events cost nothing without a subscriber: the log does not subscribe to chunks", () => {
  assert.equal(setUp().events.has("chunk"), false);
});

test("lines have the trace's id while tracing is on", () => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const events = new EventStream<IngressEvents>(logSubscriber(log));
  const trace = childOf({ traceId: "a".repeat(32), spanId: "b".repeat(16), isSampled: false, traceState: undefined });
  events.emit("ended", { ...ended, generation: { ...ended.generation, trace } });
  events.emit("requestEnded", { ...request, trace });
  events.emit("ended", ended);
  assert.deepEqual(
    lines.map(({ traceId }) => traceId),
    [trace.traceId, trace.traceId, undefined],
  );
});

test("the operator sees which upstream reported more than its model can use", () => {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line: string) => lines.push(JSON.parse(line)) });
  const events = new EventStream<IngressEvents>(logSubscriber(log));
  const bill = { ...ended.bill, usage: { ...plainUsageOf(7, 8), isCapped: true } } as GenerationEnded["bill"];
  const source = { upstream: "far", target: "theirs", dialect: "gemini", calls: 1 };
  events.emit("ended", ended);
  events.emit("ended", { ...ended, bill, source });
  const warnings = lines.filter(({ level }) => level === 40);
  assert.deepEqual(
    warnings.map(({ generation, upstream, target, model }) => [generation, upstream, target, model]),
    [["gen_1", "far", "theirs", "fallback"]],
  );
});
