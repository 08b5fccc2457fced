/** The control process. */

import type { Logger } from "pino";
import { collectDefaultMetrics, Registry } from "prom-client";
import { openCatalogue } from "#catalogue/log.ts";
import { systemClock } from "#service/clock.ts";
import { serviceConfigOf, serviceSettings } from "#service/config.ts";
import { boundFetch } from "#service/public-agent.ts";
import { connectRedis } from "#service/redis.ts";
import { SecretFiles } from "#service/secret-files.ts";
import { runProcess } from "#service/startup.ts";
import { version } from "#service/version.ts";
import { providerBytesMax, providerMs } from "./bounds.ts";
import { controlConfigOf, controlSettings } from "./config.ts";
import { createControl } from "./control.ts";

boundFetch({ timeout: providerMs, bytesMax: providerBytesMax });

await runProcess("control", async (log) => {
  const secrets = new SecretFiles(process.env, serviceSettings, controlSettings);
  const { environment: env } = secrets;
  const config = { ...serviceConfigOf(env), ...controlConfigOf(env) };
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const control = await createControl(config, {
    log,
    registry,
    version,
    clock: systemClock,
    connectRedis: (purpose) => connectRedis(config.redisUrl, purpose),
    environment: env,
    watchCatalogue: openCatalogue(config.catalogueFile, env, log),
  });
  const urls = await control.listen();
  announce(await control.firstSignInLink(), log);
  secrets.followSettings(controlSettings, log);
  return {
    urls,
    async stop() {
      secrets.close();
      await control.close();
    },
  };
});

/** The parent process shows the link on the terminal; it is in no log. */
function announce(url: string | undefined, log: Logger): void {
  if (url === undefined) return;
  if (process.send !== undefined) process.send({ type: "sign-in-link", url });
  else log.warn("no operator can sign in yet; `sluice operator link` makes a link");
}
