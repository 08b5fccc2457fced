/** Composes a worker from its configuration and its dependencies. A process may run several. */

import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { catalogueStatusOf } from "#catalogue/log.ts";
import { registerCatalogueMetrics } from "#catalogue/metrics.ts";
import { followStoredCatalogue } from "#catalogue/publication.ts";
import { type UpstreamTest, upstreamTestKind } from "#catalogue/upstream-test.ts";
import type { CatalogueWatch, WatchListeners } from "#catalogue/watch.ts";
import { type EventSink, EventStream, type Subscriber } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { registerUsageMetrics } from "#ledger/metrics.ts";
import { UsageStream } from "#ledger/usage-stream.ts";
import { generationsPerJobMax, type RelayBounds } from "#relay/bounds.ts";
import { registerRelayMetrics } from "#relay/metrics.ts";
import type { Runner } from "#relay/runner.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { registerProcessMetrics, stopping } from "#service/metrics.ts";
import { OpenFiles } from "#service/open-files.ts";
import { createOperations, listen } from "#service/operations.ts";
import { followControls, type OperatorControls } from "#service/operator-controls.ts";
import { startProcessReports } from "#service/process-reports.ts";
import { type Redis, withStartupTimeLimits } from "#service/redis.ts";
import type { SecretFiles } from "#service/secret-files.ts";
import { SharedClock } from "#service/shared-clock.ts";
import { type VendorBatchCall, vendorBatchKind } from "#service/vendor-batch.ts";
import { listenForCalls } from "#service/worker-calls.ts";
import { registerTracingMetrics, type Tracing } from "#tracing/tracing.ts";
import { AnswerMemory } from "./answer/answer-memory.ts";
import { AttachmentBudget } from "./attachments/attachment-budget.ts";
import { createAttachmentFetcher } from "./attachments/attachment-fetcher.ts";
import { RequestAttachments } from "./attachments/request-attachments.ts";
import { Attempt, type AttemptDeps } from "./attempt/attempt.ts";
import { cooldownAskedMsMax, drainCheckMs, intakeEveryMs, newsMax, usageCheckMs, watchMs } from "./bounds.ts";
import { followCatalogue } from "./catalogue.ts";
import { capacitiesOf, type WorkerConfig } from "./config.ts";
import { Intake } from "./intake.ts";
import { createAttemptLog } from "./observability/attempt-log.ts";
import { createAttemptMetrics, registerWorkerGauges } from "./observability/metrics.ts";
import { TargetLoad } from "./observability/target-load.ts";
import { traceSubscriber } from "./observability/trace-subscriber.ts";
import { UsageBackup } from "./observability/usage-backup.ts";
import { PreparationThread } from "./preparation/preparation.ts";
import { RequestBodies } from "./preparation/request-bodies.ts";
import { measureUsage } from "./process-usage.ts";
import { WorkerQueues } from "./queues.ts";
import type { WorkerRedis } from "./redis.ts";
import { openRelay, type WorkerRelay } from "./relay.ts";
import { Announcements } from "./routing/announcements.ts";
import { Bindings } from "./routing/bindings.ts";
import { CircuitBreakers } from "./routing/circuit-breakers.ts";
import { ContentTimes } from "./routing/content-times.ts";
import { Credentials } from "./routing/credentials.ts";
import { LearnedRepairs } from "./routing/learned-repairs.ts";
import { Routing } from "./routing/routing.ts";
import { Slots } from "./routing/slots.ts";
import { TargetMeasures } from "./routing/target-measures.ts";
import { VendorLimits } from "./routing/vendor-limits.ts";
import { StoredCredentials } from "./stored-credentials.ts";
import { isProxied } from "./upstream/connections.ts";
import type { StreamPace } from "./upstream/stream-pace.ts";
import { testUpstream } from "./upstream/upstream-test.ts";
import type { Upstreams } from "./upstream/upstreams.ts";
import { VendorBatches } from "./upstream/vendor-batches.ts";

/** The worker owns what it is given, and closes it. */
export interface WorkerDeps {
  log: Logger;
  clock: Clock;
  /** The same as those of every ingress. */
  bounds: RelayBounds;
  /** Connections of this worker alone. */
  registry: Registry;
  redis: WorkerRedis;
  upstreams: Upstreams;
  secrets: SecretFiles;
  /** Follows the catalogue until the watch is closed. */
  watchCatalogue(listeners: WatchListeners): CatalogueWatch;
  /** Subscribers to the worker's events, besides its log and its metrics. */
  subscribers?: readonly Subscriber<WorkerEvents>[];
  /** Undefined while tracing is off. */
  tracing?: Tracing | undefined;
  /** Called when an operator asks the process to drain and end. */
  requestStop?: () => void;
}

