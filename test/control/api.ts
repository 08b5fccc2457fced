/**
 * The API of control on a test's database, with actors of the test's choice, and a Redis for its
 * keys.
 */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { parseCatalogue } from "#catalogue/load.ts";
import { watchCatalogue } from "#catalogue/watch.ts";
import { DirectoryStore } from "#objects/directory-store.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis, type Redis } from "#service/redis.ts";
import { accountHandlers } from "../../apps/control/accounts/accounts.ts";
import { auditHandlers } from "../../apps/control/accounts/audit-log.ts";
import { tokenHandlers } from "../../apps/control/accounts/operator-tokens.ts";
import { alertHandlers } from "../../apps/control/alerts/handlers.ts";
import { Webhook } from "../../apps/control/alerts/webhook.ts";
import type { Actor } from "../../apps/control/api/actor.ts";
import { createApi } from "../../apps/control/api/server.ts";
import type { BatchService } from "../../apps/control/batches/context.ts";
import { batchErrorHandlers } from "../../apps/control/batches/error-groups.ts";
import { batchHandlers } from "../../apps/control/batches/handlers.ts";
import { batchFilesOf, batchObjectsOf } from "../../apps/control/batches/storage.ts";
import { catalogueHandlers } from "../../apps/control/catalogue/catalogue.ts";
import { catalogueFileHandlers, LastChange } from "../../apps/control/catalogue/catalogue-file.ts";
import { CredentialStore, credentialHandlers } from "../../apps/control/catalogue/credentials.ts";
import { catalogueEntryHandlers } from "../../apps/control/catalogue/entry-handlers.ts";
import { priceHandlers } from "../../apps/control/catalogue/prices.ts";
import { catalogueRevisionHandlers } from "../../apps/control/catalogue/revision-handlers.ts";
import { StoredCatalogue } from "../../apps/control/catalogue/stored-catalogue.ts";
import { trialHandlers } from "../../apps/control/catalogue/trials.ts";
import { upstreamTestHandlers } from "../../apps/control/catalogue/upstream-tests.ts";
import { controlConfigOf } from "../../apps/control/config.ts";
import { contentHandlers } from "../../apps/control/content/content-handlers.ts";
import type { Database } from "../../apps/control/database/database.ts";
import type { Role } from "../../apps/control/database/tables.ts";
import { FileStore } from "../../apps/control/files/file-store.ts";
import { fileHandlers } from "../../apps/control/files/handlers.ts";
import { KeyProjection } from "../../apps/control/keys/key-projection.ts";
import { keyHandlers } from "../../apps/control/keys/keys.ts";
import { usageHandlers } from "../../apps/control/ledger/usage-handlers.ts";
import { liveHandlers } from "../../apps/control/operations/handlers.ts";
import { type LiveStateOptions, LiveStates } from "../../apps/control/operations/live-state.ts";
import { settingsHandlers } from "../../apps/control/settings/handlers.ts";
import { Settings } from "../../apps/control/settings/settings.ts";
import { createMail } from "../../apps/control/sign-in/mail.ts";
import { authSecretOf } from "../../apps/control/sign-in/secret.ts";
import { createSignIn } from "../../apps/control/sign-in/sign-in.ts";
import { viewHandlers } from "../../apps/control/views/handlers.ts";
import { webhookHandlers } from "../../apps/control/webhooks/handlers.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";

const log = pino({ level: process.env.TEST_LOGS ? "info" : "silent" });

const catalogueText = `groups: { default: { models: ["*"] }, last: { models: ["*"], priority: background }, narrow: { models: [one], keyLimits: { requestsPerMinute: 60, budgetPerDay: 2.5 } } }
upstreams: { u: { dialect: openai-chat, baseUrl: "http://127.0.0.1:1" } }
models:
  - { id: one, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: u, model: m }] }
`;
export const catalogue = parseCatalogue(Buffer.from(catalogueText), "catalogue.yaml", {});

export const operator: Actor = { kind: "token", id: "op", name: "op", isOperator: true, roles: new Map() };
export const person = (id: string, roles: Record<string, Role>): Actor => ({
  kind: "person",
  id,
  name: `${id}@example.com`,
  isOperator: false,
  roles: new Map(Object.entries(roles)),
  session: `session-${id}`,
});

export interface Answer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every operation.
  body: any;
}

