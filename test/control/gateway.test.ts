/**
 * Keys from control's API to the ingresses: a real gateway, a real Redis, and control with its
 * embedded database.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { readRecords } from "#access/projection.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { keysCommand } from "../../apps/cli/keys.ts";
import { openControl } from "../support/control.ts";
import { embeddedDirectory } from "../support/embedded.ts";
import { type Role, startGateway } from "../support/gateway.ts";
import { until, within } from "../support/time.ts";

const token = "an-operator-token-of-32-characters";
const directory = await mkdtemp(join(tmpdir(), "sluice-control-"));
const gateway = await startGateway({ ingresses: 2 });
const environment = {
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
  CONTROL_PORT: "0",
  OPERATOR_TOKEN: token,
  DATABASE_DIRECTORY: await embeddedDirectory(join(directory, "database")),
};
let control = await openControl(environment);
const redis = await connectRedis(gateway.redis.url, "patient");
redis.on("error", () => {});
after(async () => {
  redis.disconnect();
  await control.close();
  await gateway[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function call(method: string, path: string, body?: unknown) {
  const response = await fetch(`${control.urls.control}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body !== undefined && { "content-type": "application/json" }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  // biome-ignore lint/suspicious/noExplicitAny: the answers of several operations.
  return JSON.parse(text) as any;
}

const createKey = (more: object = {}) =>
  call("POST", "/keys", { account: "default", name: "test", group: "default", ...more });
const statusAt = async (url: string | undefined, key: string) => {
  const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  await response.arrayBuffer();
  return response.status;
};
/** Every ingress answers with this status within a second. */
const everywhere = (key: string, status: number, ingresses: readonly Role[] = gateway.ingresses) =>
  within(
    1_000,
    `${status} at every ingress`,
    async () => {
      for (const { urls } of ingresses) if ((await statusAt(urls.api, key)) !== status) return false;
      return true;
    },
    () => redis.ping(),
  );
const chat = { model: "sim-fast", messages: [{ role: "user", content: "Hello" }] };
const postStatus = async (key: string, headers = {}) => {
  const response = await gateway.post(chat, { key, headers });
  await response.arrayBuffer();
  return response.status;
};

test("the keys that Redis had before control's first start are imported, and go on working", async () => {
  const { items } = await call("GET", "/keys?account=default");
  assert.equal(items.length, 1);
  assert.equal(items[0].hint, gateway.key.slice(-4));
  await everywhere(gateway.key, 200);
});

test("a key is created, called with, limited, rotated and revoked; every ingress follows within a second", async () => {
  const { key, id } = await createKey();
  await everywhere(key, 200);
  assert.equal(await postStatus(key), 200);
  await call("PATCH", `/keys/${id}`, { limits: { requestsPerMinute: 1 } });
  await within(
    1_000,
    "the limit",
    async () => (await postStatus(key)) === 429,
    () => redis.ping(),
  );
  await call("PATCH", `/keys/${id}`, { limits: null, models: ["sim-slow"] });
  await within(
    1_000,
    "the models",
    async () => (await postStatus(key)) === 404,
    () => redis.ping(),
  );

  const next = await call("POST", `/keys/${id}/rotate`, { overlapSeconds: 2 });
  await everywhere(next.key, 200);
  assert.equal(await statusAt(gateway.url, key), 200);
  await until("the old key has expired", async () => (await statusAt(gateway.url, key)) === 401);
  await everywhere(next.key, 200);
  await call("POST", `/keys/${next.id}/revoke`);
  await everywhere(next.key, 401);
});

test("the keys of a disabled account are refused until it is enabled", async () => {
  await call("POST", "/accounts", { id: "acme", name: "Acme" });
  const { key } = await createKey({ account: "acme" });
  await everywhere(key, 200);
  await call("PATCH", "/accounts/acme", { isDisabled: true });
  await everywhere(key, 401);
  await call("PATCH", "/accounts/acme", { isDisabled: false });
  await everywhere(key, 200);
});

