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

/** How long a server may take to accept its first connection. */
const startMsMax = 20_000;

export interface TestPostgres extends AsyncDisposable {
  /** The server's process, whose children serve its connections. */
  pid(): number;
  /** The URL of a new, empty database on this server. */
  createDatabase(): Promise<string>;
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

export async function startPostgres(): Promise<TestPostgres> {
  const program = programFor(postgres);
  const user = identity();
  const directory = await mkdtemp(join(tmpdir(), "postgres-"));
  directories.add(directory);
  if (user.uid !== undefined) chownSync(directory, user.uid, user.gid as number);
  const data = join(directory, "data");
  execFileSync(join(program, "initdb"), ["-D", data, "-U", "sluice", "--auth=trust", "--no-sync", "-E", "UTF8"], {
    ...user,
    cwd: directory,
    stdio: "ignore",
  });
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
  const kill = async () => {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, "exit");
    // SIGQUIT ends it at once, without a checkpoint, and its children with it.
    server.kill("SIGQUIT");
    await ended;
    alive.delete(server);
  };
  await start();
  return {
    pid: () => server?.pid as number,
    async createDatabase() {
      const name = `test_${++databases}`;
      const client = new Client({ connectionString: urlOf("postgres") });
      await client.connect();
      await client.query(`create database ${name}`);
      await client.end();
      return urlOf(name);
    },
    start,
    kill,
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
