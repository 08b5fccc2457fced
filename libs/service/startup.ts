/** Runs one process: start, one-line startup errors, signals and graceful shutdown. */
import { setFlagsFromString } from "node:v8";
import type { Logger } from "pino";
import { exitMs } from "./bounds.ts";
import { createLog } from "./log.ts";

/**
 * A startup error that an operator can fix (configuration, port, Redis). The message is one line.
 */
export class StartupFault extends Error {}

/** Calls a check of the configuration and turns what it throws into a StartupFault. */
export function checkedAtStart<Value>(check: () => Value): Value {
  try {
    return check();
  } catch (error) {
    throw new StartupFault((error as Error).message);
  }
}

/**
 * The exit code of a startup error (EX_CONFIG of sysexits.h). The supervisor reports it and does
 * not retry.
 */
export const startupFaultExitCode = 78;

export interface Running {
  /**
   * The addresses of the process, by purpose. A parent process receives them as `{type:
   * "listening", urls}`.
   */
  urls: Record<string, string>;
  /** Settles when the process has closed everything. The process limits the time itself. */
  stop(): Promise<void>;
}

/**
 * Waits until a server listens. The error of a port that it cannot have is a StartupFault that
 * names `setting`, the variable that sets this port.
 */
export async function listeningAt<Value>(setting: string, start: Promise<Value>): Promise<Value> {
  try {
    return await start;
  } catch (error) {
    const { code, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
    if (code === "EADDRINUSE")
      throw new StartupFault(`port ${port} on ${address} is already in use; set ${setting} to another port`);
    if (code === "EACCES" && port !== undefined)
      throw new StartupFault(`no permission to listen on port ${port}; set ${setting} to another port`);
    throw error;
  }
}

const describe = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.message.split("\n", 1)[0] ?? error.name;
};

/** Errors of an address that the process cannot listen on. */
const addressCodes = ["EADDRINUSE", "EACCES", "EADDRNOTAVAIL", "ENOTFOUND"];

const isStartupFault = (error: unknown): boolean =>
  error instanceof StartupFault ||
  (error instanceof Error && addressCodes.includes((error as NodeJS.ErrnoException).code ?? ""));

/**
 * Starts a role and stops it after SIGTERM, SIGINT, the end of the parent process, or a call of
 * `requestStop`. A startup error is one line on stderr and exit code 78. A later crash is logged
 * and ends with exit code 1, so that the supervisor restarts the process.
 */
export async function runProcess(
  role: string,
  start: (log: Logger, requestStop: () => void) => Promise<Running>,
): Promise<void> {
  // Otherwise V8 runs a full garbage collection for every 64 MiB of buffers, about ten large
  // bodies, however much memory is free.
  setFlagsFromString("--external-memory-accounted-in-global-limit");
  // Young objects are collected by the thread that made them. Its helpers would share the cores
  // with the gateway's other processes, and it would wait for them: on two cores they made the
  // slowest hundredth of chunks 1.5 times as late.
  setFlagsFromString("--no-parallel-scavenge");
  const log = createLog(role);
  const crash = (error: unknown) => {
    log.fatal({ err: error }, "crashed");
    process.exit(1);
  };
  process.on("uncaughtException", crash);
  process.on("unhandledRejection", crash);

  // A signal during the start waits for its end: what is open by then, jobs included, is closed in
  // order.
  const { promise: stopRequest, resolve: requestStop } = Promise.withResolvers<string>();
  process.on("SIGTERM", () => requestStop("SIGTERM"));
  process.on("SIGINT", () => requestStop("SIGINT"));
  process.on("disconnect", () => requestStop("parent process ended"));

  let running: Running;
  try {
    running = await start(log, () => requestStop("drain requested"));
  } catch (error) {
    process.stderr.write(`sluice ${role}: ${describe(error)}\n`);
    log.debug({ err: error }, "start failed");
    process.exit(isStartupFault(error) ? startupFaultExitCode : 1);
  }
  log.info(running.urls, "listening");
  process.send?.({ type: "listening", urls: running.urls });

  stopRequest
    .then(async (reason) => {
      log.info({ reason }, "stopping");
      await running.stop();
      log.info("stopped");
      if (process.connected) process.disconnect();
      // Timers of libraries, such as those for a repeated export of traces, do not hold up the end.
      setTimeout(() => process.exit(), exitMs).unref();
    })
    .catch(crash);
}
