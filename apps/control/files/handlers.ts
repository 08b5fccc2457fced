/** The operations on files, for the console. */
import type { Selectable } from "kysely";
import type { fileOperations } from "#api/files.ts";
import type { AnswerOf } from "#api/operation.ts";
import { requireAccount } from "../accounts/members.ts";
import { within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { recordChange } from "../database/change.ts";
import type { FileRow } from "../database/tables.ts";
import type { FileStore } from "./file-store.ts";
import { openAiIdOf, tokenOf } from "./openai-files.ts";

type ApiFile = AnswerOf<(typeof fileOperations)["getFile"]>;

/** `files` is undefined where the gateway keeps none. */
export function fileHandlers(files: FileStore | undefined): Handlers<typeof fileOperations> {
  const store = (): FileStore => {
    if (files !== undefined) return files;
    throw new Fault("unavailable", "This gateway keeps no files: its operator has not set INTERNAL_SECRET.");
  };
  return {
    async listFiles({ query }, context) {
      let listed = filesWithin(context);
      if (query.account !== undefined) listed = listed.where("account", "=", query.account);
      if (query.purpose !== undefined) listed = listed.where("purpose", "=", query.purpose);
      const { rows, nextCursor } = await readPage(listed, query, ["created_at", "id"]);
      return { body: { items: rows.map(apiFileOf), nextCursor } };
    },

    async getFileSpace({ params: { account } }, context) {
      await requireAccount(context, account);
      return { body: await store().quotaOf(account).read(context.database) };
    },

    async getFile({ params: { file } }, context) {
      return { body: apiFileOf(await fileRow(context, file)) };
    },

    async downloadFile({ params: { file } }, context) {
      const row = await fileRow(context, file);
      const body = await store().open(row);
      if (body === undefined) throw new Error("the object store has lost a file");
      await recordChange(context, "downloadFile", { account: row.account, subject: `file ${file}` });
      return { body, filename: row.name };
    },

    async deleteFile({ params: { file } }, context) {
      const row = await fileRow(context, file);
      await store().remove(row.account, row.id);
      await recordChange(context, "deleteFile", {
        account: row.account,
        subject: `file ${file}`,
        before: apiFileOf(row),
      });
      return { body: undefined };
    },
  };
}

const filesWithin = ({ database, scope, now }: Context) =>
  database
    .selectFrom("files")
    .selectAll()
    .where(within("account", scope))
    .where("state", "=", "ready")
    .where((where) => where.or([where("expires_at", "is", null), where("expires_at", ">", now)]));

async function fileRow(context: Context, id: string): Promise<Selectable<FileRow>> {
  const row = await filesWithin(context).where("id", "=", tokenOf(id)).executeTakeFirst();
  if (row === undefined) throw notFound("file", id);
  return row;
}

const apiFileOf = (row: Selectable<FileRow>): ApiFile => ({
  id: openAiIdOf(row),
  account: row.account,
  keyId: row.key_id,
  name: row.name,
  purpose: row.purpose,
  mediaType: row.media_type,
  bytes: Number(row.bytes),
  createdAt: row.created_at.toISOString(),
  expiresAt: row.expires_at?.toISOString() ?? null,
});
