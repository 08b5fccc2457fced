/**
 * Composes an ingress: serves HTTP to callers, puts their generations on queues and relays the
 * answers. It keeps no state that another ingress would need. A process may run several.
 */

import type { Server } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import type { Registry } from "prom-client";
import { UploadTickets } from "#access/upload-tickets.ts";
import { registerCatalogueMetrics } from "#catalogue/metrics.ts";
import { ContentStream, registerContentMetrics } from "#content/content-stream.ts";
import type { Failure } from "#dialects/errors.ts";
import { responsesEndpoint } from "#dialects/openai-responses/profile.ts";
import { EventStream, type Subscriber } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { registerUsageMetrics } from "#ledger/metrics.ts";
import { UsageStream } from "#ledger/usage-stream.ts";
import type { RelayBounds } from "#relay/bounds.ts";
import { registerRelayMetrics } from "#relay/metrics.ts";
import type { Clock } from "#service/clock.ts";
import type { ServiceConfig } from "#service/config.ts";
import { type GenerationCommand, listenForCommands } from "#service/generation-commands.ts";
import { leaseMs, renewEveryMsOf } from "#service/lease.ts";
import { OpenFiles } from "#service/open-files.ts";
import { listen } from "#service/operations.ts";
import { startProcessReports } from "#service/process-reports.ts";
import { randomHex } from "#service/random-hex.ts";
import { SharedClock } from "#service/shared-clock.ts";
import { registerTracingMetrics, type Tracing } from "#tracing/tracing.ts";
import { Admission } from "./admission/admission.ts";
import { RateLimiter } from "./admission/rate-limits.ts";
import { type BackendDeps, type Backends, openBackends } from "./backends.ts";
import { DetachedGenerations } from "./background/detached.ts";
import { LogFollower } from "./background/log-follower.ts";
import { ResumableStreams } from "./background/resumable.ts";
import { Runs } from "./background/runs.ts";
import {
  checkEveryMs,
  fileRequestsMax,
  firstHeartbeatMsMax,
  followersMax,
  restoreSettingsEveryMs,
  smallAnswerBytesMax,
  smallBodyBytesMax,
  sweepEveryMs,
} from "./common/bounds.ts";
import { Capacity } from "./common/capacity.ts";
import type { IngressConfig } from "./common/config.ts";
import { RedisSpace } from "./common/redis-space.ts";
import { ContentRecorder } from "./content/content-recorder.ts";
import { FileRewrites } from "./file-rewrites.ts";
import { GenerationLifecycle } from "./generation/lifecycle.ts";
import { Idempotency } from "./idempotency/idempotency.ts";
import { countLoad } from "./observability/load-counts.ts";
import { logSubscriber } from "./observability/log-subscriber.ts";
import { metricsSubscriber } from "./observability/metrics.ts";
import { traceSubscriber } from "./observability/trace-subscriber.ts";
import { usageSubscriber } from "./observability/usage-subscriber.ts";
import { createIngressOperations } from "./operations.ts";
import { type PeriodicTask, startPeriodicTasks } from "./periodic-tasks.ts";
import { BodyReader } from "./request/body-reader.ts";
import { addFileRoutes } from "./routes/files.ts";
import { addRoutes } from "./routes/generations.ts";
import { addInteractionRoutes } from "./routes/interactions.ts";
import { addOllamaRoutes } from "./routes/ollama.ts";
import { addOwnQueueRoute } from "./routes/own-queue.ts";
import { addOwnUsageRoutes } from "./routes/own-usage.ts";
import { addStoredRoutes } from "./routes/stored.ts";
import { BatchCallers } from "./server/batch-callers.ts";
import { ClientSecrets } from "./server/client-secrets.ts";
import { Connections } from "./server/connections.ts";
import { ControlLink } from "./server/control-link.ts";
import { RequestBodies } from "./server/request-bodies.ts";
import { createRequestServer } from "./server/server.ts";
import { Trials } from "./server/trials.ts";
import { UnreadAnswers } from "./server/unread.ts";
import { AttachedFiles } from "./stored/attached-files.ts";
import { BoundedStore } from "./stored/bounded-store.ts";
import { Conversations } from "./stored/conversations.ts";
import { SealedStore } from "./stored/sealed-store.ts";
import { StoredResponses } from "./stored/stored-responses.ts";
import { Storing } from "./stored/storing.ts";
import { RealtimeSockets } from "./websocket/realtime/realtime-sockets.ts";
import { realtimeApis } from "./websocket/realtime/session-api.ts";
import { ResponsesSockets } from "./websocket/responses-sockets.ts";
import { addSockets } from "./websocket/sockets.ts";

