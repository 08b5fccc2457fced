/**
 * Installs a Debian package without its service: the service neither runs now nor starts at the
 * next boot.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, closeSync, existsSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { StartupFault } from "#service/startup.ts";
import { startProgress } from "./progress.js";

const run = promisify(execFile);
const installMsMax = 10 * 60_000;

/**
 * Debian's packages run this program to ask whether they may start their services:
 * https://people.debian.org/~hmh/invokerc.d-policyrc.d-specification.txt
 */
const policyFile = "/usr/sbin/policy-rc.d";
const policyText = "#!/bin/sh\n# Created by sluice during an installation. It is safe to delete.\nexit 101\n";

export interface Package {
  /** The program, for people. */
  program: string;
  packageName: string;
}

/** Whether this is Debian or Ubuntu, and the user is root. */
export const canInstall = (): boolean => existsSync("/usr/bin/apt-get") && process.getuid?.() === 0;

/** Appends the output to `logFile`. Throws a StartupFault with apt's reason. */
export async function installPackage(
  { program, packageName }: Package,
  logFile: string,
  signal: AbortSignal,
): Promise<void> {
  const progress = startProgress(`Installing ${program} (apt-get install ${packageName})`);
  const policyIsOurs = !existsSync(policyFile) || readFileSync(policyFile, "utf8") === policyText;
  try {
    if (policyIsOurs) writeFileSync(policyFile, policyText, { mode: 0o755 });
    let reason = await aptGet(["install", "--yes", "--no-install-recommends", packageName], logFile, signal);
    if (reason !== undefined && !signal.aborted) {
      progress.say("updating the package lists");
      await aptGet(["update"], logFile, signal);
      progress.say("");
      reason = await aptGet(["install", "--yes", "--no-install-recommends", packageName], logFile, signal);
    }
    if (reason !== undefined) throw new StartupFault(`installing ${program} failed: ${reason} (log: ${logFile})`);
    if (existsSync(join("/etc/init.d", packageName)))
      await run("update-rc.d", [packageName, "disable"]).catch((error: Error) =>
        appendFileSync(logFile, `${error.message}\n`),
      );
    progress.end();
  } finally {
    progress.stop();
    if (policyIsOurs) rmSync(policyFile, { force: true });
  }
}

/** Undefined on success, otherwise the reason in one line. */
async function aptGet(args: string[], logFile: string, signal: AbortSignal): Promise<string | undefined> {
  const log = openSync(logFile, "a");
  try {
    const child = spawn("apt-get", ["-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Use-Pty=0", "-q", ...args], {
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" },
      stdio: ["ignore", log, "pipe"],
      timeout: installMsMax,
    });
    const stop = () => child.kill();
    signal.addEventListener("abort", stop);
    let errors = "";
    child.stderr?.on("data", (chunk: Buffer) => {
      appendFileSync(logFile, chunk);
      if (errors.length < 100_000) errors += chunk.toString("utf8");
    });
    const [code, endSignal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
    signal.removeEventListener("abort", stop);
    if (code === 0) return undefined;
    return /^E: (.+)$/m.exec(errors)?.[1] ?? `apt-get ended with ${code ?? endSignal}`;
  } finally {
    closeSync(log);
  }
}
