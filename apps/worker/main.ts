/**
 * The worker process: takes jobs from queues and calls upstreams for them. `node
 * apps/worker/main.ts --queues "chat=10000,*=8"`
 */
import { collectDefaultMetrics, Registry } from "prom-client";
import { openCatalogue } from "#catalogue/log.ts";
import { relayBounds } from "#relay/bounds.ts";
import { systemClock } from "#service/clock.ts";
import { serviceSettings } from "#service/config.ts";
import { SecretFiles } from "#service/secret-files.ts";
import { runProcess } from "#service/startup.ts";
import { openTracing } from "#tracing/tracing.ts";
import { loadWorkerConfig, workerSettings } from "./config.ts";
import { workerRedisOf } from "./redis.ts";
import { createAuthorization } from "./upstream/authorization.ts";
import { Upstreams } from "./upstream/upstreams.ts";
import { createWorker } from "./worker.ts";

await runProcess("worker", async (log, requestStop) => {
  const { env } = process;
  const secrets = new SecretFiles(env, serviceSettings, workerSettings);
  const { environment } = secrets;
  const config = loadWorkerConfig(environment, process.argv.slice(2));
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const worker = await createWorker(config, {
    log,
    requestStop,
    tracing: await openTracing("worker", environment, log),
    registry,
    clock: systemClock,
    bounds: relayBounds,
    redis: workerRedisOf(config),
    secrets,
    upstreams: new Upstreams(createAuthorization(environment), environment),
    watchCatalogue: openCatalogue(config.catalogueFile, env, log),
  });
  secrets.followSettings(workerSettings, log);
  return {
    urls: await worker.start(),
    async stop() {
      await worker.drain();
      await worker.close();
    },
  };
});
