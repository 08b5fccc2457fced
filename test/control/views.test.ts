/** Saved views: of one person, shared with an account, and bounded. */
import assert from "node:assert/strict";
import type { Role } from "../../apps/control/database/tables.ts";
import { operator, person, startApi, type TestApi } from "./api.ts";
import { onPostgres } from "./databases.ts";

let count = 0;

/** A user with a role in an account. */
async function member({ database }: TestApi, account: string, role: Role) {
  const id = `viewer-${process.pid}-${++count}`;
  await database
    .insertInto("users")
    .values({
      id,
      name: `Name of ${id}`,
      email: `${id}@example.com`,
      emailVerified: true,
      image: null,
      twoFactorEnabled: false,
      isOperator: false,
    })
    .execute();
  return person(id, { [account]: role });
}

async function accountOf(api: TestApi): Promise<string> {
  const id = `views-${process.pid}-${++count}`;
  assert.equal((await api.call(operator, "POST", "/accounts", { id, name: id })).status, 201);
  return id;
}

const usage = { page: "usage", search: { range: "30d", by: "model,key" }, account: null };

onPostgres("a view is its person's until it is shared with an account", async (database) => {
  await using api = await startApi(database);
  const [account, elsewhere] = [await accountOf(api), await accountOf(api)];
  const ada = await member(api, account, "reader");
  const bob = await member(api, account, "reader");
  const eve = await member(api, elsewhere, "owner");
  const names = async (actor: typeof ada) =>
    (await api.call(actor, "GET", "/views?page=usage")).body.items.map(({ name }: { name: string }) => name);
  const { status, body, text } = await api.call(ada, "POST", "/views", { ...usage, name: "Mine" });
  assert.equal(status, 201, text);
  assert.deepEqual([body.isOwn, body.search.by, body.person], [true, "model,key", `Name of ${ada.id}`]);
  assert.deepEqual([await names(ada), await names(bob), await names(eve)], [["Mine"], [], []]);
  // Not even operators read what is one person's alone.
  assert.ok(!(await api.call(operator, "GET", "/views?limit=500")).text.includes(body.id));
  assert.equal((await api.call(ada, "PATCH", `/views/${body.id}`, { account: elsewhere })).status, 404);
  assert.equal((await api.call(ada, "PATCH", `/views/${body.id}`, { account })).status, 200);
  assert.deepEqual([await names(ada), await names(bob), await names(eve)], [["Mine"], ["Mine"], []]);
  assert.equal((await api.call(bob, "PATCH", `/views/${body.id}`, { name: "Bob's" })).status, 403);
  assert.equal((await api.call(bob, "DELETE", `/views/${body.id}`)).status, 403);
  assert.equal((await api.call(eve, "DELETE", `/views/${body.id}`)).status, 404);
  const owner = await member(api, account, "owner");
  assert.equal((await api.call(owner, "DELETE", `/views/${body.id}`)).status, 204);
  const audit = await api.call(owner, "GET", `/audit?account=${account}`);
  assert.deepEqual(audit.body.items.map(({ action }: { action: string }) => action).slice(0, 2), [
    "removeView",
    "updateView",
  ]);
});

onPostgres("a person has 50 views at most, also of calls at the same time", async (database) => {
  await using api = await startApi(database);
  const ada = await member(api, await accountOf(api), "member");
  const answers = await Promise.all(
    Array.from({ length: 53 }, (_, index) => api.call(ada, "POST", "/views", { ...usage, name: `View ${index}` })),
  );
  assert.equal(answers.filter(({ status }) => status === 201).length, 50);
  assert.equal(answers.filter(({ status }) => status === 409).length, 3);
  const first = await api.call(ada, "GET", "/views?limit=30");
  const second = await api.call(ada, "GET", `/views?limit=30&cursor=${first.body.nextCursor}`);
  assert.deepEqual([first.body.items.length, second.body.items.length, second.body.nextCursor], [30, 20, null]);
});

onPostgres("a view that is not valid is refused at its field", async (database) => {
  await using api = await startApi(database);
  const ada = await member(api, await accountOf(api), "member");
  const wrong: [field: string, body: object][] = [
    ["name", { name: " " }],
    ["page", { page: "keys" }],
    ["search", { search: Object.fromEntries(Array.from({ length: 21 }, (_, index) => ["a".repeat(index + 1), ""])) }],
    ["search.by", { search: { by: "x".repeat(2_001) } }],
  ];
  for (const [field, change] of wrong) {
    const { status, body } = await api.call(ada, "POST", "/views", { ...usage, name: "n", ...change });
    assert.deepEqual([status, body.field], [400, field], JSON.stringify(body));
  }
});
