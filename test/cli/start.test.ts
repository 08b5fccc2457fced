import assert from "node:assert/strict";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { hashOf } from "#access/key.ts";
import { readSome } from "#access/projection.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { repairData } from "../../apps/cli/private-redis.ts";
import { openState, readReady, stateOf } from "../../apps/cli/state.ts";
import { makeRoot, processesOf, startGateway, until } from "./gateway.ts";

const keyspace = keyspaceOf("sluice");
const textOf = async (url: string) => (await fetch(url)).text();

test("start prints a banner that matches ready.json, and Ctrl-C leaves neither processes nor ready.json", async () => {
  using place = makeRoot();
  const state = stateOf(place.root);
  const gateway = startGateway(place.root);
  const ready = await gateway.ready();

  assert.equal(ready.baseUrl, `${ready.address}/v1`);
  assert.match(
    gateway.output().out,
    new RegExp(`base URL +${ready.baseUrl}\n +${ready.baseUrl.replace("/v1", "")} for .*\n +API key +${ready.key}\n`),
  );
  assert.ok(
    gateway.output().out.includes(`curl ${ready.baseUrl}/chat/completions -H "Authorization: Bearer ${ready.key}"`),
  );
  assert.ok(gateway.output().out.includes('"model":"sim-text"'));
  assert.equal(await textOf(ready.address), "ingress");
  assert.equal(await textOf(ready.operationsUrls.ingress), "ingress");
  assert.equal(await textOf(ready.operationsUrls.worker), "worker");
  assert.equal(await textOf(ready.controlUrl as string), "control");
  assert.equal(await textOf(ready.operationsUrls.control as string), "control");
  assert.ok(gateway.output().out.includes(`console       ${ready.consoleUrl}\n`));
  assert.deepEqual(Object.keys(ready.pids), ["sluice", "redis", "simulator", "worker", "ingress", "control"]);
  assert.equal(statSync(state.operatorTokenFile).mode & 0o777, 0o600);
  assert.match(readFileSync(state.operatorTokenFile, "utf8"), /^[\w-]{43}\n$/);
  assert.equal(statSync(state.readyFile).mode & 0o777, 0o600);
  assert.equal(statSync(state.firstKeyFile).mode & 0o777, 0o600);
  assert.equal(statSync(state.directory).mode & 0o777, 0o700);
  await until("the worker's lines are in its log", () =>
    readFileSync(join(state.logs, "worker.log"), "utf8").includes('"msg":"a line of the log"'),
  );
  assert.equal(gateway.output().error, "");

  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
  assert.equal(existsSync(state.readyFile), false);
  assert.deepEqual(processesOf(place.root), []);
});

test("a killed role restarts at the same address, and ready.json is updated", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root);
  const before = await gateway.ready();
  for (const role of ["ingress", "worker", "simulator", "control"] as const) {
    const pid = before.pids[role]!;
    process.kill(pid, "SIGKILL");
    const after = await until(`another ${role}`, () => {
      const ready = readReady(stateOf(place.root));
      return (
        ready?.pids[role] !== undefined &&
        ready.pids[role] !== pid &&
        gateway.output().error.includes(`${role} is ready again`) &&
        ready
      );
    });
    assert.equal(after.address, before.address);
    assert.equal(after.controlUrl, before.controlUrl);
  }
  assert.equal(await textOf(before.address), "ingress");
  assert.equal(await textOf(before.operationsUrls.worker), "worker");
  assert.equal(await textOf(before.simulatorUrl), "simulator");
  assert.match(gateway.output().error, /^sluice: ingress ended with SIGKILL; restarting it in 250 ms\n/);
  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
  assert.deepEqual(processesOf(place.root), []);
});

test("a list of processes that can't be written, as on a full disk, ends none of them", async () => {
  using place = makeRoot();
  const { readyFile } = stateOf(place.root);
  const gateway = startGateway(place.root);
  const before = await gateway.ready();
  const obstacle = `${readyFile}.new`;
  mkdirSync(obstacle);
  process.kill(before.pids.worker!, "SIGKILL");
  await until("another worker", () => gateway.output().error.includes("worker is ready again"));
  assert.match(gateway.output().error, /^sluice: the list of processes could not be written: /m);
  assert.equal(await textOf(before.operationsUrls.worker), "worker");
  rmdirSync(obstacle);
  process.kill(before.pids.ingress!, "SIGKILL");
  await until("the list names the new processes", () => {
    const pids = readReady(stateOf(place.root))?.pids;
    return pids?.worker !== before.pids.worker && pids?.ingress !== undefined && pids.ingress !== before.pids.ingress;
  });
  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
  assert.deepEqual(processesOf(place.root), []);
});

test("a killed Redis restarts at the same socket with its keys", async () => {
  using place = makeRoot();
  const gateway = startGateway(place.root);
  const { key, redisUrl, pids } = await gateway.ready();
  process.kill(pids.redis!, "SIGKILL");
  await until("the restarted Redis", () => gateway.output().error.includes("redis is ready again"));
  const redis = await connectRedis(redisUrl, "request");
  const [record] = await readSome(redis, keyspace, [hashOf(key)]);
  redis.disconnect();
  assert.equal(record?.name, "first-run");
  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
});

