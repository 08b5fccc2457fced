/** The operations on alerts. */
import type { alertOperations } from "#api/alerts.ts";
import { within } from "../api/actor.ts";
import type { Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import type { AlertKind } from "./alerts.ts";

export const alertHandlers: Handlers<typeof alertOperations> = {
  async listAlerts({ query }, { database, scope }) {
    const { account } = query;
    let listed = database.selectFrom("alerts").selectAll().where(within("account", scope));
    if (account !== undefined) listed = listed.where("account", "=", account);
    const { rows, nextCursor } = await readPage(listed, query, ["at", "id"]);
    return {
      body: {
        items: rows.map((row) => ({
          id: row.id,
          at: row.at.toISOString(),
          kind: row.kind as AlertKind,
          account: row.account,
          subject: row.subject,
          detail: row.detail,
          deliveredAt: row.delivered_at?.toISOString() ?? null,
        })),
        nextCursor,
      },
    };
  },
};
