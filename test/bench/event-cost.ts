/**
 * CPU time of the events of a request and of those who listen to them, in a loop in this process.
 * One request is what an ingress and a worker do together: four spans.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Registry } from "prom-client";
import { parseCatalogue } from "#catalogue/load.ts";
import { plainUsageOf } from "#dialects/usage.ts";
import { EventStream } from "#events/event-stream.ts";
import type { GenerationFacts, IngressEvents } from "#events/ingress-events.ts";
import type { AttemptInfo, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import { systemClock as clock } from "#service/clock.ts";
import { waitingSpansMax } from "#tracing/bounds.ts";
import { childOf, continued, headersOf } from "#tracing/trace-context.ts";
import type { Tracing } from "#tracing/tracing.ts";
import { metricsSubscriber } from "../../apps/ingress/observability/metrics.ts";
import { traceSubscriber as ingressSubscriber } from "../../apps/ingress/observability/trace-subscriber.ts";
import { createAttemptMetrics } from "../../apps/worker/observability/metrics.ts";
import { traceSubscriber as workerSubscriber } from "../../apps/worker/observability/trace-subscriber.ts";

const catalogue = parseCatalogue(
  Buffer.from(`
groups: { default: { models: ["*"] } }
upstreams: { vendor: { dialect: openai-chat, baseUrl: "https://api.example/v1" } }
models: [{ id: mine, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: vendor, model: theirs }] }]
`),
  "catalogue.yaml",
  {},
);
const spansOfRequest = 4;
const usage = plainUsageOf(1_000, 200);

interface Streams {
  ingress: EventStream<IngressEvents>;
  worker: EventStream<WorkerEvents>;
}

/** The streams without subscribers, with those of metrics, or with those of traces. */
function streamsWith(subscribers: "none" | "metrics" | Tracing): Streams {
  if (subscribers === "none") return { ingress: new EventStream(), worker: new EventStream() };
  if (subscribers === "metrics") {
    const [ingress, worker] = [new Registry(), new Registry()];
    return {
      ingress: new EventStream(metricsSubscriber(ingress, { queues: () => [], modelLabelOf: (model) => model })),
      worker: new EventStream(
        createAttemptMetrics(worker, {
          queues: () => [],
          upstreams: () => [],
          models: () => [],
          labelOf: (model) => model,
        }),
      ),
    };
  }
  return {
    ingress: new EventStream(ingressSubscriber(subscribers.export, clock)),
    worker: new EventStream(workerSubscriber(subscribers.export, clock, () => catalogue)),
  };
}

/** A request that continues its caller's trace, from its receipt to its end. */
function play(number: number, { ingress, worker }: Streams, tracing: Tracing | undefined): void {
  const trace = tracing?.begin({ traceparent: `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01` });
  const generation: GenerationFacts = {
    generationId: `gen_${number}`,
    requestId: `req_${number}`,
    keyId: "key_0123456789abcdef01234567",
    group: "default",
    account: "acme",
    user: null,
    session: null,
    tags: [],
    model: "mine",
    queue: "chat",
    dialect: "openai-chat",
    operation: "answer",
    framing: "sse",
    bodyBytes: 4_000,
    receivedAt: clock.epoch(),
    trace,
  };
  ingress.emit("received", { generation });
  ingress.emit("queued", { generation });
  ingress.emit("dispatched", { generation, attempt: 1 });
  const job = trace && headersOf(trace);
  const attempt: AttemptInfo = {
    generation: generation.generationId,
    attempt: 1,
    queue: "chat",
    operation: "answer",
    dialect: "openai-chat",
    requestedModel: "mine",
    group: "default",
    account: "acme",
    keyId: generation.keyId,
    isStreamed: true,
    receivedAt: generation.receivedAt,
    owner: "owner",
    trace: continued(job?.traceparent, job?.tracestate),
  };
  worker.emit("taken", { attempt, queueWaitMs: 1 });
  ingress.emit("bound", { generation, attempt: 1, waitedMs: 1 });
  const call: CallInfo = {
    number: 1,
    upstream: "vendor",
    target: "vendor/theirs",
    targetModel: "theirs",
    model: "mine",
    credential: "VENDOR_KEY",
    resumes: false,
    trace: attempt.trace && childOf(attempt.trace),
  };
  worker.emit("upstreamCallStarted", { attempt, call });
  worker.emit("firstContent", { attempt, call, sinceCallMs: 300 });
  ingress.emit("firstContent", { generation, firstTokenMs: 301 });
  const diagnosis = { status: 200, requestId: "req_of_the_vendor" };
  worker.emit("upstreamCallEnded", {
    attempt,
    call,
    durationMs: 900,
    diagnosis,
    isComplete: true,
    usage,
    finish: "stop",
  });
  worker.emit("ended", {
    attempt,
    outcome: "done",
    model: "mine",
    upstream: "vendor",
    usage,
    failure: undefined,
    fault: undefined,
    diagnosis,
  });
  ingress.emit("ended", {
    generation,
    outcome: "complete",
    status: 200,
    modelAnswered: "mine",
    upstreamRequestId: diagnosis.requestId,
    waitedMs: 1,
    firstTokenMs: 301,
    durationMs: 901,
    bill: undefined,
    source: { upstream: "vendor", target: "theirs", dialect: "openai-chat", calls: 1 },
    attempt: 1,
    queuedMs: 0.1,
    dispatchedMs: 0.2,
    chunks: 200,
    bytes: 20_000,
  });
  const { requestId, keyId, group, account, user, session, tags } = generation;
  ingress.emit("requestEnded", {
    ...{ requestId, keyId, group, account, user, session, tags },
    transport: "http",
    method: "POST",
    path: "/v1/chat/completions",
    status: 200,
    errorCode: undefined,
    outcome: "generation",
    durationMs: 901,
    retries: undefined,
    trace: undefined,
  });
}

/** CPU microseconds of one request in this process, exports included. */
export async function eventCost(subscribers: "none" | "metrics" | Tracing, requests: number): Promise<number> {
  const streams = streamsWith(subscribers);
  const tracing = typeof subscribers === "object" ? subscribers : undefined;
  const handled = () => (tracing === undefined ? 0 : tracing.counts.exported + tracing.counts.dropped);
  const due = handled() + requests * spansOfRequest;
  const before = process.cpuUsage();
  for (let number = 0; number < requests; number++) {
    play(number, streams, tracing);
    while (tracing !== undefined && tracing.counts.waiting > waitingSpansMax / 2) await sleep(1);
  }
  while (tracing !== undefined && handled() < due) await sleep(5);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / requests;
}
