/** The operations on keys. */

import { randomBytes } from "node:crypto";
import { type SqlBool, sql } from "kysely";
import { createKey } from "#access/key.ts";
import type { keyOperations } from "#api/keys.ts";
import { checkVersion } from "../accounts/accounts.ts";
import { requireAccount } from "../accounts/members.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { type Inside, transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import { type LimitDeps, standingsOf } from "./key-limits.ts";
import type { KeyProjection } from "./key-projection.ts";
import { accountSpendOf, apiKeyOf, describedOf, type FullRow, isInState, keysWithin, usesOf } from "./key-rows.ts";
import { changedSettings, checkGrant, checkSettings, columnsOf } from "./key-settings.ts";

export interface KeyOptions extends LimitDeps {
  projection: Pick<KeyProjection, "project" | "compare">;
}

type KeyHandlers = Handlers<typeof keyOperations>;

export const keyHandlers = (options: KeyOptions): KeyHandlers => ({ ...readsOf(options), ...changesOf(options) });

type ReadNames = "listKeys" | "getKey" | "getKeyLimits";

const readsOf = (deps: LimitDeps): Pick<KeyHandlers, ReadNames> => ({
  async listKeys({ query }, { database, scope, now }) {
    const { account, state, search } = query;
    let listed = keysWithin(database, scope);
    if (account !== undefined) listed = listed.where("keys.account", "=", account);
    if (state !== undefined) listed = listed.where(isInState(state, now));
    if (search !== undefined)
      listed = listed.where(
        sql<SqlBool>`(position(lower(${search}) in lower(keys.name)) > 0 or position(${search} in keys.id) > 0 or keys.hint = ${search})`,
      );
    const { rows, nextCursor } = await readPage(listed, query, ["keys.created_at", "keys.id"]);
    const uses = await usesOf(
      database,
      rows.map(({ id }) => id),
      now,
    );
    return { body: { items: rows.map((row) => apiKeyOf(row, now, uses.get(row.id))), nextCursor } };
  },

  async getKey({ params: { key } }, context) {
    return answerOf(await keyRow(context, key), context);
  },

  async getKeyLimits({ params: { key } }, context) {
    const { database, now } = context;
    const row = await keyRow(context, key);
    const [limits, accountSpend] = await Promise.all([
      standingsOf(deps, row, now.getTime(), context.actor.isOperator),
      accountSpendOf(database, row.account, now),
    ]);
    return { body: { limits, accountSpend } };
  },
});

function changesOf({ catalogue, projection }: KeyOptions): Omit<KeyHandlers, ReadNames> {
  /**
   * Changes a key in a transaction, records the change, and projects it. `change` returns undefined
   * where nothing is to be changed.
   */
  const changed = async (
    action: string,
    id: string,
    context: Context,
    change: (before: FullRow) => Parameters<typeof update>[2] | undefined,
  ) => {
    const row = await transact(context, action, async (inside) => {
      const before = await keyRow(inside, id, true);
      checkVersion(before.version, context);
      const columns = change(before);
      if (columns === undefined) return before;
      return recordedUpdate(inside, before, columns);
    });
    await projection.project([id]);
    return answerOf(row, context);
  };

  return {
    async createKey({ body: { account, ...settings } }, context) {
      checkSettings(settings, catalogue(), context.now);
      const { key, row } = await transact(context, "createKey", async (inside) => {
        const { groups } = await requireAccount(inside, account);
        checkGrant(
          settings,
          { group_name: "", limits: null, priority: null, account_groups: groups },
          catalogue(),
          context.actor,
        );
        return insertKey(inside, account, columnsOf(settings));
      });
      await projection.project([row.id]);
      return { body: { ...apiKeyOf(row, context.now), key }, version: row.version };
    },

    updateKey({ params: { key }, body }, context) {
      checkSettings(body, catalogue(), context.now);
      return changed("updateKey", key, context, (before) => {
        refuseRevoked(before);
        const settings = changedSettings(body, before.limits);
        checkGrant(settings, before, catalogue(), context.actor);
        return Object.keys(body).length > 0 ? columnsOf(settings) : undefined;
      });
    },

    async rotateKey({ params: { key: id }, body: { overlapSeconds } }, context) {
      const end = new Date(context.now.getTime() + overlapSeconds * 1_000);
      const { key, row } = await transact(context, "rotateKey", async (inside) => {
        const before = await keyRow(inside, id, true);
        checkVersion(before.version, context);
        refuseRevoked(before);
        if (before.replaced_by !== null)
          throw new Fault("conflict", `The key was already replaced by ${before.replaced_by}; rotate that one.`);
        const created = await insertKey(inside, before.account, copiedColumnsOf(before));
        await recordedUpdate(inside, before, {
          replaced_by: created.row.id,
          expires_at: before.expires_at !== null && before.expires_at < end ? before.expires_at : end,
        });
        return created;
      });
      await projection.project([row.id, id]);
      return { body: { ...apiKeyOf(row, context.now), key }, version: row.version };
    },

    revokeKey({ params: { key } }, context) {
      return changed("revokeKey", key, context, (before) =>
        before.revoked_at === null ? { revoked_at: context.now } : undefined,
      );
    },

    async rebuildKeys() {
      const { keys, written, imported } = await projection.compare();
      return { body: { keys, written, imported } };
    },
  };
}

