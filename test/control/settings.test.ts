/**
 * Settings of the installation: which value is in force, who may read secrets (nobody), and that
 * other processes follow.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { pino } from "pino";
import { StartupFault } from "#service/startup.ts";
import { dropAudit } from "../../apps/control/accounts/audit-log.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { Settings } from "../../apps/control/settings/settings.ts";
import { png } from "../support/png.ts";
import { startScriptedUpstream } from "../support/upstream.ts";
import { operator, startApi, type TestApi } from "./api.ts";
import { onPostgres } from "./databases.ts";
import { startMailServer } from "./mail-server.ts";

const log = pino({ level: "silent" });
const secret = "a secret of at least 32 characters";

const openSettings = async (database: Database, environment: Record<string, string> = {}, own = secret) => {
  const settings = new Settings({ database, environment, secret: own, log });
  await settings.start();
  return Object.assign(settings, { [Symbol.dispose]: () => settings.close() });
};

/** The tests of one database share its only row. */
const cleared = async (database: Database) => {
  await database
    .updateTable("settings")
    .set((row) => ({ version: row("version", "+", 1), stored: "{}", sealed: "{}", logo: null }))
    .execute();
  return startApi(database);
};

const change = (api: TestApi, body: unknown, headers = {}) => api.call(operator, "PATCH", "/settings", body, headers);

onPostgres("a stored setting is in force at once, everywhere, and returns to its default", async (database) => {
  await using api = await cleared(database);
  using other = await openSettings(database);
  assert.equal(other.current().name, "Sluice");
  const changed = await change(api, { name: "Acme gateway", usageDays: 30 });
  assert.equal(changed.status, 200, changed.text);
  assert.deepEqual(changed.body.name, { value: "Acme gateway", source: "stored", variable: "INSTALLATION_NAME" });
  while (other.current().name !== "Acme gateway") await delay(20);
  assert.equal(other.current().usageDays, 30);
  const removed = await change(api, { name: null }, { "if-match": changed.headers.etag as string });
  assert.deepEqual(removed.body.name, { value: "Sluice", source: "default", variable: "INSTALLATION_NAME" });
  assert.equal(removed.body.usageDays.value, 30);
  assert.equal((await change(api, { name: "b" }, { "if-match": changed.headers.etag as string })).status, 412);
});

onPostgres("a secret of the environment is in force within seconds of its change", async (database) => {
  await using _ = await cleared(database);
  const environment: Record<string, string> = { SMTP_URL: "smtp://one.example" };
  using settings = await openSettings(database, environment);
  assert.equal(settings.current().smtpUrl, "smtp://one.example");
  environment.SMTP_URL = "smtp://two.example";
  while (settings.current().smtpUrl !== "smtp://two.example") await delay(20);
  assert.equal(settings.answer.body.smtpUrl.shown, "smtp://two.example");
});

onPostgres("a variable of the environment wins, and its setting cannot be changed", async (database) => {
  await using api = await cleared(database);
  assert.equal((await change(api, { usageDays: 30, mailFrom: "a@example.com" })).status, 200);
  using fixed = await openSettings(database, { USAGE_DAYS: "90" });
  assert.equal(fixed.current().usageDays, 90);
  assert.equal(fixed.current().mailFrom, "a@example.com");
  assert.equal(fixed.answer.body.usageDays.source, "environment");
  const context = {
    database,
    actor: operator,
    scope: "all",
    address: "",
    now: new Date(),
    ifMatch: undefined,
  } as const;
  await assert.rejects(fixed.change({ usageDays: 5 }, context), { field: "usageDays", message: /USAGE_DAYS sets/ });
  assert.throws(() => new Settings({ database, environment: { USAGE_DAYS: "0" }, secret, log }), StartupFault);
});

onPostgres("secrets are sealed, never returned, and not in the audit log", async (database) => {
  await using api = await cleared(database);
  const smtpUrl = "smtps://robot:open-sesame@mail.example.com";
  const alertWebhookUrl = "https://hooks.example.com/T0/very-secret-path";
  const changed = await change(api, { smtpUrl, alertWebhookUrl, alertWebhookSecret: "signing-key-of-24-and-more" });
  assert.equal(changed.status, 200, changed.text);
  assert.equal(changed.body.smtpUrl.shown, "smtps://robot@mail.example.com");
  assert.equal(changed.body.alertWebhookUrl.shown, "https://hooks.example.com/…");
  assert.deepEqual([changed.body.alertWebhookSecret.isSet, changed.body.alertWebhookSecret.shown], [true, null]);
  const read = await api.call(operator, "GET", "/settings");
  const audit = await api.call(operator, "GET", "/audit?action=updateSettings&limit=1");
  const row = JSON.stringify(await database.selectFrom("settings").selectAll().executeTakeFirstOrThrow());
  for (const shown of [changed.text, read.text, audit.text, row])
    for (const hidden of ["open-sesame", "very-secret", "signing-key"]) assert.ok(!shown.includes(hidden), shown);
  assert.deepEqual(audit.body.items[0].after.smtpUrl, { isSet: true });
  // A copy of the database with another secret reads nothing.
  using other = await openSettings(database, {}, "another secret with 32 characters");
  assert.equal(other.current().smtpUrl, undefined);
  assert.equal(other.answer.body.smtpUrl.isSet, false);
});

