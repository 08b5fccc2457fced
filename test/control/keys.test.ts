import assert from "node:assert/strict";
import { looksLikeKey } from "#access/key.ts";
import { addRecord, readRecords, revokeRecord } from "#access/projection.ts";
import { LimitCounters, reservationOf } from "#access/rate-limits.ts";
import type { KeyRecord } from "#access/record.ts";
import { nanoOf } from "#ledger/money.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { within } from "../support/time.ts";
import { operator, person, startApi, type TestApi } from "./api.ts";
import { onPostgres } from "./databases.ts";
import { usageRecord } from "./records.ts";

let accounts = 0;
async function newAccount({ call }: TestApi): Promise<string> {
  const id = `acme-${++accounts}`;
  assert.equal((await call(operator, "POST", "/accounts", { id, name: id })).status, 201);
  return id;
}

async function recordOf({ redis, keyspace }: TestApi, id: string): Promise<KeyRecord | undefined> {
  return [...(await readRecords(redis, keyspace)).values()].find((record) => record.id === id);
}

onPostgres("a key is created, shown once, edited, rotated and revoked, and Redis follows", async (database) => {
  await using api = await startApi(database);
  const { call } = api;
  const account = await newAccount(api);
  const settings = {
    group: "default",
    models: ["one", "o*"],
    limits: { requestsPerMinute: 5, budgetPerWeek: 2.5 },
    addresses: ["192.0.2.0/24"],
    origins: ["https://app.example"],
    tags: ["team-a"],
    priority: "background",
    expiresAt: "2100-01-01T00:00:00.000Z",
  };
  const created = await call(operator, "POST", "/keys", { account, name: "ci", ...settings });
  assert.equal(created.status, 201, created.text);
  const { key, ...shown } = created.body;
  assert.ok(looksLikeKey(key));
  assert.equal(shown.hint, key.slice(-4));
  assert.deepEqual([shown.state, shown.spend.total, shown.lastUsedAt], ["live", "0", null]);
  const stored = JSON.stringify(
    await database.selectFrom("keys").selectAll().where("id", "=", shown.id).execute(),
    (_, value) => (typeof value === "bigint" ? String(value) : value),
  );
  assert.ok(!stored.includes(key));
  const read = await call(operator, "GET", `/keys/${shown.id}`);
  assert.deepEqual(read.body, shown);
  assert.equal(read.headers.etag, '"1"');
  const record = await recordOf(api, shown.id);
  assert.deepEqual(
    { ...record, createdAt: 0 },
    {
      id: shown.id,
      name: "ci",
      hint: shown.hint,
      createdAt: 0,
      account,
      ...settings,
      expiresAt: Date.parse(settings.expiresAt),
      version: 2,
    },
  );

  const edited = await call(
    operator,
    "PATCH",
    `/keys/${shown.id}`,
    { limits: null, name: "nightly" },
    { "if-match": '"1"' },
  );
  assert.deepEqual([edited.status, edited.body.name, edited.body.limits], [200, "nightly", null]);
  assert.equal((await recordOf(api, shown.id))?.limits, undefined);
  const late = await call(operator, "PATCH", `/keys/${shown.id}`, { name: "late" }, { "if-match": '"1"' });
  assert.equal(late.status, 412);

  const rotated = await call(operator, "POST", `/keys/${shown.id}/rotate`, { overlapSeconds: 3_600 });
  assert.equal(rotated.status, 201);
  assert.notEqual(rotated.body.key, key);
  assert.deepEqual([rotated.body.name, rotated.body.models], ["nightly", ["one", "o*"]]);
  const old = (await call(operator, "GET", `/keys/${shown.id}`)).body;
  assert.equal(old.replacedBy, rotated.body.id);
  assert.ok(Math.abs(Date.parse(old.expiresAt) - Date.now() - 3_600_000) < 60_000);
  assert.equal((await recordOf(api, shown.id))?.expiresAt, Date.parse(old.expiresAt));
  assert.equal((await call(operator, "POST", `/keys/${shown.id}/rotate`, { overlapSeconds: 0 })).status, 409);

  const revoked = await call(operator, "POST", `/keys/${rotated.body.id}/revoke`);
  assert.deepEqual([revoked.status, revoked.body.state], [200, "revoked"]);
  assert.notEqual((await recordOf(api, rotated.body.id))?.revokedAt, undefined);
  assert.deepEqual((await call(operator, "POST", `/keys/${rotated.body.id}/revoke`)).body, revoked.body);
  assert.equal((await call(operator, "PATCH", `/keys/${rotated.body.id}`, { name: "x" })).status, 409);

  const audit = await database.selectFrom("audit").selectAll().where("account", "=", account).orderBy("at").execute();
  assert.deepEqual(audit.map(({ action }) => action).sort(), [
    "createAccount",
    "createKey",
    "revokeKey",
    "rotateKey",
    "rotateKey",
    "updateKey",
  ]);
  assert.ok(!JSON.stringify(audit).includes(key) && !JSON.stringify(audit).includes(rotated.body.key));
});