const stopping: Failure = {
  code: "unavailable",
  message: "The gateway is stopping; send the request again.",
  retryAfterSeconds: 1,
};

/** Everything that an operator sets for an ingress. */
export type IngressProcessConfig = IngressConfig &
  Pick<ServiceConfig, "redisUrl" | "namespace" | "operationsHost" | "operationsPort" | "usageDirectory">;

export interface IngressDeps extends BackendDeps {
  clock: Clock;
  bounds: RelayBounds;
  /** The registry of this ingress alone. */
  registry: Registry;
  /** Subscribers to the ingress's events, besides its log and its metrics. */
  subscribers?: readonly Subscriber<IngressEvents>[];
  /** Undefined while tracing is off. The ingress closes it. */
  tracing?: Tracing | undefined;
  /** Called when an operator asks the process to drain and end. */
  requestStop?: () => void;
}

export interface Ingress {
  /**
   * Starts to listen for callers and operators. Resolves to the addresses when the ingress is
   * ready, or after five seconds.
   */
  listen(): Promise<{ api: string; operations: string }>;
  /**
   * Stops accepting requests and lets running ones finish, within the time limits of the
   * configuration.
   */
  drain(): Promise<void>;
  /** Fails the requests that are left and releases everything. */
  close(): Promise<void>;
}

/** Opens everything but the ports. */
export async function createIngress(config: IngressProcessConfig, ownDeps: IngressDeps): Promise<Ingress> {
  await using opened = new AsyncDisposableStack();
  const backends = await openBackends(config, ownDeps, opened);
  const clock = new SharedClock(ownDeps.clock);
  opened.defer(await clock.follow(backends.redis));
  const deps = { ...ownDeps, clock };
  const path = createPath(config, deps, backends, opened);
  const { mailbox, subscriber, redis, keyspace } = backends;
  await mailbox.listen(path.generations);
  const { self } = mailbox;
  const obey = (command: GenerationCommand) => path.generations.obey(command);
  opened.defer(await listenForCommands({ redis, subscriber, keyspace, self, obey }));
  const http = createHttp(config, deps, { backends, path, opened });
  const openFiles = new OpenFiles();
  const operations = await createIngressOperations({
    registry: deps.registry,
    backends,
    generations: path.generations,
    capacities: { ...path.capacities, conversations: http.sockets.conversations },
    detached: http.detached,
    store: path.store,
    openFiles,
    draining: path.draining.signal,
    operatorPassword: config.operatorPassword,
    counts: path.counts,
    startReports: (own) => {
      const { log, requestStop: drain = () => {} } = deps;
      opened.defer(
        startProcessReports({
          ...own,
          id: self,
          role: "ingress",
          redis,
          keyspace,
          drain,
          clock: ownDeps.clock,
          log,
        }),
      );
    },
  });
  const stopTasks = startPeriodicTasks(
    deps.clock,
    periodicTasksOf(backends, path, http, { heartbeatMs: deps.bounds.heartbeatMs, openFiles }),
  );
  return handleOf(config, deps, { path, http, operations, stopTasks, resources: opened.move() });
}

type Path = ReturnType<typeof createPath>;
type Http = ReturnType<typeof createHttp>;

/**
 * The path of a generation and its dependencies: events with their subscribers, shared capacities,
 * rate limits, idempotency. `shared` has what most parts need.
 */
