/** The operations of the caller on itself: name, password and sessions. */

import type { peopleOperations } from "#api/people.ts";
import type { Actor } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { freshSessionMs } from "../bounds.ts";
import { transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { Attempts } from "./attempts.ts";
import type { Auth } from "./auth.ts";
import type { Links } from "./links.ts";
import type { Mail } from "./mail.ts";
import type { SessionRow } from "./tables.ts";

type Person = Actor & { session: string };
type Names = "getMe" | "updateMe" | "setMyPassword" | "listSessions" | "endSession" | "endSessions";

export interface MeOptions {
  auth: Auth;
  /** Attempts at sign-in count too. */
  passwords: Attempts;
  links: Pick<Links, "newEmail">;
  /** Without a mail server, a new address counts at once. */
  mail: Pick<Mail, "isAvailable" | "send">;
  /** Counts mails by the caller's IP address. Throws a Fault. */
  limit(address: string): void;
}

export function meHandlers({
  auth,
  passwords,
  links,
  mail,
  limit,
}: MeOptions): Pick<Handlers<typeof peopleOperations>, Names> {
  const prove = (context: Context, person: Person, password: string | undefined) =>
    checkPassword(auth, passwords, context, person, password);
  return {
    getMe: async (_input, context) => ({ body: await meOf(context) }),

    async updateMe({ body: { name, email, currentPassword } }, context) {
      const person = personOf(context);
      if (name === undefined && email === undefined) return { body: await meOf(context) };
      if (email !== undefined) await prove(context, person, currentPassword);
      await transact(context, "updateMe", async (inside) => {
        const before = await userOf(inside.database, person.id, true);
        const wanted = email?.toLowerCase() ?? before.email;
        await refuseTaken(inside.database, person.id, wanted);
        const isConfirmed = mail.isAvailable() && wanted !== before.email;
        const after = { name: name ?? before.name, email: isConfirmed ? before.email : wanted };
        await inside.database
          .updateTable("users")
          .set({
            ...after,
            emailVerified: before.emailVerified && after.email === before.email,
            updatedAt: context.now,
          })
          .where("id", "=", person.id)
          .execute();
        await inside.record({
          subject: `user ${person.id}`,
          before: { name: before.name, email: before.email },
          after: { ...after, ...(isConfirmed && { unconfirmedEmail: wanted }) },
        });
        if (!isConfirmed) return;
        limit(context.address);
        if (!mail.send(wanted, "Confirm your address", emailMail(await links.newEmail(before, wanted))))
          throw new Fault("unavailable", "Too many mails wait for the mail server; try again later.");
      });
      return { body: await meOf(context) };
    },

    async setMyPassword({ body: { password, currentPassword } }, context) {
      const person = personOf(context);
      await prove(context, person, currentPassword);
      const hashed = await (await auth.$context).password.hash(password);
      await transact(context, "setMyPassword", async (inside) => {
        await setPassword(inside.database, person.id, hashed, context.now);
        await inside.database
          .deleteFrom("sessions")
          .where("userId", "=", person.id)
          .where("id", "<>", person.session)
          .execute();
        await inside.record({ subject: `user ${person.id}` });
      });
      return { body: undefined };
    },

    async listSessions({ query }, context) {
      const person = personOf(context);
      const listed = context.database
        .selectFrom("sessions")
        .selectAll()
        .where("userId", "=", person.id)
        .where("expiresAt", ">", context.now);
      const { rows, nextCursor } = await readPage(listed, query, ["createdAt", "id"]);
      return { body: { items: rows.map((row) => sessionOf(row, person.session)), nextCursor } };
    },

    async endSession({ params: { session } }, context) {
      const person = personOf(context);
      await transact(context, "endSession", async (inside) => {
        const { numDeletedRows } = await inside.database
          .deleteFrom("sessions")
          .where("userId", "=", person.id)
          .where("id", "=", session)
          .executeTakeFirst();
        if (numDeletedRows === 0n) throw notFound("session", session);
        await inside.record({ subject: `session ${session}` });
      });
      return { body: undefined };
    },

    async endSessions({ query: { keepsCurrent = false } }, context) {
      const person = personOf(context);
      await transact(context, "endSessions", async (inside) => {
        let ended = inside.database.deleteFrom("sessions").where("userId", "=", person.id);
        if (keepsCurrent) ended = ended.where("id", "<>", person.session);
        await ended.execute();
        await inside.record({ subject: `user ${person.id}` });
      });
      return { body: undefined };
    },
  };
}

const emailMail = (link: string): string =>
  `Open this link within an hour, in a browser in which you are signed in, to sign in with this address from now on:\n\n${link}\n\nIf you did not ask for it, ignore this mail.`;

/** Throws a Fault for a machine. */
function personOf({ actor }: Pick<Context, "actor">): Person {
  const { session } = actor;
  if (actor.kind !== "person" || session === undefined)
    throw new Fault("forbidden", "Only a person who is signed in may do this, not a token.");
  return { ...actor, session };
}

/**
 * Throws a Fault unless the caller proves to know the password, has none, or has just used a
 * sign-in link.
 */
async function checkPassword(
  auth: Auth,
  passwords: Attempts,
  { database, now, address }: Context,
  person: Person,
  password: string | undefined,
): Promise<void> {
  const login = await passwordLogin(database, person.id);
  if (login?.password == null) return;
  const session = await database
    .selectFrom("sessions")
    .select(["method", "createdAt"])
    .where("id", "=", person.session)
    .executeTakeFirst();
  if (session?.method === "link" && now.getTime() - session.createdAt.getTime() < freshSessionMs) return;
  const field = "currentPassword";
  if (password === undefined) throw new Fault("invalid", "The current password is required.", { field });
  const user = person.name.toLowerCase();
  await passwords.take(user, address);
  if (!(await (await auth.$context).password.verify({ hash: login.password, password })))
    throw new Fault("invalid", "The current password is not right.", { field });
  passwords.succeeded(user, address);
}

const passwordLogin = (database: Database, user: string) =>
  database
    .selectFrom("logins")
    .select(["id", "password"])
    .where("userId", "=", user)
    .where("providerId", "=", "credential")
    .executeTakeFirst();

/** `hashed` by better-auth. */
export async function setPassword(database: Database, user: string, hashed: string, now: Date): Promise<void> {
  await database
    .insertInto("logins")
    .values({
      id: `account_${user}`,
      accountId: user,
      providerId: "credential",
      userId: user,
      password: hashed,
      updatedAt: now,
    })
    .onConflict((conflict) =>
      conflict.columns(["providerId", "accountId"]).doUpdateSet({ password: hashed, updatedAt: now }),
    )
    .execute();
}

async function userOf(database: Database, id: string, locks = false) {
  let query = database.selectFrom("users").selectAll().where("id", "=", id);
  if (locks) query = query.forUpdate();
  const row = await query.executeTakeFirst();
  if (row === undefined) throw notFound("user", id);
  return row;
}

async function refuseTaken(database: Database, user: string, email: string): Promise<void> {
  const other = await database
    .selectFrom("users")
    .select("id")
    .where("email", "=", email)
    .where("id", "<>", user)
    .executeTakeFirst();
  if (other !== undefined) throw new Fault("conflict", "Another user has this address.", { field: "email" });
}

async function meOf({ database, actor }: Context) {
  const { id, kind, isOperator, scopes = null, roles } = actor;
  const isPerson = kind === "person";
  const user = isPerson ? await userOf(database, id) : undefined;
  const accounts = await database
    .selectFrom("accounts")
    .select(["id", "name"])
    .where("id", "in", roles.size === 0 ? [""] : [...roles.keys()])
    .orderBy("name")
    .orderBy("id")
    .execute();
  return {
    kind: isPerson ? ("person" as const) : ("token" as const),
    id,
    name: user?.name ?? actor.name,
    email: user?.email ?? null,
    isOperator,
    hasPassword: isPerson && (await passwordLogin(database, id))?.password != null,
    hasSecondFactor: user?.twoFactorEnabled ?? false,
    scopes: scopes && [...scopes],
    accounts: accounts.map((account) => ({ ...account, role: roles.get(account.id) ?? ("reader" as const) })),
  };
}

const sessionOf = (row: SessionRow, current: string) => ({
  id: row.id,
  isCurrent: row.id === current,
  method: row.method ?? "password",
  address: row.ipAddress || null,
  userAgent: row.userAgent?.slice(0, 300) || null,
  createdAt: row.createdAt.toISOString(),
  expiresAt: row.expiresAt.toISOString(),
});