export interface Worker {
  /**
   * Listens on the operations port and takes jobs; call it once. Returns the addresses, by purpose.
   */
  start(): Promise<{ operations: string }>;
  /**
   * Takes no more jobs, waits for running attempts for `drainMs` at most, and hands the rest back
   * to their owners.
   */
  drain(): Promise<void>;
  /** Closes everything. Attempts that still run are lost, so call `drain` first. */
  close(): Promise<void>;
}

export async function createWorker(config: WorkerConfig, options: WorkerDeps): Promise<Worker> {
  const { log, bounds, registry, upstreams, secrets, tracing } = options;
  // Closes what is open, last opened first, also when a later step fails.
  await using opened = new AsyncDisposableStack();
  if (tracing !== undefined) {
    registerTracingMetrics(registry, tracing);
    opened.defer(() => tracing.close());
  }
  opened.defer(() => upstreams.close());
  const credentials = new Credentials((text) => news.announce("cooldown", text));
  opened.defer(() => secrets.close());
  const catalogue = followCatalogue(options, (credential) => credentials.replaced(credential));
  opened.defer(() => catalogue.close());
  const redis = await options.redis.connect();
  opened.defer(() => redis.disconnect());
  const onRedisError = (error: Error) => log.debug({ err: error }, "redis");
  redis.on("error", onRedisError);
  const clock = new SharedClock(options.clock);
  opened.defer(await withStartupTimeLimits(redis, () => clock.follow(redis)));
  const deps = { ...options, clock };

  const subscriber = await options.redis.connectSubscriber();
  opened.defer(() => subscriber.disconnect());
  const { keyspace } = deps.redis;
  const controls = await withStartupTimeLimits(redis, () => followControls({ redis, subscriber, keyspace }));
  opened.defer(() => controls.close());
  const storedCredentials = new StoredCredentials({
    environment: secrets.environment,
    secrets: config.credentialsSecrets,
    onCredential: (reference) => credentials.replaced(reference),
    log,
  });
  const followed = { redis, subscriber, keyspace, watch: catalogue, onCredentials: storedCredentials.apply };
  opened.defer(await withStartupTimeLimits(redis, () => followStoredCatalogue(followed)));
  const usage = openUsage(config, deps, opened, {
    redis,
    catalogue: catalogue.inForceAs,
    reach: (owner) => relay.mailbox.heartbeat(owner),
  });
  const load = new TargetLoad(clock);
  const contentTimes = new ContentTimes();
  const targetMeasures = new TargetMeasures({ redis, subscriber, keyspace, clock, catalogue: catalogue.current });
  opened.defer(() => targetMeasures.close());
  await targetMeasures.start();
  const events = new EventStream<WorkerEvents>(
    load.subscriber,
    contentTimes.subscriber,
    targetMeasures.subscriber,
    createAttemptLog(log, clock),
    createAttemptMetrics(registry, {
      queues: () => [...capacitiesOf(config.queues, catalogue.current().queues.keys()).keys()],
      upstreams: () => [...catalogue.current().upstreams.keys()],
      models: () => [...catalogue.current().models, ...catalogue.current().wildcards].map(({ id }) => id),
      labelOf: (model) => catalogue.current().labelOf(model),
    }),
    usage.subscriber,
    ...(tracing === undefined ? [] : [traceSubscriber(tracing.export, clock, catalogue.current)]),
    ...(deps.subscribers ?? []),
  );
  const announce = (text: string) => news.announce("limits", text);
  const vendorLimits = new VendorLimits({ redis, keyspace, clock, announce });
  const heard: Record<string, (text: string, ageMs: number) => void> = {
    limits: (text) => vendorLimits.hear(text),
    cooldown: (text, ageMs) => credentials.hear(text, ageMs, clock.now()),
  };
  const news = new Announcements({
    redis,
    subscriber,
    keyspace,
    clock,
    names: { stream: keyspace.routingNews, channel: keyspace.routingNewsChanged },
    entriesMax: newsMax,
    lifeMs: cooldownAskedMsMax,
    hear: (name, text, ageMs) => heard[name]?.(text, ageMs),
  });
  opened.defer(() => news.close());
  const bindings = new Bindings({ redis, subscriber, keyspace, clock });
  opened.defer(() => bindings.close());
  await withStartupTimeLimits(redis, () => Promise.all([bindings.start(), news.start()]));
  const parts = { redis, keyspace, upstreams, credentials, vendorLimits, clock, controls, events };
  const routing = openRouting(parts, opened);
  const attachments = openAttachments(config, opened);
  const preparationThread = new PreparationThread();
  opened.defer(() => preparationThread.close());
  const answerMemory = new AnswerMemory(config.answerBytesMax);
  const relay = await openRelay(() => deps.redis.openTransport(subscriber), bounds, clock, usage);
  const vendorBatches = new VendorBatches({ redis, keyspace, upstreams, catalogue: catalogue.current });
  const openFiles = new OpenFiles();
  const intake = new Intake(openFiles.left - generationsPerJobMax);
  const attemptDeps: AttemptDeps = {
    clock,
    events,
    catalogue: catalogue.current,
    upstreams,
    routing: routing.routing,
    bindings,
    learnedRepairs: new LearnedRepairs(),
    contentTimes,
    targetMeasures,
    preparationThread,
    answerMemory,
    vendorBatches,
    attachmentsFor: attachments.forKey,
    requestBodies: new RequestBodies({ redis, keyspace, clock }),
    send: (run, kind, payload) => relay.runner.send(run, kind, payload, clock.now()),
    taken: (run, seq) => relay.runner.taken(run, seq),
  };
  const queues = new WorkerQueues({
    limit: () => intake.limit,
    isBusy: () => intake.isBusy,
    capacities: config.queues,
    shareFactor: config.sharePercent / 100,
    now: () => clock.now(),
    catalogue: catalogue.current,
    openQueue: (queue) => deps.redis.queueWorkerOf(queue, subscriber),
    slotBoard: deps.redis.slotBoardOf(redis, relay.mailbox.self),
    log,
    isReady: relay.isReady,
    isPaused: (queue) => controls.of("queue", queue)?.state === "paused",
    take: (slot) => relay.take(new Attempt(slot, attemptDeps), slot),
    onRedisError,
  });
  redis.on("ready", () => queues.announceAnew());
  // The mailbox closes first: while it sends its last frames, the queues finish the jobs that were
  // handed back.
  opened.defer(async () => {
    await queues.stop();
    await relay.mailbox.close();
    await queues.close();
  });
  registerRelayMetrics(registry, relay.mailbox, () => relay.runner.resends);
  registerCatalogueMetrics(registry, catalogue);
  registerWorkerGauges(registry, {
    intake,
    queues,
    ...routing,
    attachmentBudget: attachments.budget,
    answerMemory,
    clock,
  });
  const own = {
    notReady: () => (queues.isStopping ? stopping : relay.isReady() ? undefined : "no link to Redis"),
    status: () => ({
      ...statusOf(catalogue, queues, intake, routing, load, clock),
      unreadableCredentials: storedCredentials.unreadable,
      boundSessions: bindings.size,
    }),
  };
  registerProcessMetrics(registry, { ...own, role: "worker" });
  const { requestStop: drain = () => {} } = deps;
  opened.defer(
    startProcessReports({
      ...own,
      id: relay.mailbox.self,
      role: "worker",
      redis,
      keyspace,
      drain,
      clock: options.clock,
      log,
    }),
  );
  const testDeps = { environment: secrets.environment, secrets: config.credentialsSecrets, clock };
  const run = {
    [upstreamTestKind]: (test: UpstreamTest) => testUpstream(test, testDeps),
    [vendorBatchKind]: (call: VendorBatchCall) => vendorBatches.run(call),
  };
  opened.defer(await listenForCalls({ redis, subscriber, keyspace, self: relay.mailbox.self, run }));
  const operations = createOperations({ ...own, metrics: registry });
  opened.defer(() => operations.close());
  return new RunningWorker(
    { config, bounds, clock, relay, openFiles, intake, pace: upstreams.pace, queues, operations },
    opened.move(),
  );
}

