/**
 * Sluice as operators run it: the roles and the private Redis of `npm start`, with their logs, on a
 * catalogue of the bench.
 */
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createKey } from "#access/key.ts";
import { addRecord } from "#access/projection.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { guardRedis, privateRedisPlan, privateRedisUrlOf } from "../../apps/cli/private-redis.ts";
import { findRedisProgram } from "../../apps/cli/redis-program.ts";
import { openState } from "../../apps/cli/state.ts";
import { type Role, startRole } from "../support/gateway.ts";
import { end } from "./processes.ts";
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
  /** For every process: of Node, as NODE_OPTIONS. */
  environment?: Record<string, string>;
}

interface CatalogueOptions extends Pick<SluiceOptions, "models" | "upstreamUrl"> {
  waitingMax: number | undefined;
  connectionsMax: number | undefined;
}

export interface Sluice extends System {
  redisUrl: string;
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

export async function startSluice(options: SluiceOptions): Promise<Sluice> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-bench-"));
  const state = openState(directory);
  const program = await findRedisProgram(process.env.PATH ?? "");
  if (program.kind !== "found") throw new Error("no redis-server or valkey-server on PATH that is new enough");
  const plan = privateRedisPlan(program.program.path, state);
  const redis = plan.spawn(undefined);
  const guard = guardRedis(state);
  const redisUrl = privateRedisUrlOf(state);
  const roles: { name: string; role: Role }[] = [];
  const stop = async () => {
    await Promise.all(roles.map(({ role }) => end(role.process, "SIGTERM")));
    await end(redis);
    guard.dismiss();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await plan.whenServing(redis, AbortSignal.timeout(10_000));
    const catalogueFile = join(directory, "catalogue.yaml");
    const catalogue = catalogueOf({ waitingMax: generationsMax, connectionsMax, ...options });
    const isFormer = options.checkout !== undefined && !existsSync(join(options.checkout, "apps", "cli"));
    await writeFile(catalogueFile, isFormer ? formerNames(catalogue) : catalogue);
    const environment = {
      REDIS_URL: redisUrl,
      SLUICE_CATALOGUE: catalogueFile,
      PORT: "0",
      LOG_LEVEL: "info",
      GENERATIONS_MAX: String(generationsMax),
      DRAIN_MS: "0",
      ...options.environment,
    };
    const createKeys = async (group: string, count: number) => {
      const connection = await connectRedis(redisUrl, "patient");
      const keys = Array.from({ length: count }, createKey);
      for (const { hash, hint } of keys)
        await addRecord(connection, keyspaceOf("sluice"), hash, {
          id: `key_${hash.slice(0, 24)}`,
          name: `bench-${hash.slice(0, 12)}`,
          group,
          hint,
          createdAt: Date.now(),
        });
      connection.disconnect();
      return keys.map(({ key }) => key);
    };
    const [key] = await createKeys("default", 1);
    const add = async (name: string, role: string, args: string[]) => {
      roles.push({ name, role: await startRole(role, args, environment, options.checkout) });
    };
    await Promise.all([
      ...Array.from({ length: options.ingresses }, () => add("ingress", "ingress", [])),
      ...Array.from({ length: options.workers }, () =>
        add("worker", "worker", [isFormer ? "--lanes" : "--queues", `chat=${options.slots ?? queueCapacity},image=8`]),
      ),
    ]);
    return {
      name: options.name,
      version: `${options.ingresses} ingress, ${options.workers} worker, ${program.program.version}, Node ${process.versions.node}`,
      urls: roles.flatMap(({ role }) => role.urls.api ?? []),
      headers: { authorization: `Bearer ${key}` },
      processes: [
        ...roles.map(({ name, role }) => ({ name, pid: role.process.pid as number })),
        { name: "redis", pid: redis.pid as number },
      ],
      redisUrl,
      createKeys,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
