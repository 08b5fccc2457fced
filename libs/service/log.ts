/** Structured logs: JSON lines on stdout. Callers' content and secrets are never given to it. */
import { type Logger, pino } from "pino";

/** LOG_LEVEL is one of pino's levels; `info` when it is unset, or none of them, which the configuration then complains of. */
export function createLog(role: string): Logger {
  const wanted = process.env.LOG_LEVEL ?? "";
  return pino({
    level: wanted in pino.levels.values || wanted === "silent" ? wanted : "info",
    base: { role, pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
  });
}
