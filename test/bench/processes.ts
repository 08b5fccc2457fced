/** Starts processes of the bench and reads their resource usage (Linux: /proc). */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const root = join(import.meta.dirname, "..", "..");
const startMsMax = 30_000;

export interface Started {
  pid: number;
  child: ChildProcess;
  urls: Record<string, string>;
  stop(): Promise<void>;
}

/** Runs a script of this repository, which reports its address as the gateway's roles do. */
export async function startScript(script: string, environment: Record<string, string> = {}): Promise<Started> {
  const child = spawn(process.execPath, [script], {
    cwd: root,
    env: { PATH: process.env.PATH, ...environment },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const ended = once(child, "exit").then(([code, signal]) =>
    Promise.reject(new Error(`${script} ended with ${code ?? signal}`)),
  );
  ended.catch(() => {});
  const [message] = (await Promise.race([once(child, "message"), ended])) as [{ urls: Record<string, string> }];
  return { pid: child.pid as number, child, urls: message.urls, stop: () => end(child) };
}

/** Ends processes that do not notice the bench's end themselves. */
export function endWithBench(child: ChildProcess): void {
  process.on("exit", () => void child.kill("SIGKILL"));
}

/** Ends a process of the bench's own, and waits for it. */
export async function end(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  const timer = setTimeout(() => child.kill("SIGKILL"), startMsMax);
  await ended;
  clearTimeout(timer);
}

/** Waits until the address answers; if the process ends first, its last output is the error. */
export async function untilServing(url: string, child: ChildProcess): Promise<void> {
  let complaints = "";
  child.stderr?.on("data", (data) => {
    complaints = (complaints + data).slice(-2_000);
  });
  const deadline = performance.now() + startMsMax;
  for (;;) {
    const answer = await fetch(url).then(
      (response) => response.arrayBuffer(),
      () => undefined,
    );
    if (answer !== undefined) return;
    if (child.exitCode !== null || performance.now() > deadline)
      throw new Error(`nothing serves at ${url}: ${complaints}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The program's file on PATH, or where system programs are; undefined when it is not installed. */
export function programOf(name: string): string | undefined {
  const directories = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  return directories.map((directory) => join(directory, name)).find((file) => existsSync(file));
}

/** A process and its descendants. */
function familyOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return [pid, ...(children === "" ? [] : children.split(" ").flatMap((child) => familyOf(Number(child))))];
  } catch {
    return [];
  }
}

/** Sends a signal to processes and their descendants. */
export function signalAll(pids: readonly number[], name: "SIGSTOP" | "SIGCONT"): void {
  for (const pid of pids.flatMap(familyOf)) process.kill(pid, name);
}

const ticksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

/**
 * Seconds of CPU used by processes, all threads, user and system, and by their children, also those
 * that have ended; to within 10 ms.
 */
export function cpuSecondsOf(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids.flatMap(familyOf)) {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    ticks += fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  }
  return ticks / ticksPerSecond;
}

/** Resident memory in KiB. Throws for a process that has ended. */
export function residentKibibytesOf(pid: number): number {
  const resident = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  if (resident === undefined) throw new Error(`the process ${pid} has ended`);
  return Number(resident);
}

/** Open files that a process may have, the limit that it can raise itself to. */
export const openFilesMax = (): number =>
  Number(/Max open files\s+\S+\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? 1_024);