/** The records are written before the connection to Redis is closed. */
function openUsage(
  { usageDirectory }: WorkerConfig,
  { log, clock, registry, redis: { keyspace } }: WorkerDeps,
  opened: AsyncDisposableStack,
  { redis, catalogue, reach }: { redis: Redis; catalogue: CatalogueWatch["inForceAs"]; reach(owner: string): void },
): UsageBackup {
  const stream = new UsageStream({ redis, keyspace, directory: usageDirectory, log });
  registerUsageMetrics(registry, stream);
  const backup = new UsageBackup({ write: (record) => stream.write(record), catalogue, clock, reach });
  const timer = setInterval(() => backup.tick(clock.now()), usageCheckMs);
  opened.defer(async () => {
    clearInterval(timer);
    backup.close();
    await stream.close();
  });
  return backup;
}

interface RoutingParts {
  routing: Routing;
  circuitBreakers: CircuitBreakers;
  slots: Slots;
  credentials: Credentials;
  vendorLimits: VendorLimits;
}

interface RoutingBackends {
  redis: Redis;
  keyspace: Keyspace;
  upstreams: Upstreams;
  credentials: Credentials;
  vendorLimits: VendorLimits;
  clock: Clock;
  controls: OperatorControls;
  events: EventSink<WorkerEvents>;
}

