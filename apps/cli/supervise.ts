/**
 * Supervises one process: starts it, waits until it is ready, restarts it when it ends, and stops
 * it within a time limit.
 *
 * starting → ready → ended → (a growing delay) → starting …, until `stop`. If a process never
 * becomes ready, the supervisor gives up after several attempts, or at once after a configuration
 * error.
 */
import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { StartupFault, startupFaultExitCode } from "#service/startup.ts";

/** How long a process may take to become ready. */
const servingMsMax = 30_000;
const restartDelayMsMin = 250;
const restartDelayMsMax = 5_000;
/** After this time of operation, an end counts as the first failure. */
const steadyMs = 30_000;
/** The most stderr lines that are kept until the result of a start is known. */
const bufferedLinesMax = 200;

export type Urls = Readonly<Record<string, string>>;

export interface Plan {
  name: string;
  /**
   * Starts a process with stderr as a pipe. `previous` contains its earlier addresses, so that it
   * can use them again.
   */
  spawn(previous: Urls | undefined): ChildProcess;
  /** Resolves when the process is ready. `signal` is aborted when the process has ended. */
  whenServing(child: ChildProcess, signal: AbortSignal): Promise<Urls>;
  /** The number of attempts until it is ready for the first time. */
  attemptsMax: number;
  /** From SIGTERM to SIGKILL. */
  stopMsMax: number;
  logFile: string;
}

export interface Supervised {
  name: string;
  /**
   * Resolves when the process is ready for the first time. Rejects with a StartupFault when the
   * supervisor gives up. Never settles after an earlier `stop`.
   */
  serving: Promise<Urls>;
  pid(): number | undefined;
  /** Settles when the process has ended. */
  stop(): Promise<void>;
  /** Ends the process at once. Call `stop` first. */
  kill(): void;
}

/** `say` prints a line for people. `onChange` runs whenever the process becomes ready or ends. */
export function supervise(plan: Plan, say: (line: string) => void, onChange: () => void): Supervised {
  const { name } = plan;
  const first = Promise.withResolvers<Urls>();
  first.promise.catch(() => {});
  const stopping = new AbortController();
  let current: Attempt | undefined;
  let urls: Urls | undefined;

  const run = async () => {
    for (let failures = 0; !stopping.signal.aborted; ) {
      current = attempt(plan, urls, say, stopping.signal);
      const served = await current.serving;
      const begun = performance.now();
      if (served) {
        urls = served;
        first.resolve(served);
        onChange();
        if (failures > 0) say(`sluice: ${name} is ready again (process ${current.pid})`);
      }
      const end = await current.ended;
      current = undefined;
      onChange();
      if (stopping.signal.aborted) return;
      failures = served && performance.now() - begun > steadyMs ? 1 : failures + 1;
      if (!urls && end.code === startupFaultExitCode)
        return first.reject(new StartupFault(end.lastLine ?? `${name} did not start; see ${plan.logFile}`));
      if (!urls && failures >= plan.attemptsMax)
        return first.reject(new StartupFault(`${name} did not start: it ended with ${end.how}; see ${plan.logFile}`));
      const delayMs = Math.min(restartDelayMsMin * 2 ** (failures - 1), restartDelayMsMax);
      say(`sluice: ${name} ended with ${end.how}; restarting it in ${delayMs} ms`);
      await delay(delayMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  };
  const over = run();

  return {
    name,
    serving: first.promise,
    pid: () => current?.pid,
    stop: async () => {
      stopping.abort();
      current?.signal("SIGTERM");
      const timer = setTimeout(() => {
        say(`sluice: ${name} did not stop within ${plan.stopMsMax / 1_000} s; ending it now`);
        current?.signal("SIGKILL");
      }, plan.stopMsMax);
      await over;
      clearTimeout(timer);
    },
    kill: () => current?.signal("SIGKILL"),
  };
}

interface End {
  code: number | null;
  /** As text: "exit code 1" or "SIGKILL". */
  how: string;
  /** The last stderr line of a process that never became ready, without the name in front. */
  lastLine?: string;
}

interface Attempt {
  pid: number | undefined;
  /** Undefined when it ended first. */
  serving: Promise<Urls | undefined>;
  ended: Promise<End>;
  signal(signal: NodeJS.Signals): void;
}

/** A shortage, of processes or of files, is an end like others: the next attempt may succeed. */
function spawned(plan: Plan, previous: Urls | undefined): ChildProcess | Error {
  try {
    return plan.spawn(previous);
  } catch (error) {
    return error as Error;
  }
}

/**
 * Starts the process once. Does not print the output of a process that was stopped before it was
 * ready, because another process is the cause.
 */
function attempt(plan: Plan, previous: Urls | undefined, say: (line: string) => void, stopping: AbortSignal): Attempt {
  const child = spawned(plan, previous);
  if (child instanceof Error)
    return {
      pid: undefined,
      serving: Promise.resolve(undefined),
      ended: Promise.resolve({ code: null, how: child.message }),
      signal: () => undefined,
    };
  const waiting = new AbortController();
  const buffered: string[] = [];
  let isBuffering = true;
  const release = () => {
    isBuffering = false;
    for (const line of buffered.splice(0)) say(line);
  };
  if (child.stderr) {
    createInterface({ input: child.stderr, crlfDelay: Number.POSITIVE_INFINITY }).on("line", (line) => {
      if (isBuffering && buffered.length < bufferedLinesMax) buffered.push(line);
      else say(line.startsWith("sluice ") ? line : `[${plan.name}] ${line}`);
    });
  }

  const ended = new Promise<End>((resolve) => {
    child.once("error", (error) => resolve({ code: null, how: error.message }));
    child.once("close", (code, signal) => {
      const isRefusal = isBuffering && code === startupFaultExitCode;
      const lastLine = isRefusal ? buffered.pop()?.replace(/^sluice[^:]*: /, "") : undefined;
      if (!stopping.aborted) release();
      resolve({ code, how: signal ?? `exit code ${code}`, ...(lastLine !== undefined && { lastLine }) });
    });
  }).finally(() => waiting.abort());

  const timer = setTimeout(() => {
    say(`sluice: ${plan.name} is not ready after ${servingMsMax / 1_000} s; ending it`);
    child.kill("SIGKILL");
  }, servingMsMax);
  const serving = Promise.race([
    plan.whenServing(child, waiting.signal).catch(() => undefined),
    ended.then(() => undefined),
  ]).then(async (urls) => {
    clearTimeout(timer);
    if (urls) release();
    else child.kill("SIGKILL");
    return urls;
  });
  return { pid: child.pid, serving, ended, signal: (signal) => void child.kill(signal) };
}
