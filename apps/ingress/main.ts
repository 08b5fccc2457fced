/** The ingress: speaks HTTP to callers, puts their generations on queues and relays the answers. Stateless: any ingress does for any request. */
import { randomUUID } from "node:crypto";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import type { Logger } from "pino";
import { followKeys } from "#access/follow.ts";
import { registerCatalogueMetrics } from "#catalogue/metrics.ts";
import { watchCatalogue } from "#catalogue/watch.ts";
import { relayBounds } from "#relay/bounds.ts";
import { type JobQueue, openJobQueue } from "#relay/job-queue.ts";
import { LiveMap } from "#relay/live-map.ts";
import { openMailbox } from "#relay/mailbox.ts";
import { registerRelayMetrics } from "#relay/metrics.ts";
import { serviceConfigOf } from "#service/config.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { OpenFiles } from "#service/open-files.ts";
import { createOperations, listen } from "#service/operations.ts";
import { connectRedis } from "#service/redis.ts";
import { checkedAtStart, type Running, runProcess } from "#service/startup.ts";
import { Admission } from "./admission/admission.ts";
import { Capacity } from "./admission/capacity.ts";
import { RateLimiter } from "./admission/rate-limits.ts";
import { ingressConfigOf, smallAnswerBytesMax, smallBodyBytesMax } from "./config.ts";
import { FileRewrites } from "./file-rewrites.ts";
import { Generations } from "./generation/lifecycle.ts";
import { BodyReader } from "./http/body-reader.ts";
import { createRequestServer } from "./http/requests.ts";
import { addRoutes } from "./http/routes.ts";
import { UnreadAnswers } from "./http/unread.ts";
import { Idempotency } from "./idempotency/idempotency.ts";
import { createIngressMetrics } from "./metrics.ts";
import { addResponsesSocket } from "./websocket/responses-socket.ts";

/** How often the settings of queues are written anew. */
const restoreSettingsMs = 10_000;
const silentConnectionMs = 1_000;
/** How long a process that starts waits at most until it hears itself. */
const firstHeardMsMax = 5_000;

