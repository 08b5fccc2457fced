/**
 * Keeps one process running: starts it, waits until it serves, starts it again when it ends by itself, stops it within a bound.
 *
 * starting → serving → ended → (a wait, longer each time) → starting …, until `stop`. A process that never served yet is given up after
 * some attempts, or at once when it says that its surroundings are at fault.
 */
import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { StartupFault, startupFaultExitCode } from "#service/startup.ts";

/** How long a process may take until it serves. */
const servingMsMax = 30_000;
const restartDelayMsMin = 250;
const restartDelayMsMax = 5_000;
/** After so long a time of service, an end counts as the first. */
const steadyMs = 30_000;
/** Lines on stderr that are kept until it is known what became of a start. */
const heldLinesMax = 200;

export type Urls = Readonly<Record<string, string>>;

export interface Plan {
  name: string;
  /** Starts a process with its stderr a pipe; `previous` is what it served before its last end, so that it can serve there again. */
  spawn(previous: Urls | undefined): ChildProcess;
  /** Settles when the process serves; `signal` is aborted when it is no use to wait any more. */
  whenServing(child: ChildProcess, signal: AbortSignal): Promise<Urls>;
  /** How often it is tried before it served for the first time. */
  attemptsMax: number;
  /** From SIGTERM to SIGKILL. */
  stopMsMax: number;
  logFile: string;
}

export interface Supervised {
  name: string;
  /** When it serves for the first time; rejects with a StartupFault when it does not come to that, and never settles when it is stopped before. */
  serving: Promise<Urls>;
  pid(): number | undefined;
  /** Settles when the process is gone. */
  stop(): Promise<void>;
  /** Ends it at once; `stop` must have been called. */
  kill(): void;
}

/** `say` is given lines for a person; `onChange` is called whenever the process serves (again) or has ended. */
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
        if (failures > 0) say(`sluice: ${name} serves again (process ${current.pid})`);
      }
      const end = await current.ended;
      current = undefined;
      onChange();
      if (stopping.signal.aborted) return;
      failures = served && performance.now() - begun > steadyMs ? 1 : failures + 1;
      if (!urls && end.code === startupFaultExitCode)
        return first.reject(new StartupFault(end.lastLine ?? `${name} refuses to start; see ${plan.logFile}`));
      if (!urls && failures >= plan.attemptsMax)
        return first.reject(new StartupFault(`${name} does not start: it ended with ${end.how}; see ${plan.logFile}`));
      const delayMs = Math.min(restartDelayMsMin * 2 ** (failures - 1), restartDelayMsMax);
      say(`sluice: ${name} ended with ${end.how}; starting it again in ${delayMs} ms`);
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
        say(`sluice: ${name} did not stop within ${plan.stopMsMax / 1_000} s; it is ended now`);
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
  /** In words: "exit code 1", "SIGKILL". */
  how: string;
  /** The last line on stderr of a process that never served, without the name before it. */
  lastLine?: string;
}

interface Attempt {
  pid: number | undefined;
  /** Undefined when it ended first. */
  serving: Promise<Urls | undefined>;
  ended: Promise<End>;
  signal(signal: NodeJS.Signals): void;
}

/** What a process said that never served is not repeated when it was stopped: then something else is at fault. */
function attempt(plan: Plan, previous: Urls | undefined, say: (line: string) => void, stopping: AbortSignal): Attempt {
  const child = plan.spawn(previous);
  const waiting = new AbortController();
  const held: string[] = [];
  let isHolding = true;
  const release = () => {
    isHolding = false;
    for (const line of held.splice(0)) say(line);
  };
  if (child.stderr) {
    createInterface({ input: child.stderr, crlfDelay: Number.POSITIVE_INFINITY }).on("line", (line) => {
      if (isHolding && held.length < heldLinesMax) held.push(line);
      else say(line.startsWith("sluice ") ? line : `[${plan.name}] ${line}`);
    });
  }

  const ended = new Promise<End>((resolve) => {
    child.once("error", (error) => resolve({ code: null, how: error.message }));
    child.once("close", (code, signal) => {
      const isRefusal = isHolding && code === startupFaultExitCode;
      const lastLine = isRefusal ? held.pop()?.replace(/^sluice[^:]*: /, "") : undefined;
      if (!stopping.aborted) release();
      resolve({ code, how: signal ?? `exit code ${code}`, ...(lastLine !== undefined && { lastLine }) });
    });
  }).finally(() => waiting.abort());

  const timer = setTimeout(() => {
    say(`sluice: ${plan.name} does not serve after ${servingMsMax / 1_000} s`);
    child.kill("SIGKILL");
  }, servingMsMax);
  const serving = Promise.race([
    plan.whenServing(child, waiting.signal).then(
      (urls) => urls,
      () => undefined,
    ),
    ended.then(() => undefined),
  ]).then(async (urls) => {
    clearTimeout(timer);
    if (urls) release();
    else child.kill("SIGKILL");
    return urls;
  });
  return { pid: child.pid, serving, ended, signal: (signal) => void child.kill(signal) };
}
