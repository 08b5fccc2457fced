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
  const clock = { time: 0, now: () => clock.time, epoch: () => clock.time };
  const log = pino({ level: "debug", base: {}, timestamp: false }, { write: (line) => lines.push(JSON.parse(line)) });
  const events = new EventStream<WorkerEvents>(createAttemptLog(log, clock));
  /** A failed call after which the attempt fails. */
  const fail = (more: Partial<WorkerEvents["upstreamCallFailed"]>) => {
    events.emit("upstreamCallFailed", failedCall(more));
    const failure = { code: "upstream_failed", message: "failed" } as const;
    events.emit("ended", ended({ outcome: "failed", failure, attempt: more.attempt ?? attempt }));
    lines.pop();
  };
  return { events, lines, clock, fail };
}

const callOf = (number: number, target: string, model = "m"): WorkerEvents["upstreamCallStarted"]["call"] => ({
  number,
  upstream: "u",
  target,
  targetModel: target.split("/").slice(1).join("/"),
  model,
  credential: "KEY",
  resumes: false,
  trace: undefined,
});

function failedCall(more: Partial<WorkerEvents["upstreamCallFailed"]>): WorkerEvents["upstreamCallFailed"] {
  return {
    attempt,
    call: callOf(1, "u/theirs"),
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
  const { fail, lines } = logged();
  for (const operatorFault of ["credential", "unclear"] as const)
    fail({ failure: { code: "upstream_failed", message: "failed", operatorFault } });
  const common = {
    level: 50,
    requestId: "req_1",
    generation: "gen_1",
    attempt: 1,
    target: "u/theirs",
    credential: "KEY",
    status: 401,
    upstreamRequestId: "theirs-1",
    cause: "bad status",
    failure: "upstream_failed",
    durationMs: 5,
    next: "failure",
    msg: "an upstream refused the gateway",
  };
  assert.deepEqual(lines, [
    { ...common, operatorFault: "credential", reason: "the upstream's own words" },
    { ...common, operatorFault: "unclear" },
  ]);
});

test("a redirect is an error that names the cure, and any other failed call is for information", () => {
  const { fail, lines } = logged();
  fail({ diagnosis: { status: 308, cause: "redirect" } });
  fail({ diagnosis: { cause: "ECONNRESET" } });
  assert.deepEqual(
    lines.map(({ level }) => level),
    [50, 30],
  );
  assert.match(String(lines[0]?.msg), /base URL must be the final address/);
  assert.equal(JSON.stringify(lines).includes("own words"), false, "the upstream's words may quote the request");
});

test("the line of a failed call says what follows", () => {
  const { events, lines } = logged();
  const failAndCall = (next: ReturnType<typeof callOf>) => {
    events.emit("upstreamCallFailed", failedCall({}));
    events.emit("upstreamCallStarted", { attempt, call: next });
  };
  failAndCall(callOf(2, "u/theirs"));
  failAndCall(callOf(3, "other/theirs"));
  failAndCall(callOf(4, "other/small", "fallback"));
  events.emit("upstreamCallFailed", failedCall({ repair: { kind: "turns" } }));
  events.emit("upstreamCallStarted", { attempt, call: callOf(5, "u/theirs") });
  const failure = { code: "upstream_failed", message: "failed" } as const;
  for (const more of [{ outcome: "failed", failure }, { outcome: "cancelled" }, { outcome: "dropped" }, {}] as const) {
    events.emit("upstreamCallFailed", failedCall({}));
    events.emit("ended", ended(more));
  }
  assert.deepEqual(
    lines.filter(({ next }) => next !== undefined).map(({ next, nextTarget, repair }) => [next, nextTarget, repair]),
    [
      ["retry", undefined, undefined],
      ["next target", "other/theirs", undefined],
      ["fallback", "other/small", undefined],
      ["repair", undefined, "turns"],
      ["failure", undefined, undefined],
      ["cancelled", undefined, undefined],
      ["dropped", undefined, undefined],
      ["own answer", undefined, undefined],
    ],
  );
});

test("a call that does not fail has no line, and neither has the one after it", () => {
  const { events, lines } = logged();
  for (const number of [1, 2]) events.emit("upstreamCallStarted", { attempt, call: callOf(number, "u/theirs") });
  assert.deepEqual(lines, []);
});

test("a target has ten lines a minute, and one that counts the others", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { fail, lines, clock } = logged();
  const countOf = (target: string) => lines.filter((line) => line.target === target && line.next !== undefined).length;
  for (let index = 0; index < 25; index++) fail({ attempt: { ...attempt, generation: `gen_${index}` } });
  fail({ call: callOf(1, "u/other") });
  assert.deepEqual([countOf("u/theirs"), countOf("u/other")], [10, 1]);
  t.mock.timers.tick(60_000);
  const { level, target, omitted } = lines.at(-1) ?? {};
  assert.deepEqual([level, target, omitted], [30, "u/theirs", 15]);
  clock.time = 60_000;
  fail({});
  assert.equal(countOf("u/theirs"), 11);
  t.mock.timers.tick(120_000);
  assert.equal(lines.filter((line) => line.omitted !== undefined).length, 1);
});

test("a circuit breaker that opens or closes is a warning", () => {
  const { events, lines } = logged();
  events.emit("circuitBreakerOpened", { target: "u/theirs", openMs: 5_000.4 });
  events.emit("circuitBreakerClosed", { target: "u/theirs" });
  assert.deepEqual(lines, [
    {
      level: 40,
      target: "u/theirs",
      openMs: 5_000,
      msg: "a circuit breaker opened, because calls of its target fail",
    },
    { level: 40, target: "u/theirs", msg: "a circuit breaker closed, because a call of its target succeeded" },
  ]);
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
