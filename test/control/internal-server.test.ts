/** The server for ingresses: who may call it, and what it logs. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { after } from "node:test";
import { pino } from "pino";
import { internalSignatureHeader, signInternal } from "#access/internal-signature.ts";
import { DirectoryStore } from "#objects/directory-store.ts";
import type { ObjectStore } from "#objects/object-store.ts";
import { systemClock } from "#service/clock.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { FileReceiver } from "../../apps/control/files/file-receiver.ts";
import { FileStore } from "../../apps/control/files/file-store.ts";
import { addOpenAiFileRoutes } from "../../apps/control/files/openai-files.ts";
import { createInternalServer } from "../../apps/control/internal/internal-server.ts";
import { onPostgres } from "./databases.ts";

const directory = await mkdtemp(join(tmpdir(), "sluice-internal-"));
after(() => rm(directory, { recursive: true, force: true }));

const secret = "the secret of ingress and control in tests";
const claims = { key: "key_1", account: "acct", group: "default", request: "req_1", origin: "http://gateway" };
type Method = "GET" | "POST";
const signatureOf = (method: Method, url: string, account = claims.account) =>
  signInternal(secret, { receiver: "control", method, url }, { ...claims, account }, systemClock.epoch());

async function serverOf(database: Database, objects: ObjectStore = new DirectoryStore(directory)) {
  await database
    .insertInto("accounts")
    .values({ id: "acct", name: "test", created_at: new Date(), disabled_at: null })
    .execute();
  const lines: string[] = [];
  const output = new Writable({
    write(line: Buffer, _encoding, done) {
      lines.push(line.toString());
      done();
    },
  });
  const log = pino({ level: "trace" }, output);
  const server = createInternalServer({ secret, callsPerMinute: 60, clock: systemClock, log });
  const config = { fileBytesMax: 1 << 20, accountFileBytesMax: 1 << 20, accountFilesMax: 10 };
  const files = new FileStore({ database, objects, secret, config, clock: systemClock, log });
  addOpenAiFileRoutes(server, { files, receiver: new FileReceiver(files) });
  const call = (method: Method, url: string, headers: Record<string, string>, payload?: string) =>
    server.inject({ method, url, headers, ...(payload !== undefined && { payload }) });
  return { call, lines };
}

onPostgres("only a signed request is served, once", async (database) => {
  const { call } = await serverOf(database);
  const url = "/openai/files?limit=1";
  const signature = signatureOf("GET", url);
  const signed = { [internalSignatureHeader]: signature };
  const statusOf = async (...parts: Parameters<typeof call>) => (await call(...parts)).statusCode;
  assert.equal(await statusOf("GET", url, {}), 401);
  assert.equal(await statusOf("GET", "/openai/files", signed), 401);
  assert.equal(await statusOf("POST", url, signed), 401);
  assert.equal(await statusOf("GET", "/nothing", {}), 401);
  assert.equal(await statusOf("GET", url, { [internalSignatureHeader]: `${signature}x` }), 401);
  assert.equal(await statusOf("GET", url, { authorization: "Bearer key" }), 401);
  assert.equal(await statusOf("GET", url, signed), 200);
  assert.equal(await statusOf("GET", url, signed), 401);
});

onPostgres("a key makes so many calls at once, and another one its own", async (database) => {
  const { call } = await serverOf(database);
  const url = "/openai/files";
  const list = (key: string) => {
    const request = { receiver: "control", method: "GET", url } as const;
    return call("GET", url, {
      [internalSignatureHeader]: signInternal(secret, request, { ...claims, key }, systemClock.epoch()),
    });
  };
  const statuses = await Promise.all(Array.from({ length: 100 }, async () => (await list("key_1")).statusCode));
  assert.ok(statuses.filter((status) => status === 200).length >= 60);
  assert.ok(statuses.includes(429));
  const refused = await list("key_1");
  assert.equal(refused.json().code, "rate_limited");
  assert.ok(refused.json().retryAfterSeconds >= 1);
  assert.equal((await list("key_2")).statusCode, 200);
});

onPostgres("names and contents of files are in no log, whatever fails", async (database) => {
  const failing: ObjectStore = {
    async put(_name, source) {
      for await (const _ of source);
      throw new Error("the disk is full");
    },
    get: () => Promise.reject(new Error("the disk is away")),
    remove: async () => {},
  };
  const { call, lines } = await serverOf(database, failing);
  const form = (part: string) =>
    `--b\r\nContent-Disposition: form-data; name="file"; filename="private-name.txt"\r\n\r\nprivate content${part}`;
  const upload = (body: string, account?: string) =>
    call(
      "POST",
      "/openai/files",
      {
        [internalSignatureHeader]: signatureOf("POST", "/openai/files", account),
        "content-type": "multipart/form-data; boundary=b",
      },
      body,
    );
  const end = '\r\n--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--b--\r\n';
  const refused = await upload(form(end));
  assert.equal(refused.statusCode, 503);
  assert.equal(refused.json().message, "The file could not be stored; send it again in a moment.");
  assert.equal((await upload(form(""))).statusCode, 400);
  assert.equal((await upload(form(end), "nobody")).statusCode, 500);
  const text = lines.join("");
  assert.match(text, /the disk is full/);
  assert.doesNotMatch(text, /private/);
});
