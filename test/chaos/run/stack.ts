/**
 * The gateway of a chaos run: real processes, with a fault proxy before every server that they
 * speak to.
 */
import { mkdir, writeFile } from "node:fs/promises";
import type { NetConnectOpts } from "node:net";
import { join } from "node:path";
import { createKey } from "#access/key.ts";
import { type ControlProcess, startControlProcess } from "../../support/control.ts";
import { type Role, startRole } from "../../support/gateway.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres.ts";
import {
  type Announce,
  type SentinelOptions,
  startCluster,
  startSentinels,
  startSingle,
  type Topology,
} from "../../support/redis-topologies.ts";
import { until } from "../../support/time.ts";
import { catalogueText } from "./catalogue.ts";
import { type FaultProxy, openProxy } from "./proxy.ts";

export const topologyNames = ["single", "sentinel", "cluster"] as const;
export type TopologyName = (typeof topologyNames)[number];

export type Kind = "ingress" | "chat worker" | "image worker" | "control";

/** A process of the gateway, which can end and start again under the same name and address. */
export interface Member {
  readonly name: string;
  readonly kind: Kind;
  /** Undefined while it has not started. */
  role: Role | undefined;
  /** Starts it again after it ended. */
  start(): Promise<void>;
}

export interface Keys {
  /** Without limits. */
  plain: string;
  /** With more requests per minute than callers send only now and then. */
  limited: string;
  /**
   * With generations at once and a budget that is never reached: its counters are compared with the
   * ledger.
   */
  budgeted: string;
}

export interface Stack extends AsyncDisposable {
  topology: Topology;
  topologyName: TopologyName;
  members: readonly Member[];
  postgres: TestPostgres;
  proxies: Proxies;
  /** URLs for callers, by ingress. */
  urls: readonly string[];
  simulatorUrl: string;
  catalogueFile: string;
  keys: Keys;
  /** As it runs now. */
  control(): ControlProcess;
}

export interface Proxies {
  /** Between callers and ingresses. */
  ingresses: readonly FaultProxy[];
  /** Before each Redis server and Sentinel. */
  redis: readonly FaultProxy[];
  upstream: FaultProxy;
  postgres: FaultProxy;
}

/** Generations at once of the key `budgeted`. */
export const budgetedGenerationsMax = 24;

const limits: Record<keyof Keys, Record<string, number>> = {
  plain: {},
  limited: { requestsPerMinute: 60 },
  budgeted: { generationsMax: budgetedGenerationsMax, budgetTotal: 1_000_000 },
};

export const pidOf = ({ role }: Member): number | undefined =>
  role === undefined || role.hasEnded ? undefined : role.process.pid;

