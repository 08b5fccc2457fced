/** The operations on operator tokens. Only their hashes are stored. */

import { hash, randomBytes } from "node:crypto";
import type { Access, Operation } from "#api/operation.ts";
import { operations } from "#api/operations.ts";
import type { tokenOperations } from "#api/tokens.ts";
import { type Actor, mayCall, roleIncludes } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { tokensMax } from "../bounds.ts";
import { transact } from "../database/change.ts";
import type { Role, TokenRow } from "../database/tables.ts";

type Row = Omit<TokenRow, "scopes"> & { scopes: string[] };

export const tokenHandlers: Handlers<typeof tokenOperations> = {
  async listTokens({ query }, { database }) {
    const listed = database.selectFrom("tokens").selectAll();
    const { rows, nextCursor } = await readPage(listed, query, ["created_at", "id"]);
    return { body: { items: rows.map(tokenOf), nextCursor } };
  },

  async createToken({ body: { name, scopes, expiresAt = null } }, context) {
    const { actor, now } = context;
    refuseNarrowToken(actor);
    for (const scope of scopes) checkScope(scope);
    const token = `sluice_${randomBytes(32).toString("base64url")}`;
    const row: Row & { hash: string } = {
      id: `token_${randomBytes(9).toString("hex")}`,
      name,
      hash: hash("sha256", token),
      hint: token.slice(-4),
      scopes,
      created_at: now,
      expires_at: expiresAt === null ? null : new Date(expiresAt),
      revoked_at: null,
      last_used_at: null,
    };
    await transact(context, "createToken", async (inside) => {
      const { live } = await inside.database
        .selectFrom("tokens")
        .select((tokens) => tokens.fn.countAll<bigint>().as("live"))
        .where("revoked_at", "is", null)
        .executeTakeFirstOrThrow();
      if (live >= BigInt(tokensMax)) throw new Fault("conflict", `There are ${tokensMax} tokens; revoke some first.`);
      await inside.database
        .insertInto("tokens")
        .values({ ...row, scopes: JSON.stringify(scopes) })
        .execute();
      await inside.record({ subject: `token ${row.id}`, after: tokenOf(row) });
    });
    return { body: { ...tokenOf(row), token } };
  },

  async revokeToken({ params: { token: id } }, context) {
    const updated = await transact(context, "revokeToken", async (inside) => {
      const before = await inside.database
        .selectFrom("tokens")
        .selectAll()
        .where("id", "=", id)
        .forUpdate()
        .executeTakeFirst();
      if (before === undefined) throw notFound("token", id);
      const after = { ...before, revoked_at: before.revoked_at ?? context.now };
      await inside.database.updateTable("tokens").set({ revoked_at: after.revoked_at }).where("id", "=", id).execute();
      await inside.record({ subject: `token ${id}`, before: tokenOf(before), after: tokenOf(after) });
      return after;
    });
    return { body: tokenOf(updated) };
  },
};

/**
 * Throws a Fault for a token with scopes: what it is about to do would give it, or others, more
 * than its scopes.
 */
export function refuseNarrowToken({ scopes }: Actor): void {
  if (scopes !== undefined && !scopes.includes("*"))
    throw new Fault("forbidden", "A token with scopes may not do this, because it could widen its own rights.");
}

/**
 * Throws a Fault for a token whose scopes do not allow all that the role may do: whoever it gave
 * the role could do more than the token.
 */
export function refuseWiderRole(actor: Actor, role: Role): void {
  const wider = Object.entries<Operation>(operations).find(
    ([name, { access }]) => isRole(access) && roleIncludes(role, access) && !mayCall(actor, name),
  );
  if (wider !== undefined)
    throw new Fault(
      "forbidden",
      `A token can make somebody ${role} only if its scopes allow all that this role may do; those of this token do not allow ${wider[0]}.`,
    );
}

const isRole = (access: Access): access is Role => access === "reader" || access === "member" || access === "owner";

/** Throws a Fault for a scope that allows nothing, such as a misspelt one. */
function checkScope(scope: string): void {
  const prefix = scope.endsWith("*") ? scope.slice(0, -1) : undefined;
  const allowsOne =
    prefix === undefined
      ? Object.hasOwn(operations, scope)
      : Object.keys(operations).some((name) => name.startsWith(prefix));
  if (!allowsOne)
    throw new Fault("invalid", `There is no operation ${JSON.stringify(scope)}; /api/v1/openapi.json lists them.`, {
      field: "scopes",
    });
}

const tokenOf = (row: Omit<Row, "hash">) => ({
  id: row.id,
  name: row.name,
  hint: row.hint,
  scopes: row.scopes,
  createdAt: row.created_at.toISOString(),
  expiresAt: row.expires_at?.toISOString() ?? null,
  revokedAt: row.revoked_at?.toISOString() ?? null,
  lastUsedAt: row.last_used_at?.toISOString() ?? null,
});
