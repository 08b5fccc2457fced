/** Opens the batches of accounts: their runner, and what their routes use. */
import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { allowsModel } from "#access/record.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Failure } from "#dialects/errors.ts";
import type { ObjectStore } from "#objects/object-store.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { lateReportMs, type ProcessReport, readProcessReports } from "#service/process-reports.ts";
import type { Redis } from "#service/redis.ts";
import { batchUsageWaitMs } from "../bounds.ts";
import type { ControlConfig } from "../config.ts";
import type { Database } from "../database/database.ts";
import type { FileStore } from "../files/file-store.ts";
import { sendFailure } from "../internal/internal-server.ts";
import { addAnthropicBatchRoutes } from "./anthropic-routes.ts";
import { BatchRunner } from "./batch-runner.ts";
import type { BatchContext, BatchService } from "./context.ts";
import { addGeminiBatchRoutes } from "./gemini-routes.ts";
import { LineSender } from "./line-sender.ts";
import { addOpenAiBatchRoutes } from "./openai-routes.ts";
import { batchFilesOf, batchObjectsOf } from "./storage.ts";
import { vendorBatchesOf } from "./vendor-batch.ts";

export interface BatchServiceOptions {
  database: Database;
  config: ControlConfig;
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Catalogue;
  files: FileStore;
  objects: ObjectStore;
  /** Objects are sealed with keys that are derived from it. */
  secret: string;
  /** Signs the requests to ingresses. */
  internalSecret: string;
  clock: Clock;
  log: Logger;
}

const noIngress: Failure = {
  code: "path_not_found",
  message: "This gateway runs no batches: its operator has not set INGRESS_URL.",
};

/** The mean of ingresses, or of workers where it is greater: one that is ill hardly counts. */
export function delayOf(reports: readonly ProcessReport[], now: number): number {
  const means = (["ingress", "worker"] as const).map((role) => {
    const current = reports.filter((report) => report.role === role && now - report.at < lateReportMs);
    return current.reduce((sum, { eventLoopDelayMs }) => sum + eventLoopDelayMs, 0) / Math.max(1, current.length);
  });
  return Math.max(...means);
}

/** Serves batches; undefined if control does not know where ingresses are. */
export function openBatches(
  server: FastifyInstance,
  {
    database,
    redis,
    keyspace,
    config,
    catalogue,
    files,
    objects,
    secret,
    internalSecret,
    clock,
    log,
  }: BatchServiceOptions,
): (BatchService & AsyncDisposable & { vendorFailures(): number }) | undefined {
  const { ingressUrl, batchConcurrency, batchLinesMax, accountBatchesMax, accountBatchTokensMax } = config;
  if (ingressUrl === "") {
    for (const url of ["/openai/batches", "/anthropic/messages/batches", "/gemini/batches"].flatMap((url) => [
      url,
      `${url}/*`,
    ]))
      server.all(url, (_request, reply) => sendFailure(reply, noIngress));
    return undefined;
  }
  const context: BatchContext = {
    database,
    objects: batchObjectsOf(objects, secret),
    files: batchFilesOf(files),
    clock,
    bounds: {
      linesMax: batchLinesMax === 0 ? undefined : batchLinesMax,
      tokensMax: accountBatchTokensMax,
      batchesMax: accountBatchesMax,
      usageWaitMs: batchUsageWaitMs,
    },
    async modelsOf(keyId) {
      const key = await database
        .selectFrom("keys")
        .select(["group_name", "models"])
        .where("id", "=", keyId)
        .executeTakeFirst();
      return (model) =>
        key !== undefined &&
        (key.models === null || allowsModel({ models: key.models }, model)) &&
        catalogue().modelFor(key.group_name, model) !== undefined;
    },
  };
  const sender = new LineSender({ ingressUrl, secret: internalSecret, connectionsMax: batchConcurrency, clock });
  const delayMs = async () => delayOf(await readProcessReports(redis, keyspace, clock.epoch()), clock.epoch());
  const vendors = vendorBatchesOf({ redis, keyspace, clock }, catalogue, config.vendorBatchPollSeconds * 1_000);
  const { send } = sender;
  const runner = new BatchRunner({ ...context, send, vendors, concurrency: batchConcurrency, delayMs, log });
  const service: BatchService = { ...context, findFile: (account, id) => files.find(account, id), wake: runner.wake };
  addOpenAiBatchRoutes(server, service);
  addAnthropicBatchRoutes(server, service);
  addGeminiBatchRoutes(server, service);
  return {
    ...service,
    vendorFailures: () => runner.vendorFailures,
    async [Symbol.asyncDispose]() {
      await runner.close();
      await sender[Symbol.asyncDispose]();
    },
  };
}
