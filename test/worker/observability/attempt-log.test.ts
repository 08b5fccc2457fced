import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { EventStream } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { createAttemptLog } from "../../../apps/worker/observability/attempt-log.ts";

const attempt: WorkerEvents["ended"]["attempt"] = {
  generation: "gen_1",
  attempt: 1,
  queue: "chat",
  operation: "answer",
  dialect: "openai-chat",
  requestedModel: "m",
  group: "default",
  account: undefined,
  keyId: "key_1",
  isStreamed: true,
  receivedAt: 0,
  owner: "ingress-1",
  trace: undefined,
};

function logged() {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: "debug", base: {}, timestamp: false }, { write: (line) => lines.push(JSON.parse(line)) });
  return { events: new EventStream<WorkerEvents>(createAttemptLog(log)), lines };
}

function failedCall(more: Partial<WorkerEvents["upstreamCallFailed"]>): WorkerEvents["upstreamCallFailed"] {
  return {
    attempt,
    call: {
      number: 1,
      upstream: "u",
      target: "u/theirs",
      model: "m",
      credential: "KEY",
      resumes: false,
      trace: undefined,
    },
    durationMs: 5,
    diagnosis: { status: 401, requestId: "theirs-1", cause: "bad status" },
    failure: { code: "upstream_failed", message: "failed" },
    reason: "the upstream's own words",
    ...more,
  };
}

const ended = (more: Partial<WorkerEvents["ended"]>): WorkerEvents["ended"] => ({
  attempt,
  outcome: "done",
  model: "m",
  upstream: "u",
  usage: undefined,
  failure: undefined,
  fault: undefined,
  diagnosis: { status: 200 },
  ...more,
});

test("a refusal of the operator's account is an error with the upstream's words, an unclear one without them", () => {
  const { events, lines } = logged();
  for (const operatorFault of ["credential", "unclear"] as const)
    events.emit(
      "upstreamCallFailed",
      failedCall({ failure: { code: "upstream_failed", message: "failed", operatorFault } }),
    );
  const common = {
    level: 50,
    generation: "gen_1",
    attempt: 1,
    target: "u/theirs",
    credential: "KEY",
    status: 401,
    upstreamRequestId: "theirs-1",
    cause: "bad status",
    failure: "upstream_failed",
    msg: "an upstream refused the gateway",
  };
  assert.deepEqual(lines, [
    { ...common, operatorFault: "credential", reason: "the upstream's own words" },
    { ...common, operatorFault: "unclear" },
  ]);
});

test("a redirect is an error that names the cure, and any other failed call is for debugging", () => {
  const { events, lines } = logged();
  events.emit("upstreamCallFailed", failedCall({ diagnosis: { status: 308, cause: "redirect" } }));
  events.emit("upstreamCallFailed", failedCall({ diagnosis: { cause: "ECONNRESET" } }));
  assert.deepEqual(
    lines.map(({ level }) => level),
    [50, 20],
  );
  assert.match(String(lines[0]?.msg), /base URL must be the final address/);
});

test("the end of an attempt is logged at a level that fits what happened", () => {
  const { events, lines } = logged();
  const failure = { code: "upstream_failed", message: "failed", upstreamCode: "theirs" } as const;
  const usage = { inputTokens: 1, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 1, reasoningTokens: 0 };
  events.emit("ended", ended({}));
  events.emit("ended", ended({ outcome: "failed", failure }));
  events.emit("ended", ended({ usage: { ...usage, isCapped: true } }));
  events.emit("ended", ended({ diagnosis: { status: 200, malformedEvents: 2 } }));
  events.emit("ended", ended({ outcome: "failed", failure, fault: new Error("ours") }));
  assert.deepEqual(
    lines.map(({ level, msg, reason }) => [level, msg, reason]),
    [
      [20, "generation over", undefined],
      [40, "generation failed", "theirs"],
      [40, "an upstream reported an implausible usage, which was capped", undefined],
      [40, "an upstream's answer had malformed events", undefined],
      [50, "generation failed by a fault of the gateway", undefined],
    ],
  );
  assert.deepEqual(lines[0], {
    level: 20,
    generation: "gen_1",
    attempt: 1,
    model: "m",
    upstream: "u",
    outcome: "done",
    upstreamAnswer: { status: 200 },
    msg: "generation over",
  });
});
