/**
 * Sluice as `npm start` runs it: its private Redis, ingress, worker and control with the embedded
 * ledger, each with its log file, on a catalogue of the bench. Only the simulator is left out,
 * because it has nothing to do here.
 */
import type { ChildProcess } from "node:child_process";
import { on } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKey } from "#access/key.ts";
import { addRecord } from "#access/projection.ts";
import type { Environment } from "#catalogue/environment.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { guardRedis, privateRedisPlan, privateRedisUrlOf } from "../../apps/cli/private-redis.ts";
import { findRedisProgram } from "../../apps/cli/redis-program.ts";
import { type Role, roleCommands, roleEnvironmentOf, rolePlan } from "../../apps/cli/roles.ts";
import { ensureSecret, openState, checkout as ownCheckout } from "../../apps/cli/state.ts";
import { type Supervised, supervise, type Urls } from "../../apps/cli/supervise.ts";
import { startPostgres } from "../support/postgres.ts";
import { ledgerCaughtUp, ledgerRecordsOf } from "./ledger-state.ts";
import type { System } from "./system.ts";

export interface SluiceOptions {
  name: string;
  ingresses: number;
  workers: number;
  upstreamUrl: string;
  /** The requested models, by the upstream's own names. */
  models: readonly string[];
  /** Slots of a worker for the queue `chat`; by default more than any load here uses. */
  slots?: number;
  /** Bound of the waiting requests in an ingress, for the queue `chat`. */
  waitingMax?: number;
  /** The checkout to run; this one by default. */
  checkout?: string;
  /** The group of the system's key: `limited` by default (see `createKeys`). */
  group?: "default" | "limited";
  /** Control processes; one by default. More need PostgreSQL. */
  controls?: number;
  /** Control's database; the embedded one by default. */
  database?: "embedded" | "postgres";
  /** For every process. */
  environment?: Record<string, string>;
}

interface CatalogueOptions extends Pick<SluiceOptions, "models" | "upstreamUrl"> {
  waitingMax: number | undefined;
  connectionsMax: number | undefined;
}

export interface Sluice extends System {
  redisUrl: string;
  /** How many usage records control has stored. */
  ledgerRecords(): Promise<number>;
  /**
   * New keys of a group: `default`, or `limited`, whose keys have every limit, none of which is
   * ever reached.
   */
  createKeys(group: string, count: number): Promise<string[]>;
}

/** Above the default, so that 10,000 concurrent streams do not reach a limit. */
const generationsMax = 200_000;
const queueCapacity = 20_000;
const connectionsMax = 20_000;
/** A queue without workers, where jobs wait. */
export const unattendedQueue = "unattended";
export const unattendedModel = "unattended";

/**
 * A catalogue of these models of the bench's upstream; a setting that is undefined has its default.
 */
export function catalogueOf({
  models,
  upstreamUrl,
  waitingMax,
  connectionsMax: connections,
}: CatalogueOptions): string {
  const bounds = connections === undefined ? "" : `, connectionsMax: ${connections}`;
  const chat = waitingMax === undefined ? "{}" : `{ waitingMax: ${waitingMax} }`;
  const line = (id: string, queue: string, model: string) =>
    `  - { id: ${id}, queue: ${queue}, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: bench, model: ${model} }] }`;
  const most = 1_000_000_000;
  return `queues:
  chat: ${chat}
  ${unattendedQueue}: { waitingMax: ${generationsMax}, waitMs: 3600000 }
groups:
  default: { models: ["*"] }
  limited:
    models: ["*"]
    keyLimits: { requestsPerMinute: ${most}, tokensPerMinute: ${most}, generationsMax: 1000000, budgetPerDay: 1000000, budgetPerMonth: 1000000 }
upstreams:
  bench: { dialect: openai-chat, alsoSpeaks: [openai-images], baseUrl: "${upstreamUrl}/v1"${bounds} }
models:
${models.map((model) => line(model, model.startsWith("image-") ? "image" : "chat", model)).join("\n")}
${line(unattendedModel, unattendedQueue, "short-0")}
`;
}

/** The catalogue and the option of the worker in the names of version 0.1. */
const formerNames = (catalogue: string) =>
  catalogue
    .replace("queues:", "lanes:")
    .replaceAll("queue: ", "lane: ")
    .replace(/connectionsMax: (\d+)/, "limits: { connectionsMax: $1 }");

const complain = (line: string) => void process.stderr.write(`${line}\n`);
const keyspace = keyspaceOf("sluice");

/** Keys that only Redis has: control imports them, as it does with the first key of `npm start`. */
async function createKeys(redisUrl: string, group: string, count: number): Promise<string[]> {
  const connection = await connectRedis(redisUrl, "patient");
  const keys = Array.from({ length: count }, createKey);
  for (const { hash, hint } of keys)
    await addRecord(connection, keyspace, hash, {
      id: `key_${hash.slice(0, 24)}`,
      name: `bench-${hash.slice(0, 12)}`,
      group,
      hint,
      createdAt: systemClock.epoch(),
    });
  connection.disconnect();
  return keys.map(({ key }) => key);
}

