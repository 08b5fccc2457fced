/** Structured logs: JSON lines on stdout. Never log callers' content or secrets. */
import { type Logger, pino } from "pino";
import { logBatchLengthMax, logBatchMs } from "./bounds.ts";

let formatted = { ms: Number.NaN, time: "" };

/** The lines of one millisecond share its text. */
function timestamp(): string {
  const ms = Date.now();
  if (formatted.ms !== ms) formatted = { ms, time: pino.stdTimeFunctions.isoTime() };
  return formatted.time;
}

/**
 * Reads LOG_LEVEL; an invalid one, which the configuration then refuses, counts as `info`. Call it
 * once.
 */
export function createLog(role: string): Logger {
  const wanted = process.env.LOG_LEVEL ?? "";
  const stdout = pino.destination({ sync: true });
  let batch = "";
  const flush = () => {
    const lines = batch;
    batch = "";
    if (lines !== "") stdout.write(lines);
  };
  setInterval(flush, logBatchMs).unref();
  process.on("exit", flush);
  return pino(
    {
      level: wanted in pino.levels.values || wanted === "silent" ? wanted : "info",
      base: { role, pid: process.pid },
      timestamp,
    },
    {
      write(line) {
        batch += line;
        if (batch.length > logBatchLengthMax) flush();
      },
    },
  );
}