onPostgres("values that are not valid are refused at their field", async (database) => {
  await using api = await cleared(database);
  const wrong: [field: string, value: unknown][] = [
    ["name", ""],
    ["name", "\u202e"],
    ["gatewayUrl", "https://api.example.com/v1"],
    ["gatewayUrl", "http://["],
    ["smtpUrl", "mail.example.com"],
    ["smtpUrl", "smtp://user@:1"],
    ["mailFrom", "nobody"],
    ["alertWebhookUrl", "file:///etc/passwd"],
    ["alertWebhookUrl", "https://name:pa55@hooks.example.com/sluice"],
    ["alertWebhookSecret", "short"],
    ["usageDays", 0],
    ["usageDays", 3_651],
    ["auditDays", -1],
    ["logo", "data:image/gif;base64,AAAA"],
    ["logo", "data:image/png;base64,AAAA"],
    ["logo", `data:image/svg+xml;base64,${Buffer.from("<html><svg/></html>").toString("base64")}`],
    ["logo", `data:image/png;base64,${Buffer.concat([png, Buffer.alloc(65_536)]).toString("base64")}`],
  ];
  for (const [field, value] of wrong) {
    const { status, body } = await change(api, { [field]: value });
    assert.deepEqual([status, body.field], [400, field], `${field} ${String(value).slice(0, 60)}`);
  }
});

onPostgres("a logo is kept as it is, and the audit log has only its address", async (database) => {
  await using api = await cleared(database);
  const svg = '<?xml version="1.0"?><!-- made by hand --><svg xmlns="http://www.w3.org/2000/svg"/>';
  for (const [type, bytes] of [
    ["image/png", png],
    ["image/svg+xml", Buffer.from(svg)],
  ] as const) {
    const {
      status,
      body,
      text: answer,
    } = await change(api, { logo: `data:${type};base64,${bytes.toString("base64")}` });
    assert.equal(status, 200, answer);
    assert.deepEqual([body.logo.type, body.logo.bytes], [type, bytes.length]);
    using settings = await openSettings(database);
    assert.ok(settings.current().logo?.bytes.equals(bytes));
  }
  const { body } = await api.call(operator, "GET", "/audit?action=updateSettings&limit=1");
  assert.match(body.items[0].after.logo, /^\/logo\?[0-9a-f]{16}$/);
  assert.equal((await change(api, { logo: null })).body.logo, null);
});

onPostgres(
  "a test mail and a test alert go out with the stored settings, and tell what went wrong",
  async (database) => {
    await using api = await cleared(database);
    const to = "ada@example.com";
    assert.equal((await api.call(operator, "POST", "/settings/test-mail", { to })).status, 409);
    assert.equal((await api.call(operator, "POST", "/settings/test-alert")).status, 409);
    await using mails = await startMailServer();
    await using receiver = await startScriptedUpstream((response, { path }) =>
      response.writeHead(path === "/refuses" ? 500 : 200).end(),
    );
    const at = receiver.origin;
    const saved = {
      name: "Acme",
      smtpUrl: mails.url,
      mailFrom: "gateway@example.com",
      alertWebhookUrl: at,
      alertWebhookSecret: "123456789012345678901234",
    };
    assert.equal((await change(api, saved)).status, 200);
    const sent = await api.call(operator, "POST", "/settings/test-mail", { to });
    assert.deepEqual(sent.body, { problem: null });
    const mail = await mails.next();
    assert.match(mail, /^From: Acme <gateway@example\.com>/m);
    assert.match(mail, /^Subject: Test mail of Acme/m);
    assert.deepEqual((await api.call(operator, "POST", "/settings/test-alert")).body, { problem: null });
    assert.match(String(receiver.last().headers["webhook-signature"]), /^v1,/);
    assert.equal(receiver.last().json.type, "test");
    await change(api, { alertWebhookUrl: `${at}/refuses`, smtpUrl: "smtp://127.0.0.1:1" });
    assert.deepEqual((await api.call(operator, "POST", "/settings/test-alert")).body, { problem: "status 500" });
    assert.match((await api.call(operator, "POST", "/settings/test-mail", { to })).body.problem, /^E/);
  },
);

onPostgres("entries of the audit log that are too old are deleted, and none without a bound", async (database) => {
  await using api = await cleared(database);
  assert.equal((await change(api, { name: "kept" })).status, 200);
  const count = async () =>
    Number(
      (
        await database
          .selectFrom("audit")
          .select(({ fn }) => fn.countAll().as("count"))
          .executeTakeFirstOrThrow()
      ).count,
    );
  const before = await count();
  const inTwoDays = Date.now() + 2 * 86_400_000;
  await dropAudit(database, 0, inTwoDays);
  await dropAudit(database, 3, inTwoDays);
  assert.equal(await count(), before);
  await dropAudit(database, 1, inTwoDays);
  assert.equal(await count(), 0);
});
