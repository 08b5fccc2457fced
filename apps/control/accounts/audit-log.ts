/** The operations on the audit log, and how long it is kept. */
import type { Logger } from "pino";
import type { auditOperations } from "#api/audit.ts";
import { within } from "../api/actor.ts";
import type { Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { dropEveryMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";

export interface AuditRetentionOptions {
  database: Database;
  /** How many days entries are kept now; 0 for ever. */
  days(): number;
  log: Logger;
}

/** Deletes what is too old, every hour. The returned function ends it. */
export function startAuditRetention({ database, days, log }: AuditRetentionOptions): () => void {
  const drop = () =>
    dropAudit(database, days(), Date.now()).catch((error: unknown) =>
      log.warn({ err: error }, "old entries of the audit log could not be deleted"),
    );
  const timer = setInterval(() => void drop(), dropEveryMs);
  void drop();
  return () => clearInterval(timer);
}

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
    const { account, actor, action, from, to } = query;
    let listed = database.selectFrom("audit").selectAll().where(within("account", scope));
    if (account !== undefined) listed = listed.where("account", "=", account);
    if (actor !== undefined) listed = listed.where("actor_id", "=", actor);
    if (action !== undefined) listed = listed.where("action", "=", action);
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
