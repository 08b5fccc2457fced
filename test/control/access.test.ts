/**
 * Permissions for every operation of the table: an actor of one account neither reads nor
 * changes anything of another, and a role does not reach what needs a higher one. A new operation
 * is covered by itself; a new parameter needs an id in `ids`.
 */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import type { Operation } from "#api/operation.ts";
import { operations } from "#api/operations.ts";
import { sealContent } from "#content/content.ts";
import type { Actor } from "../../apps/control/api/actor.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { operator, person, startApi, type TestApi } from "./api.ts";
import { onPostgres } from "./databases.ts";
import { usageRecord } from "./records.ts";

const roles = ["reader", "member", "owner"] as const;

interface Schema {
  type?: string;
  pattern?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  minItems?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  minimum?: number;
  format?: string;
}

/** Resources of an account. Their names have a text in them that no other account has. */
interface Owned {
  account: string;
  ids: Record<string, string>;
  mark: string;
}

let count = 0;

/** An account with one of everything. */
async function accountWithAll({ call, database, files }: TestApi): Promise<Owned> {
  const mark = `mark${process.pid}x${++count}x`;
  const account = `acct-${mark}`;
  assert.equal((await call(operator, "POST", "/accounts", { id: account, name: mark })).status, 201);
  const key = await call(operator, "POST", "/keys", { account, name: mark, group: "default" });
  assert.equal(key.status, 201);
  const record = usageRecord({ account, keyId: key.body.id });
  await insertUsage(database, [record]);
  const storage = await call(operator, "PUT", `/accounts/${account}/content-storage`, { days: 7 });
  assert.equal(storage.status, 204, storage.text);
  await storeContent(database, record.generationId, account);
  const user = `p-${mark}`;
  await addPerson(database, user, account);
  const invitation = await call(operator, "POST", `/accounts/${account}/invitations`, { role: "reader" });
  assert.equal(invitation.status, 201);
  const token = await call(operator, "POST", "/tokens", { name: mark, scopes: ["*"] });
  assert.equal(token.status, 201);
  const view = { page: "usage", name: mark, account, search: {} };
  const { body: saved } = await call(person(user, { [account]: "reader" }), "POST", "/views", view);
  const batch = await storeBatch(database, account);
  const details = { name: mark, purpose: "batch", media_type: "application/jsonl", expires_at: null };
  const stored = await files.create({ account, key_id: key.body.id }, details, Readable.from([Buffer.from("{}\n")]));
  assert.ok("value" in stored);
  const url = "https://example.com/";
  const webhook = await call(operator, "POST", "/webhooks", { account, name: mark, url, events: ["batch.failed"] });
  assert.equal(webhook.status, 201);
  const delivery = await call(operator, "POST", `/webhooks/${webhook.body.id}/test`);
  assert.equal(delivery.status, 201);
  const ids = {
    view: saved.id,
    batch,
    file: `file-${stored.value.id}`,
    webhook: webhook.body.id,
    delivery: delivery.body.id,
    process: "worker-none",
    queue: "none",
    upstream: "u",
    credential: "none",
    revision: "0",
    model: "one",
    group: "default",
    target: "none/none",
    generation: "gen_none",
    account,
    user,
    key: key.body.id,
    id: record.generationId,
    session: person(user, {}).session as string,
    invitation: invitation.body.id,
    token: token.body.id,
  };
  return { account, mark, ids };
}

async function storeBatch(database: Database, account: string): Promise<string> {
  const id = `batch_${account}`;
  const nothing = { model: null, name: null, output_file_id: null, error_file_id: null, output_expires_seconds: null };
  const noTimes = { started_at: null, cancelling_at: null, finalizing_at: null, lease_until: null };
  await database
    .insertInto("batches")
    .values({
      ...nothing,
      ...noTimes,
      id,
      account,
      key_id: "key_none",
      dialect: "openai",
      endpoint: "/v1/chat/completions",
      state: "completed",
      input_file_id: null,
      metadata: null,
      stop_reason: null,
      succeeded: null,
      errored: null,
      cancelled: null,
      expired: null,
      ended_at: new Date(),
      created_at: new Date(),
      expires_at: new Date(Date.now() + 86_400_000),
    })
    .execute();
  return id;
}

async function storeContent(database: Database, generationId: string, account: string): Promise<void> {
  const { content_key: key } = await database
    .selectFrom("accounts")
    .select("content_key")
    .where("id", "=", account)
    .executeTakeFirstOrThrow();
  const body = { type: "application/json", text: "{}", bytes: 2, isCut: false };
  const content = { dialect: "openai-chat", operation: "answer", request: body, status: 200, answer: body };
  const sealed = await sealContent({ generationId, account, key: key as string, receivedAt: 0 }, content);
  await database
    .insertInto("content")
    .values({ generation_id: generationId, account, received_at: new Date(), sealed })
    .execute();
}

/** A user who is signed in, and an owner of the account. */
async function addPerson(database: Database, id: string, account: string): Promise<void> {
  const now = new Date();
  await database
    .insertInto("users")
    .values({
      id,
      name: id,
      email: `${id}@example.com`,
      emailVerified: true,
      image: null,
      twoFactorEnabled: false,
      isOperator: false,
    })
    .execute();
  const session = { id: `session-${id}`, token: id, userId: id, method: null, ipAddress: null, userAgent: null };
  await database
    .insertInto("sessions")
    .values({ ...session, createdAt: now, updatedAt: now, expiresAt: new Date(now.getTime() + 60_000) })
    .execute();
  await database.insertInto("members").values({ account, user_id: id, role: "owner", created_at: now }).execute();
}