async function start(log: Logger): Promise<Running> {
  const environment = process.env;
  const service = serviceConfigOf(environment);
  const config = ingressConfigOf(environment);
  const keyspace = keyspaceOf(service.namespace);
  const catalogue = checkedAtStart(() =>
    watchCatalogue(service.catalogueFile, environment, {
      onChange: (changed) => {
        log.info({ version: changed.version }, "catalogue changed");
        openQueues();
      },
      onFault: (fault) => {
        if (fault === undefined) log.info("catalogue good again");
        else log.error({ fault }, "catalogue refused; the last good one stays");
        const told = fault === undefined ? "is good again" : `is refused, the last good one stays: ${fault}`;
        process.stderr.write(`sluice ingress: the catalogue ${told}\n`);
      },
    }),
  );

  const redis = await connectRedis(service.redisUrl, "request");
  const onRedisError = (error: Error) => log.debug({ err: error }, "redis");
  const bodies = await connectRedis(service.redisUrl, "request");
  for (const connection of [redis, bodies]) connection.on("error", onRedisError);
  const jobQueues = new Map<string, JobQueue>();
  const opening = new Map<string, Promise<unknown>>();
  /** Opens the queues that are not open; one that can't be is tried again with the next heartbeat. */
  const openQueues = () => {
    for (const queue of catalogue.current().queues.keys()) {
      if (jobQueues.has(queue) || opening.has(queue)) continue;
      const opened = openJobQueue(queue, redis, keyspace, onRedisError)
        .then((jobQueue) => jobQueues.set(queue, jobQueue), onRedisError)
        .finally(() => opening.delete(queue));
      opening.set(queue, opened);
    }
  };
  openQueues();
  await Promise.all(opening.values());

  const bodyBytes = new Capacity(config.bodiesBytesMax, smallBodyBytesMax);
  const answerBytes = new Capacity(config.answersBytesMax, smallAnswerBytesMax);
  const slots = new Capacity(config.generationsMax);
  const capacities = () => [
    ...Object.entries({
      bodies: bodyBytes,
      answers: answerBytes,
      generations: slots,
      websockets: sockets.websockets,
      conversations: sockets.conversations,
    }).map(([limit, { used, max }]) => ({ limit, queue: "", used, max })),
    ...[...generations.waiting].map(([queue, { used, max }]) => ({ limit: "waiting", queue, used, max })),
  ];
  const metrics = createIngressMetrics({
    queues: () => generations.statistics(),
    depths: async () => {
      const counted = await Promise.all(
        [...jobQueues.values()].map(async ({ name, queue }) => ({
          name,
          counts: await queue.getJobCounts("prioritized", "active"),
        })),
      );
      return counted.flatMap(({ name, counts }) => [
        { queue: name, state: "waiting", count: counts.prioritized ?? 0 },
        { queue: name, state: "active", count: counts.active ?? 0 },
      ]);
    },
    bodiesBytes: () => bodyBytes.used,
    capacities,
    keys: () => keys.count(),
  });
  const unread = new UnreadAnswers(answerBytes, (scope) => metrics.limitRefusals.inc({ limit: "answers", scope }));
  const limits = new RateLimiter({ redis, keyspace, catalogue: catalogue.current, metrics, log });
  const generations = new Generations({
    config,
    slots,
    bodyBytes,
    answerBytes,
    redis,
    bodies,
    keyspace,
    jobQueues,
    limits,
    isRevoked: (id) => keys.isRevoked(id),
    metrics,
    log,
  });
  const idempotency = new Idempotency({
    redis: bodies,
    keyspace,
    slots,
    bodyBytes,
    metrics,
    windowMs: config.idempotencyWindowMs,
    keyBytesMax: config.idempotencyKeyBytesMax,
    bytesMax: config.idempotencyBytesMax,
  });
  const rewrites = new FileRewrites({ redis, keyspace, everyMs: config.aofRewriteMs, log });
  const mailbox = await openMailbox(service.redisUrl, keyspace, "ingress", {
    heard: (sender) => generations.heard(sender),
    receive: (sender, frame) => generations.receive(sender, frame),
    resubscribed: () => generations.tick(),
  });
  generations.attach(mailbox);
  const openFiles = new OpenFiles();
  let settingsRestoredAt = performance.now();
  const restoreSettings = () => {
    if (performance.now() - settingsRestoredAt < restoreSettingsMs) return;
    settingsRestoredAt = performance.now();
    for (const queue of jobQueues.values()) queue.restoreSettings().catch(onRedisError);
  };
  const heartbeat = setInterval(() => {
    generations.tick();
    idempotency.tick(performance.now());
    limits.tick(performance.now());
    rewrites.tick(performance.now());
    openFiles.tick();
    openQueues();
    restoreSettings();
  }, relayBounds.heartbeatMs);
  registerRelayMetrics(metrics.registry, mailbox);
  registerCatalogueMetrics(metrics.registry, catalogue);
  const keys = await followKeys({ redis, subscriber: mailbox.subscriber, keyspace, log });

  let draining = false;
  const isDraining = () => draining;
  /** Ids that callers see are no counter: they would tell how much others ask, and could be guessed. */
  const nextId = () => `req_${randomUUID().replaceAll("-", "")}`;
  const onFault = (error: Error, requestId: string) =>
    log.error({ err: error, requestId }, "request failed by a fault of the gateway");
  const server = createRequestServer({ config, bodies: bodyBytes, unread, metrics, keys, nextId, isDraining, onFault });
  server.addHook("onResponse", async (request, reply) => {
    if (request.isGeneration) return;
    log.info(
      {
        requestId: request.id,
        method: request.method,
        path: request.routeOptions.url ?? "other",
        status: reply.statusCode,
        keyId: request.caller?.id,
        durationMs: Math.round(reply.elapsedTime),
        retries: request.headers["x-stainless-retry-count"]?.slice(0, 4),
      },
      "request",
    );
  });
  const admission = new Admission({
    catalogue: catalogue.current,
    generations,
    limits,
    generationIdOf: (requestId) => requestId.replace("req_", "gen_"),
    isDraining,
  });
  const reader = new BodyReader();
  addRoutes(server, { catalogue: catalogue.current, admission, idempotency, bodies: reader });
  const sockets = addResponsesSocket(server, {
    config,
    admission,
    bodies: reader,
    unread,
    metrics,
    log,
    nextId,
    onFault,
  });

  const connections = new LiveMap<number, Connection>();
  let connectionsCount = 0;
  server.server.on("connection", (socket: Socket) => {
    const number = ++connectionsCount;
    connections.set(number, { socket, since: performance.now() });
    socket.once("close", () => connections.delete(number));
  });

  const operations = createOperations({
    metrics: metrics.registry,
    notReady: () => (draining ? "stopping" : generations.isReady ? openFiles.shortage : "no link to Redis"),
    status: () => ({
      role: "ingress",
      catalogue: catalogue.current().version,
      keys: keys.count(),
      generations: generations.size,
      bodiesBytes: bodyBytes.used,
      queues: generations
        .statistics()
        .map(({ oldestWaitMs, ...queue }) => ({ ...queue, oldestWaitMs: Math.round(oldestWaitMs) })),
    }),
  });
  if (config.operatorPassword !== undefined) {
    const { addInspection } = await import("./inspection.ts");
    await addInspection(operations, jobQueues, config.operatorPassword);
  }

  const api = await listen(server, config.host, config.port);
  const operationsUrl = await listen(operations, service.operationsHost, service.operationsPort);

  // Whoever is told that it listens asks at once, and it may have been held up for longer than a link holds.
  const listensSince = performance.now();
  while (!generations.isReady && performance.now() - listensSince < firstHeardMsMax) await setTimeout(10);

  return {
    urls: { api, operations: operationsUrl },
    async stop() {
      draining = true;
      await setTimeout(config.drainNoticeMs);
      sockets.retire();
      await connectionsClosed(server.server as Server, connections, config.drainMs);
      generations.failAll({
        code: "unavailable",
        message: "The gateway is stopping; send the request again.",
        retryAfterSeconds: 1,
      });
      clearInterval(heartbeat);
      catalogue.close();
      keys.close();
      await mailbox.close();
      await limits.close();
      await Promise.all([...jobQueues.values()].map((queue) => queue.close()));
      redis.disconnect();
      bodies.disconnect();
      sockets.close();
      (server.server as Server).closeAllConnections();
      await Promise.all([server.close(), operations.close(), reader.close()]);
    },
  };
}

interface Connection {
  socket: Socket;
  since: number;
}

/**
 * Stops accepting connections and closes each as soon as it is idle; settles when the last is closed, or when the time is up. A connection
 * on which nothing came for a second is idle too: clients open some in advance, and Node counts them as busy.
 */
function connectionsClosed(server: Server, connections: LiveMap<number, Connection>, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const closing = setInterval(() => {
      server.closeIdleConnections();
      for (const { socket, since } of connections.values())
        if (socket.bytesRead === 0 && performance.now() - since > silentConnectionMs) socket.destroy();
    }, 50);
    const settle = () => {
      clearInterval(closing);
      clearTimeout(timeout);
      resolve();
    };
    const timeout = globalThis.setTimeout(settle, timeoutMs);
    server.close(settle);
  });
}

await runProcess("ingress", start);
