import assert from "node:assert/strict";
import { test } from "node:test";
import { EventStream } from "#events/event-stream.ts";
import type { GenerationEnded, GenerationFacts, IngressEvents, RequestEnded } from "#events/ingress-events.ts";
import type { FinishedSpan } from "#tracing/span.ts";
import { childOf } from "#tracing/trace-context.ts";
import { traceSubscriber } from "../../../apps/ingress/observability/trace-subscriber.ts";

const traceOf = (isSampled: boolean) =>
  childOf({ traceId: "a".repeat(32), spanId: "b".repeat(16), isSampled, traceState: undefined });

const generation: GenerationFacts = {
  generationId: "gen_1",
  requestId: "req_1",
  keyId: "key_1",
  group: "default",
  account: "acme",
  user: "the caller's own user",
  session: null,
  tags: ["the caller's own tag"],
  model: "asked",
  queue: "chat",
  dialect: "gemini",
  operation: "answer",
  framing: "sse",
  bodyBytes: 10,
  receivedAt: 5_000,
  trace: traceOf(true),
};

const ended: GenerationEnded = {
  generation,
  outcome: "complete",
  status: 200,
  modelAnswered: "fallback",
  upstreamRequestId: undefined,
  waitedMs: 60,
  firstTokenMs: 70,
  durationMs: 100,
  bill: undefined,
  source: undefined,
  attempt: 2,
  queuedMs: 10,
  dispatchedMs: 20,
  chunks: 1,
  bytes: 1,
};

function record() {
  const spans: FinishedSpan[] = [];
  const time = { now: 0 };
  const clock = { now: () => time.now, epoch: () => 5_000 + time.now };
  const events = new EventStream<IngressEvents>(traceSubscriber((span) => void spans.push(span), clock));
  return { spans, time, events };
}

test("a lost worker leads to another span of the queue, and an event of the request", () => {
  const { spans, time, events } = record();
  const at = (ms: number) => {
    time.now = ms;
  };
  at(10);
  events.emit("queued", { generation });
  at(20);
  events.emit("dispatched", { generation, attempt: 1 });
  at(30);
  events.emit("bound", { generation, attempt: 1, waitedMs: 30 });
  at(40);
  events.emit("restarted", { generation });
  at(50);
  events.emit("dispatched", { generation, attempt: 2 });
  at(60);
  events.emit("bound", { generation, attempt: 2, waitedMs: 60 });
  at(100);
  events.emit("ended", ended);
  assert.deepEqual(
    spans.map(({ name, kind, startedAt, endedAt }) => [name, kind, startedAt, endedAt]),
    [
      ["queue chat", "internal", 5_010, 5_030],
      ["queue chat", "internal", 5_040, 5_060],
      ["generate_content asked", "server", 5_000, 5_100],
    ],
  );
  assert.deepEqual(
    spans.map((span) => span.events),
    [
      [{ name: "enqueued", at: 5_020 }],
      [{ name: "enqueued", at: 5_050 }],
      [
        { name: "worker lost", at: 5_040 },
        { name: "first content", at: 5_070 },
      ],
    ],
  );
  const request = spans.at(-1);
  assert.equal(request?.context, generation.trace);
  assert.equal(request?.error, undefined);
  assert.deepEqual(request?.attributes, {
    "http.response.status_code": 200,
    "sluice.request_id": "req_1",
    "sluice.key_id": "key_1",
    "sluice.group": "default",
    "sluice.account": "acme",
    "sluice.model": "asked",
    "sluice.model_answered": "fallback",
    "sluice.dialect": "gemini",
    "sluice.outcome": "complete",
  });
  assert.ok(!JSON.stringify(spans).includes("the caller's own"));
});

test("a request that ends while it waits ends its span of the queue", () => {
  const { spans, time, events } = record();
  events.emit("queued", { generation });
  time.now = 80;
  events.emit("ended", { ...ended, outcome: "unavailable", status: 503, firstTokenMs: undefined, durationMs: 80 });
  assert.deepEqual(
    spans.map(({ name, endedAt, error }) => [name, endedAt, error]),
    [
      ["queue chat", 5_080, undefined],
      ["generate_content asked", 5_080, "unavailable"],
    ],
  );
  assert.equal(spans[0]?.attributes["sluice.outcome"], "left");
  assert.equal(spans[1]?.attributes["sluice.outcome"], "failed");
});

test("the caller's own mistakes are no errors of the server, a failure after content is one", () => {
  const { spans, events } = record();
  events.emit("ended", { ...ended, outcome: "rate_limited", status: 429 });
  events.emit("ended", { ...ended, outcome: "upstream_failed", status: 200 });
  events.emit("ended", { ...ended, outcome: "left", status: 0 });
  assert.deepEqual(
    spans.map(({ attributes, error }) => [attributes["error.type"], error]),
    [
      ["rate_limited", undefined],
      ["upstream_failed", "upstream_failed"],
      [undefined, undefined],
    ],
  );
});

test("a request that is refused has a span, others that the ingress answers have none", () => {
  const { spans, time, events } = record();
  time.now = 40;
  const request: RequestEnded = {
    requestId: "req_2",
    transport: "http",
    method: "POST",
    path: "/v1/chat/completions",
    status: 429,
    keyId: "key_1",
    group: "default",
    account: undefined,
    user: null,
    session: null,
    tags: [],
    errorCode: "rate_limited",
    outcome: "answered",
    durationMs: 15,
    retries: undefined,
    trace: traceOf(true),
  };
  events.emit("requestEnded", request);
  events.emit("requestEnded", { ...request, errorCode: undefined, trace: undefined });
  events.emit("requestEnded", { ...request, trace: traceOf(false) });
  assert.deepEqual(
    spans.map(({ name, startedAt, endedAt, error }) => [name, startedAt, endedAt, error]),
    [["POST /v1/chat/completions", 5_025, 5_040, undefined]],
  );
});

test("a request that is not sampled has no spans", () => {
  const { spans, events } = record();
  const unsampled = { ...generation, trace: traceOf(false) };
  events.emit("queued", { generation: unsampled });
  events.emit("dispatched", { generation: unsampled, attempt: 1 });
  events.emit("bound", { generation: unsampled, attempt: 1, waitedMs: 1 });
  events.emit("ended", { ...ended, generation: unsampled });
  assert.deepEqual(spans, []);
});
