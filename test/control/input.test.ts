/** Input that no form sends: the API refuses it by its field, and never fails on it. */
import assert from "node:assert/strict";
import type { Operation } from "#api/operation.ts";
import { operations } from "#api/operations.ts";
import { operator, startApi } from "./api.ts";
import { onPostgres } from "./databases.ts";

const lists = ["/accounts", "/keys", "/usage/records", "/audit", "/users", "/tokens", "/alerts"];
const cursorOf = (place: unknown) => Buffer.from(JSON.stringify(place)).toString("base64url");

onPostgres("a cursor that is none of ours is refused", async (database) => {
  await using api = await startApi(database);
  const places = [[9e15, "a"], [-8.64e15, "a"], [1.5, "a"], [1, "a\0"], [1, "\ud800"], [1, 2], {}, null];
  for (const path of lists)
    for (const place of places) {
      const { status, body } = await api.call(operator, "GET", `${path}?cursor=${cursorOf(place)}`);
      assert.deepEqual([path, place, status, body.field], [path, place, 400, "cursor"]);
    }
});

onPostgres("a text that the database cannot store is refused, in addresses, queries and bodies", async (database) => {
  await using api = await startApi(database);
  const paths: [path: string, field: string][] = [
    ["/keys/%00", "key"],
    ["/accounts/a%00b", "account"],
    ["/usage/records/%00", "id"],
    ["/keys?search=%00", "search"],
    ["/keys?account=%00", "account"],
    ["/usage?model=%00", "model"],
    ["/audit?actor=%00", "actor"],
    ["/users?search=%00", "search"],
  ];
  for (const [path, field] of paths) {
    const { status, body } = await api.call(operator, "GET", path);
    assert.deepEqual([path, status, body.field], [path, 400, field]);
  }
  const account = { name: "n", id: `texts-${process.pid}` };
  assert.equal((await api.call(operator, "POST", "/accounts", { ...account, name: "\u{1f600}" })).status, 201);
  const key = { account: account.id, name: "n", group: "default" };
  const bodies: [path: string, body: object, field: string][] = [
    ["/accounts", { name: "\ud800" }, "name"],
    ["/keys", { ...key, tags: ["a\0b"] }, "tags"],
    ["/keys", { ...key, tags: ["a\udc00b"] }, "tags"],
    ["/keys", { ...key, models: ["\0*"] }, "models"],
  ];
  for (const [path, wrongBody, field] of bodies) {
    const { status, body } = await api.call(operator, "POST", path, wrongBody);
    assert.deepEqual([path, status, body.field], [path, 400, field]);
  }
});

onPostgres("a time that the database cannot store is refused", async (database) => {
  await using api = await startApi(database);
  for (const time of ["2026-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"])
    for (const path of ["/usage", "/usage.csv", "/usage/records", "/audit"]) {
      const { status, body } = await api.call(operator, "GET", `${path}?from=${encodeURIComponent(time)}`);
      assert.deepEqual([path, time, status, body.field], [path, time, 400, "from"]);
    }
  const { body } = await api.call(operator, "GET", "/usage?from=9999-12-31T23:59:59.999Z");
  assert.deepEqual(body.rows, []);
});

onPostgres("a field that a call does not have is named", async (database) => {
  await using api = await startApi(database);
  const { body } = await api.call(operator, "GET", "/usage?colour=red");
  assert.deepEqual([body.field, body.detail], ["colour", "colour is no field of this call."]);
});

onPostgres("values and times that a field takes are named", async (database) => {
  await using api = await startApi(database);
  const key = { account: "default", name: "n", group: "default" };
  const time = "must be a time with its zone, such as 2026-01-31T12:00:00Z.";
  for (const [method, path, wrong, detail] of [
    ["GET", "/usage?interval=week", undefined, "interval must be one of half-hour, hour, day, month, none."],
    ["GET", "/keys?state=disabled", undefined, "state must be one of live, expired, revoked."],
    ["GET", "/usage?from=2026-01-31", undefined, `from ${time}`],
    ["POST", "/keys", { ...key, priority: "high" }, "priority must be one of interactive, normal, background."],
    ["POST", "/keys", { ...key, limits: { onLimit: "x" } }, "limits.onLimit must be one of refuse, wait."],
    ["POST", "/keys", { ...key, expiresAt: "2030-01-31" }, `expiresAt ${time}`],
  ] as const) {
    const { status, body } = await api.call(operator, method, path, wrong);
    assert.deepEqual([status, body.detail], [400, detail]);
  }
});

onPostgres("a member that a body has twice is refused, at any depth", async (database) => {
  await using api = await startApi(database);
  const post = (body: string) => api.call(operator, "POST", "/accounts", body, { "content-type": "application/json" });
  for (const [body, name] of [
    ['{"name":"a","name":"b"}', "name"],
    ['{"name":"a","n\\u0061me":"b"}', "name"],
    ['{"name":"a","more":[{"x":1,"x":2}]}', "x"],
  ] as const) {
    const answer = await post(body);
    assert.equal(answer.status, 400);
    assert.match(answer.body.detail, new RegExp(`'${name}' twice`));
  }
  const deep = await post(`{"name":${"[".repeat(100_000)}${"]".repeat(100_000)}}`);
  assert.deepEqual([deep.status, deep.body.detail], [400, "The body is nested more than 200 levels deep."]);
  assert.equal((await post('\ufeff{"name":"with a byte order mark"}')).status, 201);
});

