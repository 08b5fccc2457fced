/** The operations on alerts. */
import { sql } from "kysely";
import type { alertOperations } from "#api/alerts.ts";
import { within } from "../api/actor.ts";
import type { Handlers } from "../api/handlers.ts";
import { pageOf, placeOf } from "../api/pages.ts";
import type { AlertKind } from "./alerts.ts";

export const alertHandlers: Handlers<typeof alertOperations> = {
  async listAlerts({ query: { limit = 50, cursor, account } }, { database, scope }) {
    let listed = database.selectFrom("alerts").selectAll().where(within("account", scope));
    if (account !== undefined) listed = listed.where("account", "=", account);
    if (cursor !== undefined) {
      const { at, id } = placeOf(cursor);
      listed = listed.where(sql<boolean>`(at, id) < (${at}, ${id})`);
    }
    const rows = await listed
      .orderBy("at", "desc")
      .orderBy("id", "desc")
      .limit(limit + 1)
      .execute();
    return {
      body: pageOf(
        rows,
        limit,
        ({ at, id }) => ({ at, id }),
        (row) => ({
          id: row.id,
          at: row.at.toISOString(),
          kind: row.kind as AlertKind,
          account: row.account,
          subject: row.subject,
          detail: row.detail,
          deliveredAt: row.delivered_at?.toISOString() ?? null,
        }),
      ),
    };
  },
};