/** Fields whose values are not free. */
const values: Record<string, unknown> = {
  group: "default",
  expiresAt: "2100-01-01T00:00:00Z",
  password: "a password of people",
  scopes: ["*"],
  to: "somebody@example.com",
  url: "https://example.com/",
  events: ["batch.completed"],
};

/**
 * Whether the call names something that belongs to somebody. Those on /me are about whoever calls.
 */
const namesSomething = ({ path, body }: Operation): boolean =>
  path.includes(":") || (body !== undefined && !path.startsWith("/me"));

/** A valid body of a schema, with this account wherever one is named. */
function sampleOf(schema: Schema, ids: Record<string, string>, name = ""): unknown {
  if (ids[name] !== undefined && schema.type !== "object") return ids[name];
  if (values[name] !== undefined) return values[name];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.anyOf?.[0] !== undefined) return sampleOf(schema.anyOf[0], ids, name);
  switch (schema.type) {
    case "object":
      return Object.fromEntries(
        (schema.required ?? []).map((field) => [field, sampleOf(schema.properties?.[field] ?? {}, ids, field)]),
      );
    case "array":
      return Array.from({ length: schema.minItems ?? 0 }, () => sampleOf(schema.items ?? {}, ids, name));
    case "boolean":
      return true;
    case "integer":
    case "number":
      return schema.minimum ?? 0;
    default:
      return "sample";
  }
}

/** Calls an operation with the ids of an account. */
function callWith(api: TestApi, actor: Actor | undefined, operation: Operation, owned: Owned) {
  const path = operation.path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const id = owned.ids[name];
    assert.ok(id !== undefined, `accountWithAll needs an id for the parameter ":${name}"`);
    return encodeURIComponent(id);
  });
  const query = Object.keys(operation.query?.properties ?? {}).includes("account") ? `?account=${owned.account}` : "";
  const body = operation.body === undefined ? undefined : sampleOf(operation.body as Schema, owned.ids);
  return api.call(actor, operation.method, path + query, body);
}

const table = Object.entries<Operation>(operations);
const refusals = [401, 403, 404];

onPostgres("nobody reaches another account, in any role, by any operation", async (database) => {
  await using api = await startApi(database);
  const other = await accountWithAll(api);
  const before = await accountStates(api, other);
  const owns = await Promise.all(roles.map(async (role) => ({ role, own: await accountWithAll(api) })));
  for (const [name, operation] of table) {
    if (operation.access === "anyone") continue;
    const nobody = await callWith(api, undefined, operation, other);
    assert.equal(nobody.status, 401, `${name} without sign-in`);
    for (const { role, own } of owns) {
      const actor = person(`p-${own.mark}`, { [own.account]: role });
      const { status, text } = await callWith(api, actor, operation, other);
      const isAddressed = namesSomething(operation);
      const what = `${name} by a ${role} of another account: ${status} ${text}`;
      if (isAddressed || operation.access === "operator") assert.ok(refusals.includes(status), what);
      // The refusal may repeat the id that the caller gave.
      if (!refusals.includes(status)) assert.ok(!text.includes(other.mark), what);
    }
  }
  assert.deepEqual(await accountStates(api, other), before);
});

onPostgres("a role reaches what it needs in its account, and nothing above it", async (database) => {
  await using api = await startApi(database);
  for (const [name, operation] of table) {
    const { access } = operation;
    if (access === "anyone") continue;
    for (const role of roles) {
      const own = await accountWithAll(api);
      const actor = person(`p-${own.mark}`, { [own.account]: role });
      const { status, text } = await callWith(api, actor, operation, own);
      const isEnough = access !== "operator" && (access === "person" || roles.indexOf(role) >= roles.indexOf(access));
      const what = `${name} by a ${role} of the account: ${status} ${text}`;
      const isAddressed = namesSomething(operation);
      if (isEnough) assert.ok(status < 500 && !refusals.includes(status), what);
      else if (isAddressed || access === "operator") assert.ok(refusals.includes(status), what);
      else assert.ok(!text.includes(own.mark), what);
    }
  }
});

onPostgres("a token reaches only the operations of its scopes", async (database) => {
  await using api = await startApi(database);
  const own = await accountWithAll(api);
  for (const [name, operation] of table) {
    if (operation.access === "anyone") continue;
    const scoped = (scopes: string[]): Actor => ({ ...operator, id: `token-${scopes}`, scopes });
    assert.equal((await callWith(api, scoped(["nothing"]), operation, own)).status, 403, name);
    // Sessions are people's.
    if (operation.method === "GET" && name !== "listSessions")
      assert.notEqual((await callWith(api, scoped([name]), operation, own)).status, 403, name);
  }
});

/** An operator's view of an account. */
async function accountStates(api: TestApi, owned: Owned): Promise<unknown[]> {
  const states: unknown[] = [];
  for (const [name, operation] of table)
    if (operation.method === "GET" && operation.path.includes(":")) {
      const { status, body } = await callWith(api, operator, operation, owned);
      assert.equal(status, 200, name);
      states.push(body);
    }
  return states;
}
