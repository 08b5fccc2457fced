/**
 * The operations on saved views. A view belongs to a person; a shared one is also seen by the
 * members of its account.
 */

import { randomBytes } from "node:crypto";
import { type Selectable, type SqlBool, sql } from "kysely";
import type { AnswerOf } from "#api/operation.ts";
import type { viewOperations } from "#api/views.ts";
import { requireAccount } from "../accounts/members.ts";
import { type Actor, roleIncludes, within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { viewsMax } from "../bounds.ts";
import { transact } from "../database/change.ts";
import type { ViewRow } from "../database/tables.ts";

type View = AnswerOf<(typeof viewOperations)["createView"]>;
type Row = Selectable<ViewRow> & { person: string };

export const viewHandlers: Handlers<typeof viewOperations> = {
  async listViews({ query }, context) {
    const { page } = query;
    let listed = viewsWithin(context);
    if (page !== undefined) listed = listed.where("views.page", "=", page);
    const { rows, nextCursor } = await readPage(listed, query, ["views.created_at", "views.id"]);
    return { body: { items: rows.map((row) => viewOf(row, context.actor)), nextCursor } };
  },

  async createView({ body: { page, name, account, search } }, context) {
    const { actor, now } = context;
    const id = `view_${randomBytes(9).toString("hex")}`;
    const view = await transact(context, "createView", async (inside) => {
      const person = await lockedPerson(inside);
      if (account !== null) await requireAccount(inside, account);
      const { count } = await inside.database
        .selectFrom("views")
        .select(({ fn }) => fn.countAll<bigint>().as("count"))
        .where("user_id", "=", actor.id)
        .executeTakeFirstOrThrow();
      if (count >= viewsMax) throw new Fault("conflict", `You have ${viewsMax} saved views; remove one first.`);
      const created = { id, user_id: actor.id, account, page, name, created_at: now };
      await inside.database
        .insertInto("views")
        .values({ ...created, search: JSON.stringify(search) })
        .execute();
      const view = viewOf({ ...created, search, person }, actor);
      await inside.record({ account, subject: subjectOf(id), after: view });
      return view;
    });
    return { body: view };
  },

  async updateView({ params: { view: id }, body }, context) {
    const { name, account, search } = body;
    const row = await transact(context, "updateView", async (inside) => {
      const before = await viewRow(inside, id);
      if (before.user_id !== context.actor.id) throw new Fault("forbidden", "Only its person may change a view.");
      if (account !== undefined && account !== null) await requireAccount(inside, account);
      if (Object.keys(body).length === 0) return before;
      const after = {
        ...before,
        name: name ?? before.name,
        account: account === undefined ? before.account : account,
        search: search ?? before.search,
      };
      await inside.database
        .updateTable("views")
        .set({ name: after.name, account: after.account, search: JSON.stringify(after.search) })
        .where("id", "=", id)
        .execute();
      await inside.record({
        account: after.account ?? before.account,
        subject: subjectOf(id),
        before: viewOf(before, context.actor),
        after: viewOf(after, context.actor),
      });
      return after;
    });
    return { body: viewOf(row, context.actor) };
  },

  async removeView({ params: { view: id } }, context) {
    const { actor } = context;
    await transact(context, "removeView", async (inside) => {
      const before = await viewRow(inside, id);
      const isOwner =
        before.account !== null &&
        (actor.isOperator || roleIncludes(actor.roles.get(before.account) ?? "reader", "owner"));
      if (before.user_id !== actor.id && !isOwner)
        throw new Fault("forbidden", "Only its person and the owners of its account may remove a view.");
      await inside.database.deleteFrom("views").where("id", "=", id).execute();
      await inside.record({ account: before.account, subject: subjectOf(id), before: viewOf(before, actor) });
    });
    return { body: undefined };
  },
};

const subjectOf = (id: string) => `view ${id}`;

/**
 * The views that the caller may see: own ones, and those that are shared with an account of the
 * scope.
 */
const viewsWithin = ({ database, scope, actor }: Pick<Context, "database" | "scope" | "actor">) =>
  database
    .selectFrom("views")
    .innerJoin("users", "users.id", "views.user_id")
    .selectAll("views")
    .select("users.name as person")
    .where(
      sql<SqlBool>`((views.account is null and views.user_id = ${actor.id}) or (views.account is not null and ${within("views.account", scope)}))`,
    );

/** Locks it. Throws a Fault for one that the caller may not see. */
async function viewRow(context: Pick<Context, "database" | "scope" | "actor">, id: string): Promise<Row> {
  const row = await viewsWithin(context).where("views.id", "=", id).forUpdate("views").executeTakeFirst();
  if (row === undefined) throw notFound("view", id);
  return row;
}

/** The name of the caller, whose views nobody else counts meanwhile. Throws a Fault for a token. */
async function lockedPerson({ database, actor }: Pick<Context, "database" | "actor">): Promise<string> {
  if (actor.kind !== "person") throw new Fault("forbidden", "Only people have saved views.");
  const { name } = await database
    .selectFrom("users")
    .select("name")
    .where("id", "=", actor.id)
    .forUpdate()
    .executeTakeFirstOrThrow();
  return name;
}

const viewOf = ({ id, page, name, account, search, user_id, person, created_at }: Row, actor: Actor): View => ({
  id,
  page: page as View["page"],
  name,
  account,
  search,
  isOwn: user_id === actor.id,
  person,
  createdAt: created_at.toISOString(),
});