test("data of Redis that a power cut damaged at its end is cut off there, and the rest is served", async () => {
  using place = makeRoot();
  const state = stateOf(place.root);
  const first = startGateway(place.root);
  const { key } = await first.ready();
  for (const pid of processesOf(place.root)) process.kill(pid, "SIGKILL");
  await first.ended;
  const files = join(state.redis, "appendonlydir");
  const last = readdirSync(files).find((name) => name.endsWith(".incr.aof")) as string;
  const whole = readFileSync(join(files, last));
  appendFileSync(join(files, last), Buffer.alloc(4_096));

  const gateway = startGateway(place.root);
  const { key: keyAfter, redisUrl } = await gateway.ready();
  assert.equal(keyAfter, key);
  const redis = await connectRedis(redisUrl, "request");
  const [record] = await readSome(redis, keyspace, [hashOf(key)]);
  redis.disconnect();
  assert.equal(record?.name, "first-run");
  const copy = `${files}.damaged`;
  assert.equal(
    gateway.output().error,
    `sluice: the data of Redis was damaged at its end, as by a power cut: 4096 bytes were cut off; a copy of the whole is in ${copy}\n`,
  );
  assert.equal(readFileSync(join(copy, last)).length, whole.length + 4_096);
  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
});

test("a Redis that does not start at all keeps its own error, and its data", async () => {
  using place = makeRoot();
  const state = openState(place.root);
  const files = join(state.redis, "appendonlydir");
  mkdirSync(files);
  writeFileSync(join(files, "appendonly.aof.manifest"), "");
  assert.equal(await repairData("/bin/false", state), undefined);
  assert.deepEqual(readdirSync(state.redis), ["appendonlydir"]);
});

const faults: [string, NodeJS.ProcessEnv, RegExp][] = [
  ["an invalid port", { PORT: "http" }, /^sluice: PORT must be an integer from 0 to 65535, not "http"\n$/],
  ["a missing catalogue", { SLUICE_CATALOGUE: "none.yaml" }, /^sluice: .*none\.yaml: no such file\n$/],
  ["an unreachable Redis", { REDIS_URL: "redis://127.0.0.1:1" }, /^sluice: no Redis at 127\.0\.0\.1:1: .+\n$/],
];
for (const [what, environment, line] of faults) {
  test(`${what} gives a one-line error`, async () => {
    using place = makeRoot();
    const gateway = startGateway(place.root, environment);
    assert.equal(await gateway.ended, 1);
    assert.match(gateway.output().error, line);
    assert.deepEqual(processesOf(place.root), []);
  });
}

test("an invalid catalogue gives a one-line error with the position", async () => {
  using place = makeRoot();
  writeFileSync(join(place.root, "catalogue.yaml"), "queues: [");
  const gateway = startGateway(place.root);
  assert.equal(await gateway.ended, 1);
  assert.match(gateway.output().error, /^sluice: .*catalogue\.yaml:1:\d+: .+\n$/);
});

test("only the worker receives upstream credentials, only the ingress the operator's password, and only control its database and token", async () => {
  using place = makeRoot();
  const secrets = {
    OPENAI_API_KEY: "upstream-secret",
    OTHER_TOKEN: "other-secret",
    OPERATOR_PASSWORD: "operator-secret",
    DATABASE_URL: "postgres://secret",
  };
  const gateway = startGateway(place.root, { ...secrets, SLUICE_CATALOG: "elsewhere.yaml" });
  const { address, controlUrl = "", operationsUrls, simulatorUrl, redisUrl } = await gateway.ready();
  const [ingress, worker, simulator, control] = await Promise.all(
    [address, operationsUrls.worker, simulatorUrl, controlUrl].map(
      async (url) => (await (await fetch(`${url}/environment`)).json()) as NodeJS.ProcessEnv,
    ),
  );
  assert.ok(ingress && worker && simulator && control);
  assert.equal(control.DATABASE_URL, secrets.DATABASE_URL);
  assert.equal(`${control.OPERATOR_TOKEN}\n`, readFileSync(stateOf(place.root).operatorTokenFile, "utf8"));
  assert.deepEqual([control.OPENAI_API_KEY, control.OPERATOR_PASSWORD], ["configured", undefined]);
  for (const { DATABASE_URL, OPERATOR_TOKEN } of [ingress, worker, simulator])
    assert.deepEqual([DATABASE_URL, OPERATOR_TOKEN], [undefined, undefined]);
  assert.equal(ingress.OPENAI_API_KEY, "configured");
  assert.equal(ingress.OTHER_TOKEN, "configured");
  assert.equal(ingress.OPERATOR_PASSWORD, "operator-secret");
  assert.equal(worker.OPENAI_API_KEY, "upstream-secret");
  assert.equal(worker.OPERATOR_PASSWORD, undefined);
  assert.equal(worker.REDIS_URL, redisUrl);
  assert.equal(worker.SIMULATOR_URL, simulatorUrl);
  assert.equal(ingress.SIMULATOR_URL, simulatorUrl);
  assert.equal(simulator.REDIS_URL, undefined);
  assert.equal(/secret|configured/.test(JSON.stringify(simulator)), false);
  const warning = "sluice: nothing reads the environment variable SLUICE_CATALOG; did you mean SLUICE_CATALOGUE?";
  assert.ok(gateway.output().error.includes(`${warning}\n`));
  assert.ok(!gateway.output().error.includes("elsewhere"));
  gateway.child.kill("SIGINT");
  assert.equal(await gateway.ended, 0);
});
