/**
 * Cost of tracing per request: CPU time of this process for the events, spans, batches and exports
 * of requests to a collector in another process, with and without tracing in turns. `npm run
 * bench:traces` prints the medians of the rounds. One request is what an ingress and a worker do
 * together: four spans.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { parseCatalogue } from "#catalogue/load.ts";
import { plainUsageOf } from "#dialects/usage.ts";
import { EventStream } from "#events/event-stream.ts";
import type { GenerationFacts, IngressEvents } from "#events/ingress-events.ts";
import type { AttemptInfo, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import { systemClock as clock } from "#service/clock.ts";
import { waitingSpansMax } from "#tracing/bounds.ts";
import { childOf, continued, headersOf } from "#tracing/trace-context.ts";
import { openTracing, type Tracing } from "#tracing/tracing.ts";
import { traceSubscriber as ingressSubscriber } from "../../apps/ingress/observability/trace-subscriber.ts";
import { traceSubscriber as workerSubscriber } from "../../apps/worker/observability/trace-subscriber.ts";
import { startScript } from "./processes.ts";

const rounds = Number(process.env.BENCH_ROUNDS ?? 15);
const requests = Number(process.env.BENCH_REQUESTS ?? 5_000);

const catalogue = parseCatalogue(
  Buffer.from(`
groups: { default: { models: ["*"] } }
upstreams: { vendor: { dialect: openai-chat, baseUrl: "https://api.example/v1" } }
models: [{ id: mine, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: vendor, model: theirs }] }]
`),
  "catalogue.yaml",
  {},
);
const usage = plainUsageOf(1_000, 200);

interface Streams {
  ingress: EventStream<IngressEvents>;
  worker: EventStream<WorkerEvents>;
}

const streamsWith = (tracing: Tracing | undefined): Streams => ({
  ingress: new EventStream(...(tracing === undefined ? [] : [ingressSubscriber(tracing.export, clock)])),
  worker: new EventStream(...(tracing === undefined ? [] : [workerSubscriber(tracing.export, clock, () => catalogue)])),
});

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
}

/** Spans of all rounds so far. */
let expected = 0;

/** CPU microseconds per request, exports included. */
async function roundWith(tracing: Tracing | undefined): Promise<number> {
  const streams = streamsWith(tracing);
  const before = process.cpuUsage();
  for (let number = 0; number < requests; number++) {
    play(number, streams, tracing);
    while (tracing !== undefined && tracing.counts.waiting > waitingSpansMax / 2) await sleep(1);
  }
  if (tracing !== undefined) {
    expected += requests * 4;
    while (tracing.counts.exported + tracing.counts.dropped < expected) await sleep(5);
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / requests;
}

const medianOf = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] as number;

async function measure(): Promise<void> {
  const collector = await startScript("test/bench/trace-collector.ts");
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = collector.urls.api as string;
  process.env.OTEL_BSP_SCHEDULE_DELAY = "5";
  const tracing = await openTracing("bench", process.env, pino());
  const figures: Record<"off" | "on", number[]> = { off: [], on: [] };
  for (let round = -2; round < rounds; round++)
    for (const kind of ["off", "on"] as const) {
      const cost = await roundWith(kind === "on" ? tracing : undefined);
      if (round >= 0) figures[kind].push(cost);
    }
  await tracing?.close();
  await collector.stop();
  const [off, on] = [medianOf(figures.off), medianOf(figures.on)];
  console.log(`CPU per request, medians of ${rounds} rounds of ${requests} requests with four spans each:`);
  console.log(`off ${off.toFixed(1)} µs   on ${on.toFixed(1)} µs   tracing ${(on - off).toFixed(1)} µs`);
  console.log(`spans exported ${tracing?.counts.exported}, dropped ${tracing?.counts.dropped}`);
}

await measure();
