/**
 * Composes control: the database, the ledger, and the API with its accounts and keys. It is never
 * in the path of a generation.
 */

import { randomUUID } from "node:crypto";
import { resolve } from "node:path";
import type { FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { UploadTickets } from "#access/upload-tickets.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import { catalogueLogOf, catalogueStatusOf } from "#catalogue/log.ts";
import { registerCatalogueMetrics } from "#catalogue/metrics.ts";
import type { CatalogueWatch, WatchListeners } from "#catalogue/watch.ts";
import type { Clock } from "#service/clock.ts";
import type { ServiceConfig } from "#service/config.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { registerProcessMetrics } from "#service/metrics.ts";
import { createOperations, listen } from "#service/operations.ts";
import { startProcessReports } from "#service/process-reports.ts";
import { type Redis, type RedisPurpose, withStartupTimeLimits } from "#service/redis.ts";
import { StartupFault } from "#service/startup.ts";
import { accountHandlers } from "./accounts/accounts.ts";
import { auditHandlers, startAuditRetention } from "./accounts/audit-log.ts";
import { tokenHandlers } from "./accounts/operator-tokens.ts";
import { alertHandlers } from "./alerts/handlers.ts";
import { startAlerts } from "./alerts/start.ts";
import type { ConsoleOptions } from "./api/console.ts";
import { createApi } from "./api/server.ts";
import { identifyBy } from "./api/tokens.ts";
import { batchErrorHandlers } from "./batches/error-groups.ts";
import { batchHandlers } from "./batches/handlers.ts";
import { openBatches } from "./batches/service.ts";
import { catalogueHandlers } from "./catalogue/catalogue.ts";
import { catalogueFileHandlers, LastChange } from "./catalogue/catalogue-file.ts";
import { CredentialStore, credentialHandlers } from "./catalogue/credentials.ts";
import { catalogueEntryHandlers } from "./catalogue/entry-handlers.ts";
import { priceHandlers } from "./catalogue/prices.ts";
import { catalogueRevisionHandlers } from "./catalogue/revision-handlers.ts";
import { StoredCatalogue } from "./catalogue/stored-catalogue.ts";
import { trialHandlers } from "./catalogue/trials.ts";
import { upstreamTestHandlers } from "./catalogue/upstream-tests.ts";
import type { ControlConfig } from "./config.ts";
import { contentHandlers } from "./content/content-handlers.ts";
import { ContentReader } from "./content/content-reader.ts";
import { openDatabase } from "./database/database.ts";
import { addAnthropicFileRoutes } from "./files/anthropic-files.ts";
import { addAttachmentRoutes } from "./files/attachments.ts";
import { FileReceiver } from "./files/file-receiver.ts";
import { FileStore } from "./files/file-store.ts";
import { addGeminiFileRoutes } from "./files/gemini-files.ts";
import { fileHandlers } from "./files/handlers.ts";
import { addOpenAiFileRoutes } from "./files/openai-files.ts";
import { addOpenAiUploadRoutes } from "./files/openai-uploads.ts";
import { openObjects } from "./files/start.ts";
import { createInternalServer, listenInternally } from "./internal/internal-server.ts";
import { KeyProjection } from "./keys/key-projection.ts";
import { keyHandlers } from "./keys/keys.ts";
import { startLedger } from "./ledger/ledger.ts";
import { pseudonymsOf } from "./ledger/pseudonyms.ts";
import { exportFormats, startUsageExport } from "./ledger/usage-export.ts";
import { usageHandlers } from "./ledger/usage-handlers.ts";
import { registerControlMetrics } from "./metrics.ts";
import { liveHandlers } from "./operations/handlers.ts";
import { addLiveSocket } from "./operations/live-socket.ts";
import { LiveStates } from "./operations/live-state.ts";
import { settingsHandlers } from "./settings/handlers.ts";
import { addLogo } from "./settings/logo.ts";
import { type Installation, Settings } from "./settings/settings.ts";
import { createMail } from "./sign-in/mail.ts";
import { authSecretOf } from "./sign-in/secret.ts";
import { createSignIn } from "./sign-in/sign-in.ts";
import { viewHandlers } from "./views/handlers.ts";
import { webhookHandlers } from "./webhooks/handlers.ts";
import { Webhooks } from "./webhooks/webhooks.ts";

export type ControlProcessConfig = ControlConfig &
  Pick<ServiceConfig, "redisUrl" | "catalogueFile" | "namespace" | "operationsHost" | "operationsPort">;

export interface ControlDeps {
  log: Logger;
  registry: Registry;
  connectRedis(purpose: RedisPurpose): Promise<Redis>;
  watchCatalogue(listeners: WatchListeners): CatalogueWatch;
  /** Decides which models a catalogue offers. */
  environment: Environment;
  clock: Clock;
  version: string;
}

export interface Control {
  /** Resolves to the addresses; `internal` is that for ingresses. */
  listen(): Promise<{ control: string; operations: string; internal?: string }>;
  /**
   * A link that signs the first operator in once, while no operator can sign in otherwise. A
   * secret: for the terminal only.
   */
  firstSignInLink(): Promise<string | undefined>;
  close(): Promise<void>;
}

export async function createControl(config: ControlProcessConfig, deps: ControlDeps): Promise<Control> {
  await using opened = new AsyncDisposableStack();
  const { log, registry, clock, version } = deps;
  const keyspace = keyspaceOf(config.namespace);
  const connect = async (purpose: RedisPurpose) => {
    const connection = await deps.connectRedis(purpose);
    opened.defer(() => connection.disconnect());
    return connection.on("error", (error: Error) => log.debug({ err: error }, "redis"));
  };
  const redis = await connect("request");
  const reads = await connect("patient");
  const { database, kind } = opened.use(
    await openDatabase({ url: config.databaseUrl, directory: config.databaseDirectory }),
  );
  const lastChange = new LastChange(config.catalogueFile, clock);
  const catalogueLog = catalogueLogOf(log);
  const catalogue = deps.watchCatalogue({
    ...catalogueLog,
    onChange(changed) {
      catalogueLog.onChange(changed);
      lastChange.follow(changed);
    },
  });
  lastChange.follow(catalogue.current());
  opened.defer(() => catalogue.close());
  const credentials = new CredentialStore({
    ...{ database, redis, keyspace, clock, log },
    secrets: config.credentialsSecrets,
    users: (tables) => stored.credentialUsers(tables),
  });
  const stored = new StoredCatalogue({
    ...{ database, redis, keyspace, credentials, log },
    watch: catalogue,
    file: config.catalogueFile,
    environment: deps.environment,
    isReadOnly: config.catalogueReadOnly === "true",
  });
  await stored.start();
  opened.defer(() => stored.close());
  const secret = await authSecretOf(database, config.authSecret);
  const settings = new Settings({ database, environment: deps.environment, secret, log });
  await settings.start();
  opened.defer(() => settings.close());
  if (settings.isFixed("oidcIssuer") && settings.current().oidcClientId === "")
    throw new StartupFault("OIDC_ISSUER needs OIDC_CLIENT_ID");
  const pseudonymOf = config.usageNames === "hashed" ? pseudonymsOf(secret) : undefined;
  const ledger = startLedger({
    database,
    reads,
    redis,
    keyspace,
    usageDays: () => settings.current().usageDays,
    pseudonymOf,
    catalogue: catalogue.current,
    clock,
    log,
  });
  opened.defer(() => ledger.close());
  const formats = exportFormats.filter((format) => config.usageExport.split(",").includes(format));
  if (formats.length > 0) {
    const usageExport = startUsageExport({
      ...{ database, formats, clock, log },
      objects: await openObjects(config),
      usageDays: () => settings.current().usageDays,
      currency: () => catalogue.current().currency,
      issuer: () => settings.current().name,
    });
    opened.defer(() => usageExport.close());
  }
  const projection = new KeyProjection({ database, redis, keyspace, clock, log });
  await withStartupTimeLimits(redis, () => projection.start());
  opened.defer(() => projection.close());
  const content = new ContentReader({ database, redis: await connect("request"), keyspace, clock, log });
  content.start();
  opened.defer(() => content.close());
  const mail = createMail(settings.current, log);
  opened.defer(() => mail.close());
  const alerts = startAlerts({
    database,
    redis,
    keyspace,
    catalogue: catalogue.current,
    clock,
    log,
    settings: settings.current,
    isWebhookFixed: settings.isFixed("alertWebhookUrl"),
    webhookNetworks: config.webhookNetworks,
    mail,
  });
  opened.defer(() => alerts.close());
  const webhooks = new Webhooks({ database, redis, keyspace, secret, networks: config.webhookNetworks, clock, log });
  opened.defer(() => webhooks.close());
  const auditRetention = startAuditRetention({ database, days: () => settings.current().auditDays, clock, log });
  opened.defer(() => auditRetention.close());
  registerControlMetrics(registry, {
    ...{ ledger, projection, redis },
    vendorFailures: () => batches?.vendorFailures() ?? 0,
  });
  registerCatalogueMetrics(registry, catalogue);
  let address = config.url;
  const signIn = opened.use(
    await createSignIn({
      ...{ database, config, secret, mail, clock, log },
      settings: settings.current,
      address: () => address,
    }),
  );
  const byToken = identifyBy(database, config.operatorToken, clock);
  const states = new LiveStates({
    ...{ redis, keyspace, ledger, clock },
    catalogue: catalogue.current,
    catalogueFault: () => catalogue.fault(),
    database: kind,
  });
  const changed = (account: string) => projection.projectAccount(account);
  const identify = async (request: FastifyRequest) => (await byToken(request)) ?? signIn.identify(request);
  let files: FileStore | undefined;
  let batches: ReturnType<typeof openBatches>;
  const internal =
    config.internalSecret === undefined
      ? undefined
      : createInternalServer({
          secret: config.internalSecret,
          callsPerMinute: config.callsPerMinute,
          clock,
          log,
        });
  if (internal !== undefined) {
    const objects = await openObjects(config);
    const store = new FileStore({ database, objects, config, secret, clock, log });
    files = store;
    const sweeping = store.startSweeping();
    opened.defer(() => sweeping.close());
    const tickets = new UploadTickets(config.internalSecret ?? "");
    const fileRoutes = { files: store, receiver: new FileReceiver(store) };
    addOpenAiFileRoutes(internal, fileRoutes);
    addOpenAiUploadRoutes(internal, fileRoutes);
    addAnthropicFileRoutes(internal, fileRoutes);
    addGeminiFileRoutes(internal, {
      ...fileRoutes,
      ticketOf: (keyHash, upload) => tickets.of(keyHash, upload, clock.epoch()),
    });
    addAttachmentRoutes(internal, store);
    batches = opened.use(
      openBatches(internal, {
        ...{ database, redis, keyspace, config, files: store, objects, secret, clock, log },
        catalogue: catalogue.current,
        internalSecret: config.internalSecret ?? "",
      }),
    );
    opened.defer(() => internal.close());
  }
  const api = await createApi({
    database,
    handlers: {
      ...accountHandlers({ catalogue: catalogue.current, changed }),
      ...contentHandlers({ secret, changed }),
      ...keyHandlers({ catalogue: catalogue.current, projection, redis, keyspace }),
      ...usageHandlers({ currency: () => catalogue.current().currency, pseudonymOf }),
      ...catalogueHandlers(catalogue.current, () => settings.current().gatewayUrl),
      ...signIn.handlers,
      ...tokenHandlers,
      ...auditHandlers,
      ...alertHandlers,
      ...catalogueFileHandlers({
        file: config.catalogueFile,
        environment: deps.environment,
        watch: catalogue,
        lastChange,
        stored: () => stored.active,
      }),
      ...catalogueEntryHandlers({ file: config.catalogueFile, watch: catalogue, stored }),
      ...catalogueRevisionHandlers({ file: config.catalogueFile, watch: catalogue, stored }),
      ...priceHandlers({ stored, catalogue: catalogue.current, environment: deps.environment }),
      ...trialHandlers(config.internalSecret),
      ...credentialHandlers(credentials),
      ...upstreamTestHandlers({
        ...{ redis, keyspace, clock },
        environment: deps.environment,
        seal: (name, value) => credentials.seal(name, value),
        entries: () => stored.entries(),
      }),
      ...liveHandlers({ states, redis, keyspace, catalogue: catalogue.current }),
      ...settingsHandlers({ settings, mail, webhook: alerts.webhook, oidcTests: signIn.tests }),
      ...viewHandlers,
      ...batchHandlers(batches),
      ...batchErrorHandlers(batches),
      ...fileHandlers(files),
      ...webhookHandlers({ secret, networks: config.webhookNetworks, wake: webhooks.wake }),
    },
    identify,
    addRoutes: async (server) => {
      await signIn.addRoutes(server);
      await addLiveSocket(server, { states, identify, clock, log });
      addLogo(server, () => settings.current().logo);
    },
    console: consoleOf(config, catalogue.current, settings.current),
    trustedProxies: config.trustedProxies,
    callsPerMinute: config.callsPerMinute,
    clock,
    log,
    version,
  });
  opened.defer(() => api.close());
  const status = () => ({ ledger: ledger.counts, ...catalogueStatusOf(catalogue) });
  const own = { notReady: () => undefined, status };
  registerProcessMetrics(registry, { ...own, role: "control" });
  const id = `control-${randomUUID().slice(0, 8)}`;
  const drain = () => {};
  opened.defer(startProcessReports({ ...own, id, role: "control", redis, keyspace, drain, clock, log }));
  const operations = createOperations({ ...own, metrics: registry });
  opened.defer(() => operations.close());
  const resources = opened.move();
  return {
    async listen() {
      const control = await listen(api, config.host, config.port, "CONTROL_PORT");
      address ||= control.replace("0.0.0.0", "127.0.0.1").replace("[::]", "localhost");
      return {
        control,
        ...(internal !== undefined && { internal: await listenInternally(internal, config.internalAddress) }),
        operations: await listen(operations, config.operationsHost, config.operationsPort, "OPERATIONS_PORT"),
      };
    },
    firstSignInLink: signIn.firstLink,
    close: () => resources.disposeAsync(),
  };
}

function consoleOf(
  { consoleDirectory }: ControlConfig,
  catalogue: () => Catalogue,
  installation: () => Installation,
): ConsoleOptions | undefined {
  if (consoleDirectory === "") return undefined;
  return {
    directory: resolve(consoleDirectory),
    installation,
    gatewayOrigins: () => {
      const { addresses } = catalogue();
      const urls = addresses
        ? [addresses.baseUrl, ...Object.values(addresses.alternatives)]
        : [installation().gatewayUrl];
      return [...new Set(urls.filter((url) => url !== "").map((url) => new URL(url).origin))];
    },
  };
}
