/** `npm start` in a copy of this checkout, so that the checkout's own state stays unchanged. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { checkout, type Ready, readReady, stateOf } from "../../apps/cli/state.ts";

const startMsMax = 60_000;
const lookMs = 5;

/** The files that `npm start` needs. The caller removes the directory. */
export function copyOfCheckout(): string {
  const root = mkdtempSync(join(tmpdir(), "sluice-bench-start-"));
  for (const name of ["apps", "libs", "package.json", "package-lock.json", "catalogue.yaml"])
    cpSync(join(checkout, name), join(root, name), { recursive: true });
  for (const name of ["node_modules", "tmp"]) mkdirSync(join(root, name));
  for (const name of readdirSync(join(checkout, "node_modules")))
    symlinkSync(join(checkout, "node_modules", name), join(root, "node_modules", name));
  return root;
}

/** A gateway that `npm start` runs in a copy. */
export class NpmStart {
  readonly #root: string;
  readonly #child: ChildProcess;

  constructor(root: string, environment: Record<string, string> = {}) {
    const { REDIS_URL: _, ...inherited } = process.env;
    this.#root = root;
    rmSync(stateOf(root).readyFile, { force: true });
    this.#child = spawn("npm", ["start"], {
      cwd: root,
      env: { ...inherited, PORT: "0", CONTROL_PORT: "0", TMPDIR: join(root, "tmp"), ...environment },
      stdio: ["ignore", "ignore", "ignore"],
    });
  }

  /** Resolves when the gateway serves. */
  async ready(): Promise<Ready> {
    const deadline = performance.now() + startMsMax;
    while (performance.now() < deadline && this.#child.exitCode === null) {
      const ready = readReady(stateOf(this.#root));
      if (ready !== undefined) return ready;
      await delay(lookMs);
    }
    throw new Error(`npm start did not serve within ${startMsMax} ms`);
  }

  async stop(): Promise<void> {
    const gateway = readReady(stateOf(this.#root))?.pids.sluice;
    if (this.#child.exitCode !== null) return;
    const ended = once(this.#child, "exit");
    if (gateway === undefined) this.#child.kill("SIGTERM");
    else process.kill(gateway, "SIGTERM");
    await ended;
  }
}