const answerOf = async (row: FullRow, { database, now }: Context) => ({
  body: apiKeyOf(row, now, (await usesOf(database, [row.id], now)).get(row.id)),
  version: row.version,
});

/** Throws a Fault for a key outside the scope. `locks` it for the rest of the transaction. */
async function keyRow(
  { database, scope }: Pick<Context, "database" | "scope">,
  id: string,
  locks = false,
): Promise<FullRow> {
  const query = keysWithin(database, scope).where("keys.id", "=", id);
  const row = await (locks ? query.forUpdate("keys") : query).executeTakeFirst();
  if (row === undefined) throw notFound("key", id);
  return row;
}

function refuseRevoked({ revoked_at }: FullRow): void {
  if (revoked_at !== null) throw new Fault("conflict", "The key is revoked, which is final; create a new one.");
}

type Columns = ReturnType<typeof columnsOf> & { expires_at?: Date | null; revoked_at?: Date; replaced_by?: string };

async function update(database: Database, { id, version }: FullRow, columns: Columns): Promise<FullRow> {
  await database
    .updateTable("keys")
    .set({ ...columns, version: version + 1 })
    .where("id", "=", id)
    .execute();
  return keysWithin(database, "all").where("keys.id", "=", id).executeTakeFirstOrThrow();
}

async function recordedUpdate(inside: Inside<Context>, before: FullRow, columns: Columns): Promise<FullRow> {
  const after = await update(inside.database, before, columns);
  await inside.record({
    account: before.account,
    subject: `key ${before.id}`,
    before: describedOf(before, inside.now),
    after: describedOf(after, inside.now),
  });
  return after;
}

/** The settings of a key for one that replaces it. */
const copiedColumnsOf = (row: FullRow) =>
  columnsOf({
    name: row.name,
    group: row.group_name,
    models: row.models,
    expiresAt: row.expires_at?.toISOString() ?? null,
    limits: row.limits,
    addresses: row.addresses,
    origins: row.origins,
    priority: row.priority,
    tags: row.tags,
  });

/** The key itself is not stored. */
async function insertKey(
  inside: Inside<Context>,
  account: string,
  columns: ReturnType<typeof columnsOf>,
): Promise<{ key: string; row: FullRow }> {
  const { key, hash, hint } = createKey();
  const { name = "", group_name = "", ...others } = columns;
  const id = `key_${randomBytes(12).toString("hex")}`;
  await inside.database
    .insertInto("keys")
    .values({ id, hash, hint, account, created_at: inside.now, name, group_name, tags: "[]", ...others })
    .execute();
  const row = await keysWithin(inside.database, "all").where("keys.id", "=", id).executeTakeFirstOrThrow();
  await inside.record({
    account,
    subject: `key ${id}`,
    after: describedOf(row, inside.now),
  });
  return { key, row };
}