onPostgres("a wrong setting is refused by its name", async (database) => {
  await using api = await startApi(database);
  const account = await newAccount(api);
  const wrong: [object, string, RegExp][] = [
    [{ group: "defualt" }, "group", /no group "defualt" \(did you mean "default"\?\)/],
    [{ models: ["onee"] }, "models", /no model "onee"/],
    [{ addresses: ["10.0.0.0/40"] }, "addresses", /"10\.0\.0\.0\/40" is neither/],
    [{ expiresAt: "2001-01-01T00:00:00Z" }, "expiresAt", /future/],
    [{ limits: { requestsPerMinute: 0 } }, "limits.requestsPerMinute", /1/],
    [
      { name: "a\u0007b" },
      "name",
      /name must have a visible character, and neither control characters nor ones that change/,
    ],
  ];
  for (const [more, field, detail] of wrong) {
    const { status, body } = await api.call(operator, "POST", "/keys", {
      account,
      name: "n",
      group: "default",
      ...more,
    });
    assert.deepEqual([status, body.field], [400, field]);
    assert.match(body.detail, detail);
  }
  const { status } = await api.call(operator, "POST", "/keys", { account: "nowhere", name: "n", group: "default" });
  assert.equal(status, 404);
});

onPostgres(
  "keys get only the groups of their account, also from operators, and keep those that they have",
  async (database) => {
    await using api = await startApi(database);
    const account = await newAccount(api);
    const member = person("m", { [account]: "member" });
    const { call } = api;
    const create = (actor: typeof operator, group: string) =>
      call(actor, "POST", "/keys", { account, name: "n", group });
    assert.equal((await call(operator, "GET", `/accounts/${account}`)).body.groups, null);
    const old = (await create(member, "default")).body.id;

    const unknown = await call(operator, "PATCH", `/accounts/${account}`, { groups: ["narow"] });
    assert.deepEqual([unknown.status, unknown.body.field], [400, "groups"]);
    assert.match(unknown.body.detail, /no group "narow" \(did you mean "narrow"\?\)/);
    assert.equal((await call(member, "PATCH", `/accounts/${account}`, { groups: null })).status, 403);
    const restricted = await call(operator, "PATCH", `/accounts/${account}`, { groups: ["narrow"] });
    assert.deepEqual([restricted.status, restricted.body.groups], [200, ["narrow"]]);

    for (const actor of [member, operator]) {
      const refused = await create(actor, "default");
      assert.deepEqual([refused.status, refused.body.field], [400, "group"]);
      assert.match(refused.body.detail, /may not have the group "default"\. Those that they may have: narrow\./);
      const { status, body } = await create(actor, "narrow");
      assert.equal(status, 201);
      const moved = await call(actor, "PATCH", `/keys/${body.id}`, { group: "default" });
      assert.deepEqual([moved.status, moved.body.field], [400, "group"]);
      assert.equal((await call(actor, "PATCH", `/keys/${old}`, { group: "default", name: "same" })).status, 200);
    }
    assert.equal((await call(member, "POST", `/keys/${old}/rotate`, { overlapSeconds: 0 })).status, 201);

    assert.equal((await call(operator, "PATCH", `/accounts/${account}`, { name: "renamed" })).body.groups[0], "narrow");
    assert.equal((await call(operator, "PATCH", `/accounts/${account}`, { groups: null })).body.groups, null);
    assert.equal((await create(member, "default")).status, 201);
    const other = { id: `${account}-other`, name: "n", groups: [] };
    assert.deepEqual((await call(operator, "POST", "/accounts", other)).body.groups, []);
  },
);

