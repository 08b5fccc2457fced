/** Batches on a real database, with files and objects in a directory, and a scripted ingress. */
import { createHash } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pino } from "pino";
import { systemClock } from "#service/clock.ts";
import { BatchRunner } from "../../../apps/control/batches/batch-runner.ts";
import type { BatchContext } from "../../../apps/control/batches/context.ts";
import type { LineRequest, SendLine, SendResult } from "../../../apps/control/batches/line-sender.ts";
import type { BatchFiles, BatchObjects, NewFile } from "../../../apps/control/batches/ports.ts";
import type { VendorBatches } from "../../../apps/control/batches/vendor-batch.ts";
import type { Database } from "../../../apps/control/database/database.ts";
import { until } from "../../support/time.ts";

/** Objects and files as files of a directory; each appears whole. */
export class Directory implements BatchObjects {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async write(account: string, name: string, bytes: Buffer): Promise<void> {
    const path = this.#pathOf(account, name);
    await mkdir(dirname(path), { recursive: true });
    const own = `${path}.${process.pid}.${Math.random()}`;
    const file = await open(own, "w");
    await file.writeFile(bytes);
    await file.sync();
    await file.close();
    await rename(own, path);
  }

  async read(account: string, name: string): Promise<Buffer | undefined> {
    return readFile(this.#pathOf(account, name)).catch(() => undefined);
  }

  async delete(account: string, names: readonly string[]): Promise<void> {
    for (const name of names) await rm(this.#pathOf(account, name), { force: true });
  }

  get files(): BatchFiles {
    return {
      isFull: async () => false,
      open: async (account, id) => {
        const bytes = await this.read(account, id);
        return bytes && { bytes: bytes.length, content: inParts(bytes) };
      },
      create: async ({ id, account }: NewFile, content) => {
        const parts: Buffer[] = [];
        for await (const part of content) parts.push(part);
        await this.write(account, id, Buffer.concat(parts));
      },
      remove: (account, id) => this.delete(account, [id]),
    };
  }

  #pathOf(account: string, name: string): string {
    return join(this.#directory, account, name);
  }
}

async function* inParts(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
}

export const contextOf = (database: Database, directory: string): BatchContext => {
  const objects = new Directory(directory);
  return {
    database,
    objects,
    files: objects.files,
    clock: systemClock,
    bounds: { linesMax: undefined, tokensMax: 1_000_000_000, batchesMax: 100, usageWaitMs: 0 },
    modelsOf: async () => (model) => model !== "secret",
  };
};

const noVendors: VendorBatches = {
  arePossible: () => false,
  targetOf: async () => undefined,
  call: async () => ({ kind: "unknown", reason: "" }),
  pollMs: 10,
};

export const startRunner = (
  context: BatchContext,
  send: SendLine,
  concurrency = 64,
  delayMs = async () => 0,
  vendors = noVendors,
): BatchRunner =>
  new BatchRunner({
    ...context,
    send,
    concurrency,
    delayMs,
    vendors,
    log: pino({ level: process.env.TEST_LOGS ? "warn" : "silent" }),
  });

/** An account with one key. */
export async function addAccount(database: Database, account: string): Promise<void> {
  const created_at = new Date();
  await database.insertInto("accounts").values({ id: account, name: account, created_at, disabled_at: null }).execute();
  await database
    .insertInto("keys")
    .values({
      id: `key_${account}`,
      hash: createHash("sha256").update(account).digest("hex"),
      hint: "hint",
      account,
      name: "key",
      group_name: "default",
      models: null,
      limits: null,
      addresses: null,
      origins: null,
      tags: "[]",
      created_at,
      expires_at: null,
      revoked_at: null,
      replaced_by: null,
    })
    .execute();
}

export const endpoint = "/v1/chat/completions";

export const inputOf = (lines: number, bodyOf = (line: number): object => ({ messages: [], n: line })): Buffer =>
  Buffer.from(
    Array.from(
      { length: lines },
      (_, line) =>
        `${JSON.stringify({ custom_id: `line-${line}`, method: "POST", url: endpoint, body: { model: "m", ...bodyOf(line) } })}\n`,
    ).join(""),
  );

/** Stores the input and creates a batch of OpenAI's for it. */
export async function addBatch(
  { database, objects }: BatchContext,
  {
    id,
    account,
    input,
    expiresInMs = 86_400_000,
  }: { id: string; account: string; input: Buffer; expiresInMs?: number },
): Promise<void> {
  await objects.write(account, `file-${id}`, input);
  await database
    .insertInto("batches")
    .values({
      id,
      account,
      key_id: `key_${account}`,
      dialect: "openai",
      endpoint,
      model: null,
      name: null,
      state: "validating",
      input_file_id: `file-${id}`,
      output_file_id: null,
      error_file_id: null,
      output_expires_seconds: null,
      metadata: null,
      stop_reason: null,
      succeeded: null,
      errored: null,
      cancelled: null,
      expired: null,
      created_at: new Date(),
      expires_at: new Date(Date.now() + expiresInMs),
      started_at: null,
      cancelling_at: null,
      finalizing_at: null,
      ended_at: null,
      lease_until: null,
    })
    .execute();
}

export const batchOf = (database: Database, id: string) =>
  database.selectFrom("batches").selectAll().where("id", "=", id).executeTakeFirstOrThrow();

export async function ended(database: Database, id: string) {
  await until(`the end of ${id}`, async () => (await batchOf(database, id)).ended_at !== null);
  return batchOf(database, id);
}

/** The lines of a result file, parsed; none if there is no file. */
export async function linesIn(context: BatchContext, account: string, id: string | null) {
  const bytes = id === null ? undefined : await context.objects.read(account, id);
  return (bytes?.toString() ?? "")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

export const answerOf = (
  status: number,
  body: unknown,
  more: Partial<Exclude<SendResult, string>> = {},
): SendResult => ({
  status,
  requestId: "req_1",
  body: Buffer.from(JSON.stringify(body)),
  retryAfterMs: 0,
  isFinal: false,
  ...more,
});

/** The number that `inputOf` wrote into a line's body. */
export const lineOf = ({ body }: LineRequest): number => JSON.parse(body.toString()).n;
