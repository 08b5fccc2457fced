/** Sums of usage: the largest groups, and everything else as one. */
import assert from "node:assert/strict";
import { sql } from "kysely";
import type { UsageRecord } from "#ledger/usage-record.ts";
import type { Context } from "../../apps/control/api/handlers.ts";
import { systemContext } from "../../apps/control/database/change.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { up as addUnpricedUnits } from "../../apps/control/database/migrations/0029-unpriced-units.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { pseudonymsOf, withPseudonyms } from "../../apps/control/ledger/pseudonyms.ts";
import { usageHandlers } from "../../apps/control/ledger/usage-handlers.ts";
import { onBoth } from "./databases.ts";
import { usageRecord } from "./records.ts";

const usage = usageHandlers({ currency: () => "USD" });

const contextOf = (database: Database, more: Partial<Context> = {}): Context => ({
  ...systemContext(database, new Date()),
  scope: "all",
  ifMatch: undefined,
  ...more,
});

const halfHour = 1_800_000;
const start = Date.parse("2031-05-20T10:00:00Z");
const range = { from: "2031-05-20T00:00:00Z", to: "2031-05-21T00:00:00Z" };

onBoth("the largest groups and the others add up to the total", async (database) => {
  const account = "top-of-usage";
  // Model m0 costs most in all, although m1 is dearer in the first half hour.
  const costs = [
    [100, 5_000],
    [900, 100],
    [30, 40],
    [20, 10],
  ];
  await insertUsage(
    database,
    costs.flatMap((steps, model) =>
      steps.map((cost, step) =>
        usageRecord({
          account,
          model: `m${model}`,
          modelAnswered: `m${model}`,
          cost: String(cost),
          receivedAt: start + step * halfHour,
        }),
      ),
    ),
  );
  const query = { ...range, account, by: "model", interval: "half-hour" } as const;
  const { body } = await usage.sumUsage({ query: { ...query, top: 2 } } as never, contextOf(database));
  assert.deepEqual(
    body.rows.map(({ time, group, isOthers, requests, cost }) => [time, group, isOthers, requests, cost]),
    [
      ["2031-05-20T10:00:00.000Z", { model: "m0" }, false, 1, "0.0000001"],
      ["2031-05-20T10:00:00.000Z", { model: "m1" }, false, 1, "0.0000009"],
      ["2031-05-20T10:00:00.000Z", {}, true, 2, "0.00000005"],
      ["2031-05-20T10:30:00.000Z", { model: "m0" }, false, 1, "0.000005"],
      ["2031-05-20T10:30:00.000Z", { model: "m1" }, false, 1, "0.0000001"],
      ["2031-05-20T10:30:00.000Z", {}, true, 2, "0.00000005"],
    ],
  );
  const whole = await usage.sumUsage({ query } as never, contextOf(database));
  assert.deepEqual(body.total, whole.body.total);
  assert.equal(whole.body.rows.length, 8);

  const two = { ...query, by: "model,upstream", interval: "none", top: 1, topBy: "requests" } as const;
  const { rows, total } = (await usage.sumUsage({ query: two } as never, contextOf(database))).body;
  assert.deepEqual(
    rows.map(({ group, requests }) => [group, requests]),
    [
      [{ model: "m0", upstream: "u" }, 2],
      [{}, 6],
    ],
  );
  assert.equal(total.requests, 8);
});

