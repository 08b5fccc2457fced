/** Starts and observes a supervisor in its own directory. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isAlive } from "#service/lock.js";
import { type Ready, readReady, stateOf } from "../../apps/cli/state.ts";

export const checkout = fileURLToPath(new URL("../..", import.meta.url));
const fixture = fileURLToPath(new URL("fixtures/gateway.ts", import.meta.url));
const waitMsMax = 20_000;

/**
 * A directory that looks like a fresh checkout to the supervisor. Disposing it kills its processes
 * and deletes it.
 */
export function makeRoot(name = "sluice root "): Disposable & { root: string } {
  const root = mkdtempSync(join(tmpdir(), name));
  cpSync(join(checkout, "catalogue.yaml"), join(root, "catalogue.yaml"));
  return {
    root,
    [Symbol.dispose]: () => {
      for (const pid of processesOf(root)) process.kill(pid, "SIGKILL");
      rmSync(root, { recursive: true, force: true });
      rmSync(stateOf(root).redisSocket, { force: true });
    },
  };
}

export interface Gateway {
  child: ChildProcess;
  /** The output so far. */
  output(): { out: string; error: string };
  /** Resolves when ready.json exists; rejects when the gateway ends first. */
  ready(): Promise<Ready>;
  /** The exit code or the signal. */
  ended: Promise<number | NodeJS.Signals>;
}

/** Uses a private Redis and free ports, unless the environment sets others. */
export function startGateway(root: string, environment: NodeJS.ProcessEnv = {}): Gateway {
  const { REDIS_URL: _, NODE_TEST_CONTEXT: __, ...inherited } = process.env;
  const child = spawn(process.execPath, [fixture, root], {
    env: { ...inherited, PORT: "0", CONTROL_PORT: "0", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const output = { out: "", error: "" };
  child.stdout.on("data", (chunk) => {
    output.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    output.error += chunk;
  });
  const ended = once(child, "close").then(([code, signal]) => code ?? signal);
  const ready = () =>
    until(`the gateway to be ready; its output: ${output.out}${output.error}`, () => {
      if (child.exitCode !== null) throw new Error(`the gateway ended with ${child.exitCode}: ${output.error}`);
      return output.out.includes("Sluice is ready") ? readReady(stateOf(root)) : undefined;
    });
  return { child, output: () => output, ready, ended };
}

/** Polls until `look` returns a value; fails after a time-out with `what` in the message. */
export async function until<Value>(
  what: string,
  look: () => Value | undefined | false | Promise<Value | undefined | false>,
): Promise<Value> {
  const deadline = performance.now() + waitMsMax;
  for (;;) {
    const value = await look();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > deadline) throw new Error(`timed out waiting for ${what}`);
    await delay(20);
  }
}

/**
 * Every other process with the directory in its command line or environment; none where the system
 * has no /proc.
 */
export function processesOf(root: string): number[] {
  if (!existsSync("/proc/self")) return [];
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid && !isGone(pid))
    .filter((pid) => procTextOf(pid, "cmdline").includes(root) || procTextOf(pid, "environ").includes(root));
}

/** Whether the process has ended; its parent may not have collected its status yet. */
export const isGone = (pid: number): boolean => !isAlive(pid) || /\) Z /.test(procTextOf(pid, "stat"));

function procTextOf(pid: number, name: "cmdline" | "environ" | "stat"): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch {
    return "";
  }
}