onPostgres(
  "a member gives keys no limit above that of their group's keys; what an operator gave stays",
  async (database) => {
    await using api = await startApi(database);
    const account = await newAccount(api);
    const member = person("m", { [account]: "member" });
    const { call } = api;
    const create = (actor: typeof operator, group: string, limits: object) =>
      call(actor, "POST", "/keys", { account, name: "n", group, limits });
    const assertRefused = ({ status, body }: Awaited<ReturnType<typeof create>>, limit: string, bound: number) => {
      assert.deepEqual([status, body.field], [400, `limits.${limit}`]);
      assert.ok(body.detail.includes(`at most ${bound}, the limit of each key of the group "narrow"`), body.detail);
    };
    assertRefused(await create(member, "narrow", { requestsPerMinute: 61 }), "requestsPerMinute", 60);
    assertRefused(await create(member, "narrow", { requestsPerMinute: 1, budgetPerDay: 2.51 }), "budgetPerDay", 2.5);
    const equal = await create(member, "narrow", {
      requestsPerMinute: 60,
      budgetPerDay: 2.5,
      tokensPerMinute: 1_000_000,
    });
    assert.equal(equal.status, 201, equal.text);

    const high = { requestsPerMinute: 500, budgetPerDay: 1 };
    const keyPath = `/keys/${(await create(operator, "narrow", high)).body.id}`;
    assert.equal((await call(member, "PATCH", keyPath, { name: "renamed" })).status, 200);
    assert.equal((await call(member, "PATCH", keyPath, { limits: { ...high, budgetPerDay: 2 } })).status, 200);
    assertRefused(
      await call(member, "PATCH", keyPath, { limits: { requestsPerMinute: 499 } }),
      "requestsPerMinute",
      60,
    );
    assert.equal((await call(member, "PATCH", keyPath, { limits: null })).status, 200);
    assertRefused(await call(member, "PATCH", keyPath, { limits: high }), "requestsPerMinute", 60);

    const free = `/keys/${(await create(member, "default", high)).body.id}`;
    assertRefused(await call(member, "PATCH", free, { group: "narrow" }), "requestsPerMinute", 60);
    assertRefused(
      await call(member, "PATCH", free, { group: "narrow", limits: { budgetPerDay: 2 } }),
      "requestsPerMinute",
      60,
    );
    const narrowed = { group: "narrow", limits: { requestsPerMinute: null } };
    assert.equal((await call(member, "PATCH", free, narrowed)).status, 200);
  },
);

onPostgres("a change of a key's limits leaves those alone that it does not name", async (database) => {
  await using api = await startApi(database);
  const account = await newAccount(api);
  const before = { requestsPerMinute: 5, budgetPerDay: 2.5, onLimit: "wait", waitMs: 100 };
  for (const [limits, after] of [
    [{ budgetPerMonth: 50 }, { ...before, budgetPerMonth: 50 }],
    [{ requestsPerMinute: 6 }, { ...before, requestsPerMinute: 6 }],
    [{ budgetPerDay: null }, { requestsPerMinute: 5, onLimit: "wait", waitMs: 100 }],
    [{ tokensPerMinute: null }, before],
    [
      { onLimit: null, waitMs: null },
      { requestsPerMinute: 5, budgetPerDay: 2.5 },
    ],
    [{}, before],
    [undefined, before],
    [null, null],
    [{ requestsPerMinute: null, budgetPerDay: null, onLimit: null, waitMs: null }, null],
  ]) {
    const created = await api.call(operator, "POST", "/keys", { account, name: "n", group: "default", limits: before });
    const change = { name: "m", limits };
    const { status, body, text } = await api.call(operator, "PATCH", `/keys/${created.body.id}`, change);
    assert.deepEqual([status, body.limits], [200, after], text);
    assert.deepEqual((await recordOf(api, created.body.id))?.limits, after ?? undefined);
    const wrong = await api.call(operator, "PATCH", `/keys/${created.body.id}`, { limits: { requestsPerMinute: 0 } });
    assert.deepEqual([wrong.status, wrong.body.field], [400, "limits.requestsPerMinute"]);
    assert.match(wrong.body.detail, /1/);
  }
});

