/** The storage of batches: the object store and the files of accounts. */
import { createHash, createSecretKey, hkdfSync, type KeyObject } from "node:crypto";
import { Readable } from "node:stream";
import type { ObjectStore } from "#objects/object-store.ts";
import { decrypt, encrypt } from "#service/cipher.ts";
import type { FileStore } from "../files/file-store.ts";
import type { BatchFiles, BatchObjects } from "./ports.ts";

/** Seals each object with a key of its account, which is derived from `secret`. */
export function batchObjectsOf(store: ObjectStore, secret: string): BatchObjects {
  const keyOf = (account: string): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync("sha256", secret, account, "batch", 32)));
  return {
    write: (account, name, bytes) => store.put(nameOf(name), Readable.from([encrypt(keyOf(account), bytes)])),
    async read(account, name) {
      const parts: Buffer[] = [];
      const source = await store.get(nameOf(name));
      if (source === undefined) return undefined;
      for await (const part of source) parts.push(part as Buffer);
      const bytes = decrypt(keyOf(account), Buffer.concat(parts));
      return bytes;
    },
    async delete(_account, names) {
      for (const name of names) await store.remove(nameOf(name));
    },
  };
}

/** The names of objects are of one form. */
const nameOf = (name: string): string => `b${createHash("sha256").update(name).digest("hex")}`;

export const batchFilesOf = (files: FileStore): BatchFiles => ({
  isFull: (account) => files.isFull(account),
  async open(account, id) {
    const row = await files.find(account, id);
    const content = row && (await files.open(row));
    return row && content && { bytes: Number(row.bytes), content };
  },
  async create({ id, account, keyId, filename, expiresAt }, content) {
    const details = {
      name: filename,
      purpose: "batch_output",
      media_type: "application/jsonl",
      expires_at: expiresAt ?? null,
    };
    const result = await files.create({ account, key_id: keyId }, details, content, { id, isUnbounded: true });
    if ("failure" in result) throw new Error(`the results of a batch cannot be stored: ${result.failure.message}`);
  },
  async remove(account, id) {
    await files.remove(account, id);
  },
});
