/** The operations on content. */

import { sql } from "kysely";
import type { contentOperations } from "#api/content.ts";
import { openContent } from "#content/content.ts";
import { createKeyPair } from "#content/sealing.ts";
import { type SealingKey, seal, unseal } from "#service/sealing.ts";
import { accountOf, accountRow, checkVersion } from "../accounts/accounts.ts";
import { within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Handlers } from "../api/handlers.ts";
import { recordChange, transact } from "../database/change.ts";
import { isNamed } from "../ledger/usage-handlers.ts";

export interface ContentOptions {
  /** Encrypts the private keys of accounts. */
  secret: string;
  /** Called after storing began or ended: the account's keys are projected again. */
  changed(account: string): Promise<void>;
}

/** Encrypts private keys of accounts: a copy of the database without AUTH_SECRET opens nothing. */
const sealingKeyOf = (secret: string, account: string): SealingKey => ({
  secret,
  salt: account,
  purpose: "sluice content of an account",
});

export function contentHandlers({ secret, changed }: ContentOptions): Handlers<typeof contentOperations> {
  return {
    async updateContentStorage({ params: { account: id }, body: { days } }, context) {
      await transact(context, "updateContentStorage", async (inside) => {
        const before = await accountRow(inside, id, true);
        checkVersion(before.version, context);
        const after = { ...before, content_days: days, version: before.version + 1 };
        if (days === null) Object.assign(after, { content_key: null, content_secret: null });
        else if (before.content_key === null) {
          const pair = createKeyPair();
          after.content_key = pair.publicKey;
          after.content_secret = seal(sealingKeyOf(secret, id), pair.privateKey);
        }
        await inside.database.updateTable("accounts").set(after).where("id", "=", id).execute();
        let deleted = inside.database.deleteFrom("content").where("account", "=", id);
        if (days !== null)
          deleted = deleted.where(
            "received_at",
            "<",
            sql<Date>`${context.now}::timestamptz - ${days} * interval '1 day'`,
          );
        const { numDeletedRows } = await deleted.executeTakeFirst();
        await inside.record({
          account: id,
          subject: `account ${id}`,
          before: accountOf(before),
          after: { ...accountOf(after), deletedContent: Number(numDeletedRows) },
        });
      });
      await changed(id);
      return { body: undefined };
    },

    async openContent({ params: { id } }, context) {
      const { database, scope } = context;
      const row = await database
        .selectFrom("content")
        .innerJoin("accounts", "accounts.id", "content.account")
        .selectAll("content")
        .select(["content_key", "content_secret"])
        .where(within("content.account", scope))
        .where(isNamed("content.generation_id", id))
        .where(isCurrent(context.now))
        .limit(1)
        .executeTakeFirst();
      if (row === undefined) throw notFound("content of the request", id);
      const { generation_id: generationId, account, content_key: publicKey, content_secret: encrypted } = row;
      const privateKey = encrypted === null ? undefined : unseal(sealingKeyOf(secret, account), encrypted);
      const content =
        publicKey === null || privateKey === undefined
          ? undefined
          : await openContent({ publicKey, privateKey }, { generationId, account }, Buffer.from(row.sealed));
      if (content === undefined)
        throw new Fault(
          "conflict",
          "The content cannot be decrypted: AUTH_SECRET has changed since the account enabled it. Disable and enable it; what was stored before is lost.",
        );
      await recordChange(context, "openContent", { account, subject: `request ${generationId}` });
      return { body: content };
    },
  };
}

/** SQL for content that its account still wants; `accounts` must be joined. */
const isCurrent = (now: Date) =>
  sql<boolean>`content.received_at >= ${now}::timestamptz - accounts.content_days * interval '1 day'`;