/** The same commands as those of `npm start`, with the worker's queues. */
function commandsOf(slots: number | undefined, isFormer: boolean) {
  const queues = `chat=${slots ?? queueCapacity},image=8`;
  return { ...roleCommands, worker: [...roleCommands.worker, isFormer ? "--lanes" : "--queues", queues] };
}

/** Without the link to sign in, which `npm start` shows. */
async function listening(child: ChildProcess, signal: AbortSignal): Promise<Urls> {
  for await (const [message] of on(child, "message", { signal }) as AsyncIterable<[{ type: string; urls: Urls }]>)
    if (message.type === "listening") return message.urls;
  throw new Error("the process reported no address");
}

export async function startSluice(options: SluiceOptions): Promise<Sluice> {
  const { controls = 1, checkout: root = ownCheckout } = options;
  await using resources = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "sluice-bench-"));
  resources.defer(() => rm(directory, { recursive: true, force: true }));
  const state = openState(directory);
  const program = await findRedisProgram(process.env.PATH ?? "");
  if (program.kind !== "found") throw new Error("no redis-server or valkey-server on PATH that is new enough");
  const guard = guardRedis(state);
  resources.defer(guard.dismiss);
  const redis = supervise(privateRedisPlan(program.program.path, state), complain, () => {});
  resources.defer(() => redis.stop());
  await redis.serving;
  const redisUrl = privateRedisUrlOf(state);
  const [key] = await createKeys(redisUrl, options.group ?? "limited", 1);
  const postgres = options.database === "postgres" ? resources.use(await startPostgres()) : undefined;

  const isFormer = !existsSync(join(root, "apps", "cli"));
  const hasControl = controls > 0 && existsSync(join(root, "apps", "control"));
  const catalogueFile = join(directory, "catalogue.yaml");
  const catalogue = catalogueOf({ waitingMax: generationsMax, connectionsMax, ...options });
  await writeFile(catalogueFile, isFormer ? formerNames(catalogue) : catalogue);
  const environment = {
    PATH: process.env.PATH,
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
    REDIS_URL: redisUrl,
    SLUICE_CATALOGUE: catalogueFile,
    USAGE_DIRECTORY: join(directory, "usage"),
    OPERATOR_TOKEN: ensureSecret(state.operatorTokenFile),
    DATABASE_DIRECTORY: join(directory, "database"),
    ...(postgres && { DATABASE_URL: await postgres.createDatabase() }),
    PORT: "0",
    CONTROL_PORT: "0",
    GENERATIONS_MAX: String(generationsMax),
    DRAIN_MS: "0",
    ...options.environment,
  };
  const place = { root, logs: state.logs, commands: commandsOf(options.slots, isFormer), lifeline: guard.lifeline };
  const running: Supervised[] = [];
  resources.defer(async () => void (await Promise.all(running.map((role) => role.stop()))));
  const start = (role: Role, count: number, own: Environment = {}): Promise<Urls[]> => {
    const plan = {
      ...rolePlan(role, place, { ...roleEnvironmentOf(role, environment, new Set()), ...own }),
      whenServing: listening,
    };
    const started = Array.from({ length: count }, () => supervise(plan, complain, () => {}));
    running.push(...started);
    return Promise.all(started.map(({ serving }) => serving));
  };
  const [ingresses] = await Promise.all([start("ingress", options.ingresses), start("worker", options.workers)]);
  const urls = ingresses.flatMap(({ api }) => api ?? []);
  const control = hasControl ? await start("control", controls, { GATEWAY_URL: urls[0] }) : [];
  const databaseName = postgres === undefined ? "embedded database" : "PostgreSQL";

  const owned = resources.move();
  return {
    name: options.name,
    version: [
      `${options.ingresses} ingress, ${options.workers} worker`,
      hasControl ? `${controls} control with its ${databaseName}` : "no control",
      `${program.program.version}, Node ${process.versions.node}`,
    ].join(", "),
    urls,
    headers: { authorization: `Bearer ${key}` },
    processes: [
      ...[...running, redis].map((process) => ({ name: process.name, pid: process.pid() as number })),
      ...(postgres === undefined ? [] : [{ name: "postgres", pid: postgres.pid() }]),
    ],
    redisUrl,
    ledgerRecords: () => ledgerRecordsOf(control.flatMap(({ operations }) => operations ?? [])),
    createKeys: (group, count) => createKeys(redisUrl, group, count),
    ...(hasControl && { caughtUp: () => ledgerCaughtUp(redisUrl) }),
    stop: () => owned.disposeAsync(),
  };
}
