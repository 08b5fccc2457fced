/**
 * Redis with replicas, in a test: a primary behind Sentinels, and a cluster. Servers of a test
 * listen on ports of the loopback address.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { startProgram, temporaryDirectory } from "./redis.ts";
import {
  redisUrlOf,
  type Security,
  type SecurityOptions,
  sentinelSecurityOf,
  serverSecurityOf,
} from "./redis-security.ts";
import { freePort } from "./tcp.ts";

const host = "127.0.0.1";

/** A server of a topology, which can die, freeze and come back. */
export interface Server {
  readonly port: number;
  /**
   * Where clients and the other servers find it: the port itself, or that of something before it.
   */
  readonly announcedPort: number;
  kill(): Promise<void>;
  pause(): void;
  resume(): void;
  /** After `kill`: starts it again, with what it has on disk. */
  restart(): Promise<void>;
  /** Runs `use` with a connection to this server alone. */
  ask<Result>(use: (redis: Redis) => Promise<Result>): Promise<Result>;
}

export interface Topology extends AsyncDisposable {
  url: string;
  /** Primaries and replicas. */
  servers: readonly Server[];
  /** The server that is now the primary of this key. */
  primaryOf(key: string): Promise<Server>;
  /** Makes a replica the primary of this key in an orderly way. */
  failOver(key: string): Promise<void>;
  /**
   * Resolves when every server answers and follows its primary, so that another fail-over is
   * possible.
   */
  settled(): Promise<void>;
}

async function ask<Result>(
  port: number,
  { access }: Security,
  use: (redis: Redis) => Promise<Result>,
): Promise<Result> {
  const redis = new Redis({
    ...access,
    host,
    port,
    lazyConnect: true,
    retryStrategy: () => null,
    commandTimeout: 2_000,
  });
  redis.on("error", () => {});
  try {
    await redis.connect();
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}

const answers = (port: number, security: Security) =>
  ask(port, security, (redis) => redis.ping()).then(
    () => true,
    () => false,
  );

/** `settingsOf` gets the announced port. */
async function startServer(
  directory: string,
  announce: Announce,
  security: Security,
  settingsOf: (announcedPort: number) => readonly string[][],
): Promise<Server & { end(): Promise<void> }> {
  const port = await freePort();
  const announcedPort = await announce(port);
  const all = [
    ...security.settingsOf(port),
    ["--bind", host],
    ["--dir", directory],
    ["--appendonly", "yes"],
    ["--appendfilename", `${port}.aof`],
    ["--appenddirname", `${port}`],
    ["--dbfilename", `${port}.rdb`],
    ["--repl-diskless-sync-delay", "0"],
    ...settingsOf(announcedPort),
  ].flat();
  const start = () => startProgram(all, () => answers(port, security));
  let process: ChildProcess = await start();
  const kill = async () => {
    if (process.exitCode !== null || process.signalCode !== null) return;
    const ended = once(process, "exit");
    process.kill("SIGKILL");
    await ended;
  };
  return {
    port,
    announcedPort,
    kill,
    end: kill,
    pause: () => void process.kill("SIGSTOP"),
    resume: () => void process.kill("SIGCONT"),
    restart: async () => {
      await kill();
      process = await start();
    },
    ask: (use) => ask(port, security, use),
  };
}

/**
 * Puts something before a server's port, such as a proxy, and returns the port that the server
 * announces instead of its own.
 */
export type Announce = (port: number) => Promise<number>;

const itself: Announce = async (port) => port;

/**
 * Calls `check` until it resolves to a value that is not undefined; a rejection counts as
 * undefined.
 */
async function eventually<Value>(what: string, check: () => Promise<Value | undefined>): Promise<Value> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const value = await check().catch(() => undefined);
    if (value !== undefined) return value;
    if (performance.now() > deadline) throw new Error(`not within 30 s: ${what}`);
    await delay(20);
  }
}

async function allFollow(servers: readonly Server[], primaries: number): Promise<void> {
  await eventually("every replica follows its primary", async () => {
    const infos = await Promise.all(servers.map((server) => server.ask((redis) => redis.info("replication"))));
    const count = (text: string) => infos.filter((info) => info.includes(text)).length;
    return count("role:master") === primaries && count("master_link_status:up") === servers.length - primaries
      ? true
      : undefined;
  });
}