onPostgres("a member gives keys no priority above their group's; what an operator gave stays", async (database) => {
  await using api = await startApi(database);
  const account = await newAccount(api);
  const member = person("m", { [account]: "member" });
  const { call } = api;
  const create = (actor: typeof operator, priority: string | null, group = "default") =>
    call(actor, "POST", "/keys", { account, name: "n", group, priority });
  for (const [priority, group, status] of [
    ["interactive", "default", 400],
    ["normal", "default", 201],
    ["background", "default", 201],
    [null, "default", 201],
    ["normal", "last", 400],
    ["background", "last", 201],
  ] as const)
    assert.equal((await create(member, priority, group)).status, status, `${priority} ${group}`);
  const path = `/keys/${(await create(operator, "interactive")).body.id}`;
  const kept = await call(member, "PATCH", path, { name: "renamed", priority: "interactive" });
  assert.deepEqual([kept.status, kept.body.priority], [200, "interactive"]);
  const moved = await call(member, "PATCH", path, { group: "last" });
  assert.deepEqual([moved.status, moved.body.field], [400, "priority"]);
  assert.equal((await call(member, "PATCH", path, { priority: null })).body.priority, null);
  assert.equal((await call(member, "PATCH", path, { priority: "interactive" })).status, 400);
});

onPostgres("lists are filtered, searched and paged", async (database) => {
  await using api = await startApi(database);
  const account = await newAccount(api);
  const ids: string[] = [];
  for (const name of ["Alpha", "beta", "gamma", "delta", "Alphabet"])
    ids.push((await api.call(operator, "POST", "/keys", { account, name, group: "default" })).body.id);
  await api.call(operator, "POST", `/keys/${ids[1]}/revoke`);
  const namesOf = async (query: string) => {
    const names: string[] = [];
    for (let cursor = ""; ; ) {
      const { body } = await api.call(operator, "GET", `/keys?account=${account}&${query}${cursor}`);
      names.push(...body.items.map(({ name }: { name: string }) => name));
      if (body.nextCursor === null) return names;
      cursor = `&cursor=${body.nextCursor}`;
    }
  };
  assert.deepEqual((await namesOf("limit=2")).sort(), ["Alpha", "Alphabet", "beta", "delta", "gamma"]);
  assert.deepEqual((await namesOf("search=alpha&limit=1")).sort(), ["Alpha", "Alphabet"]);
  assert.deepEqual(await namesOf(`search=${ids[2]}`), ["gamma"]);
  assert.deepEqual(await namesOf("state=revoked"), ["beta"]);
  assert.equal((await namesOf("state=live")).length, 4);
  assert.deepEqual(await namesOf("state=expired"), []);
});

onPostgres("a key shows its last use and what it has spent, by the ledger", async (database) => {
  await using api = await startApi(database);
  const account = await newAccount(api);
  const { id } = (await api.call(operator, "POST", "/keys", { account, name: "n", group: "default" })).body;
  const now = Date.now();
  await insertUsage(database, [
    usageRecord({ keyId: id, receivedAt: now - 90 * 86_400_000, cost: "1000000000" }),
    usageRecord({ keyId: id, receivedAt: now, cost: "250000000" }),
    usageRecord({ keyId: id, receivedAt: now - 1, cost: "1" }),
  ]);
  const { body } = await api.call(operator, "GET", `/keys/${id}`);
  assert.equal(body.lastUsedAt, new Date(now).toISOString());
  assert.equal(body.spend.total, "1.250000001");
  assert.ok(["0.250000001", "0.25", "0"].includes(body.spend.today));
  assert.deepEqual((await api.call(operator, "GET", `/keys?account=${account}`)).body.items, [body]);
});

onPostgres("keys that only Redis has are imported, and a revocation there is final", async (database) => {
  await using api = await startApi(database);
  const { redis, keyspace } = api;
  const name = `imported-${++accounts}`;
  const record = { id: `key_${name.replace("-", "")}`, name, group: "gone", hint: "abcd", createdAt: 5 };
  const hash = name.padEnd(64, "0").replace(/[^0-9a-f]/g, "0");
  await addRecord(redis, keyspace, hash, record);
  await addRecord(redis, keyspace, `1${hash.slice(1)}`, {
    ...record,
    id: `${record.id}b`,
    account: name,
    limits: { budgetTotal: 3 },
  });
  const rebuilt = await api.call(operator, "POST", "/keys/rebuild");
  assert.equal(rebuilt.status, 200);
  const { body } = await api.call(operator, "GET", `/keys/${record.id}`);
  assert.deepEqual(
    [body.account, body.name, body.group, body.createdAt],
    ["default", name, "gone", new Date(5).toISOString()],
  );
  const other = (await api.call(operator, "GET", `/keys/${record.id}b`)).body;
  assert.deepEqual([other.account, other.limits], [name, { budgetTotal: 3 }]);
  assert.equal((await recordOf(api, record.id))?.account, "default");

  await revokeRecord(redis, keyspace, hash, 7_000);
  await within(
    5_000,
    "the revocation is in the database",
    async () => (await api.call(operator, "GET", `/keys/${record.id}`)).body.state === "revoked",
    () => redis.ping(),
  );
  assert.equal((await api.call(operator, "GET", `/keys/${record.id}`)).body.revokedAt, new Date(7_000).toISOString());
  assert.notEqual((await recordOf(api, record.id))?.revokedAt, undefined);
});

