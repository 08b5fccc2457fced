import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { pino } from "pino";
import { correctBudget } from "#access/budgets.ts";
import { createKey } from "#access/key.ts";
import { addRecord } from "#access/projection.ts";
import { nanoOf } from "#ledger/money.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { type Alert, Alerts } from "../../apps/control/alerts/alerts.ts";
import { Webhook } from "../../apps/control/alerts/webhook.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { connectTestRedis } from "../support/redis.ts";
import { startScriptedUpstream } from "../support/upstream.ts";
import { onPostgres } from "./databases.ts";

const redis = await connectTestRedis("request");
const log = pino({ level: "silent" });
const day = 86_400_000;
let spaces = 0;

function alertsOf(database: Database, alertWebhookUrl?: string) {
  const keyspace = keyspaceOf(`alerts-${process.pid}-${++spaces}`);
  const raised: Alert[] = [];
  const alerts = new Alerts({
    clock: systemClock,
    database,
    redis,
    keyspace,
    catalogue: () => ({ groups: new Map([["default", {}]]), currency: "USD" }) as never,
    settings: () => ({ usageDays: 400, alertWebhookUrl }),
    raised: (alert) => void raised.push(alert),
    log,
  });
  return { keyspace, alerts, raised, [Symbol.dispose]: () => alerts.close() };
}

onPostgres("80 and 100 per cent of a budget raise an alert each, once for each period and limit", async (database) => {
  using opened = alertsOf(database);
  const { keyspace, alerts, raised } = opened;
  const { hash, hint } = createKey();
  const id = `key_${hash.slice(0, 20)}`;
  const record = { id, name: "b", group: "default", hint, account: "acme", createdAt: 0 };
  await addRecord(redis, keyspace, hash, { ...record, limits: { budgetPerDay: 10 } });
  const spend = (units: number) =>
    correctBudget(
      redis,
      keyspace,
      { scope: "key", name: id },
      { period: "day", at: Date.now(), nano: BigInt(nanoOf(units)) },
    );
  await spend(7.9);
  await alerts.run();
  assert.deepEqual(raised, []);
  await spend(0.1);
  await alerts.run();
  await alerts.run();
  assert.deepEqual(
    raised.map(({ kind, account, subject, detail }) => ({ kind, account, subject, detail })),
    [
      {
        kind: "budget.share",
        account: "acme",
        subject: `key ${id}`,
        detail: { period: "day", limit: "10", spent: "8", currency: "USD", percent: 80 },
      },
    ],
  );
  await spend(5);
  await alerts.run();
  assert.deepEqual(
    raised.map(({ kind }) => kind),
    ["budget.share", "budget.spent"],
  );
  // Another process, which remembers nothing, raises nothing again.
  using other = alertsOf(database);
  other.alerts.close();
  const again = new Alerts({
    clock: systemClock,
    database,
    redis,
    keyspace,
    catalogue: () => ({ groups: new Map([["default", {}]]), currency: "USD" }) as never,
    settings: () => ({ usageDays: 400, alertWebhookUrl: undefined }),
    raised: () => assert.fail("raised twice"),
    log,
  });
  await again.run();
  again.close();
});

onPostgres(
  "a key that expires within a week and a key that was revoked raise an alert, unless it was made for a shorter time",
  async (database) => {
    using opened = alertsOf(database);
    const account = `acct-${process.pid}-${++spaces}`;
    const now = Date.now();
    await database
      .insertInto("accounts")
      .values({ id: account, name: "a", created_at: new Date(), disabled_at: null })
      .execute();
    const key = (name: string, more: object) => {
      const { hash, hint } = createKey();
      const row = {
        id: `key_${hash.slice(0, 20)}`,
        hash,
        hint,
        account,
        name,
        group_name: "default",
        tags: "[]",
        created_at: new Date(),
      };
      return database
        .insertInto("keys")
        .values({ ...row, ...more })
        .execute();
    };
    await key("soon", { created_at: new Date(now - 2 * day), expires_at: new Date(now + 6 * day) });
    // Such as the console's own keys, which live for hours.
    await key("short", { expires_at: new Date(now + 6 * day) });
    await key("short and revoked", { expires_at: new Date(now + 6 * day), revoked_at: new Date(now - 1_000) });
    await key("later", { expires_at: new Date(now + 8 * day) });
    await key("over", { expires_at: new Date(now - day) });
    await key("revoked", { revoked_at: new Date(now - 1_000) });
    await key("revoked long ago", { revoked_at: new Date(now - 2 * day) });
    await opened.alerts.run();
    const own = opened.raised.filter((alert) => alert.account === account);
    assert.deepEqual(own.map(({ kind, detail }) => [kind, detail.name]).sort(), [
      ["key.expiring", "soon"],
      ["key.revoked", "revoked"],
    ]);
  },
);

