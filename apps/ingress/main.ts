/** The ingress process. */
import { collectDefaultMetrics, Registry } from "prom-client";
import { openCatalogue } from "#catalogue/log.ts";
import { relayBounds } from "#relay/bounds.ts";
import { systemClock } from "#service/clock.ts";
import { serviceConfigOf, serviceSettings } from "#service/config.ts";
import { connectRedis } from "#service/redis.ts";
import { SecretFiles } from "#service/secret-files.ts";
import { runProcess } from "#service/startup.ts";
import { openTracing } from "#tracing/tracing.ts";
import { ingressConfigOf, ingressSettings } from "./common/config.ts";
import { createIngress } from "./ingress.ts";
import { compileSchemas } from "./request/body-reader.ts";

await runProcess("ingress", async (log, requestStop) => {
  const secrets = new SecretFiles(process.env, serviceSettings, ingressSettings);
  const { environment: env } = secrets;
  const config = { ...serviceConfigOf(env), ...ingressConfigOf(env) };
  compileSchemas();
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const ingress = await createIngress(config, {
    log,
    requestStop,
    tracing: await openTracing("ingress", env, log),
    clock: systemClock,
    bounds: relayBounds,
    registry,
    report: (line) => process.stderr.write(`sluice ingress: ${line}\n`),
    connectRedis: (purpose) => connectRedis(config.redisUrl, purpose),
    watchCatalogue: openCatalogue(config.catalogueFile, env, log),
  });
  const urls = await ingress.listen();
  secrets.followSettings(ingressSettings, log);
  return {
    urls,
    async stop() {
      await ingress.drain();
      await ingress.close();
      secrets.close();
    },
  };
});