export async function startStack(topologyName: TopologyName, directory: string): Promise<Stack> {
  await using cleanup = new AsyncDisposableStack();
  const proxied = async (target: NetConnectOpts) => cleanup.use(await openProxy(target));
  const servers = await startServers(topologyName, cleanup, proxied);
  const catalogueFile = join(directory, "catalogue.yaml");
  await writeFile(catalogueFile, catalogueText(1));
  const ingresses: FaultProxy[] = [];
  for (let number = 1; number <= 2; number++) ingresses.push(await proxied({ host: "127.0.0.1", port: 1 }));
  const members: Member[] = [];
  cleanup.defer(async () => {
    await Promise.all(members.map(({ role }) => (role?.hasEnded ? undefined : role?.kill())));
  });
  const environment = {
    REDIS_URL: servers.topology.url,
    SLUICE_CATALOGUE: catalogueFile,
    SIMULATOR_URL: `http://127.0.0.1:${servers.upstream.port}`,
    PORT: "0",
    LOG_LEVEL: "error",
    INTERNAL_SECRET: "the secret of ingress and control in chaos runs",
    CONTROL_INTERNAL_URL: `unix:${join(directory, "control.sock")}`,
  };
  const control = await startMembers(members, environment, { directory, ingresses, databaseUrl: servers.databaseUrl });
  const urls = ingresses.map(({ port }) => `http://127.0.0.1:${port}`);
  const keys = await createKeys(control(), urls);
  const owned = cleanup.move();
  const { topology, postgres, simulatorUrl, redis, upstream, database } = servers;
  return {
    topology,
    topologyName,
    members,
    postgres,
    proxies: { ingresses, redis, upstream, postgres: database },
    urls,
    simulatorUrl,
    catalogueFile,
    keys,
    control,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Servers that the gateway's processes connect to, each with its proxy. */
async function startServers(
  topologyName: TopologyName,
  cleanup: AsyncDisposableStack,
  proxied: (target: NetConnectOpts) => Promise<FaultProxy>,
) {
  const redis: FaultProxy[] = [];
  const announce: Announce = async (port) => {
    const proxy = await proxied({ host: "127.0.0.1", port });
    redis.push(proxy);
    return proxy.port;
  };
  const startWithTwoReplicas = (options: SentinelOptions) => startSentinels({ ...options, replicas: 2 });
  const start = { single: startSingle, sentinel: startWithTwoReplicas, cluster: startCluster }[topologyName];
  const topology = cleanup.use(await start({ announce }));
  const postgres = cleanup.use(await startPostgres());
  const [, name, socketDirectory] = /@\/(\w+)\?host=(.+)$/.exec(await postgres.createDatabase()) as string[];
  const database = await proxied({ path: join(decodeURIComponent(socketDirectory as string), ".s.PGSQL.5432") });
  const simulator = await startRole("simulator", [], {});
  cleanup.defer(() => simulator.kill());
  const simulatorUrl = simulator.urls.simulator as string;
  const upstream = await proxied({ host: "127.0.0.1", port: Number(new URL(simulatorUrl).port) });
  const databaseUrl = `postgres://sluice@127.0.0.1:${database.port}/${name}`;
  return { topology, redis, postgres, database, databaseUrl, simulatorUrl, upstream };
}

interface MemberOptions {
  directory: string;
  /** One for each ingress to start. */
  ingresses: readonly FaultProxy[];
  databaseUrl: string;
}

/** Starts the gateway's processes one after the other; the result tells the control that runs. */
async function startMembers(
  members: Member[],
  environment: Record<string, string>,
  { directory, ingresses, databaseUrl }: MemberOptions,
): Promise<() => ControlProcess> {
  const add = async (kind: Kind, name: string, launch: (own: Record<string, string>) => Promise<Role>) => {
    const USAGE_DIRECTORY = join(directory, name.replaceAll(" ", "-"));
    await mkdir(USAGE_DIRECTORY, { recursive: true });
    const member: Member = {
      name,
      kind,
      role: undefined,
      async start() {
        this.role = await supervised(() => launch({ ...environment, USAGE_DIRECTORY }));
      },
    };
    members.push(member);
    await member.start();
  };
  let control: ControlProcess | undefined;
  await add("control", "control", async (own) => {
    control = await startControlProcess({
      ...own,
      DATABASE_URL: databaseUrl,
      CONTROL_CALLS_PER_MINUTE: "100000",
      CONTROL_INTERNAL_ADDRESS: String(environment.CONTROL_INTERNAL_URL),
      FILES_DIRECTORY: join(directory, "files"),
      INGRESS_URL: `http://127.0.0.1:${ingresses[0]?.port}`,
      BATCH_CONCURRENCY: "8",
    });
    return control.role;
  });
  for (const [place, proxy] of ingresses.entries())
    await add("ingress", `ingress ${place + 1}`, async (own) => {
      const role = await startRole("ingress", [], { ...own, DRAIN_NOTICE_MS: "500", DRAIN_MS: "20000" });
      proxy.leadTo({ host: "127.0.0.1", port: Number(new URL(role.urls.api as string).port) });
      return role;
    });
  const addWorker = (kind: "chat worker" | "image worker", name: string, queues: string) =>
    add(kind, name, (own) => startRole("worker", ["--queues", queues], { ...own, DRAIN_MS: "8000" }));
  for (let number = 1; number <= 3; number++)
    await addWorker("chat worker", `chat worker ${number}`, "chat=200,background=50");
  await addWorker("image worker", "image worker", "image=8");
  return () => control as ControlProcess;
}

const startsMax = 10;

/** Starts a process again when it finds no Redis at its start, as supervisors do. */
async function supervised(launch: () => Promise<Role>): Promise<Role> {
  for (let starts = 1; ; starts++)
    try {
      return await launch();
    } catch (error) {
      if (starts === startsMax) throw error;
    }
}

async function createKeys(control: ControlProcess, urls: readonly string[]): Promise<Keys> {
  const entries = Object.entries(limits).map(async ([name, limit]) => [name, await addKey(control, name, limit)]);
  const keys: Keys = Object.fromEntries(await Promise.all(entries));
  for (const url of urls)
    for (const key of Object.values(keys)) await until("the key is known", () => isKnown(url, key), 20_000);
  return keys;
}

/** A new key of an account of its own. */
export async function addKey(control: ControlProcess, name: string, limit: Record<string, number>): Promise<string> {
  const id = `chaos-${name}-${createKey().hash.slice(0, 6)}`;
  for (const [path, body] of [
    ["/accounts", { id, name: id }],
    ["/keys", { account: id, name, group: "default", limits: limit }],
  ] as const) {
    const response = await control.call("POST", path, body);
    const text = await response.text();
    if (response.status !== 201) throw new Error(`POST ${path}: ${response.status} ${text}`);
    if (path === "/keys") return (JSON.parse(text) as { key: string }).key;
  }
  throw new Error("no key was created");
}

export const isKnown = async (url: string, key: string): Promise<boolean> =>
  (await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status === 200;