onBoth("keys are named, but only to those who see their account", async (database) => {
  const account = `names-of-keys`;
  const keyId = `key_named`;
  await database
    .insertInto("accounts")
    .values({ id: account, name: "Account of names", created_at: new Date(), disabled_at: null })
    .execute();
  await database
    .insertInto("keys")
    .values({
      ...{ id: keyId, hash: "hash-of-key-named", hint: "abcd", account, name: "ci", group_name: "default", tags: "[]" },
      ...{ models: null, limits: null, addresses: null, origins: null, created_at: new Date() },
      ...{ expires_at: null, revoked_at: null, replaced_by: null },
    })
    .execute();
  const record = usageRecord({ account, keyId, receivedAt: start });
  await insertUsage(database, [record, usageRecord({ account: "another-account", keyId, receivedAt: start })]);
  const own = contextOf(database);
  const sums = (await usage.sumUsage({ query: { ...range, account, by: "key" } } as never, own)).body;
  assert.deepEqual(sums.keyNames, { [keyId]: "ci" });
  const { items } = (await usage.listUsage({ query: { ...range, account } } as never, own)).body;
  assert.equal(items[0]?.keyName, "ci");
  assert.equal((await usage.getUsage({ params: { id: record.generationId } } as never, own)).body.keyName, "ci");
  const { body: csv, filename } = await usage.exportUsage({ query: { ...range, account, by: "key" } } as never, own);
  assert.equal(filename, "usage-2031-05-20-to-2031-05-20.csv");
  const june = { from: "2031-05-31T15:00:00Z", to: "2031-06-30T15:00:00Z", timeZone: "Asia/Tokyo" };
  const inTokyo = await usage.exportUsage({ query: { ...june, account } } as never, own);
  assert.equal(inTokyo.filename, "usage-2031-06-01-to-2031-06-30.csv");
  assert.match(csv, /^time,key,keyName,requests,.*,currency\r\n.*,key_named,ci,1,.*,USD\r\n$/);
  const log = (await usage.exportRecords({ query: { ...range, account } } as never, own)).body;
  assert.match(log, /^time,requestId,account,accountName,key,keyName,group,/);
  assert.match(
    log,
    /\r\n2031-05-20T10:00:00.000Z,[^,]*,names-of-keys,Account of names,key_named,ci,default,[^\r]*,USD,[^\r]*\r\n$/,
  );
  const [names, ...rows] = log
    .trimEnd()
    .split("\r\n")
    .map((line) => line.split(","));
  assert.deepEqual(
    rows.map((row) => row.length),
    [names?.length],
  );
  const other = contextOf(database, { scope: ["another-account"] });
  assert.deepEqual((await usage.sumUsage({ query: { ...range, by: "key" } } as never, other)).body.keyNames, {});
});

onBoth("times of a CSV begin with the day of its time zone", async (database) => {
  const account = "days-of-csv";
  await insertUsage(database, [usageRecord({ account, receivedAt: Date.parse("2031-05-20T16:10:00Z") })]);
  const times = {
    UTC: "2031-05-20T00:00:00.000Z",
    "Europe/Berlin": "2031-05-20T00:00:00+02:00",
    "Europe/London": "2031-05-20T00:00:00+01:00",
    "Africa/Abidjan": "2031-05-20T00:00:00+00:00",
    "America/St_Johns": "2031-05-20T00:00:00-02:30",
    "Asia/Tokyo": "2031-05-21T00:00:00+09:00",
  };
  for (const [timeZone, time] of Object.entries(times)) {
    const query = { ...range, account, by: "", timeZone };
    const { body } = await usage.exportUsage({ query } as never, contextOf(database));
    assert.equal(body.split("\r\n")[1]?.split(",")[0], time, timeZone);
  }
});

onBoth("a record has the calls of upstreams; only operators see their status", async (database) => {
  const account = "calls-of-records";
  const record = usageRecord({
    account,
    calls: 2,
    callLog: [
      ["first", "m", 10, 70, 402, "upstream_failed"],
      ["second", "m", 80, 30, 200, "answered"],
    ],
  });
  const plain = usageRecord({ account });
  await insertUsage(database, [record, plain]);
  const read = async (id: string, context: Context) =>
    (await usage.getUsage({ params: { id } } as never, context)).body.callLog;
  const operator = contextOf(database);
  assert.deepEqual(await read(record.generationId, operator), [
    { upstream: "first", target: "m", startedMs: 10, durationMs: 70, status: 402, outcome: "upstream_failed" },
    { upstream: "second", target: "m", startedMs: 80, durationMs: 30, status: 200, outcome: "answered" },
  ]);
  assert.equal(await read(plain.generationId, operator), null);
  const reader = contextOf(database, { actor: { ...contextOf(database).actor, isOperator: false }, scope: [account] });
  assert.deepEqual(
    (await read(record.generationId, reader))?.map(({ status }) => status),
    [null, null],
  );
});