function createPath(
  config: IngressProcessConfig,
  { log, clock, bounds, registry, tracing, subscribers = [] }: IngressDeps,
  { keyspace, catalogue, redis, bodies, queues, mailbox, slotBoard, keys, controls }: Backends,
  opened: AsyncDisposableStack,
) {
  registerRelayMetrics(registry, mailbox);
  registerCatalogueMetrics(registry, catalogue);
  // Redis has counted in budgets what the ledger is told.
  const beforeSend = () => limits.flush();
  const usage = new UsageStream({ redis, keyspace, directory: config.usageDirectory, log, beforeSend });
  opened.defer(() => usage.close());
  registerUsageMetrics(registry, usage);
  if (tracing !== undefined) {
    registerTracingMetrics(registry, tracing);
    opened.defer(() => tracing.close());
  }
  const load = countLoad();
  const events = new EventStream<IngressEvents>(
    load.subscriber,
    logSubscriber(log),
    metricsSubscriber(registry, {
      queues: () => [...catalogue.current().queues.keys()],
      modelLabelOf: (model) => catalogue.current().labelOf(model),
    }),
    usageSubscriber((record) => usage.write(record), clock),
    ...(tracing === undefined ? [] : [traceSubscriber(tracing.export, clock)]),
    ...subscribers,
  );
  const { current } = catalogue;
  const { redisWaitMs } = config;
  const shared = { config, clock, log, events, keyspace, redis, keys, catalogue: current, redisWaitMs };
  const capacities = {
    bodies: new Capacity(config.bodiesBytesMax, { smallMax: smallBodyBytesMax }),
    answers: new Capacity(config.answersBytesMax, { smallMax: smallAnswerBytesMax }),
    generations: new Capacity(config.generationsMax),
    "limit-waits": new Capacity(config.limitWaitingMax),
    recorded: new Capacity(config.keptBytesMax),
    followers: new Capacity(followersMax),
    websockets: new Capacity(config.socketsMax),
    files: new Capacity(fileRequestsMax),
  };
  const { bodies: bodyBytes, answers: answerBytes, generations: slots, recorded } = capacities;
  const { limitWaitingKeyMax } = config;
  const limits = new RateLimiter({ ...shared, keys, limitWaiting: capacities["limit-waits"], limitWaitingKeyMax });
  opened.defer(() => limits.close());
  const space = new RedisSpace(bodies, clock);
  const contents = new ContentStream({ redis: bodies, keyspace, hasSpace: () => space.hasSpace(), log });
  opened.defer(() => contents.close());
  registerContentMetrics(registry, contents);
  const draining = new AbortController();
  const admission = new Admission({
    ...shared,
    catalogueInForceAs: catalogue.inForceAs,
    limits,
    beginTrace: tracing?.begin,
    draining: draining.signal,
  });
  const generations = new GenerationLifecycle({
    ...{ ...shared, bounds, mailbox, slotBoard, bodies, jobQueues: queues.byName, controls },
    ...{ slots, bodyBytes, answerBytes, admission, limits },
    content: new ContentRecorder({ stream: contents, recorded, clock }),
    isRevoked: (id) => keys.isRevoked(id),
    flushUsage: () => usage.flush(),
  });
  const stored = { ...shared, redis: bodies, space };
  const idempotency = new Idempotency({
    ...{ ...stored, slots, bodyBytes },
    windowMs: config.idempotencyWindowMs,
    keyBytesMax: config.idempotencyKeyBytesMax,
    bytesMax: config.idempotencyBytesMax,
  });
  const store = new BoundedStore({
    ...stored,
    lifeMs: config.storedMs,
    keyBytesMax: config.storedKeyBytesMax,
    bytesMax: config.storedBytesMax,
  });
  return { shared, draining, counts: load.counts, capacities, limits, admission, generations, idempotency, store };
}

/** The callers' server with its routes, for HTTP and for WebSockets. */
function createHttp(
  config: IngressProcessConfig,
  { tracing }: IngressDeps,
  { backends, path, opened }: { backends: Backends; path: Path; opened: AsyncDisposableStack },
) {
  const { shared, draining, capacities, admission, generations, idempotency } = path;
  const { clock, events } = shared;
  const { recorded, websockets } = capacities;
  const clientSecrets = new ClientSecrets(backends.bodies, backends.keyspace);
  /** Random, because a counter could be guessed and would reveal the number of requests. */
  const nextId = () => `req_${randomHex()}`;
  const unread = new UnreadAnswers(capacities.answers, (scope, keyId) =>
    events.emit("limitReached", { limit: "answers", scope, keyId }),
  );
  const bodies = new RequestBodies({ config, capacity: capacities.bodies, events, clock });
  const reader = new BodyReader();
  const link = controlLinkOf(config, clock);
  if (link !== undefined) opened.defer(() => link.close());
  const tickets = config.internalSecret === undefined ? undefined : new UploadTickets(config.internalSecret);
  const server = createRequestServer({
    ...{ ...shared, bodies, unread, clientSecrets, tickets, nextId },
    beginTrace: tracing?.begin,
    batchCallers:
      config.internalSecret === undefined ? undefined : new BatchCallers(config.internalSecret, shared.keys),
    trials: new Trials(config.internalSecret),
    socketPaths: [
      ...(config.responsesWebsocket === "on" ? [responsesEndpoint.path] : []),
      ...realtimeApis.map(({ path: served }) => served),
    ],
    draining: draining.signal,
  });
  const stored = createStored(path, backends, { bodies, reader });
  const { bodyBytesMax } = config;
  const files = link && new AttachedFiles({ link, bodies, bodyBytesMax });
  const features = {
    ...{ ...shared, ...stored, files, admission, generations, idempotency, bodies, reader },
    ...{ clientSecrets, unread, nextId, recorded, websockets },
  };
  const posts = addRoutes(server, features);
  addOllamaRoutes(server, features, posts);
  addInteractionRoutes(server, features, posts);
  addStoredRoutes(server, features);
  addOwnUsageRoutes(server, shared);
  addOwnQueueRoute(server, shared);
  if (link !== undefined) addFileRoutes(server, { ...shared, link, bodies, slots: capacities.files });
  const sockets = new ResponsesSockets(features);
  const realtime = new RealtimeSockets(features);
  addSockets(server, config, [sockets, realtime]);
  const connections = new Connections(server.server as Server, clock);
  return { bodies, reader, server, sockets, realtime, connections, detached: stored.detached };
}