test("a key is refused from other addresses in the caller's dialect; a trusted proxy names the address", async () => {
  const { key } = await createKey({ addresses: ["192.0.2.0/24", "2001:db8::/32"] });
  await everywhere(key, 403);
  const ask = async (path: string, url = gateway.url, forwarded = "192.0.2.7") => {
    const header = path.startsWith("/v1beta") ? { "x-goog-api-key": key } : { authorization: `Bearer ${key}` };
    const response = await fetch(url + path, { headers: { ...header, "x-forwarded-for": forwarded } });
    return { status: response.status, body: await response.text() };
  };
  const openai = await ask("/v1/models");
  assert.deepEqual([openai.status, JSON.parse(openai.body).error.code], [403, "address_not_allowed"]);
  assert.match(openai.body, /address 127\.0\.0\.1/);
  assert.match((await ask("/v1beta/models")).body, /PERMISSION_DENIED/);
  const proxied = await gateway.addIngress({ TRUSTED_PROXIES: "127.0.0.0/8, ::1" });
  assert.equal((await ask("/v1/models", proxied.urls.api)).status, 200);
  assert.equal((await ask("/v1/models", proxied.urls.api, "2001:db8::1")).status, 200);
  assert.equal((await ask("/v1/models", proxied.urls.api, "192.0.3.1, 127.0.0.1")).status, 403);
  assert.equal((await ask("/v1/models", proxied.urls.api, "192.0.2.1, 192.0.3.1")).status, 403);
});

test("the tags of the key and of the request, and the user, are in the usage record", async () => {
  const { key, id } = await createKey({ tags: ["team-a"] });
  await everywhere(key, 200);
  const lines: string[] = [];
  const recordsWith = async (user: string) => {
    const entries = await redis.xrange(keyspaceOf("sluice").usage, "-", "+");
    lines.splice(0, lines.length, ...entries.flatMap(([, [, text = ""]]) => text.split("\n")));
    return lines.filter((line) => line.includes(id) && line.includes(user));
  };
  assert.equal(await postStatus(key, { "x-sluice-tags": "nightly, team-a", "x-sluice-user": "ada" }), 200);
  await until("the record", async () => (await recordsWith("ada")).length === 1);
  assert.ok((await recordsWith("ada"))[0]?.includes('["team-a","nightly"]'));
  await (await gateway.post({ ...chat, user: "grace" }, { key })).arrayBuffer();
  await until("the record of the body's user", async () => (await recordsWith("grace")).length === 1);
  const { spend } = await call("GET", `/keys/${id}`);
  assert.ok(spend);
  // Headers are bytes: those of UTF-8, unless they are not valid.
  const bytes = Buffer.from("José", "utf8").toString("latin1");
  assert.equal(await postStatus(key, { "x-sluice-user": bytes, "x-sluice-tags": `${bytes},plain` }), 200);
  await until("the record of the user in UTF-8", async () => (await recordsWith('"José"')).length === 1);
  assert.ok((await recordsWith('"José"'))[0]?.includes('["team-a","José","plain"]'));
  assert.equal(await postStatus(key, { "x-sluice-user": "Jos\u00e9-latin" }), 200);
  await until("the record of the user in Latin-1", async () => (await recordsWith('"José-latin"')).length === 1);
});

/** Runs `sluice keys …` against control. */
async function keys(...args: string[]) {
  const written = { out: [] as string[], err: [] as string[] };
  const output = {
    out: (text: string) => void written.out.push(text),
    err: (text: string) => void written.err.push(text),
  };
  const own = { SLUICE_CONTROL_URL: control.urls.control, OPERATOR_TOKEN: token, SLUICE_CATALOGUE: "none.yaml" };
  const code = await keysCommand(args, own, output);
  return { code, out: written.out.join(""), err: written.err.join("") };
}

