/** The worker: takes generations from its queues and calls upstreams for them. `worker --queues "chat=512,*=8"` */
import type { Logger } from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { credentialNamesOf, secretOf } from "#catalogue/environment.ts";
import { registerCatalogueMetrics } from "#catalogue/metrics.ts";
import { watchCatalogue } from "#catalogue/watch.ts";
import type { Usage } from "#dialects/usage.ts";
import { relayBounds } from "#relay/bounds.ts";
import { registerRelayMetrics } from "#relay/metrics.ts";
import type { JobWorker } from "#relay/ports.ts";
import { openJobWorker } from "#relay/redis/job-worker.ts";
import { openMailbox } from "#relay/redis/mailbox.ts";
import { announce, withdraw } from "#relay/redis/queue-slots.ts";
import { Runner } from "#relay/runner.ts";
import { serviceConfigOf } from "#service/config.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { createOperations, listen } from "#service/operations.ts";
import { connectRedis } from "#service/redis.ts";
import { checkedAtStart, type Running, runProcess } from "#service/startup.ts";
import { AttachmentBudget } from "./attachment-budget.ts";
import { createAttachmentFetcher } from "./attachment-fetcher.ts";
import { Attempt, type AttemptDeps } from "./attempt.ts";
import { createAuthorization } from "./authorization.ts";
import { CircuitBreakers } from "./circuit-breakers.ts";
import { capacitiesOf, queuesOf, workerConfigOf } from "./config.ts";
import { isProxied } from "./connections.ts";
import { Credentials } from "./credentials.ts";
import { createWorkerMetrics } from "./metrics.ts";
import { PreparationThread } from "./preparation.ts";
import { RequestAttachments } from "./request-attachments.ts";
import { Routing } from "./routing.ts";
import { Slots } from "./slots.ts";
import { Upstreams } from "./upstream.ts";

/** How often time limits are looked at: they are kept to within this. */
const watchMs = 250;
/** How often the catalogue's queues are. */
const queueCheckMs = 1_000;