/** Undefined for an ingress that does not know where control is. */
function controlLinkOf({ controlUrl: url, internalSecret: secret }: IngressConfig, clock: Clock) {
  return url === "" || secret === undefined ? undefined : new ControlLink({ url, secret, clock });
}

/** The stores of callers, and the generations that go on without them. */
function createStored(
  { shared, admission, generations, capacities, store: bounded }: Path,
  { bodies: redis, keyspace, mailbox }: Backends,
  { bodies, reader }: { bodies: RequestBodies; reader: BodyReader },
) {
  const { bodyBytesMax, keepAliveMs } = shared.config;
  const { recorded, followers, bodies: bodyBytes } = capacities;
  const store = new SealedStore(bounded, shared);
  const conversations = new Conversations(store);
  const responses = new StoredResponses(store, conversations, bodyBytesMax);
  const parts = { ...shared, store, responses, reader, runs: new Runs(redis, keyspace, mailbox.self) };
  const storing = new Storing({ ...parts, bodies, conversations, recorded });
  const detached = new DetachedGenerations({ ...parts, admission, generations, bodyBytes });
  const follower = new LogFollower({ ...parts, followers, keepAliveMs });
  const resumable = new ResumableStreams({ ...shared, storing, detached, follower });
  return { storing, detached, follower, resumable };
}

/** All tasks that this ingress runs at an interval. */
function periodicTasksOf(
  { catalogue, queues }: Backends,
  { shared, generations, idempotency, limits, store }: Path,
  { bodies, sockets, realtime, detached }: Http,
  { heartbeatMs, openFiles }: { heartbeatMs: number; openFiles: OpenFiles },
): PeriodicTask[] {
  const rewrites = new FileRewrites({ ...shared, everyMs: shared.config.aofRewriteMs });
  return [
    [heartbeatMs, () => generations.tick()],
    [checkEveryMs, (now) => idempotency.tick(now)],
    [checkEveryMs, (now) => limits.tick(now)],
    [renewEveryMsOf(leaseMs), () => limits.renew()],
    [checkEveryMs, (now) => sockets.tick(now)],
    [checkEveryMs, (now) => realtime.tick(now)],
    [bodies.checkEveryMs, (now) => bodies.tick(now)],
    [checkEveryMs, () => openFiles.tick()],
    [checkEveryMs, () => queues.open(catalogue.current().queues)],
    [restoreSettingsEveryMs, () => queues.restoreSettings()],
    [checkEveryMs, () => detached.tick()],
    [sweepEveryMs, () => store.sweep()],
    [rewrites.checkEveryMs, () => rewrites.rewriteIfDue()],
  ];
}

interface Parts {
  path: Path;
  http: Http;
  operations: FastifyInstance;
  stopTasks: () => void;
  resources: AsyncDisposableStack;
}

function handleOf(config: IngressProcessConfig, { clock }: IngressDeps, parts: Parts): Ingress {
  const { path, http, operations, stopTasks, resources } = parts;
  const { generations } = path;
  const { server, sockets, realtime, connections, reader, detached } = http;
  return {
    async listen() {
      generations.tick();
      const api = await listen(server, config.host, config.port, "PORT");
      const operationsUrl = await listen(operations, config.operationsHost, config.operationsPort, "OPERATIONS_PORT");
      // The first request may come at once, and the start may have taken longer than a link stays
      // up without a heartbeat.
      const since = clock.now();
      while (generations.isStarting && clock.now() - since < firstHeartbeatMsMax) await delay(10);
      return { api, operations: operationsUrl };
    },
    async drain() {
      path.draining.abort();
      await delay(config.drainNoticeMs);
      sockets.retire();
      realtime.retire(config.drainMs);
      await Promise.all([connections.drain(config.drainMs), detached.drain(config.drainMs)]);
    },
    async close() {
      path.draining.abort();
      await detached.stop();
      generations.stop(stopping);
      stopTasks();
      await resources.disposeAsync();
      sockets.close();
      realtime.close();
      (server.server as Server).closeAllConnections();
      await Promise.all([server.close(), operations.close(), reader.close()]);
    },
  };
}
