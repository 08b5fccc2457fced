/** The operations on accounts. */

import { randomBytes } from "node:crypto";
import type { Selectable } from "kysely";
import type { accountOperations } from "#api/accounts.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { transact } from "../database/change.ts";
import type { AccountRow } from "../database/tables.ts";
import { checkGroup } from "../keys/key-settings.ts";

type Row = Selectable<AccountRow>;

/** For the API and the audit log. */
export const accountOf = ({
  id,
  name,
  created_at,
  disabled_at,
  groups,
  content_days,
}: Pick<Row, "id" | "name" | "created_at" | "disabled_at" | "groups" | "content_days">) => ({
  id,
  name,
  createdAt: created_at.toISOString(),
  disabledAt: disabled_at?.toISOString() ?? null,
  groups,
  contentDays: content_days,
});

export interface AccountOptions {
  catalogue(): Catalogue;
  /** Called after an account was disabled or enabled: its keys are projected again. */
  changed(account: string): Promise<void>;
}

export function accountHandlers({ catalogue, changed }: AccountOptions): Handlers<typeof accountOperations> {
  return {
    async listAccounts({ query }, { database, scope }) {
      const listed = database.selectFrom("accounts").selectAll().where(within("id", scope));
      const { rows, nextCursor } = await readPage(listed, query, ["created_at", "id"]);
      return { body: { items: rows.map(accountOf), nextCursor } };
    },

    async createAccount({ body: { id = randomIdOf(), name, groups = null } }, context) {
      for (const group of groups ?? []) checkGroup(group, catalogue(), "groups");
      const row = { id, name, created_at: context.now, disabled_at: null, groups, content_days: null, version: 1 };
      await transact(context, "createAccount", async (inside) => {
        const { numInsertedOrUpdatedRows } = await inside.database
          .insertInto("accounts")
          .values(row)
          .onConflict((conflict) => conflict.doNothing())
          .executeTakeFirst();
        if (numInsertedOrUpdatedRows === 0n)
          throw new Fault("conflict", `An account ${JSON.stringify(id)} exists already; choose another id.`, {
            field: "id",
          });
        await inside.record({ account: id, subject: `account ${id}`, after: accountOf(row) });
      });
      return { body: accountOf(row), version: 1 };
    },

    async getAccount({ params: { account } }, context) {
      const row = await accountRow(context, account);
      return { body: accountOf(row), version: row.version };
    },

    async updateAccount({ params: { account: id }, body: { name, isDisabled, groups } }, context) {
      for (const group of groups ?? []) checkGroup(group, catalogue(), "groups");
      const updated = await transact(context, "updateAccount", async (inside) => {
        const before = await accountRow(inside, id, true);
        checkVersion(before.version, context);
        if (name === undefined && isDisabled === undefined && groups === undefined) return before;
        const after = {
          ...before,
          name: name ?? before.name,
          disabled_at:
            isDisabled === undefined ? before.disabled_at : isDisabled ? (before.disabled_at ?? context.now) : null,
          groups: groups === undefined ? before.groups : groups,
          version: before.version + 1,
        };
        await inside.database.updateTable("accounts").set(after).where("id", "=", id).execute();
        await inside.record({
          account: id,
          subject: `account ${id}`,
          before: accountOf(before),
          after: accountOf(after),
        });
        return after;
      });
      if (isDisabled !== undefined) await changed(id);
      return { body: accountOf(updated), version: updated.version };
    },
  };
}

/** Throws a Fault for an account outside the scope. `locks` it for the rest of the transaction. */
export async function accountRow(
  { database, scope }: Pick<Context, "database" | "scope">,
  id: string,
  locks = false,
): Promise<Row> {
  let query = database.selectFrom("accounts").selectAll().where("id", "=", id).where(within("id", scope));
  if (locks) query = query.forUpdate();
  const row = await query.executeTakeFirst();
  if (row === undefined) throw notFound("account", id);
  return row;
}

/** Throws a Fault if the caller has seen another version. */
export function checkVersion(version: number, { ifMatch }: Pick<Context, "ifMatch">): void {
  if (ifMatch !== undefined && ifMatch !== version)
    throw new Fault("changed", "Somebody else has changed it since you read it; read it again.");
}

const randomIdOf = (): string => `acct_${randomBytes(9).toString("hex")}`;
