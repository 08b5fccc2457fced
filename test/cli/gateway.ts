/** Starts and watches a supervisor in a directory of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isAlive } from "../../apps/cli/lock.js";
import { type Ready, readReady, stateOf } from "../../apps/cli/state.ts";

export const checkout = fileURLToPath(new URL("../..", import.meta.url));
const fixture = fileURLToPath(new URL("fixtures/gateway.ts", import.meta.url));
const waitMsMax = 20_000;

/** A directory like a fresh checkout, as far as the supervisor looks at it; gone at the end, with all that still runs in it. */
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
  /** What it has written so far. */
  output(): { out: string; error: string };
  /** When ready.json is there; rejects when it ends first. */
  ready(): Promise<Ready>;
  /** Its exit code, or the signal that ended it. */
  ended: Promise<number | NodeJS.Signals>;
}

/** Without REDIS_URL and on free ports unless the environment says otherwise. */
export function startGateway(root: string, environment: NodeJS.ProcessEnv = {}): Gateway {
  const { REDIS_URL: _, NODE_TEST_CONTEXT: __, ...inherited } = process.env;
  const child = spawn(process.execPath, [fixture, root], {
    env: { ...inherited, PORT: "0", ...environment },
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
    until(`the gateway to be ready, which says: ${output.out}${output.error}`, () => {
      if (child.exitCode !== null) throw new Error(`the gateway ended with ${child.exitCode}: ${output.error}`);
      return output.out.includes("Sluice is ready") ? readReady(stateOf(root)) : undefined;
    });
  return { child, output: () => output, ready, ended };
}

/** Polls until there is something; fails after a while, naming what it waited for. */
export async function until<Value>(
  what: string,
  look: () => Value | undefined | false | Promise<Value | undefined | false>,
): Promise<Value> {
  const deadline = performance.now() + waitMsMax;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await delay(20);
  }
}

/** Every process that has the directory on its command line or in its environment, but this one; none where the system has no /proc. */
export function processesOf(root: string): number[] {
  if (!existsSync("/proc/self")) return [];
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid && !isGone(pid))
    .filter((pid) => procTextOf(pid, "cmdline").includes(root) || procTextOf(pid, "environ").includes(root));
}

/** Ended, though perhaps not yet waited for by its parent. */
export const isGone = (pid: number): boolean => !isAlive(pid) || /\) Z /.test(procTextOf(pid, "stat"));

function procTextOf(pid: number, name: "cmdline" | "environ" | "stat"): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch {
    return "";
  }
}
