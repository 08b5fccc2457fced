/** The operations of operators on users, and the ways to sign in. */

import { sql } from "kysely";
import type { peopleOperations } from "#api/people.ts";
import { refuseLastOwner } from "../accounts/members.ts";
import { refuseNarrowToken } from "../accounts/operator-tokens.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { recordChange, transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { Links } from "./links.ts";
import { firstOperator, needsLink } from "./operators.ts";
import type { UserRow } from "./tables.ts";

type Names = "getSignInMethods" | "listUsers" | "updateUser" | "removeUser" | "endUserSessions" | "createSignInLink";
type Row = Omit<UserRow, "createdAt" | "updatedAt"> & { createdAt: Date };

export interface UserHandlerOptions {
  links: Links;
  /** The name of the OpenID Connect provider. */
  oidc(): string | null;
  hasMail(): boolean;
}

export function userHandlers({
  links,
  oidc,
  hasMail,
}: UserHandlerOptions): Pick<Handlers<typeof peopleOperations>, Names> {
  return {
    getSignInMethods: async (_, { database }) => ({
      body: { password: true, oidc: oidc(), passwordReset: hasMail(), needsLink: await needsLink(database) },
    }),

    async listUsers({ query }, { database }) {
      const { search } = query;
      let listed = database.selectFrom("users").selectAll();
      if (search !== undefined)
        listed = listed.where(sql<boolean>`position(lower(${search}) in lower(name || ' ' || email)) > 0`);
      const { rows, nextCursor } = await readPage(listed, query, ["createdAt", "id"]);
      return { body: { items: rows.map(userOf), nextCursor } };
    },

    async updateUser({ params: { user: id }, body: { isOperator } }, context) {
      refuseNarrowToken(context.actor);
      const updated = await transact(context, "updateUser", async (inside) => {
        const before = await userRow(inside.database, id);
        if (before.isOperator && !isOperator) await refuseLastOperator(inside.database, id);
        const after = { ...before, isOperator };
        await inside.database
          .updateTable("users")
          .set({ isOperator, updatedAt: context.now })
          .where("id", "=", id)
          .execute();
        await inside.record({ subject: `user ${id}`, before: userOf(before), after: userOf(after) });
        return after;
      });
      return { body: userOf(updated) };
    },

    async removeUser({ params: { user: id } }, context) {
      refuseNarrowToken(context.actor);
      await transact(context, "removeUser", async (inside) => {
        const before = await userRow(inside.database, id);
        if (before.isOperator) await refuseLastOperator(inside.database, id);
        const memberships = await inside.database.selectFrom("members").selectAll().where("user_id", "=", id).execute();
        for (const { account, role } of memberships.toSorted((a, b) => (a.account < b.account ? -1 : 1)))
          if (role === "owner") await refuseLastOwner(inside.database, account, id);
        await inside.database.deleteFrom("members").where("user_id", "=", id).execute();
        await inside.database.deleteFrom("users").where("id", "=", id).execute();
        await inside.record({
          subject: `user ${id}`,
          before: { ...userOf(before), accounts: memberships.map(({ account, role }) => ({ account, role })) },
        });
      });
      return { body: undefined };
    },

    async endUserSessions({ params: { user: id } }, context) {
      await transact(context, "endUserSessions", async (inside) => {
        await userRow(inside.database, id);
        await inside.database.deleteFrom("sessions").where("userId", "=", id).execute();
        await inside.record({ subject: `user ${id}` });
      });
      return { body: undefined };
    },

    async createSignInLink({ body: { user: id } }, context) {
      refuseNarrowToken(context.actor);
      const user = await linkedUser(context, id);
      const { url, expiresAt } = await links.signIn(user);
      await recordChange(context, "createSignInLink", { subject: `user ${user.id}` });
      return { body: { user: user.id, email: user.email, url, expiresAt: expiresAt.toISOString() } };
    },
  };
}

async function linkedUser({ database }: Context, id: string | undefined): Promise<{ id: string; email: string }> {
  if (id !== undefined) return await userRow(database, id);
  const operator = await firstOperator(database);
  if (operator === undefined) throw new Fault("conflict", "There is no operator; restart control, which creates one.");
  return operator;
}

/** Locks the row where the database is a transaction. */
async function userRow(database: Database, id: string): Promise<Row> {
  const row = await database.selectFrom("users").selectAll().where("id", "=", id).forUpdate().executeTakeFirst();
  if (row === undefined) throw notFound("user", id);
  return row;
}

/** Throws a Fault if nobody else is an operator. Locks the operators. */
async function refuseLastOperator(transaction: Database, user: string): Promise<void> {
  const operators = await transaction
    .selectFrom("users")
    .select("id")
    .where("isOperator", "=", true)
    .orderBy("id")
    .forUpdate()
    .execute();
  if (operators.every(({ id }) => id === user))
    throw new Fault("conflict", "This is the last operator; make another user an operator first.");
}

const userOf = ({ id, name, email, isOperator, twoFactorEnabled, createdAt }: Row) => ({
  id,
  name,
  email,
  isOperator,
  hasSecondFactor: twoFactorEnabled === true,
  createdAt: createdAt.toISOString(),
});