onBoth("the log of errors reads no more than errors", async (database) => {
  const account = "log-of-errors";
  await insertUsage(database, [
    usageRecord({ account, receivedAt: start }),
    usageRecord({ account, receivedAt: start + 1, outcome: "refused", status: 429, errorCode: "rate_limited" }),
    usageRecord({ account, receivedAt: start + 2, outcome: "left", status: 499 }),
  ]);
  const codesOf = async (query: object) => {
    const { body } = await usage.listUsage({ query: { ...range, account, ...query } } as never, contextOf(database));
    return body.items.map(({ outcome }) => outcome);
  };
  assert.deepEqual(await codesOf({ outcome: "refused,left" }), ["left", "refused"]);
  assert.deepEqual(await codesOf({ outcome: "complete,left" }), ["left", "complete"]);
  assert.deepEqual(await codesOf({ errorCode: "rate_limited" }), ["refused"]);
});

onBoth("sums of one error code are those of its records, over time and by group", async (database) => {
  const account = "sums-of-errors";
  const hour = 3_600_000;
  const failed = { account, outcome: "failed", status: 502, errorCode: "upstream_failed" } as const;
  await insertUsage(database, [
    usageRecord({ account, receivedAt: start }),
    usageRecord({ ...failed, receivedAt: start + 1, modelAnswered: null }),
    usageRecord({ ...failed, receivedAt: start + 2 * hour }),
    usageRecord({ ...failed, receivedAt: start + 2 * hour + 1, errorCode: "overloaded" }),
  ]);
  const sums = async (query: object) =>
    (await usage.sumUsage({ query: { ...range, account, interval: "hour", ...query } } as never, contextOf(database)))
      .body;
  const of = await sums({ errorCode: "upstream_failed", by: "model" });
  assert.deepEqual(
    of.rows.map(({ time, requests, failed }) => [Date.parse(time ?? "") - start, requests, failed]),
    [
      [0, 1, 1],
      [2 * hour, 1, 1],
    ],
  );
  assert.deepEqual([of.total.requests, of.total.failed], [2, 2]);
  assert.equal((await sums({ errorCode: "upstream_failed,overloaded" })).total.failed, 3);
  assert.equal((await sums({ errorCode: "nothing" })).rows.length, 0);
});

