import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCatalogue } from "#catalogue/load.ts";
import { plainUsageOf } from "#dialects/usage.ts";
import { EventStream } from "#events/event-stream.ts";
import type { AttemptInfo, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import type { FinishedSpan } from "#tracing/span.ts";
import { childOf, continued } from "#tracing/trace-context.ts";
import { traceSubscriber } from "../../../apps/worker/observability/trace-subscriber.ts";

const catalogue = parseCatalogue(
  Buffer.from(`
groups: { default: { models: ["*"] } }
upstreams:
  vendor: { dialect: anthropic-messages, baseUrl: "https://api.vendor.example/v1" }
  cloud: { dialect: openai-chat, authentication: aws, region: here, baseUrl: "https://cloud.example/v1" }
models: [{ id: mine, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: vendor, model: a }, { upstream: cloud, model: b }] }]
`),
  "catalogue.yaml",
  {},
);

const attemptOf = (flags: "01" | "00"): AttemptInfo => ({
  generation: "gen_1",
  attempt: 2,
  queue: "chat",
  operation: "answer",
  dialect: "openai-chat",
  requestedModel: "mine",
  group: "default",
  account: undefined,
  keyId: "key_1",
  isStreamed: true,
  receivedAt: 0,
  owner: "owner",
  trace: continued(`00-${"a".repeat(32)}-${"b".repeat(16)}-${flags}`, undefined),
});

const callOf = (attempt: AttemptInfo, number: number, target: string, resumes = false): CallInfo => ({
  number,
  upstream: target.split("/", 1)[0] as string,
  targetModel: target.split("/").slice(1).join("/"),
  target,
  model: "mine",
  credential: "NAME",
  resumes,
  trace: attempt.trace && childOf(attempt.trace),
});

function playOn(attempt: AttemptInfo): FinishedSpan[] {
  const spans: FinishedSpan[] = [];
  let now = 1_000;
  const clock = { now: () => now, epoch: () => now };
  const events = new EventStream<WorkerEvents>(
    traceSubscriber(
      (span) => void spans.push(span),
      clock,
      () => catalogue,
    ),
  );
  const failure = { code: "overloaded", message: "the caller's own words" } as const;
  const calls = [
    callOf(attempt, 1, "vendor/a"),
    callOf(attempt, 2, "vendor/a"),
    callOf(attempt, 3, "cloud/b"),
    callOf(attempt, 4, "vendor/a", true),
  ];
  events.emit("taken", { attempt, queueWaitMs: 1 });
  for (const call of calls) {
    now += 10;
    events.emit("upstreamCallStarted", { attempt, call });
    now += 10;
    if (call.number === 3) events.emit("firstContent", { attempt, call, sinceCallMs: 10 });
    now += 10;
    const ended = { attempt, call, durationMs: 20, diagnosis: { status: 529, cause: "bad status" } };
    if (call.number < 4) events.emit("upstreamCallFailed", { ...ended, failure, reason: "the caller's own words" });
    else
      events.emit("upstreamCallEnded", {
        ...ended,
        diagnosis: { status: 200 },
        isComplete: true,
        usage: { ...plainUsageOf(9, 4), cachedInputTokens: 5, reasoningTokens: 3 },
        finish: "calls",
      });
  }
  events.emit("ended", {
    attempt,
    outcome: "done",
    model: "mine",
    upstream: "vendor",
    usage: undefined,
    failure: undefined,
    fault: undefined,
    diagnosis: {},
  });
  return spans;
}

test("an attempt has a span for each call, and an event for each further call", () => {
  const attempt = attemptOf("01");
  const spans = playOn(attempt);
  const last = spans.at(-1);
  assert.deepEqual(
    spans.map(({ name, kind, startedAt, endedAt, error }) => [name, kind, startedAt, endedAt, error]),
    [
      ["chat a", "client", 1_010, 1_030, "overloaded"],
      ["chat a", "client", 1_040, 1_060, "overloaded"],
      ["chat b", "client", 1_070, 1_090, "overloaded"],
      ["chat a", "client", 1_100, 1_120, undefined],
      ["attempt chat", "consumer", 1_000, 1_120, undefined],
    ],
  );
  assert.deepEqual(
    last?.events.map(({ name, at }) => [name, at]),
    [
      ["retry", 1_040],
      ["failover", 1_070],
      ["resume", 1_100],
    ],
  );
  assert.deepEqual(last?.attributes, {
    "messaging.destination.name": "chat",
    "sluice.attempt": 2,
    "sluice.outcome": "done",
  });
  assert.ok(spans.slice(0, 4).every(({ context }) => context.parentSpanId === attempt.trace?.spanId));
  assert.ok(!JSON.stringify(spans).includes("the caller's own words"));
});

test("a call has the conventions' attributes", () => {
  const [first, , third, answered] = playOn(attemptOf("01"));
  assert.deepEqual(answered?.attributes, {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "a",
    "gen_ai.request.stream": true,
    "gen_ai.response.finish_reasons": ["tool_call"],
    "gen_ai.usage.input_tokens": 9,
    "gen_ai.usage.cache_read.input_tokens": 5,
    "gen_ai.usage.output_tokens": 4,
    "gen_ai.usage.reasoning.output_tokens": 3,
    "http.response.status_code": 200,
    "server.address": "api.vendor.example",
    "sluice.credential": "NAME",
    "sluice.outcome": "complete",
    "sluice.upstream": "vendor",
  });
  assert.equal(first?.attributes["error.type"], "overloaded");
  assert.equal(first?.attributes["sluice.cause"], "bad status");
  assert.equal(third?.attributes["gen_ai.provider.name"], "aws.bedrock");
  assert.equal(third?.attributes["gen_ai.response.time_to_first_chunk"], 0.01);
  assert.deepEqual(third?.events, [{ name: "first content", at: 1_080 }]);
});

test("an attempt that is not sampled, or has no trace, has no spans", () => {
  assert.deepEqual(playOn(attemptOf("00")), []);
  assert.deepEqual(playOn({ ...attemptOf("01"), trace: undefined }), []);
});