/** One server, which keeps its data on disk. */
export async function startSingle({
  announce = itself,
  security = {},
}: {
  announce?: Announce;
  security?: SecurityOptions;
} = {}): Promise<Topology> {
  const directory = await temporaryDirectory("single-");
  const server = await startServer(directory, announce, await serverSecurityOf(directory, security), () => []);
  return {
    url: redisUrlOf([server.announcedPort], security),
    servers: [server],
    primaryOf: async () => server,
    failOver: async () => {
      throw new Error("a single server has no replica");
    },
    settled: () => allFollow([server], 1),
    [Symbol.asyncDispose]: async () => {
      await server.end();
      await rm(directory, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

export interface SentinelOptions {
  announce?: Announce;
  security?: SecurityOptions;
  /** How long the primary may be silent before the Sentinels replace it. */
  downAfterMs?: number;
  replicas?: number;
}

/** One primary with replicas behind three Sentinels. */
export async function startSentinels({
  announce = itself,
  security = {},
  downAfterMs = 2_000,
  replicas = 1,
}: SentinelOptions = {}): Promise<Topology> {
  const directory = await temporaryDirectory("sentinels-");
  const serverSecurity = await serverSecurityOf(directory, security);
  const settingsOf = (port: number) => [
    ...serverSecurity.replicaSettings,
    ["--replica-announce-port", String(port)],
    // A primary that was replaced while it stood still takes no more writes. With one replica it
    // would take none either once that is away.
    ...(replicas > 1 ? [["--min-replicas-to-write", "1"]] : []),
  ];
  const primary = await startServer(directory, announce, serverSecurity, settingsOf);
  const servers = [primary];
  for (let count = 0; count < replicas; count++)
    servers.push(
      await startServer(directory, announce, serverSecurity, (port) => [
        ...settingsOf(port),
        ["--replicaof", host, String(primary.announcedPort)],
      ]),
    );
  await eventually("the replicas follow", async () => {
    const role = (await primary.ask((redis) => redis.role())) as [string, number, unknown[]];
    return role[2].length === replicas ? true : undefined;
  });
  const sentinelSecurity = await sentinelSecurityOf(directory, security);
  const sentinels: { port: number; announcedPort: number; process: ChildProcess }[] = [];
  for (let count = 0; count < 3; count++) {
    const port = await freePort();
    const file = join(directory, `sentinel-${port}.conf`);
    const lines = [
      ...sentinelSecurity.settingsOf(port).map(([name, value]) => `${name?.slice(2)} ${value}`),
      `bind ${host}`,
      `dir ${directory}`,
      `sentinel monitor mymaster ${host} ${primary.announcedPort} 2`,
      `sentinel down-after-milliseconds mymaster ${downAfterMs}`,
      "sentinel failover-timeout mymaster 5000",
      "sentinel parallel-syncs mymaster 1",
      ...sentinelSecurity.lines,
    ];
    await writeFile(file, `${lines.join("\n")}\n`);
    const process = await startProgram([file, "--sentinel"], () => answers(port, sentinelSecurity));
    sentinels.push({ port, announcedPort: await announce(port), process });
  }
  const first = sentinels[0]?.port as number;
  await eventually("the Sentinels know each other and the replicas", async () => {
    const [fields] = (await ask(first, sentinelSecurity, (redis) => redis.call("SENTINEL", "MASTERS"))) as string[][];
    const of = (name: string) => Number(fields?.[(fields?.indexOf(name) ?? 0) + 1]);
    return of("num-other-sentinels") === 2 && of("num-slaves") === replicas ? true : undefined;
  });
  const primaryPort = async () => {
    const address = (await ask(first, sentinelSecurity, (redis) =>
      redis.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"),
    )) as string[];
    return Number(address[1]);
  };
  const primaryOf = async () => {
    const port = await primaryPort();
    return servers.find((server) => server.announcedPort === port) as Server;
  };
  return {
    url: redisUrlOf(
      sentinels.map(({ announcedPort }) => announcedPort),
      security,
    ),
    servers,
    primaryOf,
    failOver: async () => {
      const before = await primaryPort();
      await ask(first, sentinelSecurity, (redis) => redis.call("SENTINEL", "FAILOVER", "mymaster"));
      await eventually("another primary", async () => ((await primaryPort()) === before ? undefined : true));
    },
    settled: () => allFollow(servers, 1),
    [Symbol.asyncDispose]: async () => {
      for (const { process } of sentinels) process.kill("SIGKILL");
      for (const server of servers) await server.end();
      await rm(directory, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

export interface ClusterOptions {
  announce?: Announce;
  security?: SecurityOptions;
  primaries?: number;
  nodeTimeoutMs?: number;
}

const slotsSize = 16_384;

async function startClusterServer(
  directory: string,
  announce: Announce,
  security: Awaited<ReturnType<typeof serverSecurityOf>>,
  count: number,
  nodeTimeoutMs: number,
) {
  const busPort = String(await freePort());
  return startServer(directory, announce, security, (announcedPort) => [
    ...security.replicaSettings,
    ["--cluster-enabled", "yes"],
    ["--cluster-config-file", join(directory, `nodes-${count}.conf`)],
    ["--cluster-port", busPort],
    ["--cluster-announce-ip", host],
    ["--cluster-announce-port", String(announcedPort)],
    ["--cluster-announce-bus-port", busPort],
    ["--cluster-node-timeout", String(nodeTimeoutMs)],
    ["--cluster-require-full-coverage", "no"],
    ["--cluster-replica-validity-factor", "0"],
  ]);
}

/** A cluster of primaries with one replica each. */
export async function startCluster({
  announce = itself,
  security = {},
  primaries = 3,
  nodeTimeoutMs = 2_000,
}: ClusterOptions = {}): Promise<Topology> {
  const directory = await temporaryDirectory("cluster-");
  const serverSecurity = await serverSecurityOf(directory, security);
  const servers: Awaited<ReturnType<typeof startServer>>[] = [];
  for (let count = 0; count < primaries * 2; count++)
    servers.push(await startClusterServer(directory, announce, serverSecurity, count, nodeTimeoutMs));
  const idOf = (server: Server) => server.ask((redis) => redis.cluster("MYID")) as Promise<string>;
  const busPortOf = (server: Server) =>
    server.ask(async (redis) => Number(((await redis.config("GET", "cluster-port")) as string[])[1]));
  const first = servers[0] as Server;
  for (const [index, server] of servers.entries()) {
    if (index < primaries) {
      const from = Math.floor((index * slotsSize) / primaries);
      const to = Math.floor(((index + 1) * slotsSize) / primaries) - 1;
      await server.ask((redis) => redis.cluster("ADDSLOTSRANGE", from, to));
      await server.ask((redis) => redis.call("CLUSTER", "SET-CONFIG-EPOCH", index + 1));
    }
    if (index > 0) {
      const busPort = await busPortOf(first);
      await server.ask((redis) => redis.call("CLUSTER", "MEET", host, first.port, busPort));
    }
  }
  const nodesOf = (server: Server) =>
    server.ask(async (redis) => ((await redis.cluster("NODES")) as string).trim().split("\n"));
  await eventually("all servers know each other", async () => {
    const nodes = await Promise.all(servers.map(nodesOf));
    return nodes.every((nodes) => nodes.filter((node) => !node.includes("handshake")).length === servers.length)
      ? true
      : undefined;
  });
  for (const [index, server] of servers.entries())
    if (index >= primaries) {
      const id = await idOf(servers[index - primaries] as Server);
      await server.ask((redis) => redis.cluster("REPLICATE", id));
    }
  await eventually("the cluster is ready", async () => {
    for (const [index, server] of servers.entries()) {
      const info = (await server.ask((redis) => redis.cluster("INFO"))) as string;
      if (!info.includes("cluster_state:ok")) return undefined;
      const isReplica = index >= primaries;
      if (isReplica && !(await server.ask((redis) => redis.info("replication"))).includes("master_link_status:up"))
        return undefined;
      const nodes = await nodesOf(server);
      if (nodes.filter((node) => / (?:myself,)?slave /.test(node)).length !== primaries) return undefined;
    }
    return true;
  });
  const living = async () => {
    const answering = await Promise.all(
      servers.map(async (server) => ((await answers(server.port, serverSecurity)) ? server : undefined)),
    );
    return answering.filter((server) => server !== undefined);
  };
  /** As a server that answers sees it: by slot, the ports of the primary and of its replicas. */
  const ownersOf = async (key: string): Promise<number[]> => {
    const [server] = await living();
    if (server === undefined) throw new Error("no server of the cluster answers");
    const slot = await server.ask((redis) => redis.cluster("KEYSLOT", key) as Promise<number>);
    const ranges = await server.ask((redis) => redis.cluster("SLOTS"));
    const [, , ...owners] = ranges.find(([from, to]) => slot >= from && slot <= to) ?? [0, 0];
    return owners.map(([, port]) => port);
  };
  const serverAt = (port: number | undefined) => servers.find((server) => server.announcedPort === port) as Server;
  return {
    url: redisUrlOf(
      servers.map(({ announcedPort }) => announcedPort),
      security,
    ),
    servers,
    primaryOf: async (key) => serverAt((await ownersOf(key))[0]),
    failOver: async (key) => {
      const [before, replica] = await eventually("a replica", async () => {
        const owners = await ownersOf(key);
        return owners.length > 1 ? owners : undefined;
      });
      await serverAt(replica).ask((redis) => redis.cluster("FAILOVER"));
      await eventually("another primary", async () => ((await ownersOf(key))[0] === before ? undefined : true));
    },
    settled: () => allFollow(servers, primaries),
    [Symbol.asyncDispose]: async () => {
      await Promise.all(servers.map((server) => server.end()));
      await rm(directory, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}
