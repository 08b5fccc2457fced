/** When events are delivered, repeated and given up. The clock is the test's. */
import assert from "node:assert/strict";
import dns from "node:dns";
import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import { createServer } from "node:net";
import { after, mock } from "node:test";
import { pino } from "pino";
import { keyspaceOf } from "#service/keyspace.ts";
import { networksOf } from "#service/public-agent.ts";
import { connectRedis } from "#service/redis.ts";
import { deliveriesOfAccountMax, deliveryDays } from "../../apps/control/bounds.ts";
import type { Database } from "../../apps/control/database/database.ts";
import { addEvents } from "../../apps/control/webhooks/deliveries.ts";
import { sealSecret } from "../../apps/control/webhooks/webhook-secret.ts";
import { Webhooks } from "../../apps/control/webhooks/webhooks.ts";
import { startRedis } from "../support/redis.ts";
import { startScriptedUpstream } from "../support/upstream.ts";
import { operator, startApi } from "./api.ts";
import { onPostgres } from "./databases.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "request");
const receiver = await startScriptedUpstream();
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

const secret = "the secret of the tests";
const hour = 3_600_000;

interface World extends AsyncDisposable {
  webhooks: Webhooks;
  /** Lets time pass, and delivers what is due then. */
  pass(ms: number): Promise<void>;
  end(subject: string): Promise<void>;
  delivery(subject?: string): Promise<{ state: string; attempts: { status: number | null; problem: string | null }[] }>;
  webhook(): Promise<{ disabled_reason: string | null; failing_since: Date | null }>;
}

async function startWorld(
  database: Database,
  { url = receiver.origin, networks = "127.0.0.0/8" } = {},
): Promise<World> {
  let ms = 1_700_000_000_000;
  const clock = { now: () => ms, epoch: () => ms };
  await database
    .insertInto("accounts")
    .values({ id: "a", name: "a", created_at: new Date(), disabled_at: null })
    .execute();
  await database
    .insertInto("webhooks")
    .values({
      ...{ id: "w", account: "a", name: "w", url, events: '["batch.completed"]', created_at: new Date(ms) },
      secret: sealSecret(secret, "w", `whsec_${Buffer.alloc(32).toString("base64")}`),
    })
    .execute();
  const webhooks = new Webhooks({
    ...{ database, redis, secret, clock, log: pino({ level: "silent" }), random: () => 0.5 },
    keyspace: keyspaceOf("webhooks"),
    networks: networksOf(networks),
  });
  const due = async () => {
    // The first may have begun before.
    await webhooks.run();
    await webhooks.run();
    await webhooks.idle();
    await webhooks.run();
  };
  return {
    webhooks,
    async pass(more) {
      ms += more;
      await due();
    },
    async end(subject) {
      await addEvents(database, [{ account: "a", type: "batch.completed", subject, at: new Date(ms) }], new Date(ms));
      await due();
    },
    delivery: (subject = "b") =>
      database.selectFrom("webhook_deliveries").selectAll().where("subject", "=", subject).executeTakeFirstOrThrow(),
    webhook: () => database.selectFrom("webhooks").selectAll().executeTakeFirstOrThrow(),
    [Symbol.asyncDispose]: () => webhooks.close(),
  };
}

onPostgres(
  "an event that is not accepted is sent again for a day, with growing pauses and the same id",
  async (database) => {
    await using world = await startWorld(database);
    receiver.answerWith((response) => response.writeHead(500).end());
    const first = receiver.requests.length;
    await world.end("b");
    for (const pause of [5, 15, 45, 135, 405, 1_215, 3_645, 10_935, 21_600, 21_600]) {
      const before = receiver.requests.length;
      await world.pass(pause * 1_000 - 1);
      assert.equal(receiver.requests.length, before, `before the end of ${pause} s`);
      await world.pass(1);
      assert.equal(receiver.requests.length, before + 1, `after ${pause} s`);
    }
    const ids = new Set(receiver.requests.slice(first).map(({ headers }) => headers["webhook-id"]));
    assert.equal(ids.size, 1);
    assert.equal((await world.delivery()).state, "pending");
    await world.pass(21_600_000);
    const { state, attempts } = await world.delivery();
    assert.equal(state, "failed");
    assert.equal(attempts.length, 12);
    assert.deepEqual([attempts[0]?.status, attempts[0]?.problem], [500, "status 500"]);
    await world.pass(48 * hour);
    assert.equal((await world.delivery()).attempts.length, 12);
  },
);