onBoth("a filter of the log finds what is there, and answers from the totals where nothing is", async (database) => {
  const account = "filtered-log";
  const days = [0, 3, 3, 20];
  await insertUsage(
    database,
    days.map((day, index) =>
      usageRecord({
        account,
        model: "rare",
        modelAnswered: index === 2 ? "other" : "rare",
        receivedAt: start - day * 86_400_000,
      }),
    ),
  );
  let statements: string[] = [];
  const counted = database.withPlugin({
    transformQuery: ({ node }) => {
      statements.push(node.kind);
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  const itemsOf = async (query: object): Promise<unknown[]> => {
    statements = [];
    const log = { from: "2031-04-25T00:00:00Z", to: range.to, account, ...query };
    const context = contextOf(counted, { now: new Date("2031-05-21T00:00:00Z") });
    return (await usage.listUsage({ query: log } as never, context)).body.items;
  };
  const cases: [query: object, items: number][] = [
    [{ model: "rare" }, 3],
    [{ model: "other" }, 1],
    [{ model: "rare", from: "2031-05-10T00:00:00Z" }, 2],
    [{ upstream: "u", model: "rare", limit: 1 }, 1],
    [{ group: "default" }, 4],
  ];
  for (const [query, items] of cases) assert.equal((await itemsOf(query)).length, items, JSON.stringify(query));
  for (const nothing of [
    { model: "none" },
    { upstream: "none" },
    { group: "none" },
    { model: "rare", group: "none" },
  ]) {
    assert.deepEqual(await itemsOf(nothing), [], JSON.stringify(nothing));
    // The totals alone: the log is read by a SelectQueryNode.
    assert.deepEqual(statements, ["RawNode"], JSON.stringify(nothing));
  }
});

onBoth(
  "usage is summed by user, session and tag, exactly as the records, with a bound for each day",
  async (database) => {
    const account = "labels-of-usage";
    const record = (more: Partial<UsageRecord>) => usageRecord({ account, receivedAt: start, cost: "7", ...more });
    const replaced = record({ isOwner: false, user: "ann", session: "s1", tags: ["a", "b"], cost: "1000" });
    await insertUsage(database, [
      replaced,
      record({ user: "ann", session: "s1", tags: ["a"] }),
      record({ user: "bob, jr\0", tags: ["a", "b"], modelAnswered: "other" }),
      record({}),
      record({ user: "ann", receivedAt: start + 20 * halfHour }),
    ]);
    await insertUsage(database, [{ ...replaced, isOwner: true, user: "bob, jr\0", tags: ["b", "c"], cost: "3" }]);
    const sumsOf = async (more: object) => {
      const query = { ...range, account, interval: "none", ...more };
      const { rows, total } = (await usage.sumUsage({ query } as never, contextOf(database))).body;
      return [
        ...rows.map(({ group, requests, cost }) => [...Object.values(group), requests, cost]),
        [total.requests, total.cost],
      ];
    };
    const total = [5, "0.000000031"];
    assert.deepEqual(await sumsOf({ by: "user" }), [
      ["", 1, "0.000000007"],
      ["ann", 2, "0.000000014"],
      ["bob, jr\ufffd", 2, "0.00000001"],
      total,
    ]);
    assert.deepEqual(await sumsOf({ by: "session" }), [["", 3, "0.000000021"], ["s1", 2, "0.00000001"], total]);
    assert.deepEqual(await sumsOf({ by: "tag" }), [
      ["a", 2, "0.000000014"],
      ["b", 2, "0.00000001"],
      ["c", 1, "0.000000003"],
      total,
    ]);
    assert.deepEqual(await sumsOf({ by: "tag", tag: "b" }), [
      ["b", 2, "0.00000001"],
      [2, "0.00000001"],
    ]);
    assert.deepEqual(await sumsOf({ by: "model", user: "bob, jr\ufffd" }), [
      ["m", 1, "0.000000003"],
      ["other", 1, "0.000000007"],
      [2, "0.00000001"],
    ]);
    assert.deepEqual(await sumsOf({ by: "user,model", model: "other" }), [
      ["bob, jr\ufffd", "other", 1, "0.000000007"],
      [1, "0.000000007"],
    ]);
    assert.deepEqual(await sumsOf({ by: "user", top: 1 }), [["ann", 2, "0.000000014"], [3, "0.000000017"], total]);
    const days = await usage.sumUsage(
      { query: { ...range, to: "2031-05-22T00:00:00Z", account, by: "user", timeZone: "Asia/Tokyo" } } as never,
      contextOf(database),
    );
    assert.deepEqual(
      days.body.rows.map(({ time, group, requests }) => [time, group.user, requests]),
      [
        ["2031-05-19T15:00:00.000Z", "", 1],
        ["2031-05-19T15:00:00.000Z", "ann", 1],
        ["2031-05-19T15:00:00.000Z", "bob, jr\ufffd", 2],
        ["2031-05-20T15:00:00.000Z", "ann", 1],
      ],
    );
    const csv = (await usage.exportUsage({ query: { ...range, account, by: "user" } } as never, contextOf(database)))
      .body;
    assert.match(csv, /^time,user,requests,.*\r\n.*Z,,1,.*\r\n.*Z,ann,2,.*\r\n.*Z,"bob, jr\ufffd",2,/);
    const log = async (more: object) => {
      const { items } = (await usage.listUsage({ query: { ...range, account, ...more } } as never, contextOf(database)))
        .body;
      return items.length;
    };
    assert.deepEqual(
      [await log({ user: "ann" }), await log({ session: "s1" }), await log({ tag: "b" }), await log({ tag: "d" })],
      [2, 2, 2, 0],
    );
    const pseudonymOf = pseudonymsOf("a secret");
    const named = record({
      account: `${account}-hidden`,
      user: "ann@example.com",
      session: "h_ann-lives-at-home-no-2",
    });
    const hidden = withPseudonyms(named, pseudonymOf);
    assert.doesNotMatch(JSON.stringify(hidden), /ann[@-]/, "also where a name looks like a hash");
    await insertUsage(database, [hidden]);
    const hiding = usageHandlers({ currency: () => "USD", pseudonymOf });
    await insertUsage(database, [record({ account: `${account}-hidden`, user: "(other)" })]);
    for (const user of ["ann@example.com", hidden.user, "(other)"]) {
      const query: object = { ...range, account: hidden.account, user };
      assert.equal((await hiding.sumUsage({ query } as never, contextOf(database))).body.total.requests, 1);
      assert.equal((await hiding.listUsage({ query } as never, contextOf(database))).body.items.length, 1);
    }
    for (const query of [{ by: "user,tag" }, { by: "user", session: "s1" }, { by: "user", errorCode: "x" }])
      await assert.rejects(sumsOf(query), /Sums (know only one|with `errorCode` cannot)/);

    const many = Array.from({ length: 1_010 }, (_, index) =>
      record({ account: `${account}-many`, user: `user-${String(index).padStart(4, "0")}`, tags: [`tag-${index}`] }),
    );
    // Two processes at once, and each record twice.
    await Promise.all([insertUsage(database, many.slice(0, 600)), insertUsage(database, many.slice(400))]);
    await insertUsage(database, many);
    await insertUsage(
      database,
      [record({ account: `${account}-many`, tags: ["limited"] })],
      (tag) => tag === "limited",
    );
    const bounded = await usage.sumUsage(
      { query: { ...range, account: `${account}-many`, by: "user", interval: "none" } } as never,
      contextOf(database),
    );
    assert.equal(bounded.body.rows.length, 1_002);
    assert.equal(bounded.body.rows.find(({ group }) => group.user === "(other)")?.requests, 10);
    assert.equal(bounded.body.total.requests, 1_011);
    const tags = await usage.sumUsage(
      { query: { ...range, account: `${account}-many`, tag: "limited" } } as never,
      contextOf(database),
    );
    assert.equal(tags.body.total.requests, 1);
  },
);

onBoth("sums and CSV say where they leave out what is unknown", async (database) => {
  const account = "unknown-amounts";
  const units = (price: number | null, kind: "webSearches" | "imageInputTokens" = "webSearches") =>
    [[kind, 2, price]] as UsageRecord["otherUnits"];
  const record = (model: string, more: Partial<UsageRecord>) =>
    usageRecord({ account, model, modelAnswered: model, receivedAt: start, cost: "7", upstreamCost: null, ...more });
  const cached = { cachedInputTokens: 5, cacheSaving: "3" };
  const replaced = record("searches", { isOwner: false, otherUnits: units(null), upstreamCost: "2" });
  await insertUsage(database, [
    record("unknown", { otherUnits: units(null, "imageInputTokens") }),
    record("priced", { otherUnits: units(1), upstreamCost: "2", ...cached }),
    record("searches", { otherUnits: units(null), upstreamCost: "2", tags: ["t"] }),
    record("mixed", { upstreamCost: "2" }),
    record("mixed", {}),
    record("refused", { outcome: "refused", cost: "0" }),
    replaced,
  ]);
  await insertUsage(database, [
    { ...replaced, isOwner: true, otherUnits: null, model: "mixed", modelAnswered: "mixed" },
  ]);
  const sumsOf = async (more: object, context = contextOf(database)) => {
    const query: object = { ...range, account, interval: "none", ...more };
    const { rows, total } = (await usage.sumUsage({ query } as never, context)).body;
    return [...rows, { ...total, group: { of: "all" } }].map((sums) => [
      Object.values(sums.group)[0],
      ...[sums.isCostPartial, sums.upstreamCost, sums.isUpstreamCostPartial, sums.margin, sums.cacheSaving],
    ]);
  };
  assert.deepEqual(await sumsOf({ by: "model" }), [
    ["mixed", false, "0.000000004", true, "0.00000001", null],
    ["priced", false, "0.000000002", false, "0.000000005", "0.000000003"],
    ["refused", false, null, false, null, null],
    ["searches", true, "0.000000002", false, "0.000000005", null],
    ["unknown", false, null, false, null, null],
    ["all", true, "0.000000008", true, "0.00000002", "0.000000003"],
  ]);
  assert.deepEqual((await sumsOf({ by: "tag", tag: "t" }))[0]?.slice(0, 2), ["t", true]);
  const reader = contextOf(database, { actor: { ...contextOf(database).actor, isOperator: false }, scope: [account] });
  assert.deepEqual((await sumsOf({ model: "mixed" }, reader)).at(-1), ["all", false, null, false, null, null]);
  const { items } = (await usage.listUsage({ query: { ...range, account } } as never, contextOf(database))).body;
  assert.deepEqual(
    items.flatMap(({ model, isCostPartial }) => (isCostPartial ? [model] : [])),
    ["searches"],
  );
  const column = (csv: string, name: string) => {
    const [names = [], ...rows] = csv
      .trimEnd()
      .split("\r\n")
      .map((line) => line.split(","));
    return rows.map((row) => row[names.indexOf(name)]);
  };
  const query = { ...range, account, interval: "none", by: "model" };
  const { body: csv } = await usage.exportUsage({ query } as never, contextOf(database));
  assert.deepEqual(column(csv, "isCostPartial"), ["false", "false", "false", "true", "false"]);
  assert.deepEqual(column(csv, "isUpstreamCostPartial"), ["true", "false", "false", "false", "false"]);
  assert.deepEqual(column(csv, "cacheSaving"), ["", "0.000000003", "", "", ""]);
  assert.deepEqual(column(csv, "upstreamCost")[2], "");
  const log = (
    await usage.exportRecords({ query: { ...range, account, model: "searches" } } as never, contextOf(database))
  ).body;
  assert.deepEqual(column(log, "isCostPartial"), ["true"]);
});

onBoth("totals of before they counted unpriced records get them from the records", async (database) => {
  const account = "unpriced-before";
  const searches = (user: string, more: Partial<UsageRecord> = {}) =>
    usageRecord({
      account,
      receivedAt: start,
      user,
      tags: ["a", "b"],
      otherUnits: [["webSearches", 1, null]],
      ...more,
    });
  const replaced = searches("ann", { isOwner: false, modelAnswered: null, session: "s" });
  const second = searches("ann", { receivedAt: start + 3 * halfHour });
  await insertUsage(database, [
    replaced,
    second,
    searches("ann", { otherUnits: [["webSearches", 1, 5]] }),
    searches("ann", { otherUnits: [["imageInputTokens", 1, null]] }),
    usageRecord({ account, receivedAt: start }),
  ]);
  await insertUsage(
    database,
    Array.from({ length: 1_005 }, (_, index) => searches(`user-${index}`)),
  );
  const tables = ["usage_totals", "usage_days", "label_totals", "label_days"] as const;
  const totalsOf = async (table: (typeof tables)[number]) => {
    const rows: object[] = await database.selectFrom(table).selectAll().execute();
    return rows.map((row) => Object.entries(row).map(String).sort().join()).sort();
  };
  const before = await Promise.all(tables.map(totalsOf));
  for (const table of tables) await sql`alter table ${sql.table(table)} drop column unpriced`.execute(database);
  await database.transaction().execute((transaction) => addUnpricedUnits(transaction as never));
  assert.deepEqual(await Promise.all(tables.map(totalsOf)), before);
  const sums = { query: { ...range, account, by: "user", user: "ann" } } as never;
  const isPartial = async () => {
    const { rows } = (await usage.sumUsage(sums, contextOf(database))).body;
    return rows.map(({ isCostPartial }) => isCostPartial);
  };
  assert.deepEqual(await isPartial(), [true]);
  await insertUsage(database, [
    { ...replaced, isOwner: true, otherUnits: null },
    { ...second, attempt: 2, otherUnits: [["webSearches", 1, 5]] },
  ]);
  assert.deepEqual(await isPartial(), [false]);
});
