/**
 * Content of requests in control: taken from Redis, kept as long as the account wants, and opened
 * for those who may.
 */

import assert from "node:assert/strict";
import { sql } from "kysely";
import { pino } from "pino";
import { type Content, sealContent } from "#content/content.ts";
import { ContentStream } from "#content/content-stream.ts";
import { systemClock } from "#service/clock.ts";
import { contentHandlers } from "../../apps/control/content/content-handlers.ts";
import { ContentReader } from "../../apps/control/content/content-reader.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { operator, person, startApi } from "./api.ts";
import { onPostgres } from "./databases.ts";
import { usageRecord } from "./records.ts";

const mark = "Zanzibar-7391";
const body = { type: "application/json", text: `{"say":"${mark}"}`, bytes: 24, isCut: false };
const content: Content = { dialect: "openai-chat", operation: "answer", request: body, status: 200, answer: body };
const log = pino({ level: "silent" });
let count = 0;

/** An account that stores content for a week, with a reader and a stream of its own. */
async function startContent(database: Database) {
  await using opened = new AsyncDisposableStack();
  const api = opened.use(await startApi(database));
  const { redis, keyspace } = api;
  const stream = new ContentStream({ redis, keyspace, hasSpace: async () => true, log });
  const reader = new ContentReader({ clock: systemClock, database, redis, keyspace, log });
  const account = `content-${process.pid}-${++count}`;
  await api.call(operator, "POST", "/accounts", { id: account, name: account });
  const setDays = async (days: number | null) => {
    const { status, text } = await api.call(operator, "PUT", `/accounts/${account}/content-storage`, { days });
    assert.equal(status, 204, text);
  };
  await setDays(7);
  const rowOf = () => database.selectFrom("accounts").selectAll().where("id", "=", account).executeTakeFirstOrThrow();
  /** As an ingress writes it; and taken by control. */
  const record = async (ageDays = 0, key?: string) => {
    const usage = usageRecord({ account, receivedAt: Date.now() - ageDays * 86_400_000 });
    await insertUsage(database, [usage]);
    const { generationId, receivedAt } = usage;
    const label = { generationId, account, receivedAt, key: key ?? ((await rowOf()).content_key as string) };
    await stream.write(label, content);
    await reader.take();
    assert.equal(await redis.xlen(keyspace.content), 0);
    return generationId;
  };
  const statusOf = async (id: string, actor = operator) =>
    (await api.call(actor, "GET", `/usage/records/${id}/content`)).status;
  const resources = opened.move();
  return {
    ...{ api, account, reader, setDays, rowOf, record, statusOf },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

onPostgres(
  "members, owners and operators open content, and each reading is in the audit log; readers do not",
  async (database) => {
    await using stored = await startContent(database);
    const { api, account, record, statusOf } = stored;
    const id = await record();
    for (const role of ["member", "owner"] as const) {
      const { status, body } = await api.call(person(role, { [account]: role }), "GET", `/usage/records/${id}/content`);
      assert.equal(status, 200);
      assert.deepEqual(body, content);
    }
    assert.equal(await statusOf(id, person("r", { [account]: "reader" })), 404);
    assert.equal(await statusOf(id, person("o", { other: "owner" })), 404);
    assert.equal(await statusOf(id), 200);
    const { body: audit } = await api.call(operator, "GET", `/audit?account=${account}`);
    const readings = audit.items.filter(({ action }: { action: string }) => action === "openContent");
    assert.equal(readings.length, 3);
    assert.equal(readings[0].subject, `request ${id}`);
    assert.ok(!JSON.stringify(audit).includes(mark));
    const reader = person("r", { [account]: "reader" });
    assert.equal((await api.call(reader, "GET", `/usage/records/${id}`)).body.hasContent, true);
    for (const days of [0, 91, 1.5, "7"]) {
      const refused = await api.call(operator, "PUT", `/accounts/${account}/content-storage`, { days });
      assert.deepEqual([refused.status, refused.body.field], [400, "days"]);
    }
    const change = await api.call(person("m", { [account]: "member" }), "PUT", `/accounts/${account}/content-storage`, {
      days: 1,
    });
    assert.equal(change.status, 404);
  },
);

onPostgres(
  "keys of the account carry its public key to the ingresses, and only while content is stored",
  async (database) => {
    await using stored = await startContent(database);
    const { api, account, rowOf, setDays } = stored;
    const created = await api.call(operator, "POST", "/keys", { account, name: "k", group: "default" });
    const recordOf = async () => {
      const records = await api.redis.hvals(api.keyspace.keys);
      return JSON.parse(records.find((text) => text.includes(created.body.id)) as string);
    };
    const { content_key: key } = await rowOf();
    assert.equal((await recordOf()).contentKey, key);
    await setDays(9);
    assert.equal((await recordOf()).contentKey, key);
    await setDays(null);
    assert.equal((await recordOf()).contentKey, undefined);
    await setDays(1);
    assert.notEqual((await recordOf()).contentKey, key);
  },
);

onPostgres(
  "a shorter retention deletes what is older, the end of storing deletes all, and stores nothing that comes late",
  async (database) => {
    await using stored = await startContent(database);
    const { api, account, record, rowOf, setDays, statusOf } = stored;
    const [old, young] = [await record(3), await record()];
    assert.deepEqual([await statusOf(old), await statusOf(young)], [200, 200]);
    await setDays(2);
    assert.deepEqual([await statusOf(old), await statusOf(young)], [404, 200]);
    const { content_key: key } = await rowOf();
    await setDays(null);
    assert.equal(await statusOf(young), 404);
    const late = await record(0, key as string);
    assert.equal(await statusOf(late), 404);
    await setDays(7);
    assert.equal(await statusOf(await record(0, key as string)), 404);
    const { body: audit } = await api.call(operator, "GET", `/audit?account=${account}`);
    assert.deepEqual(
      audit.items
        .filter(({ action }: { action: string }) => action === "updateContentStorage")
        .map(({ after }: { after: { contentDays: number; deletedContent: number } }) => [
          after.contentDays,
          after.deletedContent,
        ]),
      [
        [7, 0],
        [null, 1],
        [2, 1],
        [7, 0],
      ],
    );
    assert.doesNotMatch(JSON.stringify(audit), /secret|content_key/);
  },
);

onPostgres("content older than its retention is not shown, and is deleted", async (database) => {
  await using stored = await startContent(database);
  const { account, reader, record, statusOf } = stored;
  const [old, young] = [await record(8), await record(6)];
  assert.deepEqual([await statusOf(old), await statusOf(young)], [404, 200]);
  await reader.sweep();
  const rows = await database.selectFrom("content").select("generation_id").where("account", "=", account).execute();
  assert.deepEqual(rows, [{ generation_id: young }]);
});

onPostgres("a copy of the database reveals nothing without the secret", async (database) => {
  await using stored = await startContent(database);
  const { account, record, statusOf } = stored;
  const id = await record();
  const { rows } = await sql<{ row: string; sealed: Uint8Array }>`
    select to_jsonb(content)::text as row, sealed from content where account = ${account}`.execute(database);
  assert.equal(rows.length, 1);
  for (const { row, sealed } of rows) assert.ok(!row.includes(mark) && !Buffer.from(sealed).includes(mark));
  const { openContent } = contentHandlers({ secret: "another secret", changed: async () => {} });
  const context = {
    database,
    actor: operator,
    scope: "all",
    address: "",
    now: new Date(),
    ifMatch: undefined,
  } as const;
  await assert.rejects(
    () => openContent({ params: { id }, query: {}, body: undefined }, context),
    /AUTH_SECRET has changed/,
  );
  // Keys of earlier versions are in base64url.
  await sql`update accounts set content_secret = translate(rtrim(content_secret, '='), '+/', '-_') where id = ${account}`.execute(
    database,
  );
  assert.equal(await statusOf(id), 200);
});

onPostgres(
  "content that is sealed for nobody or twice is stored at most once, and holds up nothing",
  async (database) => {
    await using stored = await startContent(database);
    const { api, account, record, rowOf, statusOf } = stored;
    const { redis, keyspace } = api;
    await redis.xadd(keyspace.content, "1-0", "l", "no label", "c", "x");
    const { content_key: key } = await rowOf();
    const label = { generationId: "gen_twice", account, key: key as string, receivedAt: Date.now() };
    const sealed = await sealContent(label, content);
    for (const id of ["2-0", "3-0"]) await redis.xadd(keyspace.content, id, "l", JSON.stringify(label), "c", sealed);
    await redis.set(keyspace.contentBytes, 10);
    assert.equal(await statusOf(await record()), 200);
    assert.equal(await statusOf("gen_twice"), 200);
  },
);