onPostgres("Retry-After puts an attempt off, and a success ends the failures of a webhook", async (database) => {
  await using world = await startWorld(database);
  receiver.answerWith(
    (response) => response.writeHead(503, { "retry-after": "3600" }).end(),
    (response) => response.writeHead(204).end(),
  );
  await world.end("b");
  assert.ok((await world.webhook()).failing_since !== null);
  const before = receiver.requests.length;
  await world.pass(hour - 1);
  assert.equal(receiver.requests.length, before);
  await world.pass(1);
  assert.equal((await world.delivery()).state, "delivered");
  assert.equal((await world.webhook()).failing_since, null);
});

onPostgres("only a status of 2xx is a success: a redirect is none, and is not followed", async (database) => {
  await using world = await startWorld(database);
  receiver.answerWith(
    (response) => response.writeHead(302, { location: receiver.origin }).end(),
    (response) => response.writeHead(200).end(),
  );
  const before = receiver.requests.length;
  await world.end("b");
  assert.equal(receiver.requests.length, before + 1);
  assert.equal((await world.delivery()).state, "pending");
});

onPostgres("a receiver that is gone, and one that fails for days, disable their webhook", async (database) => {
  await using world = await startWorld(database);
  receiver.answerWith((response) => response.writeHead(500).end());
  await world.end("waiting");
  receiver.answerWith((response) => response.writeHead(410).end());
  await world.end("b");
  assert.equal((await world.webhook()).disabled_reason, "gone");
  assert.equal((await world.delivery("waiting")).state, "failed");
  const before = receiver.requests.length;
  await world.end("c");
  assert.equal(receiver.requests.length, before);
  await database.updateTable("webhooks").set({ disabled_at: null, disabled_reason: null }).execute();

  receiver.answerWith((response) => response.writeHead(500).end());
  await world.end("d");
  await world.pass(5 * 24 * hour);
  assert.equal((await world.webhook()).disabled_reason, null);
  await world.end("e");
  await world.pass(hour);
  assert.equal((await world.webhook()).disabled_reason, "failing");
});

onPostgres("an address that is not public is not called, whatever it is written as", async (database) => {
  const port = receiver.port;
  await using world = await startWorld(database, { url: `http://localhost:${port}/`, networks: "" });
  const before = receiver.requests.length;
  await world.end("b");
  const { attempts } = await world.delivery();
  assert.equal(attempts[0]?.problem, "its address is not a public one, nor in WEBHOOK_NETWORKS");
  assert.equal(receiver.requests.length, before);
  await using api = await startApi(database);
  const webhook = { account: "a", name: "n", events: ["batch.failed"] };
  for (const host of ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]", "0x7f000001"]) {
    const refused = await api.call(operator, "POST", "/webhooks", { ...webhook, url: `http://${host}:${port}/` });
    assert.deepEqual([host, refused.status, refused.body.field], [host, 400, "url"]);
  }
  for (const url of ["ftp://example.com/", "http://user:password@example.com/", "http://", "example.com"])
    assert.equal((await api.call(operator, "POST", "/webhooks", { ...webhook, url })).status, 400, url);
});

