/** Structured logs: JSON lines on stdout. Never log callers' content or secrets. */
import { type Logger, pino } from "pino";
import { logBatchLengthMax, logBatchMs, logKeptBytesMax } from "./bounds.ts";

let formatted = { ms: Number.NaN, time: "" };

/** The lines of one millisecond share its text. */
function timestamp(): string {
  const ms = Date.now();
  if (formatted.ms !== ms) formatted = { ms, time: pino.stdTimeFunctions.isoTime() };
  return formatted.time;
}

/**
 * Reads LOG_LEVEL; an invalid one, which the configuration then refuses, counts as `info`. Call it
 * once. A log that can't be written, as on a full disk, does not end the process: the lines wait
 * for it, or are counted as lost.
 */
export function createLog(role: string): Logger {
  const wanted = process.env.LOG_LEVEL ?? "";
  const stdout = pino.destination({ sync: true, maxLength: logKeptBytesMax });
  let batch = "";
  let lost = 0;
  let isFailing = false;
  stdout.on("error", () => {
    isFailing = true;
  });
  stdout.on("write", () => {
    isFailing = false;
  });
  stdout.on("drop", (lines: string) => {
    lost += lines.split("\n").length - 1;
  });
  const flush = () => {
    const lines = batch;
    batch = "";
    if (lines !== "") stdout.write(lines);
    if (lost === 0 || isFailing) return;
    const count = lost;
    lost = 0;
    log.warn({ count }, "lines of the log were lost, because it could not be written");
  };
  setInterval(flush, logBatchMs).unref();
  process.on("exit", flush);
  const log = pino(
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
  return log;
}
