/** Operations for operators: the live state, and draining a process. */
import type { liveOperations } from "#api/live.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { readProcessReports, requestDrain } from "#service/process-reports.ts";
import type { Redis } from "#service/redis.ts";
import { recordChange } from "../api/audit.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Handlers } from "../api/handlers.ts";
import type { LiveStates } from "./live-state.ts";

export interface LiveHandlerOptions {
  states: LiveStates;
  redis: Redis;
  keyspace: Keyspace;
}

export function liveHandlers({ states, redis, keyspace }: LiveHandlerOptions): Handlers<typeof liveOperations> {
  return {
    async readOperations() {
      return { body: await states.read() };
    },
    async drainProcess({ params: { process: id } }, context) {
      const reports = await readProcessReports(redis, keyspace, Date.now());
      const report = reports.find((each) => each.id === id);
      if (report === undefined) throw notFound("process", id);
      if (report.role === "control") throw new Fault("invalid", "Control has nothing to drain: restart it instead.");
      await recordChange(context.database, context, {
        action: "drainProcess",
        account: null,
        subject: `${report.role} ${id}`,
      });
      await requestDrain(redis, keyspace, id);
      return { body: { process: id } };
    },
  };
}
