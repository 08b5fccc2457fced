/**
 * The thread that runs the embedded Postgres, so that queries do not block the event loop of
 * control.
 */
import { parentPort, workerData } from "node:worker_threads";
import { PGlite, types } from "@electric-sql/pglite";
import { isCopy } from "./copy-text.ts";

/** A query of the main thread. */
export interface Task {
  readonly id: number;
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

export interface TaskResult {
  readonly id: number;
  readonly rows?: unknown[];
  readonly affectedRows?: number;
  readonly error?: { readonly message: string; readonly fields: Record<string, unknown> };
}

/**
 * The parts of a Postgres error that callers read:
 * https://www.postgresql.org/docs/current/protocol-error-fields.html
 */
const errorFields = ["code", "constraint", "detail", "table", "column", "severity"] as const;

const port = parentPort;
if (port === null) throw new Error("this module runs in a thread");

const { directory } = workerData as { directory: string };
const database = await PGlite.create({
  dataDir: directory,
  // Half the memory of the defaults, at the same speed.
  startParams: [...PGlite.defaultStartParams, "-c", "shared_buffers=32MB", "-c", "max_wal_size=128MB"],
  parsers: { [types.INT8]: BigInt },
});

port.on("message", async (task: Task | "close") => {
  if (task === "close") {
    await database.close();
    port.close();
    return;
  }
  port.postMessage(await resultOf(task));
});
port.postMessage("ready");

async function resultOf({ id, sql, parameters }: Task): Promise<TaskResult> {
  try {
    const { rows, affectedRows } = await (isCopy(sql)
      ? database.query(sql.replace("from stdin", "from '/dev/blob'"), [], { blob: new Blob([String(parameters[0])]) })
      : database.query(sql, [...parameters]));
    return { id, rows, ...(affectedRows !== undefined && { affectedRows }) };
  } catch (error) {
    const fields = error as Record<string, unknown>;
    return {
      id,
      error: {
        message: (error as Error).message,
        fields: Object.fromEntries(errorFields.map((name) => [name, fields[name]])),
      },
    };
  }
}
