/** The control process. */
import { readFileSync } from "node:fs";
import { collectDefaultMetrics, Registry } from "prom-client";
import { watchCatalogue } from "#catalogue/watch.ts";
import { serviceConfigOf } from "#service/config.ts";
import { connectRedis } from "#service/redis.ts";
import { checkedAtStart, runProcess } from "#service/startup.ts";
import { controlConfigOf } from "./config.ts";
import { createControl } from "./control.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

await runProcess("control", async (log) => {
  const { env } = process;
  const config = { ...serviceConfigOf(env), ...controlConfigOf(env) };
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const control = await createControl(config, {
    log,
    registry,
    version,
    connectRedis: (purpose) => connectRedis(config.redisUrl, purpose),
    watchCatalogue: (listeners) => checkedAtStart(() => watchCatalogue(config.catalogueFile, env, listeners)),
  });
  const urls = await control.listen();
  return { urls, stop: () => control.close() };
});