onPostgres(
  "what Redis loses comes back from the database, and its older or foreign states are replaced",
  async (database) => {
    await using api = await startApi(database);
    const { redis, keyspace, server } = api;
    const account = await newAccount(api);
    const { id } = (await api.call(operator, "POST", "/keys", { account, name: "n", group: "default" })).body;
    const first = await recordOf(api, id);
    assert.ok(first);
    const isBack = (what: string, holds: (record: KeyRecord | undefined) => boolean) =>
      within(
        10_000,
        what,
        async () => holds(await recordOf(api, id).catch(() => undefined)),
        () => redis.ping().catch(() => undefined),
      );
    await redis.flushall();
    await isBack("after a flush", (record) => record?.version === first.version);

    await server.kill();
    assert.equal(
      (await api.call(operator, "PATCH", `/keys/${id}`, { name: "edited while Redis is away" })).status,
      200,
    );
    await server.restartEmpty();
    await isBack("after a restart", (record) => record?.name === "edited while Redis is away");

    const later = { ...(await recordOf(api, id)), fieldOfALaterVersion: 1 };
    const [hash = ""] = [...(await readRecords(redis, keyspace))].find(([, record]) => record.id === id) ?? [];
    await redis.hset(keyspace.keys, hash, JSON.stringify(later));
    assert.equal((await api.call(operator, "POST", "/keys/rebuild")).body.written, 0);

    await redis.hset(keyspace.keys, hash, JSON.stringify({ ...first, version: 40, group: "narrow" }));
    await redis.incr(keyspace.keysVersion);
    await isBack("after a foreign change", (record) => record?.group === "default" && (record.version ?? 0) > 40);
  },
);

onPostgres("the keys of a disabled account are disabled until it is enabled", async (database) => {
  await using api = await startApi(database);
  const account = await newAccount(api);
  const { id } = (await api.call(operator, "POST", "/keys", { account, name: "n", group: "default" })).body;
  await api.call(operator, "PATCH", `/accounts/${account}`, { isDisabled: true });
  assert.equal((await api.call(operator, "GET", `/keys/${id}`)).body.state, "disabled");
  assert.notEqual((await recordOf(api, id))?.disabledAt, undefined);
  await api.call(operator, "PATCH", `/accounts/${account}`, { isDisabled: false });
  assert.equal((await recordOf(api, id))?.disabledAt, undefined);
});

onPostgres(
  "a repeated creation with an Idempotency-Key creates once and shows the same key; the database has no secret",
  async (database) => {
    await using api = await startApi(database);
    const account = await newAccount(api);
    const header = { "idempotency-key": `create-${account}-0123456789` };
    const body = { account, name: "n", group: "default" };
    const first = await api.call(operator, "POST", "/keys", body, header);
    const again = await api.call(operator, "POST", "/keys", body, header);
    assert.deepEqual([first.status, again.status, again.headers["idempotent-replayed"]], [201, 201, "true"]);
    assert.deepEqual(again.body, first.body);
    assert.equal(again.headers.etag, first.headers.etag);
    assert.equal((await api.call(operator, "GET", `/keys?account=${account}`)).body.items.length, 1);
    assert.ok(
      !JSON.stringify(await database.selectFrom("idempotent_answers").selectAll().execute()).includes(first.body.key),
    );
    const other = await api.call(operator, "POST", "/keys", { ...body, name: "m" }, header);
    assert.deepEqual([other.status, other.body.field], [409, "Idempotency-Key"]);
    assert.equal((await api.call(operator, "POST", "/keys", body, { "idempotency-key": "short" })).status, 400);
    const racing = { "idempotency-key": `races-${account}-0123456789` };
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => api.call(operator, "POST", "/keys", { ...body, name: "raced" }, racing)),
    );
    const created = answers.filter(({ status }) => status === 201).map((answer) => answer.body.key);
    assert.ok(created.length > 0 && answers.every(({ status }) => status === 201 || status === 409));
    assert.equal(new Set(created).size, 1);
    assert.equal((await api.call(operator, "GET", `/keys?account=${account}&search=raced`)).body.items.length, 1);

    const failing = { "idempotency-key": `fails-${account}-0123456789` };
    assert.equal((await api.call(operator, "POST", "/keys", { ...body, group: "none" }, failing)).status, 400);
    assert.equal((await api.call(operator, "POST", "/keys", body, failing)).status, 201);
  },
);