onPostgres("alerts are dropped with the usage records of their days", async (database) => {
  using opened = alertsOf(database);
  const account = `dropped-${process.pid}-${++spaces}`;
  const alert = (days: number) => ({
    id: `alert_${account}_${days}`,
    at: new Date(Date.now() - days * day),
    kind: "budget.spent",
    account,
    subject: "key key_1",
    detail: "{}",
    occasion: `${account} ${days}`,
    next_attempt_at: null,
  });
  await database
    .insertInto("alerts")
    .values([alert(399), alert(401)])
    .execute();
  await opened.alerts.run();
  const left = await database.selectFrom("alerts").select("id").where("account", "=", account).execute();
  assert.deepEqual(left, [{ id: alert(399).id }]);
});

onPostgres("the webhook gets each alert signed, again until it accepts it", async (database) => {
  await using receiver = await startScriptedUpstream();
  receiver.answerWith(
    (response) => response.writeHead(500).end(),
    (response) => response.writeHead(200).end(),
  );
  await database.updateTable("alerts").set({ next_attempt_at: null }).execute();
  const id = `alert_${process.pid}_${++spaces}`;
  const at = new Date();
  await database
    .insertInto("alerts")
    .values({
      id,
      at,
      kind: "key.revoked",
      account: "acme",
      subject: "key key_1",
      detail: '{"name":"ci"}',
      occasion: id,
      next_attempt_at: at,
    })
    .execute();
  const secret = `whsec_${Buffer.from("a secret of the receiver").toString("base64")}`;
  const settings = () => ({ alertWebhookUrl: `${receiver.origin}/hook`, alertWebhookSecret: secret });
  const webhook = new Webhook({ clock: systemClock, database, settings, log });
  webhook.close();
  await webhook.run();
  await webhook.run();
  assert.equal(receiver.requests.length, 1);
  await database.updateTable("alerts").set({ next_attempt_at: at }).where("id", "=", id).execute();
  await webhook.run();
  await database.updateTable("alerts").set({ next_attempt_at: null }).where("id", "!=", id).execute();
  await webhook.run();
  assert.equal(receiver.requests.length, 2);
  for (const { headers, body, json } of receiver.requests) {
    assert.equal(headers["webhook-id"], id);
    const content = `${id}.${headers["webhook-timestamp"]}.${body}`;
    const expected = createHmac("sha256", "a secret of the receiver").update(content).digest("base64");
    assert.equal(headers["webhook-signature"], `v1,${expected}`);
    const { type, subject, detail, account } = json;
    assert.deepEqual(
      { type, subject, detail, account },
      { type: "key.revoked", subject: "key key_1", detail: { name: "ci" }, account: "acme" },
    );
  }
  const row = await database.selectFrom("alerts").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  assert.ok(row.delivered_at !== null && row.next_attempt_at === null);
});

test("an address of the webhook that is none is refused at start", () => {
  const of = (alertWebhookUrl: string) => () =>
    new Webhook({
      clock: systemClock,
      database: undefined as never,
      settings: () => ({ alertWebhookUrl, alertWebhookSecret: undefined }),
      log,
    });
  assert.throws(of("file:///etc/passwd"), /ALERT_WEBHOOK_URL must be an http or https address/);
  assert.throws(of("hooks"), /ALERT_WEBHOOK_URL/);
});

onPostgres("a webhook that was disabled because its receiver failed raises an alert", async (database) => {
  using opened = alertsOf(database);
  const account = `acct-${process.pid}-${++spaces}`;
  const now = Date.now();
  await database
    .insertInto("accounts")
    .values({ id: account, name: "a", created_at: new Date(), disabled_at: null })
    .execute();
  for (const [id, reason, disabledAt] of [
    ["w1", "gone", now - 1_000],
    ["w2", "person", now - 1_000],
    ["w3", "failing", now - 2 * day],
  ] as const)
    await database
      .insertInto("webhooks")
      .values({
        ...{ id, account, name: `name of ${id}`, url: "https://example.com/", events: "[]", secret: "" },
        ...{ created_at: new Date(), disabled_at: new Date(disabledAt), disabled_reason: reason },
      })
      .execute();
  await opened.alerts.run();
  assert.deepEqual(
    opened.raised
      .filter((alert) => alert.account === account)
      .map(({ kind, subject, detail }) => [kind, subject, detail]),
    [["webhook.disabled", "webhook w1", { name: "name of w1", reason: "gone" }]],
  );
});
