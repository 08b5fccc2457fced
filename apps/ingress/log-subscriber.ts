/** Writes the log lines of requests and generations. */
import type { Logger } from "pino";
import type { Subscriber } from "#events/event-stream.ts";
import type { GenerationEnded, IngressEvents } from "#events/ingress-events.ts";

export function logSubscriber(log: Logger): Subscriber<IngressEvents> {
  return {
    ended: (event) => log.info(generationLineOf(event), "generation"),
    requestEnded({ requestId, method, path, status, keyId, durationMs, retries, outcome }) {
      if (outcome !== "answered") return;
      log.info({ requestId, method, path, status, keyId, durationMs: rounded(durationMs), retries }, "request");
    },
    socketClosed: ({ durationMs, ...event }) => log.info({ ...event, durationMs: rounded(durationMs) }, "socket"),
    fault: ({ error, requestId }) => log.error({ err: error, requestId }, "request failed by a fault of the gateway"),
  };
}

function generationLineOf(event: GenerationEnded): object {
  const { generation, modelAnswered } = event;
  return {
    requestId: generation.requestId,
    generation: generation.generationId,
    keyId: generation.keyId,
    group: generation.group,
    model: generation.model,
    ...(modelAnswered !== generation.model && { answeredBy: modelAnswered }),
    queue: generation.queue,
    dialect: generation.dialect,
    operation: generation.operation,
    stream: generation.framing !== "whole",
    outcome: event.outcome,
    status: event.status,
    upstreamRequestId: event.upstreamRequestId,
    waitedMs: rounded(event.waitedMs),
    firstTokenMs: rounded(event.firstTokenMs),
    durationMs: rounded(event.durationMs),
    ...event.bill?.usage,
  };
}

const rounded = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms));
