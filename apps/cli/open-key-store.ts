/** Finds the keys that a command is about. */
import type { Environment } from "#catalogue/environment.ts";
import { serviceConfigOf } from "#service/config.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { withRedis } from "#service/redis.ts";
import { withSecrets } from "#service/secret-files.ts";
import { StartupFault } from "#service/startup.ts";
import { CommandFault } from "./command.ts";
import { controlUrlOf } from "./control-address.ts";
import { controlStore } from "./control-store.ts";
import type { KeyStore } from "./key-store.ts";
import { redisStore } from "./redis-store.ts";
import { readOperatorToken, readReady, stateOf } from "./state.ts";

/**
 * Calls `use` with the keys at SLUICE_CONTROL_URL, or in the Redis of REDIS_URL, or else of the
 * gateway that runs in this directory.
 */
export async function withKeyStore<Result>(
  userEnvironment: Environment,
  use: (store: KeyStore) => Promise<Result>,
): Promise<Result> {
  const environment = withSecrets(userEnvironment, "OPERATOR_TOKEN", "REDIS_URL");
  const { REDIS_URL, SLUICE_CONTROL_URL, OPERATOR_TOKEN } = environment;
  const state = stateOf(process.cwd());
  const ready = REDIS_URL ? undefined : readReady(state);
  const controlUrl = SLUICE_CONTROL_URL || ready?.controlUrl;
  if (controlUrl) {
    const token = OPERATOR_TOKEN || (SLUICE_CONTROL_URL ? undefined : readOperatorToken(state));
    const address = controlUrlOf(controlUrl);
    if (!token) throw new CommandFault(`OPERATOR_TOKEN must be set to call control at ${address}`);
    return use(controlStore({ url: address, token }));
  }
  const noGateway = new CommandFault('no gateway runs in this directory; start it with "npm start", or set REDIS_URL');
  const url = REDIS_URL || ready?.redisUrl;
  if (!url) throw noGateway;
  const keyspace = keyspaceOf(serviceConfigOf(environment).namespace);
  return withRedis(url, (redis) => use(redisStore(redis, keyspace, environment))).catch((error) => {
    // Without REDIS_URL, ready.json is left over from a gateway that was killed.
    throw !REDIS_URL && error instanceof StartupFault ? noGateway : error;
  });
}
