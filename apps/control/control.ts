/** Composes control: the database, the ledger, and the API with its accounts and keys. It is never in the path of a generation. */
import type { Logger } from "pino";
import { Gauge, type Registry } from "prom-client";
import { catalogueLogOf } from "#catalogue/log.ts";
import type { CatalogueWatch, WatchListeners } from "#catalogue/watch.ts";
import type { ServiceConfig } from "#service/config.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { createOperations, listen } from "#service/operations.ts";
import type { Redis, RedisPurpose } from "#service/redis.ts";
import { accountHandlers } from "./accounts/accounts.ts";
import { createApi } from "./api/server.ts";
import { identifyBy } from "./api/tokens.ts";
import type { ControlConfig } from "./config.ts";
import { openDatabase } from "./database/database.ts";
import { KeyProjection } from "./keys/key-projection.ts";
import { keyHandlers } from "./keys/keys.ts";
import { type Ledger, startLedger } from "./ledger/ledger.ts";

export type ControlProcessConfig = ControlConfig &
  Pick<ServiceConfig, "redisUrl" | "namespace" | "operationsHost" | "operationsPort">;

export interface ControlDeps {
  log: Logger;
  registry: Registry;
  connectRedis(purpose: RedisPurpose): Promise<Redis>;
  watchCatalogue(listeners: WatchListeners): CatalogueWatch;
  version: string;
}

export interface Control {
  /** Resolves to the addresses. */
  listen(): Promise<{ control: string; operations: string }>;
  close(): Promise<void>;
}

export async function createControl(config: ControlProcessConfig, deps: ControlDeps): Promise<Control> {
  await using opened = new AsyncDisposableStack();
  const { log, registry, version } = deps;
  const keyspace = keyspaceOf(config.namespace);
  const connect = async (purpose: RedisPurpose) => {
    const connection = await deps.connectRedis(purpose);
    opened.defer(() => connection.disconnect());
    return connection.on("error", (error: Error) => log.debug({ err: error }, "redis"));
  };
  const redis = await connect("request");
  const reads = await connect("patient");
  const { database } = opened.use(await openDatabase({ url: config.databaseUrl, directory: config.databaseDirectory }));
  const ledger = startLedger({ database, reads, redis, keyspace, usageDays: config.usageDays, log });
  opened.defer(() => ledger.close());
  const catalogue = deps.watchCatalogue(catalogueLogOf(log));
  opened.defer(() => catalogue.close());
  const projection = new KeyProjection({ database, redis, keyspace, log });
  await projection.start();
  opened.defer(() => projection.close());
  registerMetrics(registry, ledger, projection);
  const api = await createApi({
    database,
    handlers: {
      ...accountHandlers((account) => projection.projectAccount(account)),
      ...keyHandlers({ catalogue: catalogue.current, projection }),
    },
    identify: identifyBy(database, config.operatorToken),
    trustedProxies: config.trustedProxies,
    log,
    version,
  });
  opened.defer(() => api.close());
  const operations = createOperations({
    metrics: registry,
    notReady: () => undefined,
    status: () => ({ ledger: ledger.counts }),
  });
  opened.defer(() => operations.close());
  const resources = opened.move();
  return {
    async listen() {
      return {
        control: await listen(api, config.host, config.port),
        operations: await listen(operations, config.operationsHost, config.operationsPort),
      };
    },
    close: () => resources.disposeAsync(),
  };
}

function registerMetrics(registry: Registry, ledger: Ledger, projection: KeyProjection): void {
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  gauge("sluice_ledger_records", "Usage records that this process has stored.", () => ledger.counts.inserted);
  gauge("sluice_ledger_invalid_records", "Usage records that could not be read.", () => ledger.counts.invalid);
  gauge("sluice_keys_behind", "1 while Redis may lack a change of keys.", () => Number(projection.isBehind));
}
