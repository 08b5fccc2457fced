/**
 * The log lines about attempts: those of failed calls, one at the end of each attempt, and one when
 * a circuit breaker opens or closes.
 */
import type { Logger } from "pino";
import type { Subscriber } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import type { Clock } from "#service/clock.ts";
import { FailedCallLog, traceFieldOf } from "./failed-call-log.ts";

export function createAttemptLog(log: Logger, clock: Clock): Subscriber<WorkerEvents> {
  const failedCalls = new FailedCallLog(log, clock);
  return {
    upstreamCallStarted({ attempt, call }) {
      if (call.number > 1) failedCalls.called(attempt, call);
    },
    upstreamCallFailed: (event) => failedCalls.failed(event),
    circuitBreakerOpened: ({ target, openMs }) =>
      log.warn({ target, openMs: Math.round(openMs) }, "a circuit breaker opened, because calls of its target fail"),
    circuitBreakerClosed: ({ target }) =>
      log.warn({ target }, "a circuit breaker closed, because a call of its target succeeded"),
    repairsLearned: ({ attempt, call, repairs }) =>
      log.warn(
        {
          generation: attempt.generation,
          ...traceFieldOf(attempt),
          target: call.target,
          repairs: repairs.flatMap((repair) => (repair.kind === "omit" ? repair.fields : repair.kind)),
        },
        "a target refused a request and took it repaired: requests of the next hour are repaired at once; `omits` of its upstream avoids the first refusal of fields",
      ),
    ended(event) {
      failedCalls.ended(event);
      logEnd(log, event);
    },
  };
}

function logEnd(
  log: Logger,
  { attempt, model, upstream, outcome, usage, failure, fault, diagnosis }: WorkerEvents["ended"],
): void {
  const isGood = fault === undefined && failure === undefined && !usage?.isCapped;
  if (isGood && diagnosis.malformedEvents === undefined && !log.isLevelEnabled("debug")) return;
  const line = {
    generation: attempt.generation,
    ...traceFieldOf(attempt),
    attempt: attempt.attempt,
    model,
    upstream,
    outcome,
    usage,
    failure: failure?.code,
    upstreamAnswer: diagnosis,
  };
  if (fault !== undefined) log.error({ ...line, err: fault }, "generation failed by a fault of the gateway");
  else if (diagnosis.malformedEvents !== undefined) log.warn(line, "an upstream's answer had malformed events");
  else if (usage?.isCapped) log.warn(line, "an upstream reported an implausible usage, which was capped");
  else if (failure === undefined) log.debug(line, "generation over");
  else log.warn({ ...line, reason: failure.upstreamCode }, "generation failed");
}

/** Only while tracing is on. */
