/**
 * Invitations to an account: a link that whoever has it may accept once. Only the hash of its token
 * is stored.
 */

import { hash, randomBytes } from "node:crypto";
import type { memberOperations } from "#api/members.ts";
import type { InputOf } from "#api/operation.ts";
import { type Actor, within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { invitationHours, openInvitationsMax } from "../bounds.ts";
import { transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { InvitationRow, Role } from "../database/tables.ts";
import type { Mail } from "../sign-in/mail.ts";
import { setPassword } from "../sign-in/me.ts";
import { requireAccount } from "./members.ts";
import { refuseWiderRole } from "./operator-tokens.ts";

type Names = "listInvitations" | "createInvitation" | "revokeInvitation" | "showInvitation" | "acceptInvitation";
type NewUser = InputOf<(typeof memberOperations)["acceptInvitation"]>["body"];

export interface InvitationOptions {
  linkOf(token: string): string;
  mail: Pick<Mail, "isAvailable" | "send">;
  hashPassword(password: string): Promise<string>;
  /** Counts attempts by the caller's IP address. Throws a Fault. */
  limit(address: string): void;
}

const hourMs = 3_600_000;
const randomId = (kind: string) => `${kind}_${randomBytes(12).toString("hex")}`;

export function invitationHandlers(options: InvitationOptions): Pick<Handlers<typeof memberOperations>, Names> {
  return {
    async listInvitations({ params: { account }, query }, context) {
      const { database, scope, now } = context;
      await requireAccount(context, account);
      const listed = database
        .selectFrom("invitations")
        .selectAll()
        .where("account", "=", account)
        .where(within("account", scope));
      const { rows, nextCursor } = await readPage(listed, query, ["created_at", "id"]);
      return { body: { items: rows.map((row) => invitationOf(row, now)), nextCursor } };
    },

    createInvitation: async ({ params: { account }, body }, context) => ({
      body: await create(options, account, body, context),
    }),

    async revokeInvitation({ params: { account, invitation: id } }, context) {
      const { scope, now } = context;
      await requireAccount(context, account);
      await transact(context, "revokeInvitation", async (inside) => {
        const row = await inside.database
          .deleteFrom("invitations")
          .where("id", "=", id)
          .where("account", "=", account)
          .where(within("account", scope))
          .where("accepted_at", "is", null)
          .returningAll()
          .executeTakeFirst();
        if (row === undefined) throw notFound("open invitation", id);
        await inside.record({ account, subject: `invitation ${id}`, before: invitationOf(row, now) });
      });
      return { body: undefined };
    },

    async showInvitation({ body: { token } }, { database, address, now }) {
      options.limit(address);
      const { account, email, role, expires_at } = await openInvitation(database, token, now);
      const { name } = await requireAccount({ database, scope: "all" }, account);
      return { body: { account, accountName: name, email, role, expiresAt: expires_at.toISOString() } };
    },

    async acceptInvitation({ body }, context) {
      options.limit(context.address);
      return { body: await accept(options, body, context) };
    },
  };
}

async function create(
  { linkOf, mail }: InvitationOptions,
  account: string,
  { role, email, expiresInHours = invitationHours }: { role: Role; email?: string; expiresInHours?: number },
  context: Context,
) {
  const { actor, now } = context;
  refuseWiderRole(actor, role);
  const token = randomBytes(24).toString("base64url");
  const row: InvitationRow = {
    id: randomId("inv"),
    account,
    email: email?.toLowerCase() ?? null,
    role,
    hash: hash("sha256", token),
    invited_by: actor.id,
    created_at: now,
    expires_at: new Date(now.getTime() + expiresInHours * hourMs),
    accepted_at: null,
    accepted_by: null,
    is_mailed: email !== undefined && mail.isAvailable(),
  };
  const url = linkOf(token);
  await transact(context, "createInvitation", async (inside) => {
    const { name } = await requireAccount(inside, account, true);
    // Expired invitations do not count.
    await inside.database
      .deleteFrom("invitations")
      .where("account", "=", account)
      .where("accepted_at", "is", null)
      .where("expires_at", "<", now)
      .execute();
    const { open } = await inside.database
      .selectFrom("invitations")
      .select((invitations) => invitations.fn.countAll<bigint>().as("open"))
      .where("account", "=", account)
      .where("accepted_at", "is", null)
      .executeTakeFirstOrThrow();
    if (open >= BigInt(openInvitationsMax))
      throw new Fault("conflict", `The account has ${openInvitationsMax} open invitations; revoke some first.`);
    await inside.database.insertInto("invitations").values(row).execute();
    await inside.record({ account, subject: `invitation ${row.id}`, after: invitationOf(row, now) });
    if (row.email === null || !row.is_mailed) return;
    const text = `You are invited to ${name}. Open this link before ${row.expires_at.toISOString()}:\n\n${url}`;
    if (!mail.send(row.email, "You are invited", text))
      throw new Fault("unavailable", "Too many mails wait for the mail server; try again later.");
  });
  return { ...invitationOf(row, now), url: row.is_mailed ? null : url, isSent: row.is_mailed };
}

/** One transaction: of two who accept at once, one succeeds. */
async function accept({ hashPassword }: InvitationOptions, body: NewUser, context: Context) {
  const { now } = context;
  const isSignedIn = context.actor.kind === "person";
  if (context.actor.kind === "token") throw new Fault("forbidden", "Only people can accept invitations.");
  const hashed = isSignedIn || body.password === undefined ? "" : await hashPassword(body.password);
  return transact(context, "acceptInvitation", async (inside) => {
    const invitation = await openInvitation(inside.database, body.token, now, true);
    const { id, account, role, email } = invitation;
    const actor = isSignedIn ? context.actor : await createUser(inside.database, body, invitation, hashed, now);
    if (email !== null && email !== actor.name.toLowerCase())
      throw new Fault("forbidden", "This invitation is for another address; sign in with that one.");
    const { numInsertedOrUpdatedRows } = await inside.database
      .insertInto("members")
      .values({ account, user_id: actor.id, role, created_at: now })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows === 0n) throw new Fault("conflict", "You are a member of this account already.");
    await inside.database
      .updateTable("invitations")
      .set({ accepted_at: now, accepted_by: actor.id })
      .where("id", "=", id)
      .execute();
    await inside.record(
      { account, subject: `member ${actor.id}`, after: { user: actor.id, email: actor.name, role, invitation: id } },
      actor,
    );
    return { account, user: actor.id, role };
  });
}

/** A link that went by mail only proves that the address belongs to its user. */
async function createUser(
  transaction: Database,
  { name, email: ownEmail, password }: NewUser,
  { email: invited, is_mailed }: InvitationRow,
  hashed: string,
  now: Date,
): Promise<Actor> {
  const email = (ownEmail ?? invited)?.toLowerCase();
  for (const [field, value] of Object.entries({ name, email, password }))
    if (value === undefined)
      throw new Fault("invalid", `A new user needs a ${field}; if you have signed in before, sign in first.`, {
        field,
      });
  const user = { id: randomId("user"), name: name as string, email: email as string };
  const { numInsertedOrUpdatedRows } = await transaction
    .insertInto("users")
    .values({
      ...user,
      emailVerified: is_mailed && invited === email,
      image: null,
      twoFactorEnabled: false,
      isOperator: false,
      createdAt: now,
    })
    .onConflict((conflict) => conflict.column("email").doNothing())
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows === 0n)
    throw new Fault("conflict", "A user has this address already: sign in, then accept the invitation.", {
      field: "email",
    });
  await setPassword(transaction, user.id, hashed, now);
  return { kind: "person", id: user.id, name: user.email, isOperator: false, roles: new Map() };
}

/**
 * Throws a Fault for an unknown, used, revoked or expired token: callers cannot tell them apart.
 */
async function openInvitation(database: Database, token: string, now: Date, locks = false): Promise<InvitationRow> {
  let query = database
    .selectFrom("invitations")
    .selectAll()
    .where("hash", "=", hash("sha256", token))
    .where("accepted_at", "is", null)
    .where("expires_at", ">", now);
  if (locks) query = query.forUpdate();
  const row = await query.executeTakeFirst();
  if (row === undefined)
    throw new Fault(
      "not_found",
      "This invitation is not valid: it is unknown, used, revoked or expired. Ask for another.",
    );
  return row;
}

const invitationOf = ({ id, account, email, role, created_at, expires_at, accepted_at }: InvitationRow, now: Date) => ({
  id,
  account,
  email,
  role,
  state: accepted_at !== null ? ("accepted" as const) : expires_at <= now ? ("expired" as const) : ("open" as const),
  createdAt: created_at.toISOString(),
  expiresAt: expires_at.toISOString(),
});