onPostgres(
  "the limits of a key: what is used now of the key's, the group's and the account's, and when it resets",
  async (database) => {
    await using api = await startApi(database);
    const { call, redis, keyspace } = api;
    const account = await newAccount(api);
    const { body: key } = await call(operator, "POST", "/keys", {
      account,
      name: "k",
      group: "narrow",
      limits: { generationsMax: 3 },
    });
    const path = `/keys/${key.id}/limits`;
    const limitsOf = async () =>
      Object.fromEntries(
        (await call(operator, "GET", path)).body.limits.map(({ limit, ...standing }: { limit: string }) => [
          limit,
          standing,
        ]),
      );
    const before = await limitsOf();
    assert.deepEqual(before.requestsPerMinute, {
      scope: "key",
      subject: key.id,
      max: "60",
      used: "0",
      reserved: "0",
      remaining: "60",
      resetsAt: null,
    });
    assert.deepEqual([before.budgetPerDay.max, before.budgetPerDay.remaining], ["2.5", "2.5"]);
    const counters = new LimitCounters(redis, keyspace);
    const limits = { requestsPerMinute: 60, generationsMax: 3, budgetPerDay: 2.5 };
    const estimate = { inputTokens: 1, outputTokens: 1, nano: nanoOf(0.5) };
    const subjects = [{ scope: "key" as const, name: key.id, limits }];
    const [first, second] = ["gen_1", "gen_2"].map((id) => reservationOf(id, subjects, estimate, Date.now()));
    assert.ok(first && second);
    await counters.admit(first);
    await counters.admit(second);
    await counters.settle(first, { tokens: 2, nano: nanoOf(0.25) });
    const now = await limitsOf();
    assert.deepEqual([now.requestsPerMinute.used, now.requestsPerMinute.remaining], ["2", "58"]);
    const untilReset = Date.parse(now.requestsPerMinute.resetsAt) - Date.now();
    assert.ok(untilReset > 50_000 && untilReset <= 61_000, String(untilReset));
    assert.deepEqual(
      [now.generationsMax.used, now.generationsMax.remaining, now.generationsMax.resetsAt],
      ["1", "2", null],
    );
    const { used, reserved, remaining, resetsAt } = now.budgetPerDay;
    assert.deepEqual([used, reserved, remaining], ["0.25", "0.5", "1.75"]);
    assert.equal(Date.parse(resetsAt) % 86_400_000, 0);
    // Reading counts nothing.
    assert.deepEqual((await limitsOf()).requestsPerMinute.used, "2");
    const { body: other } = await call(operator, "POST", "/keys", { account, name: "o", group: "default" });
    await insertUsage(database, [
      usageRecord({ account, keyId: other.id, cost: "1500000000", receivedAt: Date.now() }),
    ]);
    const spend = { today: "1.5", month: "1.5", total: "1.5", isPartial: false };
    assert.deepEqual((await call(operator, "GET", path)).body.accountSpend, spend);
    const otherUnits: [string, number, null][] = [["webSearches", 1, null]];
    await insertUsage(database, [
      usageRecord({ account, keyId: other.id, cost: "0", receivedAt: Date.now(), otherUnits }),
    ]);
    assert.deepEqual((await call(operator, "GET", path)).body.accountSpend, { ...spend, isPartial: true });
    assert.deepEqual((await call(operator, "GET", `/keys/${other.id}`)).body.spend, { ...spend, isPartial: true });
  },
);
