/** Runs one process of the service: start, faults in one line, signals, an orderly stop. */
import { setFlagsFromString } from "node:v8";
import type { Logger } from "pino";
import { createLog } from "./log.ts";

/** A fault of the surroundings (configuration, port, Redis) that a person can mend; its message is one plain line. */
export class StartupFault extends Error {}

/** Calls something that checks the configuration: what it throws is a StartupFault. */
export function checkedAtStart<Value>(check: () => Value): Value {
  try {
    return check();
  } catch (error) {
    throw new StartupFault((error as Error).message);
  }
}

/** The exit code of a start-up fault (EX_CONFIG of sysexits.h): a supervisor reports it and does not try again. */
export const startupFaultExitCode = 78;

export interface Running {
  /** Addresses the process serves, by purpose; sent to the parent process, if there is one, as `{type: "listening", urls}`. */
  urls: Record<string, string>;
  /** Settles when all that the process holds is closed; bounded by the process itself. */
  stop(): Promise<void>;
}

const describe = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  const { code, address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
  if (code === "EADDRINUSE")
    return `port ${port} on ${address} is already in use; set PORT or OPERATIONS_PORT to another`;
  if (code === "EACCES" && port !== undefined) return `no permission to listen on port ${port}`;
  return error.message.split("\n", 1)[0] ?? error.name;
};

/** Addresses that cannot be listened at. */
const addressCodes = ["EADDRINUSE", "EACCES", "EADDRNOTAVAIL", "ENOTFOUND"];

const isOfSurroundings = (error: unknown): boolean =>
  error instanceof StartupFault ||
  (error instanceof Error && addressCodes.includes((error as NodeJS.ErrnoException).code ?? ""));

/**
 * Starts a role and stays with it until SIGTERM, SIGINT or the loss of the parent process, then stops it once.
 * A fault at start is one line on stderr and exit code 78; a crash later is logged and exits with 1, for the supervisor to restart.
 */
export async function runProcess(role: string, start: (log: Logger) => Promise<Running>): Promise<void> {
  // Else every 64 MiB of buffers, some ten large bodies, bring a full collection, however much memory there is.
  setFlagsFromString("--external-memory-accounted-in-global-limit");
  const log = createLog(role);
  const crash = (error: unknown) => {
    log.fatal({ err: error }, "crashed");
    process.exit(1);
  };
  process.on("uncaughtException", crash);
  process.on("unhandledRejection", crash);

  let running: Running;
  try {
    running = await start(log);
  } catch (error) {
    process.stderr.write(`sluice ${role}: ${describe(error)}\n`);
    log.debug({ err: error }, "start failed");
    process.exit(isOfSurroundings(error) ? startupFaultExitCode : 1);
  }

  let stopping = false;
  const stop = (reason: string) => {
    if (stopping) return;
    stopping = true;
    log.info({ reason }, "stopping");
    running.stop().then(() => {
      log.info("stopped");
      if (process.connected) process.disconnect();
    }, crash);
  };
  process.on("SIGTERM", () => stop("SIGTERM"));
  process.on("SIGINT", () => stop("SIGINT"));
  process.on("disconnect", () => stop("parent gone"));
  log.info(running.urls, "listening");
  process.send?.({ type: "listening", urls: running.urls });
}
