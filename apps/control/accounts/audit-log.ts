/** The operations on the audit log, and how long it is kept. */

import type { Logger } from "pino";
import type { auditOperations } from "#api/audit.ts";
import type { Clock } from "#service/clock.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import { within } from "../api/actor.ts";
import type { Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { dropEveryMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";

export interface AuditRetentionOptions {
  database: Database;
  /** How many days entries are kept now; 0 for ever. */
  days(): number;
  clock: Clock;
  log: Logger;
}

/** Deletes entries that are too old, every hour. */
export const startAuditRetention = ({ database, days, clock, log }: AuditRetentionOptions): PeriodicTask =>
  new PeriodicTask({
    everyMs: dropEveryMs,
    isImmediate: true,
    run: () => dropAudit(database, days(), clock.epoch()),
    log,
    level: "warn",
    failed: "old entries of the audit log could not be deleted",
    works: "old entries of the audit log are deleted again",
  });

/** Deletes entries that are older than so many days; none for 0. */
export async function dropAudit(database: Database, days: number, now: number): Promise<void> {
  if (days === 0) return;
  await database
    .deleteFrom("audit")
    .where("at", "<", new Date(now - days * 86_400_000))
    .execute();
}

export const auditHandlers: Handlers<typeof auditOperations> = {
  async listAudit({ query }, { database, scope }) {
    const { account, actor, action, subject, from, to } = query;
    let listed = database.selectFrom("audit").selectAll().where(within("account", scope));
    if (account !== undefined) listed = listed.where("account", "=", account);
    if (actor !== undefined) listed = listed.where("actor_id", "=", actor);
    if (action !== undefined) listed = listed.where("action", "=", action);
    if (subject !== undefined) listed = listed.where("subject", "=", subject);
    if (from !== undefined) listed = listed.where("at", ">=", new Date(from));
    if (to !== undefined) listed = listed.where("at", "<", new Date(to));
    const { rows, nextCursor } = await readPage(listed, query, ["at", "id"]);
    return {
      body: {
        items: rows.map((row) => ({
          id: row.id,
          at: row.at.toISOString(),
          actor: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name },
          address: row.address,
          action: row.action,
          account: row.account,
          subject: row.subject,
          before: row.before,
          after: row.after,
        })),
        nextCursor,
      },
    };
  },
};
