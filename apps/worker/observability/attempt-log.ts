/** The log lines about attempts: one for each failed call, one at the end of each attempt. */
import type { Logger } from "pino";
import type { Subscriber } from "#events/event-stream.ts";
import type { AttemptInfo, WorkerEvents } from "#events/worker-events.ts";

export const createAttemptLog = (log: Logger): Subscriber<WorkerEvents> => ({
  upstreamCallFailed: (event) => logFailedCall(log, event),
  fieldsRefused: ({ attempt, call, fields }) =>
    log.warn(
      { generation: attempt.generation, ...traceFieldOf(attempt), target: call.target, fields },
      "a target refuses fields, which requests to it do without for an hour; `omits` of its upstream avoids the first refusal",
    ),
  ended: (event) => logEnd(log, event),
});

function logFailedCall(
  log: Logger,
  { attempt, call, diagnosis, failure, reason, repair }: WorkerEvents["upstreamCallFailed"],
): void {
  const { status, requestId, cause } = diagnosis;
  const { code, operatorFault } = failure;
  const line = {
    generation: attempt.generation,
    ...traceFieldOf(attempt),
    attempt: attempt.attempt,
    target: call.target,
    credential: call.credential,
    status,
    upstreamRequestId: requestId,
    cause,
    failure: code,
  };
  if (repair !== undefined) {
    log.info(
      { ...line, repair: repair.kind, ...(repair.kind === "omit" && { fields: repair.fields }) },
      "an upstream refused a request, which is repaired and repeated",
    );
    return;
  }
  // The message of an unclear rejection may quote the request, so it is not logged.
  if (operatorFault === "unclear") log.error({ ...line, operatorFault }, "an upstream refused the gateway");
  else if (operatorFault !== undefined)
    log.error({ ...line, operatorFault, reason }, "an upstream refused the gateway");
  else if (cause === "redirect")
    log.error(line, "an upstream answered with a redirect: its base URL must be the final address");
  else log.debug(line, "a call of an upstream failed");
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
const traceFieldOf = ({ trace }: AttemptInfo) => trace && { traceId: trace.traceId };
