/** The worker: takes generations from its lanes and calls upstreams for them. `worker --lanes "chat=512,*=8"` */
import type { Logger } from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { credentialNamesOf, secretOf } from "#catalogue/environment.ts";
import { registerCatalogueMetrics } from "#catalogue/metrics.ts";
import { watchCatalogue } from "#catalogue/watch.ts";
import { announce, withdraw } from "#relay/lane-places.ts";
import { type LaneWorker, openLaneWorker } from "#relay/lane-worker.ts";
import { relayLimits } from "#relay/limits.ts";
import { openMailbox } from "#relay/mailbox.ts";
import { registerRelayMetrics } from "#relay/metrics.ts";
import { Runner } from "#relay/runner.ts";
import { serviceConfigOf } from "#service/config.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { createOperations, listen } from "#service/operations.ts";
import { connectRedis } from "#service/redis.ts";
import { checkedAtStart, type Running, runProcess } from "#service/startup.ts";
import type { Usage } from "#wire/usage.ts";
import { createAuthorization } from "./authorization.ts";
import { Circuits } from "./circuits.ts";
import { capacitiesOf, lanesOf, workerConfigOf } from "./config.ts";
import { isProxied } from "./connections.ts";
import { Credentials } from "./credentials.ts";
import { Generation, type GenerationSurroundings } from "./generation.ts";
import { createWorkerMetrics } from "./metrics.ts";
import { PreparationThread } from "./preparation.ts";
import { createSourceFetcher } from "./remote-sources.ts";
import { RequestSources } from "./request-sources.ts";
import { Routing } from "./routing.ts";
import { Slots } from "./slots.ts";
import { SourceBudget } from "./source-budget.ts";
import { Upstreams } from "./upstream.ts";

/** How often time limits are looked at: they are kept to within this. */
const watchMs = 250;
/** How often the catalogue's lanes are. */
const laneLookMs = 1_000;

async function start(log: Logger): Promise<Running> {
  const environment = process.env;
  const config = serviceConfigOf(environment);
  const { drainMs, sourceNetworks, sourceBytesMax } = workerConfigOf(environment);
  const givenLanes = lanesOf(process.argv.slice(2));
  const keyspace = keyspaceOf(config.namespace);
  const lanes: LaneWorker[] = [];
  const metrics = createWorkerMetrics(() => lanes);

  const upstreams = new Upstreams(createAuthorization(environment), environment);
  const sources = createSourceFetcher(sourceNetworks, isProxied(environment));
  const sourceBudget = new SourceBudget(sourceBytesMax);
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
  const circuits = new Circuits(redis, keyspace.circuits);
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

  const runner: Runner<Generation> = new Runner<Generation>(
    mailbox.self,
    relayLimits,
    {
      send: mailbox.send,
      pulse: mailbox.pulse,
      run: (generation, held) => void generation.begin(held),
      abort: (generation) => generation.abort(),
      flow: (generation, open) => generation.flow(open),
      handedOver: (generation) => generation.place.handedOver(),
      settle: (generation, outcome) => {
        generation.settled = outcome;
        const { model } = generation;
        const usage = generation.usage ?? (outcome === "cancelled" ? generation.producedUsage : undefined);
        if (usage === undefined || generation.failure !== undefined) return;
        for (const [kind, count] of tokensOf(usage)) if (count > 0) metrics.tokens.inc({ model, kind }, count);
      },
      forget: (generation) => {
        generation.place.release();
        const { job, model, failure, usage, upstream, settled, cause, diagnosis } = generation;
        const outcome = settled === "done" && failure !== undefined ? "failed" : (settled ?? "dropped");
        metrics.generations.inc({ lane: generation.place.lane, outcome });
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

  metrics.watch(circuits, credentials, sourceBudget);
  circuits.start();
  slots.start();
  const around: GenerationSurroundings = {
    catalogue: catalogue.current,
    upstreams,
    routing: new Routing(circuits, slots, credentials, upstreams),
    preparationThread,
    sourcesFor: (keyId) => new RequestSources(sources, sourceBudget, keyId),
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
    readBody: (generation) => redis.getBuffer(keyspace.body(generation)),
    send: (held, kind, payload) => runner.send(held, kind, payload, now()),
  };
  const isReady = () => mailbox.isConnected && runner.isLinked(now());
  const openLane = (name: string, capacity: number) =>
    openLaneWorker({
      name,
      capacity,
      redisUrl: config.redisUrl,
      keyspace,
      isReady,
      onError: onRedisError,
      take(place) {
        const generation = new Generation(place, around);
        metrics.queueWait.observe({ lane: name }, Math.max(0, Date.now() - place.job.admittedAt) / 1_000);
        runner.take(generation, place.job.owner, place.job.number, place.job.attempt, place.room, now());
      },
    });
  const announcePlaces = ({ name, capacity: places }: LaneWorker) =>
    void announce(redis, keyspace.lanePlaces(name), mailbox.self, { places, running: 0 }).catch(onRedisError);
  let stopping = false;
  /** Begins with those lanes that it is to work on and does not yet. One that left the catalogue is kept, for something may wait on it. */
  const beginLanes = async () => {
    for (const [name, capacity] of capacitiesOf(givenLanes, catalogue.current().lanes.keys())) {
      if (lanes.some((lane) => lane.name === name)) continue;
      const lane = await openLane(name, capacity);
      if (stopping) return lane.close();
      lanes.push(lane);
      lane.start();
      announcePlaces(lane);
      if (catalogue.current().lanes.has(name)) log.info({ lane: name, capacity }, "works on a lane");
      else log.warn({ lane: name, capacity }, "works on a lane that the catalogue does not name");
    }
  };
  const followLanes = async () => {
    await beginLanes().catch(onRedisError);
    if (!stopping) laneLook = setTimeout(followLanes, laneLookMs);
  };
  const operations = createOperations({
    metrics: metrics.registry,
    notReady: () => (stopping ? "stopping" : isReady() ? undefined : "no link to Redis"),
    status: () => ({
      role: "worker",
      catalogue: catalogue.current().version,
      lanes: lanes.map(({ name, capacity, held }) => ({ lane: name, capacity, held })),
      targets: circuits.states(now()),
      coolingCredentials: credentials.cooling(now()),
      slots: slots.held(),
    }),
  });
  const operationsUrl = await listen(operations, config.operationsHost, config.operationsPort);
  const pulse = setInterval(() => {
    runner.tick(now());
    if (!stopping) for (const lane of lanes) announcePlaces(lane);
  }, relayLimits.pulseMs);
  const watch = setInterval(() => {
    const at = now();
    for (const generation of runner.tasks()) generation.watch(at);
  }, watchMs);
  runner.tick(now());
  await beginLanes();
  let laneLook = setTimeout(followLanes, laneLookMs);

  return {
    urls: { operations: operationsUrl },
    async stop() {
      stopping = true;
      clearTimeout(laneLook);
      for (const { name } of lanes) withdraw(redis, keyspace.lanePlaces(name), mailbox.self).catch(onRedisError);
      await Promise.all(lanes.map((lane) => lane.stop()));
      await emptied(runner, drainMs);
      runner.handBack(now());
      clearInterval(pulse);
      clearInterval(watch);
      circuits.close();
      slots.close();
      catalogue.close();
      await mailbox.close();
      await Promise.all(lanes.map((lane) => lane.close()));
      await upstreams.close();
      await sources.close();
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
async function emptied(runner: Runner<Generation>, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (runner.size > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
}

await runProcess("worker", start);
