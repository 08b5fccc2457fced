/** Structured logs: JSON lines on stdout. Callers' content and secrets are never given to it. */
import { type Logger, pino } from "pino";

/** Lines are written together: when so many characters gathered, after so long, and at the process's end. A process that is killed loses that much. */
const gatheredMax = 8 * 1024;
const gatheredMs = 200;

/** LOG_LEVEL is one of pino's levels; `info` when it is unset, or none of them, which the configuration then complains of. Call it once. */
export function createLog(role: string): Logger {
  const wanted = process.env.LOG_LEVEL ?? "";
  const stdout = pino.destination({ sync: true });
  let gathered = "";
  const flush = () => {
    const lines = gathered;
    gathered = "";
    if (lines !== "") stdout.write(lines);
  };
  setInterval(flush, gatheredMs).unref();
  process.on("exit", flush);
  return pino(
    {
      level: wanted in pino.levels.values || wanted === "silent" ? wanted : "info",
      base: { role, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
    },
    {
      write(line) {
        gathered += line;
        if (gathered.length > gatheredMax) flush();
      },
    },
  );
}
