/** The first operator, and the link by which it signs in. */
import { randomBytes } from "node:crypto";
import type { Database } from "../database/database.ts";
import type { Links } from "./links.ts";

/** A placeholder that the operator replaces. */
export const firstEmail = "operator@localhost.invalid";

/** Unless an operator exists. */
export async function ensureOperator(database: Database, createdAt: Date): Promise<void> {
  const { count } = await database
    .selectFrom("users")
    .select((users) => users.fn.countAll<bigint>().as("count"))
    .where("isOperator", "=", true)
    .executeTakeFirstOrThrow();
  if (count > 0n) return;
  await database
    .insertInto("users")
    .values({
      id: `user_${randomBytes(12).toString("hex")}`,
      name: "Operator",
      email: firstEmail,
      emailVerified: true,
      image: null,
      twoFactorEnabled: false,
      isOperator: true,
      createdAt,
    })
    // Another process was faster.
    .onConflict((conflict) => conflict.column("email").doNothing())
    .execute();
}

export const firstOperator = (database: Database) =>
  database
    .selectFrom("users")
    .select(["id", "email"])
    .where("isOperator", "=", true)
    .orderBy("createdAt")
    .orderBy("id")
    .executeTakeFirst();

/** Whether no operator can sign in without a link. */
export async function needsLink(database: Database): Promise<boolean> {
  const able = await database
    .selectFrom("users")
    .select("id")
    .where("isOperator", "=", true)
    .where((where) =>
      where.or([
        where.exists(where.selectFrom("logins").select("id").whereRef("logins.userId", "=", "users.id")),
        where.exists(where.selectFrom("sessions").select("id").whereRef("sessions.userId", "=", "users.id")),
      ]),
    )
    .executeTakeFirst();
  return able === undefined;
}

/** A link for the first operator while no operator can sign in otherwise. */
export async function firstSignInLink(database: Database, links: Links): Promise<string | undefined> {
  const operator = (await needsLink(database)) ? await firstOperator(database) : undefined;
  return operator && (await links.signIn(operator)).url;
}