test("the command line creates, lists, updates, rotates and revokes keys through control", async () => {
  const settings = ["--models", "sim-fast", "--tags", "a,b", "--budget-per-day", "2.5", "--expires", "90d"];
  const created = await keys(
    "create",
    "--group",
    "default",
    "--name",
    "cli",
    "--account",
    "by-cli",
    ...settings,
    "--json",
  );
  assert.deepEqual([created.code, created.err], [0, ""]);
  const { key, ...record } = JSON.parse(created.out);
  await everywhere(key, 200);
  const { expiresAt, createdAt, id, hint, ...shown } = record;
  assert.deepEqual(shown, {
    name: "cli",
    group: "default",
    models: ["sim-fast"],
    tags: ["a", "b"],
    account: "by-cli",
    limits: { budgetPerDay: 2.5 },
  });
  assert.ok(Math.abs(expiresAt - createdAt - 90 * 86_400_000) < 60_000);
  const listed = JSON.parse((await keys("list", "--json")).out) as { id: string }[];
  assert.deepEqual(
    listed.find((each) => each.id === id),
    { ...record, state: "live" },
  );

  const changes = ["--budget-per-day", "none", "--generations", "3", "--models", "none", "--addresses", "127.0.0.0/8"];
  const updated = await keys("update", "cli", ...changes, "--json");
  assert.deepEqual([updated.code, updated.err], [0, ""]);
  const { models: _, ...kept } = record;
  assert.deepEqual(JSON.parse(updated.out), { ...kept, limits: { generationsMax: 3 }, addresses: ["127.0.0.0/8"] });

  const rotated = await keys("rotate", hint, "--overlap", "1h", "--json");
  assert.deepEqual([rotated.code, rotated.err], [0, ""]);
  const next = JSON.parse(rotated.out);
  await everywhere(next.key, 200);
  assert.equal(await statusAt(gateway.url, key), 200);
  assert.match((await keys("rebuild")).out, /^\d+ keys compared, 0 written to Redis, 0 imported from Redis\.\n$/);

  const revoked = await keys("revoke", next.id);
  assert.deepEqual([revoked.code, revoked.out], [0, `Revoked ${next.id}, named cli, ending in ${next.hint}.\n`]);
  await everywhere(next.key, 401);
  for (const [args, message] of [
    [["create", "--group", "defualt", "--name", "x"], /no group "defualt" \(did you mean "default"\?\)/],
    [["update", id, "--addresses", "here"], /--addresses must be up to 100/],
    [["update", id], /at least one option/],
    [["rotate", id, "--overlap", "soon"], /--overlap must be a duration/],
    [["rotate", id], /already replaced by key_/],
    [["revoke", "nothing"], /no key matches "nothing"/],
  ] as const) {
    const { code, out, err } = await keys(...args);
    assert.deepEqual([code, out, err.split("\n").length], [1, "", 2], args.join(" "));
    assert.match(err, message);
  }
});

test("while control is down keys go on working, and what happens to them meanwhile is taken over", async () => {
  const { key } = await createKey();
  await everywhere(key, 200);
  await control.close();
  assert.equal(await postStatus(key), 200);
  assert.match((await keys("list")).err, /^sluice keys list: no control at http:\/\/127\.0\.0\.1:\d+: ECONNREFUSED\n$/);
  const added = await gateway.createKey("default", { account: "added" });
  control = await openControl(environment);
  const { items } = await call("GET", "/keys?account=added");
  assert.deepEqual(
    items.map(({ hint }: { hint: string }) => hint),
    [added.slice(-4)],
  );
  await everywhere(key, 200);
});

test("after Redis restarts empty, keys work at an ingress that starts then, and revoked ones do not", async () => {
  const [live, revoked] = [await createKey(), await createKey()];
  await call("POST", `/keys/${revoked.id}/revoke`);
  await everywhere(revoked.key, 401);
  for (const ingress of gateway.ingresses.splice(1)) await ingress.kill();
  await gateway.ingresses.splice(0)[0]?.kill();
  await gateway.redis.restartEmpty();
  await within(
    10_000,
    "the keys are back",
    async () => [...(await readRecords(redis, keyspaceOf("sluice"))).values()].some(({ id }) => id === live.id),
    () => redis.ping(),
  );
  const ingress = await gateway.addIngress();
  await everywhere(live.key, 200, [ingress]);
  assert.equal(await statusAt(ingress.urls.api, revoked.key), 401);
  assert.equal(await statusAt(ingress.urls.api, gateway.key), 200);
});
