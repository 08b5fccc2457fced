/**
 * A test's own Postgres: a real server on a Unix socket in its own directory, which can die and
 * start again with its data.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { postgres, programFor } from "../../apps/cli/test-programs.ts";
import { openDatabase } from "../../apps/control/database/database.ts";
import { atEnd } from "./at-end.ts";
import { cacheFor } from "./cache.ts";

/** How long a server may take to accept its first connection. */
const startMsMax = 20_000;

export interface TestPostgres extends AsyncDisposable {
  /** The server's process, whose children serve its connections. */
  pid(): number;
  /** The URL of a new, empty database on this server. */
  createDatabase(name?: string): Promise<string>;
  /** The URL of a new database on this server with control's tables, without rows. */
  createTables(): Promise<string>;
  /** Ends it at once, and starts it again with its data. */
  restart(): Promise<void>;
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** Postgres does not run as root. */
const identity = (): { uid?: number; gid?: number } => {
  if (process.getuid?.() !== 0) return {};
  const idOf = (option: string) => Number(execFileSync("id", [option, "postgres"], { encoding: "utf8" }));
  return { uid: idOf("-u"), gid: idOf("-g") };
};

/** The system keeps its writes when only the server dies. */
const settings = ["listen_addresses=", "shared_buffers=32MB", "fsync=off"];

const alive = new Set<ChildProcess>();
const directories = new Set<string>();
/** For tests that end before they dispose. */
process.on("exit", () => {
  for (const server of alive) server.kill("SIGKILL");
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

/**
 * Making a server's files and the tables takes a second, so they are made once for each version of
 * both, and copied.
 */
const cache = cacheFor("postgres", () =>
  execFileSync(join(programFor(postgres), "postgres"), ["--version"]).toString(),
);

async function makeFiles(directory: string): Promise<void> {
  const user = identity();
  const making = await mkdtemp(join(tmpdir(), "postgres-making-"));
  directories.add(making);
  if (user.uid !== undefined) chownSync(making, user.uid, user.gid as number);
  const data = join(making, "data");
  const options = ["-D", data, "-U", "sluice", "--auth=trust", "--no-sync", "-E", "UTF8"];
  execFileSync(join(programFor(postgres), "initdb"), options, { ...user, cwd: making, stdio: "ignore" });
  await using server = await serve(making);
  const url = await server.createDatabase(tablesDatabase);
  await (await openDatabase({ url, directory: making }))[Symbol.asyncDispose]();
  await server.stop();
  copyAll(data, join(directory, "data"));
}

/** Keeps the owner, which must be the one that the server runs as. */
const copyAll = (from: string, to: string) => execFileSync("cp", ["-a", from, to]);

const tablesDatabase = "tables";

export async function startPostgres(): Promise<TestPostgres> {
  const files = await cache.of(makeFiles);
  const user = identity();
  const directory = await mkdtemp(join(tmpdir(), "postgres-"));
  directories.add(directory);
  if (user.uid !== undefined) chownSync(directory, user.uid, user.gid as number);
  copyAll(join(files, "data"), join(directory, "data"));
  return serve(directory);
}

let shared: Promise<TestPostgres> | undefined;

/** The server that the tests of this process share. It runs until the last of them is over. */
export function sharedPostgres(): Promise<TestPostgres> {
  if (shared !== undefined) return shared;
  shared = startPostgres();
  atEnd(async () => (await shared)?.[Symbol.asyncDispose]());
  return shared;
}

/** Runs a server on the files in `directory`/data. */
async function serve(directory: string): Promise<TestPostgres & { stop(): Promise<void> }> {
  const program = programFor(postgres);
  const user = identity();
  const data = join(directory, "data");
  const urlOf = (database: string) => `postgres://sluice@/${database}?host=${encodeURIComponent(directory)}`;
  let server: ChildProcess | undefined;
  let databases = 0;

  const start = async () => {
    server = spawn(
      join(program, "postgres"),
      ["-D", data, "-k", directory, ...settings.flatMap((setting) => ["-c", setting])],
      { ...user, cwd: dirname(data), stdio: "ignore" },
    );
    alive.add(server);
    const since = Date.now();
    while (!(await answers(urlOf("postgres")))) {
      if (server.exitCode !== null || Date.now() - since > startMsMax) throw new Error("Postgres did not start");
      await delay(20);
    }
  };
  const end = async (signal: NodeJS.Signals) => {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, "exit");
    server.kill(signal);
    await ended;
    alive.delete(server);
  };
  // Ends it at once, without a checkpoint, and its children with it.
  const kill = () => end("SIGQUIT");
  const create = async (name: string, template = "template1") => {
    const client = new Client({ connectionString: urlOf("postgres") });
    await client.connect();
    await client.query(`create database ${name} template ${template}`);
    await client.end();
    return urlOf(name);
  };
  await start();
  return {
    pid: () => server?.pid as number,
    createDatabase: (name = `test_${++databases}`) => create(name),
    createTables: () => create(`test_${++databases}`, tablesDatabase),
    start,
    kill,
    // With a checkpoint, after which its files can be copied.
    stop: () => end("SIGINT"),
    async restart() {
      await kill();
      await start();
    },
    async [Symbol.asyncDispose]() {
      await kill();
      rmSync(directory, { recursive: true, force: true });
      directories.delete(directory);
    },
  };
}

async function answers(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