onPostgres("an address that cannot be read gets problem details too", async (database) => {
  await using api = await startApi(database);
  for (const path of ["/keys/%zz", `/keys/${"a".repeat(300)}`]) {
    const { status, headers, body } = await api.call(operator, "GET", path);
    assert.deepEqual([status, headers["content-type"]], [400, "application/problem+json"]);
    assert.equal(body.type, "urn:sluice:problem:invalid");
    assert.ok(headers["content-security-policy"]);
  }
});

onPostgres("a name that is blank, or shows as another one, is refused", async (database) => {
  await using api = await startApi(database);
  const nameOf = (name: string) => api.call(operator, "POST", "/accounts", { name });
  for (const name of [
    " ",
    "\u00a0\t",
    "\u200b",
    "\u2060\ufeff",
    "\u3164",
    "a\u202egnp.exe",
    "a\u2066b",
    "\u200fa",
    "a\u2028b",
    "a\u0085b",
  ]) {
    const { status, body } = await nameOf(name);
    assert.deepEqual([name, status, body.field], [name, 400, "name"]);
  }
  for (const name of [
    "0",
    "Ada Lovelace",
    "\u05d3\u05d2\u05dd",
    "\u{1f468}\u200d\u{1f469}",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "a".repeat(100),
  ])
    assert.equal((await nameOf(name)).status, 201, name);
});

onPostgres("an outcome that no record has is refused", async (database) => {
  await using api = await startApi(database);
  const listed = (outcome: string) => api.call(operator, "GET", `/usage/records?outcome=${outcome}`);
  for (const outcome of ["foo", "failed,foo", "failed,", "completed"]) {
    const { status, body } = await listed(outcome);
    assert.deepEqual([outcome, status, body.field], [outcome, 400, "outcome"]);
  }
  for (const outcome of ["failed", "complete,left,failed,refused"]) assert.equal((await listed(outcome)).status, 200);
});

onPostgres("a change of nothing changes nothing", async (database) => {
  await using api = await startApi(database);
  const account = `nothing-${process.pid}`;
  await api.call(operator, "POST", "/accounts", { id: account, name: "n" });
  const { id } = (await api.call(operator, "POST", "/keys", { account, name: "n", group: "default" })).body;
  const entries = () => database.selectFrom("audit").selectAll().where("account", "=", account).execute();
  const before = await entries();
  for (const path of [`/accounts/${account}`, `/keys/${id}`]) {
    const { status, body, headers } = await api.call(operator, "PATCH", path, {}, { "if-match": '"1"' });
    assert.deepEqual([status, headers.etag, body.name], [200, '"1"', "n"]);
    assert.equal((await api.call(operator, "PATCH", path, {}, { "if-match": '"2"' })).status, 412);
  }
  assert.deepEqual(await entries(), before);
});

onPostgres("the address of a webhook has no credentials, and no host that deliveries refuse", async (database) => {
  await using api = await startApi(database);
  const account = `webhooks-${process.pid}`;
  await api.call(operator, "POST", "/accounts", { id: account, name: "n" });
  const events = ["batch.completed"];
  const statusOf = async (url: string) => {
    const { status, body } = await api.call(operator, "POST", "/webhooks", { account, name: "n", url, events });
    assert.equal(body.field, status === 201 ? undefined : "url", url);
    const { id } = body;
    const changed = await api.call(operator, "PATCH", `/webhooks/${id ?? "none"}`, { url });
    assert.equal(changed.status, status === 201 ? 200 : 400, url);
    return status;
  };
  for (const url of [
    "https://example.com/@team/hook",
    "https://example.com/hook?to=me@example.com#@",
    "http://8.8.8.8/",
    "https://localhost.example.com/",
  ])
    assert.equal(await statusOf(url), 201, url);
  for (const url of [
    "https://user@example.com/",
    "https://user:password@example.com/@team",
    "https://:password@example.com/",
    "https://localhost/hook",
    "https://LOCALHOST.:8443/",
    "http://a.localhost/",
    "http://127.1/",
    "http://10.0.0.1/",
    "http://[::1]/",
    "http://[fd00::1]/",
    "http://2130706433/",
    "https://",
    "ftp://example.com/",
  ])
    assert.equal(await statusOf(url), 400, url);
});

onPostgres("an empty body counts as none, whatever its type", async (database) => {
  await using api = await startApi(database);
  const types = [undefined, "application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded"];
  for (const [name, { method, path, body }] of Object.entries<Operation>(operations)) {
    if (method === "GET") continue;
    const address = path.replaceAll(/:\w+/g, "none");
    const details = new Set<string>();
    for (const type of types) {
      const answer = await api.call(operator, method, address, undefined, type ? { "content-type": type } : {});
      details.add(`${answer.status} ${answer.body?.detail}`);
      if (body !== undefined) assert.deepEqual([name, type, answer.status], [name, type, 400]);
    }
    assert.equal(details.size, 1, `${name}: ${[...details].join(", ")}`);
  }
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const { status, body } = await api.call(operator, "POST", "/accounts", "name=n", form);
  assert.deepEqual([status, body.type], [415, "urn:sluice:problem:unsupported_media_type"]);
});