onPostgres("a name that changes its address while it is used leads to no private one", async (database) => {
  let connections = 0;
  const inside = createServer((socket) => {
    connections++;
    socket.destroy();
  }).listen(receiver.port, "127.0.0.3");
  await once(inside, "listening");
  const [allowed, forbidden] = ["127.0.0.1", "127.0.0.3"].map((address) => ({ address, family: 4 }));
  let answers = [[allowed]];
  let calls = 0;
  type Lookup = (host: string, options: object, callback: (error: null, addresses: object[]) => void) => void;
  const lookup: Lookup = (_host, _options, callback) =>
    callback(null, (answers[calls++ % answers.length] ?? []) as object[]);
  const mocked = mock.method(dns, "lookup", lookup as typeof dns.lookup);
  syncBuiltinESMExports();
  try {
    await using world = await startWorld(database, {
      url: `http://rebound.example:${receiver.port}/`,
      networks: "127.0.0.1/32",
    });
    receiver.answerWith((response) => response.writeHead(200, { connection: "close" }).end());
    const refused = "its address is not a public one, nor in WEBHOOK_NETWORKS";
    const cases: [addresses: (typeof allowed)[][], problem: string | null][] = [
      [[[allowed]], null],
      [[[forbidden]], refused],
      [[[forbidden, allowed]], null],
      // A check of its own before the connection would see the first answer only.
      [[[allowed], [forbidden]], null],
      [[[forbidden], [allowed]], refused],
    ];
    for (const [place, [addresses, problem]] of cases.entries()) {
      [answers, calls] = [addresses, 0];
      await world.end(`case ${place}`);
      const { attempts } = await world.delivery(`case ${place}`);
      assert.deepEqual([place, attempts[0]?.problem ?? null, connections, calls], [place, problem, 0, 1]);
    }
  } finally {
    mocked.mock.restore();
    syncBuiltinESMExports();
    inside.close();
  }
});

onPostgres("an event that is told twice is delivered once", async (database) => {
  await using world = await startWorld(database);
  receiver.answerWith((response) => response.writeHead(200).end());
  const before = receiver.requests.length;
  await world.end("b");
  await world.end("b");
  assert.equal(receiver.requests.length, before + 1);
});

onPostgres("old deliveries are deleted, and those of an account beyond the bound", async (database) => {
  await using world = await startWorld(database);
  receiver.answerWith((response) => response.writeHead(200).end());
  await world.end("old");
  await world.pass(deliveryDays * 24 * hour + 1);
  await world.end("b");
  await world.webhooks.sweep();
  const all = () => database.selectFrom("webhook_deliveries").select("subject").orderBy("created_at").execute();
  assert.deepEqual(await all(), [{ subject: "b" }]);
  const {
    created_at,
    id: _id,
    attempts: _attempts,
    ...row
  } = await database.selectFrom("webhook_deliveries").selectAll().executeTakeFirstOrThrow();
  const rows = Array.from({ length: deliveriesOfAccountMax }, (_, place) => ({
    ...{ ...row, id: `d${place}`, subject: `later ${place}`, created_at: new Date(created_at.getTime() + place + 1) },
  }));
  for (let start = 0; start < rows.length; start += 1_000)
    await database
      .insertInto("webhook_deliveries")
      .values(rows.slice(start, start + 1_000))
      .execute();
  await world.webhooks.sweep();
  const kept = await all();
  assert.deepEqual([kept.length, kept[0]?.subject], [deliveriesOfAccountMax, "later 0"]);
});

onPostgres("an account has a bounded number of webhooks; one that is disabled cannot be tested", async (database) => {
  await using _world = await startWorld(database);
  await using api = await startApi(database);
  const webhook = { account: "a", name: "n", events: ["batch.failed"], url: "https://example.com/" };
  const created = await Promise.all(Array.from({ length: 22 }, () => api.call(operator, "POST", "/webhooks", webhook)));
  assert.deepEqual(
    [201, 409].map((status) => created.filter((each) => each.status === status).length),
    [19, 3],
  );
  const path = `/webhooks/${created.find(({ status }) => status === 201)?.body.id}`;
  const disabled = await api.call(operator, "PATCH", path, { isEnabled: false });
  assert.deepEqual([disabled.body.isEnabled, disabled.body.disabledReason], [false, "person"]);
  assert.equal((await api.call(operator, "POST", `${path}/test`)).status, 409);
  const enabled = await api.call(operator, "PATCH", path, { isEnabled: true });
  assert.deepEqual([enabled.body.isEnabled, enabled.body.disabledReason], [true, null]);
  assert.ok(!JSON.stringify([enabled, await api.call(operator, "GET", path)]).includes("whsec_"));
  assert.match((await api.call(operator, "POST", `${path}/rotate`, { overlapSeconds: 0 })).body.secret, /^whsec_/);
});