function openRouting(
  { redis, keyspace, upstreams, credentials, vendorLimits, clock, controls, events }: RoutingBackends,
  opened: AsyncDisposableStack,
): RoutingParts {
  const circuitBreakers = new CircuitBreakers(redis, keyspace.circuitBreakers, clock, { controls, events });
  const slots = new Slots(redis, keyspace.slots);
  circuitBreakers.start();
  opened.defer(() => circuitBreakers.close());
  slots.start();
  opened.defer(() => slots.close());
  return {
    routing: new Routing({ circuitBreakers, slots, credentials, vendorLimits, upstreams, clock }),
    circuitBreakers,
    slots,
    credentials,
    vendorLimits,
  };
}

interface AttachmentParts {
  budget: AttachmentBudget;
  /** The attachments of one request of this key. */
  forKey(keyId: string): RequestAttachments;
}

function openAttachments(
  { attachmentNetworks, attachmentBytesMax, environment }: WorkerConfig,
  opened: AsyncDisposableStack,
): AttachmentParts {
  const fetcher = createAttachmentFetcher(attachmentNetworks, isProxied(environment));
  opened.defer(() => fetcher.close());
  const budget = new AttachmentBudget(attachmentBytesMax);
  return { budget, forKey: (keyId) => new RequestAttachments(fetcher, budget, keyId) };
}

/** The worker's part of /status. */
const statusOf = (
  catalogue: CatalogueWatch,
  queues: WorkerQueues,
  { limit, saturated }: Intake,
  { circuitBreakers, credentials, vendorLimits, slots }: RoutingParts,
  load: TargetLoad,
  clock: Clock,
) => ({
  role: "worker",
  ...catalogueStatusOf(catalogue),
  limit,
  ...(saturated !== undefined && { saturated }),
  queues: queues.opened.map((queue) => ({
    queue: queue.name,
    capacity: queues.slotsOf(queue),
    usedSlots: queue.usedSlots,
    isInReserve: queues.isInReserve(queue.name),
  })),
  targets: circuitBreakers.states(clock.now()),
  targetLoad: load.read(),
  coolingCredentials: credentials.cooling(clock.now()),
  vendorLimits: vendorLimits.scarcest(),
  slots: slots.taken(),
});

interface RunningParts {
  config: WorkerConfig;
  bounds: RelayBounds;
  clock: Clock;
  relay: WorkerRelay;
  openFiles: OpenFiles;
  intake: Intake;
  pace: StreamPace;
  queues: WorkerQueues;
  operations: ReturnType<typeof createOperations>;
}

class RunningWorker implements Worker {
  readonly #parts: RunningParts;
  readonly #opened: AsyncDisposableStack;

  constructor(parts: RunningParts, opened: AsyncDisposableStack) {
    this.#parts = parts;
    this.#opened = opened;
  }

  async start(): Promise<{ operations: string }> {
    const { config, bounds, clock, relay, openFiles, intake, pace, queues, operations } = this.#parts;
    const url = await listen(operations, config.operationsHost, config.operationsPort, "OPERATIONS_PORT");
    this.#every(bounds.heartbeatMs, () => {
      relay.runner.tick(clock.now());
      queues.announce();
    });
    const usage = measureUsage(openFiles);
    this.#every(intakeEveryMs, () => {
      intake.measured(usage(queues.usedSlots), queues.usedSlots);
      pace.intervalMs = intake.paceMs;
      queues.resume();
    });
    this.#every(watchMs, () => {
      const now = clock.now();
      for (const attempt of relay.runner.tasks()) attempt.watch(now);
    });
    relay.runner.tick(clock.now());
    await queues.start();
    return { operations: url };
  }

  async drain(): Promise<void> {
    const { config, clock, relay, queues } = this.#parts;
    await queues.stop();
    for (const attempt of relay.runner.tasks()) attempt.retire(config.drainMs);
    await emptied(relay.runner, config.drainMs, clock);
    for (const attempt of relay.runner.tasks()) attempt.stop();
    relay.runner.handBack(clock.now());
  }

  close(): Promise<void> {
    return this.#opened.disposeAsync();
  }

  #every(periodMs: number, act: () => void): void {
    const timer = setInterval(act, periodMs);
    this.#opened.defer(() => clearInterval(timer));
  }
}

/** Settles when no attempt is left, or when the time is up. */
async function emptied(runner: Runner<Attempt>, timeoutMs: number, clock: Clock): Promise<void> {
  const deadline = clock.now() + timeoutMs;
  while (runner.size > 0 && clock.now() < deadline) await new Promise((resolve) => setTimeout(resolve, drainCheckMs));
}
