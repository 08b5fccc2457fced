/** Finds the keys that a command is about. */
import type { Environment } from "#catalogue/environment.ts";
import { serviceConfigOf } from "#service/config.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { withRedis } from "#service/redis.ts";
import { withSecrets } from "#service/secret-files.ts";
import { StartupFault } from "#service/startup.ts";
import { CommandFault } from "./command.ts";
import { presentControlOf } from "./control-address.ts";
import { controlStore } from "./control-store.ts";
import type { KeyStore } from "./key-store.ts";
import { redisStore } from "./redis-store.ts";
import { readReady, stateOf } from "./state.ts";

/**
 * Calls `use` with the keys at SLUICE_CONTROL_URL, or in the Redis of REDIS_URL, or else of the
 * gateway that runs in this directory.
 */
export async function withKeyStore<Result>(
  userEnvironment: Environment,
  use: (store: KeyStore) => Promise<Result>,
): Promise<Result> {
  const environment = withSecrets(userEnvironment, "REDIS_URL");
  const { REDIS_URL, SLUICE_CONTROL_URL } = environment;
  const control = REDIS_URL && !SLUICE_CONTROL_URL ? undefined : presentControlOf(environment);
  if (control !== undefined) return use(controlStore(control));
  const noGateway = new CommandFault('no gateway runs in this directory; start it with "npm start", or set REDIS_URL');
  const url = REDIS_URL || readReady(stateOf(process.cwd()))?.redisUrl;
  if (!url) throw noGateway;
  const keyspace = keyspaceOf(serviceConfigOf(environment).namespace);
  return withRedis(url, (redis) => use(redisStore(redis, keyspace, environment))).catch((error) => {
    // Without REDIS_URL, ready.json is left over from a gateway that was killed.
    throw !REDIS_URL && error instanceof StartupFault ? noGateway : error;
  });
}
