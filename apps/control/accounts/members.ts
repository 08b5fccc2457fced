/** The operations on the members of an account. */

import type { memberOperations } from "#api/members.ts";
import { within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { Role } from "../database/tables.ts";
import { refuseWiderRole } from "./operator-tokens.ts";

type Names = "listMembers" | "updateMember" | "removeMember";

export const memberHandlers: Pick<Handlers<typeof memberOperations>, Names> = {
  async listMembers({ params: { account }, query }, context) {
    await requireAccount(context, account);
    const listed = membersOf(context).where("members.account", "=", account);
    const { rows, nextCursor } = await readPage(listed, query, ["members.created_at", "members.user_id"]);
    return { body: { items: rows.map(memberOf), nextCursor } };
  },

  async updateMember({ params: { account, user }, body: { role } }, context) {
    refuseWiderRole(context.actor, role);
    const updated = await transact(context, "updateMember", async (inside) => {
      const before = await memberRow(inside, account, user);
      if (before.role === "owner" && role !== "owner") await refuseLastOwner(inside.database, account, user);
      await inside.database
        .updateTable("members")
        .set({ role, is_mapped: false })
        .where("account", "=", account)
        .where("user_id", "=", user)
        .execute();
      const after = { ...before, role };
      await inside.record({ account, subject: `member ${user}`, before: memberOf(before), after: memberOf(after) });
      return after;
    });
    return { body: memberOf(updated) };
  },

  async removeMember({ params: { account, user } }, context) {
    await transact(context, "removeMember", async (inside) => {
      const before = await memberRow(inside, account, user);
      if (before.role === "owner") await refuseLastOwner(inside.database, account, user);
      await inside.database.deleteFrom("members").where("account", "=", account).where("user_id", "=", user).execute();
      await inside.record({ account, subject: `member ${user}`, before: memberOf(before) });
    });
    return { body: undefined };
  },
};

/**
 * Throws a Fault for an account outside the scope. `locks` it, so that changes of its people take
 * turns.
 */
export async function requireAccount(
  { database, scope }: Pick<Context, "database" | "scope">,
  account: string,
  locks = false,
): Promise<{ id: string; name: string; groups: string[] | null }> {
  let query = database
    .selectFrom("accounts")
    .select(["id", "name", "groups"])
    .where("id", "=", account)
    .where(within("id", scope));
  if (locks) query = query.forUpdate();
  const row = await query.executeTakeFirst();
  if (row === undefined) throw notFound("account", account);
  return row;
}

/** Throws a Fault if the account has no other owner. Locks the account. */
export async function refuseLastOwner(transaction: Database, account: string, user: string): Promise<void> {
  await requireAccount({ database: transaction, scope: "all" }, account, true);
  const other = await transaction
    .selectFrom("members")
    .select("user_id")
    .where("account", "=", account)
    .where("role", "=", "owner")
    .where("user_id", "<>", user)
    .executeTakeFirst();
  if (other === undefined)
    throw new Fault(
      "conflict",
      `This is the last owner of ${JSON.stringify(account)}; make another member an owner first.`,
    );
}

const membersOf = ({ database, scope }: Pick<Context, "database" | "scope">) =>
  database
    .selectFrom("members")
    .innerJoin("users", "users.id", "members.user_id")
    .select([
      "members.user_id",
      "members.role",
      "members.created_at",
      "users.name",
      "users.email",
      "users.twoFactorEnabled",
    ])
    .where(within("members.account", scope));

/** Locks the account first, so that of two owners who remove each other one stays. */
async function memberRow(context: Pick<Context, "database" | "scope">, account: string, user: string) {
  await requireAccount(context, account, true);
  const row = await membersOf(context)
    .where("members.account", "=", account)
    .where("members.user_id", "=", user)
    .executeTakeFirst();
  if (row === undefined) throw notFound("member", user);
  return row;
}

interface MemberWithUser {
  user_id: string;
  role: Role;
  created_at: Date;
  name: string;
  email: string;
  twoFactorEnabled: boolean | null;
}

const memberOf = ({ user_id, name, email, role, twoFactorEnabled, created_at }: MemberWithUser) => ({
  user: user_id,
  name,
  email,
  role,
  hasSecondFactor: twoFactorEnabled === true,
  createdAt: created_at.toISOString(),
});