export interface TestApi extends AsyncDisposable {
  readonly server: TestRedis;
  readonly redis: Redis;
  readonly keyspace: ReturnType<typeof keyspaceOf>;
  readonly database: Database;
  readonly projection: KeyProjection;
  readonly files: FileStore;
  /** Calls the API as an actor; nobody if undefined. */
  call(
    actor: Actor | undefined,
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer>;
}

/** The values of CREDENTIALS_SECRET, which a test may change. */
export const credentialsSecrets = ["a secret of the tests that seals credentials"];

let namespaces = 0;

/** With a Redis of its own. The keys of the database are in its Redis afterwards. */
export async function startApi(database: Database): Promise<TestApi> {
  await using opened = new AsyncDisposableStack();
  const server = opened.use(await startRedis());
  const redis = await connectRedis(server.url, "request");
  opened.defer(() => redis.disconnect());
  redis.on("error", () => {});
  const keyspace = keyspaceOf(`test-${++namespaces}`);
  const projection = new KeyProjection({ clock: systemClock, database, redis, keyspace, log });
  await projection.start();
  opened.defer(() => projection.close());
  const actors = new Map<string, Actor>();
  const address = () => "http://localhost";
  const secret = await authSecretOf(database, undefined);
  const changed = (account: string) => projection.projectAccount(account);
  const directory = await mkdtemp(join(tmpdir(), "sluice-api-"));
  opened.defer(() => rm(directory, { recursive: true, force: true }));
  const file = join(directory, "catalogue.yaml");
  await writeFile(file, catalogueText);
  const watch = watchCatalogue(file, {}, { onChange() {}, onFault() {} });
  opened.defer(() => watch.close());
  const isReadOnly = false;
  const credentials = new CredentialStore({
    ...{ database, redis, keyspace, clock: systemClock, log },
    secrets: () => credentialsSecrets,
    users: (tables) => stored.credentialUsers(tables),
  });
  const backends = { database, redis, keyspace, credentials, log };
  const stored = new StoredCatalogue({ ...backends, watch, file, environment: {}, isReadOnly });
  await stored.start();
  opened.defer(() => stored.close());
  const settings = new Settings({ database, environment: {}, secret, log });
  await settings.start();
  opened.defer(() => settings.close());
  const mail = createMail(settings.current, log);
  opened.defer(() => mail.close());
  const webhook = new Webhook({ clock: systemClock, database, settings: settings.current, log });
  opened.defer(() => webhook.close());
  const signIn = opened.use(
    await createSignIn({
      ...{ clock: systemClock, database, config: controlConfigOf({}), secret, mail, address, log },
      settings: settings.current,
    }),
  );
  const ledger = {
    counts: { inserted: 0, invalid: 0 },
    budgets: { differences: 0 },
    lagSeconds: async () => 0,
    invalidRecords: async () => 0,
  } as LiveStateOptions["ledger"];
  const states = new LiveStates({
    clock: systemClock,
    redis,
    keyspace,
    catalogue: () => catalogue,
    catalogueFault: () => undefined,
    ledger,
    database: "embedded",
  });
  const config = controlConfigOf({});
  const objects = new DirectoryStore(directory);
  const files = new FileStore({ clock: systemClock, config, database, objects, secret, log });
  const batches: BatchService = {
    database,
    objects: batchObjectsOf(objects, secret),
    files: batchFilesOf(files),
    clock: systemClock,
    bounds: { linesMax: undefined, tokensMax: 1_000, batchesMax: 2, usageWaitMs: 0 },
    modelsOf: async () => (model) => model === "one",
    findFile: (account, id) => files.find(account, id),
    wake: () => undefined,
  };
  const api = await createApi({
    clock: systemClock,
    database,
    handlers: {
      ...accountHandlers({ catalogue: () => catalogue, changed }),
      ...contentHandlers({ secret, changed }),
      ...keyHandlers({ catalogue: () => catalogue, projection, redis, keyspace }),
      ...usageHandlers({ currency: () => "USD" }),
      ...catalogueHandlers(
        () => catalogue,
        () => settings.current().gatewayUrl,
      ),
      ...catalogueFileHandlers({
        file,
        environment: {},
        watch,
        lastChange: new LastChange(file, systemClock),
        stored: () => stored.active,
      }),
      ...catalogueEntryHandlers({ file, watch, stored }),
      ...catalogueRevisionHandlers({ file, watch, stored }),
      ...priceHandlers({ stored, catalogue: watch.current, environment: {} }),
      ...trialHandlers("a secret of ingresses and control in this test"),
      ...credentialHandlers(credentials),
      ...upstreamTestHandlers({
        ...{ redis, keyspace, clock: systemClock },
        environment: {},
        seal: (name, value) => credentials.seal(name, value),
        entries: () => stored.entries(),
      }),
      ...liveHandlers({ states, redis, keyspace, catalogue: () => catalogue }),
      ...settingsHandlers({ settings, mail, webhook, oidcTests: signIn.tests }),
      ...viewHandlers,
      ...batchHandlers(batches),
      ...batchErrorHandlers(batches),
      ...fileHandlers(files),
      ...webhookHandlers({ secret, networks: [], wake: () => undefined }),
      ...signIn.handlers,
      ...tokenHandlers,
      ...auditHandlers,
      ...alertHandlers,
    },
    identify: async ({ headers: { "x-actor": id } }) => actors.get(String(id)),
    addRoutes: signIn.addRoutes,
    console: undefined,
    trustedProxies: [],
    callsPerMinute: 1_000_000,
    log,
    version: "0",
  });
  opened.defer(() => api.close());
  const resources = opened.move();
  return {
    server,
    database,
    redis,
    keyspace,
    projection,
    files,
    async call(actor, method, path, body, headers = {}) {
      if (actor !== undefined) actors.set(actor.id, actor);
      const response = await api.inject({
        method: method as "GET",
        url: `/api/v1${path}`,
        headers: { ...headers, ...(actor && { "x-actor": actor.id }) },
        ...(body !== undefined && { payload: body as object }),
      });
      const isJson = /json\b/.test(String(response.headers["content-type"]));
      return {
        status: response.statusCode,
        headers: response.headers,
        text: response.body,
        body: isJson ? JSON.parse(response.body) : undefined,
      };
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
