/** Writes the log lines of requests and generations. */
import type { Logger } from "pino";
import type { Subscriber } from "#events/event-stream.ts";
import type { GenerationEnded, IngressEvents } from "#events/ingress-events.ts";

export function logSubscriber(log: Logger): Subscriber<IngressEvents> {
  return {
    ended(event) {
      log.info(generationLineOf(event), "generation");
      const { bill, source, generation } = event;
      if (bill?.usage.isCapped)
        log.warn(
          {
            generation: generation.generationId,
            upstream: source?.upstream,
            target: source?.target,
            model: bill.model,
          },
          "an upstream reported more than an answer of its model to this request can have used; the most that it can is charged",
        );
    },
    requestEnded({ requestId, method, path, status, keyId, durationMs, retries, outcome, trace }) {
      if (outcome !== "answered") return;
      const line = {
        requestId,
        traceId: trace?.traceId,
        method,
        path,
        status,
        keyId,
        durationMs: rounded(durationMs),
        retries,
      };
      log.info(line, "request");
    },
    socketClosed: ({ durationMs, ...event }) => log.info({ ...event, durationMs: rounded(durationMs) }, "socket"),
    fault: ({ error, requestId }) => log.error({ err: error, requestId }, "request failed by a fault of the gateway"),
  };
}

/** Members that are undefined do not appear in the line. */
function generationLineOf(event: GenerationEnded): object {
  const { generation, modelAnswered, source } = event;
  return {
    requestId: generation.requestId,
    generation: generation.generationId,
    traceId: generation.trace?.traceId,
    keyId: generation.keyId,
    group: generation.group,
    model: generation.model,
    answeredBy: modelAnswered === generation.model ? undefined : modelAnswered,
    queue: generation.queue,
    dialect: generation.dialect,
    operation: generation.operation,
    stream: generation.framing !== "whole",
    outcome: event.outcome,
    status: event.status,
    upstream: source?.upstream,
    target: source && `${source.upstream}/${source.target}`,
    calls: source?.calls,
    upstreamRequestId: event.upstreamRequestId,
    waitedMs: rounded(event.waitedMs),
    firstTokenMs: rounded(event.firstTokenMs),
    durationMs: rounded(event.durationMs),
    ...event.bill?.usage,
  };
}

const rounded = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms));
