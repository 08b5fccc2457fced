/**
 * `npm start` more than once, beside another gateway, killed, and with roles that fail: each test
 * starts several processes.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { hashOf } from "#access/key.ts";
import { readRecords, readSome, revokeRecord } from "#access/projection.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { stateOf } from "../../apps/cli/state.ts";
import { startRedis } from "../support/redis.ts";
import { isGone, makeRoot, processesOf, startGateway, until } from "./gateway.ts";

const keyspace = keyspaceOf("sluice");

test("a second start keeps the key and replaces a revoked one", async () => {
  using place = makeRoot();
  const keys: string[] = [];
  for (const round of [1, 2, 3]) {
    const gateway = startGateway(place.root);
    const { key, redisUrl } = await gateway.ready();
    keys.push(key);
    const redis = await connectRedis(redisUrl, "request");
    const [record] = await readSome(redis, keyspace, [hashOf(key)]);
    assert.equal(record?.name, "first-run");
    assert.equal(record.group, "default");
    if (round === 2) await revokeRecord(redis, keyspace, hashOf(key), Date.now());
    assert.equal((await readRecords(redis, keyspace)).size, round === 3 ? 2 : 1);
    redis.disconnect();
    gateway.child.kill("SIGTERM");
    assert.equal(await gateway.ended, 0);
  }
  assert.equal(keys[0], keys[1]);
  assert.notEqual(keys[1], keys[2]);
});

test("a second gateway in the same checkout ends with a one-line error", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root);
  const { address, pids } = await gateway.ready();
  const second = startGateway(place.root);
  assert.equal(await second.ended, 1);
  assert.equal(
    second.output().error,
    `sluice: the gateway already runs in this checkout (process ${pids.sluice}, ${address}); stop it first\n`,
  );
  assert.equal(await (await fetch(address)).text(), "ingress");
  assert.ok(existsSync(stateOf(place.root).readyFile));
  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
});

test("when the supervisor is killed its processes end, Redis last", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root);
  const { pids } = await gateway.ready();
  gateway.child.kill("SIGKILL");
  assert.equal(await gateway.ended, "SIGKILL");
  await until(
    `${JSON.stringify(pids)} to end`,
    () => Object.values(pids).every(isGone) && processesOf(place.root).length === 0,
  );

  const next = startGateway(place.root);
  await next.ready();
  next.child.kill("SIGINT");
  assert.equal(await next.ended, 0);
});

test("the next start ends an orphaned Redis and keeps its data", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root);
  const { key, pids } = await gateway.ready();
  const guards = processesOf(place.root).filter((pid) =>
    readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("/bin/sh"),
  );
  assert.equal(guards.length, 1);
  for (const pid of [...guards, pids.sluice!]) process.kill(pid, "SIGKILL");
  await until("the roles to end", () => [pids.ingress!, pids.worker!, pids.simulator!].every(isGone));
  assert.equal(isGone(pids.redis!), false);

  const next = startGateway(place.root);
  const ready = await next.ready();
  assert.equal(ready.key, key);
  assert.ok(isGone(pids.redis!));
  next.child.kill("SIGINT");
  assert.equal(await next.ended, 0);
  assert.deepEqual(processesOf(place.root), []);
});

test("a second Ctrl-C ends processes that do not stop", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root, { FAKE_INGRESS: "deaf" });
  const { pids } = await gateway.ready();
  gateway.child.kill("SIGINT");
  gateway.child.kill("SIGINT");
  await until("the stop to begin", () => gateway.output().out.includes("Stopping"));
  assert.equal(isGone(pids.ingress!), false);
  await until("the second Ctrl-C", () => {
    if (gateway.output().out.includes("Stopping now")) return true;
    gateway.child.kill("SIGINT");
    return false;
  });
  assert.equal(await gateway.ended, 0);
  assert.deepEqual(processesOf(place.root), []);
});

test("a configuration error of a role ends the gateway with the role's own line", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root, { FAKE_WORKER: "refuse", FAKE_INGRESS: "refuse" });
  assert.equal(await gateway.ended, 1);
  assert.equal(gateway.output().error, "sluice: a bad setting\n");
  assert.deepEqual(processesOf(place.root), []);
});

test("the supervisor gives up after several failed starts of a role", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root, { FAKE_WORKER: "crash" });
  assert.equal(await gateway.ended, 1);
  const lines = gateway.output().error.trim().split("\n");
  assert.equal(lines.length, 5);
  assert.match(lines.at(-1)!, /^sluice: worker did not start: it ended with exit code 3; see .*worker\.log$/);
  assert.deepEqual(processesOf(place.root), []);
});

test("a port in use gives a one-line error", async (t) => {
  using place = makeRoot();
  const occupier = createServer().listen(0, "127.0.0.1");
  t.after(() => occupier.close());
  await until("the port", () => occupier.listening);
  const { port } = occupier.address() as AddressInfo;
  const gateway = startGateway(place.root, { PORT: String(port) });
  assert.equal(await gateway.ended, 1);
  assert.equal(
    gateway.output().error,
    `sluice: port ${port} on 127.0.0.1 is already in use; set PORT to another port\n`,
  );
  assert.deepEqual(processesOf(place.root), []);
});

test("an address of another machine gives a one-line error", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root, { HOST: "192.0.2.1" });
  assert.equal(await gateway.ended, 1);
  assert.match(gateway.output().error, /^sluice: .*EADDRNOTAVAIL.*192\.0\.2\.1.*\n$/);
});

test("the Redis of REDIS_URL is used and keeps running", async () => {
  using place = makeRoot();
  await using redis = await startRedis();
  const gateway = startGateway(place.root, { REDIS_URL: redis.url });
  const ready = await gateway.ready();
  assert.equal(ready.redisUrl, redis.url);
  assert.equal(ready.pids.redis, undefined);
  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
  (await connectRedis(redis.url, "request")).disconnect();
});

test("a checkout with a long path can start its Redis", async () => {
  using place = makeRoot(`${"long-".repeat(24)}-`);
  const gateway = startGateway(place.root);
  const { redisUrl } = await gateway.ready();
  assert.ok(redisUrl.length < 110);
  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
  assert.deepEqual(processesOf(place.root), []);
});
