/**
 * A row of the table: a client that runs its checks against the gateway, in its own process with a
 * time limit.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { ConversationDialect } from "#dialects/dialect.ts";

/** One client on one upstream. */
export interface Run {
  /** A fresh folder, also the client's home. */
  folder: string;
  gateway: { url: string; key: string };
  /** A model of the upstream. */
  model: string;
  /** One that takes two seconds to answer. */
  slow: string;
  /** One whose stream fails after some content. */
  broken: string;
  /** One with keep-alives between all events. */
  paused: string;
  /** A model of the client's family that reasons without being asked to. */
  reasoner: string;
  /** Where the packages are installed. */
  installed: Installed;
  signal: AbortSignal;
}

export interface Installed {
  /** The folder of npm's `.bin`. */
  binaries: string;
  python: string;
  /** The Go program. */
  go: string;
  /** Class path of the Java program. */
  classPath: string;
  /**
   * A copy of the scripts: JavaScript finds npm packages only from the folder that they are
   * installed in.
   */
  scripts: string;
}

/** `passed` and `failed` name the checks; `output` is for people. */
export interface Outcome {
  passed: string[];
  failed: string[];
  output: string;
}

/** Prefixes of reasoning models' names, which affect what clients send. */
export const families = ["gpt-5", "claude-opus-5", "gemini-3-pro"] as const;

export const registries = ["npm", "pypi", "go", "maven"] as const;
export type Registry = (typeof registries)[number];

export interface Client {
  name: string;
  family: (typeof families)[number];
  registry: Registry;
  packages: string[];
  /** The upstreams that it runs on; all by default. */
  upstreams?: readonly ConversationDialect[];
  check(run: Run): Promise<Outcome>;
}

interface Ended {
  /** null: killed. */
  code: number | null;
  stdout: string;
  /** The end of both stdout and stderr. */
  output: string;
}

const outputMax = 20_000;

/** Ends the process and all that it started. */
function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/**
 * Runs a program to its end, and kills it with all that it started when `timeoutMs` are over or the
 * signal comes.
 */
export async function runProgram(
  file: string,
  args: string[],
  options: { cwd: string; environment: NodeJS.ProcessEnv; timeoutMs: number; signal: AbortSignal },
): Promise<Ended> {
  const { cwd, environment, timeoutMs } = options;
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(timeoutMs)]);
  signal.throwIfAborted();
  const child = spawn(file, args, { cwd, env: environment, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const kill = () => killGroup(child);
  signal.addEventListener("abort", kill);
  let stdout = "";
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout = (stdout + chunk.toString()).slice(-outputMax);
  });
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-outputMax);
    });
  try {
    await once(child, "close");
  } finally {
    signal.removeEventListener("abort", kill);
    kill();
  }
  if (options.signal.aborted) throw options.signal.reason;
  if (signal.aborted) output += `\nkilled after ${timeoutMs} ms`;
  return { code: child.exitCode, stdout, output };
}