async function start(log: Logger): Promise<Running> {
  const environment = process.env;
  const config = serviceConfigOf(environment);
  const { drainMs, attachmentNetworks, attachmentBytesMax } = workerConfigOf(environment);
  const givenQueues = queuesOf(process.argv.slice(2));
  const keyspace = keyspaceOf(config.namespace);
  const queues: JobWorker[] = [];
  const metrics = createWorkerMetrics(() => queues);

  const upstreams = new Upstreams(createAuthorization(environment), environment);
  const attachments = createAttachmentFetcher(attachmentNetworks, isProxied(environment));
  const attachmentBudget = new AttachmentBudget(attachmentBytesMax);
  const preparationThread = new PreparationThread();
  const warnOfCredentials = (current: Catalogue) => {
    for (const upstream of current.upstreams.values())
      for (const variable of credentialNamesOf(upstream))
        if (secretOf(variable, environment) === undefined)
          log.warn(
            { upstream: upstream.name, variable },
            "a credential of an upstream is not set; it is called without one",
          );
  };
  const catalogue = checkedAtStart(() =>
    watchCatalogue(config.catalogueFile, environment, {
      onChange: (changed) => {
        log.info({ version: changed.version }, "catalogue changed");
        upstreams.retain(changed.upstreams);
        warnOfCredentials(changed);
      },
      onFault: (fault) =>
        fault === undefined
          ? log.info("catalogue good again")
          : log.error({ fault }, "catalogue refused; the last good one stays"),
    }),
  );
  warnOfCredentials(catalogue.current());
  const redis = await connectRedis(config.redisUrl, "request");
  const circuitBreakers = new CircuitBreakers(redis, keyspace.circuitBreakers);
  const slots = new Slots(redis, keyspace.slots);
  const credentials = new Credentials();
  const now = () => performance.now();
  const onRedisError = (error: Error) => log.debug({ err: error }, "redis");
  redis.on("error", onRedisError);

  const mailbox = await openMailbox(config.redisUrl, keyspace, "worker", {
    heard: (sender) => runner.heard(sender, now()),
    receive: (sender, frame) => runner.receive(sender, frame, now()),
    resubscribed: () => runner.tick(now()),
  });

  const runner: Runner<Attempt> = new Runner<Attempt>(
    mailbox.self,
    relayBounds,
    {
      send: mailbox.send,
      heartbeat: mailbox.heartbeat,
      run: (attempt, run) => void attempt.begin(run),
      abort: (attempt) => attempt.abort(),
      flow: (attempt, open) => attempt.flow(open),
      dispatched: (attempt) => attempt.slot.dispatched(),
      settle: (attempt, outcome) => {
        attempt.settled = outcome;
        const { model } = attempt;
        const usage = attempt.usage ?? (outcome === "cancelled" ? attempt.producedUsage : undefined);
        if (usage === undefined || attempt.failure !== undefined) return;
        for (const [kind, count] of tokensOf(usage)) if (count > 0) metrics.tokens.inc({ model, kind }, count);
      },
      forget: (attempt) => {
        attempt.slot.release();
        const { job, model, failure, usage, upstream, settled, cause, diagnosis } = attempt;
        const outcome = settled === "done" && failure !== undefined ? "failed" : (settled ?? "dropped");
        metrics.generations.inc({ queue: attempt.slot.queue, outcome });
        const line = {
          generation: job.generation,
          attempt: job.attempt,
          model,
          upstream,
          outcome,
          usage,
          failure: failure?.code,
          upstreamAnswer: diagnosis,
        };
        if (diagnosis.malformedEvents !== undefined && upstream !== undefined)
          metrics.malformedEvents.inc({ upstream }, diagnosis.malformedEvents);
        if (cause !== undefined) log.error({ ...line, err: cause }, "generation failed by a fault of the gateway");
        else if (diagnosis.malformedEvents !== undefined) log.warn(line, "an upstream's answer had malformed events");
        else if (usage?.isCapped) log.warn(line, "an upstream reported an implausible usage, which was capped");
        else if (failure === undefined) log.debug(line, "generation over");
        else log.warn({ ...line, reason: failure.upstreamCode }, "generation failed");
      },
    },
    now(),
  );
  registerRelayMetrics(metrics.registry, mailbox, () => runner.resends);
  registerCatalogueMetrics(metrics.registry, catalogue);

  metrics.watch(circuitBreakers, credentials, attachmentBudget);
  circuitBreakers.start();
  slots.start();
  const deps: AttemptDeps = {
    catalogue: catalogue.current,
    upstreams,
    routing: new Routing(circuitBreakers, slots, credentials, upstreams),
    preparationThread,
    attachmentsFor: (keyId) => new RequestAttachments(attachments, attachmentBudget, keyId),
    metrics,
    callFailed: ({ job, diagnosis: { status, requestId, cause } }, { target, credential, failure, reason }) => {
      const { code, operatorFault } = failure;
      const line = {
        generation: job.generation,
        attempt: job.attempt,
        target,
        credential,
        status,
        upstreamRequestId: requestId,
        cause,
        failure: code,
      };
      // The words of an unclear refusal may be about the request, and so the caller's.
      if (operatorFault === "unclear") log.error({ ...line, operatorFault }, "an upstream refused the gateway");
      else if (operatorFault !== undefined)
        log.error({ ...line, operatorFault, reason }, "an upstream refused the gateway");
      else if (cause === "redirect")
        log.error(line, "an upstream answered with a redirect: its base URL must be the final address");
      else log.debug(line, "a call of an upstream failed");
    },
    readBody: (id) => redis.getBuffer(keyspace.body(id)),
    send: (run, kind, payload) => runner.send(run, kind, payload, now()),
  };
  const isReady = () => mailbox.isConnected && runner.isLinked(now());
  const openQueue = (name: string, capacity: number) =>
    openJobWorker({
      name,
      capacity,
      redisUrl: config.redisUrl,
      keyspace,
      isReady,
      onError: onRedisError,
      take(slot) {
        const attempt = new Attempt(slot, deps);
        metrics.queueWait.observe({ queue: name }, Math.max(0, Date.now() - slot.job.admittedAt) / 1_000);
        runner.take(attempt, slot.job.owner, slot.job.number, slot.job.attempt, slot.freeSlots, now());
      },
    });
  const announceSlots = ({ name, capacity: slots }: JobWorker) =>
    void announce(redis, keyspace.queueSlots(name), mailbox.self, { slots, running: 0 }).catch(onRedisError);
  let stopping = false;
  /** Begins with those queues that it is to work on and does not yet. One that left the catalogue is kept, for something may wait on it. */
  const beginQueues = async () => {
    for (const [name, capacity] of capacitiesOf(givenQueues, catalogue.current().queues.keys())) {
      if (queues.some((queue) => queue.name === name)) continue;
      const queue = await openQueue(name, capacity);
      if (stopping) return queue.close();
      queues.push(queue);
      queue.start();
      announceSlots(queue);
      if (catalogue.current().queues.has(name)) log.info({ queue: name, capacity }, "works on a queue");
      else log.warn({ queue: name, capacity }, "works on a queue that the catalogue does not name");
    }
  };
  const followQueues = async () => {
    await beginQueues().catch(onRedisError);
    if (!stopping) queueCheck = setTimeout(followQueues, queueCheckMs);
  };
  const operations = createOperations({
    metrics: metrics.registry,
    notReady: () => (stopping ? "stopping" : isReady() ? undefined : "no link to Redis"),
    status: () => ({
      role: "worker",
      catalogue: catalogue.current().version,
      queues: queues.map(({ name, capacity, held }) => ({ queue: name, capacity, held })),
      targets: circuitBreakers.states(now()),
      coolingCredentials: credentials.cooling(now()),
      slots: slots.held(),
    }),
  });
  const operationsUrl = await listen(operations, config.operationsHost, config.operationsPort);
  const heartbeat = setInterval(() => {
    runner.tick(now());
    if (!stopping) for (const queue of queues) announceSlots(queue);
  }, relayBounds.heartbeatMs);
  const watch = setInterval(() => {
    const at = now();
    for (const attempt of runner.tasks()) attempt.watch(at);
  }, watchMs);
  runner.tick(now());
  await beginQueues();
  let queueCheck = setTimeout(followQueues, queueCheckMs);

  return {
    urls: { operations: operationsUrl },
    async stop() {
      stopping = true;
      clearTimeout(queueCheck);
      for (const { name } of queues) withdraw(redis, keyspace.queueSlots(name), mailbox.self).catch(onRedisError);
      await Promise.all(queues.map((queue) => queue.stop()));
      await emptied(runner, drainMs);
      runner.handBack(now());
      clearInterval(heartbeat);
      clearInterval(watch);
      circuitBreakers.close();
      slots.close();
      catalogue.close();
      await mailbox.close();
      await Promise.all(queues.map((queue) => queue.close()));
      await upstreams.close();
      await attachments.close();
      await preparationThread.close();
      redis.disconnect();
      await operations.close();
    },
  };
}

const tokensOf = (usage: Usage): [kind: string, count: number][] => [
  ["input", usage.inputTokens],
  ["cached_input", usage.cachedInputTokens],
  ["cache_write", usage.cacheWriteTokens],
  ["output", usage.outputTokens],
  ["reasoning", usage.reasoningTokens],
];

/** Settles when nothing is left, or when the time is up. */
async function emptied(runner: Runner<Attempt>, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (runner.size > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
}

await runProcess("worker", start);
