/** Structured logs: JSON lines on stdout. Callers' content and secrets are never given to it. */
import { type Logger, pino } from "pino";

/** LOG_LEVEL is one of pino's levels; `info` when unset. */
export function createLog(role: string): Logger {
  return pino({ level: process.env.LOG_LEVEL || "info", base: { role, pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime });
}
