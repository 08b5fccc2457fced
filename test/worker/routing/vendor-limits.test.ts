/** The limits that vendors state, which workers share through one Redis. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { blockShare, firstOutputTokens } from "../../../apps/worker/bounds.ts";
import { type VendorCall, VendorLimits } from "../../../apps/worker/routing/vendor-limits.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const server = await startRedis();
const connections = [await connectRedis(server.url, "request"), await connectRedis(server.url, "request")];
after(() => {
  for (const connection of connections) connection.disconnect();
  return server[Symbol.asyncDispose]();
});

/** Workers of one gateway, with the number of what they announced. */
function startWorkers() {
  const time = { now: 0 };
  let announcements = 0;
  const workers: VendorLimits[] = connections.map(
    (redis) =>
      new VendorLimits({
        redis,
        keyspace: keyspaceOf("sluice"),
        clock: { now: () => time.now, epoch: () => Date.now() },
        announce(text) {
          announcements++;
          for (const worker of workers) worker.hear(text);
        },
      }),
  );
  return { workers: workers as [VendorLimits, VendorLimits], time, announced: () => announcements };
}

const take = (worker: VendorLimits, id: string, inputTokens = 0, outputTokensMax?: number) =>
  worker.take(id, "127.0.0.1", { inputTokens, outputTokensMax });

async function call(worker: VendorLimits, id: string, inputTokens = 0, outputTokensMax?: number): Promise<VendorCall> {
  const taken = await take(worker, id, inputTokens, outputTokensMax);
  return typeof taken === "number" ? assert.fail(`has to wait for ${taken} ms`) : taken;
}

async function waitOf(worker: VendorLimits, id: string, inputTokens = 0): Promise<number> {
  const taken = await take(worker, id, inputTokens);
  return typeof taken === "number" ? taken : assert.fail("may be called");
}

const stated = (what: "requests" | "tokens", [max, remaining, reset]: readonly [number, number, string]) => ({
  [`x-ratelimit-limit-${what}`]: String(max),
  [`x-ratelimit-remaining-${what}`]: String(remaining),
  [`x-ratelimit-reset-${what}`]: reset,
});

const fullOf = (worker: VendorLimits): string[] =>
  worker.scarcest().flatMap(({ target, waitMs }) => (waitMs > 0 ? [target] : []));

const commandsOf = async () => {
  const text = await (connections[0] as (typeof connections)[number]).info("commandstats");
  return [...text.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
};

test("while nothing is known of a target, and nothing is stated, calls cost no command and no promise", async () => {
  const { workers, announced } = startWorkers();
  const before = await commandsOf();
  for (let count = 0; count < 100; count++) {
    const taken = take(workers[0], "free", 1_000);
    assert.ok(!(taken instanceof Promise) && typeof taken !== "number");
    taken.answered({ "content-type": "application/json" });
    taken.over({ inputTokens: 1, cachedInputTokens: 0, outputTokens: 1 });
  }
  assert.deepEqual([await commandsOf(), announced()], [before, 0]);
});

test("workers together send what is left and no more, and each asks Redis once until the reset", async () => {
  const { workers, announced } = startWorkers();
  const [one] = workers;
  (await call(one, "few")).answered(stated("requests", [10, 9, "40s"]));
  assert.equal(announced(), 1);
  const taken = await Promise.all(
    Array.from({ length: 60 }, (_, index) => take(workers[index % 2] as VendorLimits, "few")),
  );
  const waits = taken.filter((one) => typeof one === "number");
  assert.equal(taken.length - waits.length, 9);
  for (const waitMs of waits) assert.ok(waitMs > 38_000 && waitMs <= 40_000, `${waitMs} ms`);
  const before = await commandsOf();
  for (let count = 0; count < 100; count++) await waitOf(workers[count % 2] as VendorLimits, "few");
  assert.equal(await commandsOf(), before, "nothing changes before the reset");
  assert.deepEqual(
    workers.map((worker) => fullOf(worker)),
    [["few"], ["few"]],
  );
});

test("a large limit is used in blocks: a command for many calls", async () => {
  const { workers, announced } = startWorkers();
  const [one] = workers;
  (await call(one, "large")).answered(stated("requests", [3_200, 3_199, "60s"]));
  const before = await commandsOf();
  let left = 3_199;
  for (let count = 0; count < 500; count++) {
    const made = await call(one, "large");
    made.answered(stated("requests", [3_200, --left, "59s"]));
    made.over({ inputTokens: 1, cachedInputTokens: 0, outputTokens: 1 });
  }
  const commands = (await commandsOf()) - before;
  assert.ok(commands <= 500 / ((3_200 / blockShare) * 0.8) + 1, `${commands} commands`);
  assert.equal(announced(), 1, "own use is no news");
});

test("a limit that was used elsewhere is known to all workers at once", async () => {
  const { workers } = startWorkers();
  const [one, other] = workers;
  (await call(one, "foreign")).answered(stated("requests", [640, 600, "60s"]));
  const made = await call(other, "foreign");
  await call(one, "foreign");
  made.answered(stated("requests", [640, 0, "30s"]));
  await until("both wait", async () => (await take(one, "foreign")) !== undefined && fullOf(one).includes("foreign"));
  assert.ok((await waitOf(other, "foreign")) <= 30_000);
});

test("tokens: a call waits for what it needs, and smaller ones go", async () => {
  const { workers } = startWorkers();
  const [one, other] = workers;
  (await call(one, "tokens")).answered(stated("tokens", [10_000, 4_000, "20s"]));
  assert.ok((await waitOf(one, "tokens", 5_000)) > 19_000);
  const made = await call(one, "tokens", 1_000);
  // The estimate is for an answer of the first length; the vendor counts less.
  made.over({ inputTokens: 900, cachedInputTokens: 0, outputTokens: 100 });
  await call(one, "tokens", 500);
  assert.ok((await waitOf(other, "tokens", 4_000 - 1_000 - firstOutputTokens)) > 19_000);
});

test("a vendor that counts the most that an answer may have gives nothing back", async () => {
  const { workers } = startWorkers();
  const [one] = workers;
  (await call(one, "reserved")).answered(stated("tokens", [10_000, 4_000, "20s"]));
  (await call(one, "reserved", 1_000, 2_000)).over({ inputTokens: 1_000, cachedInputTokens: 0, outputTokens: 10 });
  assert.equal(typeof (await take(one, "reserved", 1_000, 1_000)), "number");
  await call(one, "reserved", 500, 500);
});

test("operators see the scarcest limit of a target, with what time has brought back", async () => {
  const { workers, time } = startWorkers();
  const [one, other] = workers;
  const headers = { ...stated("requests", [100, 50, "40s"]), ...stated("tokens", [1_000, 200, "20s"]) };
  (await call(one, "shown")).answered(headers);
  const shown = { target: "shown", limit: "tokens", max: 1_000, remaining: 200, waitMs: 0 };
  for (const worker of [one, other]) assert.deepEqual(worker.scarcest(), [shown]);
  time.now += 20_000;
  assert.deepEqual(other.scarcest(), [{ ...shown, limit: "requests", max: 100, remaining: 50 }]);
  const refilled = await one.take("refilling", "api.openai.com", { inputTokens: 0, outputTokensMax: undefined });
  assert.ok(typeof refilled !== "number");
  refilled.answered(stated("requests", [600, 0, "60s"]));
  time.now += 6_000;
  assert.equal(one.scarcest().find(({ target }) => target === "refilling")?.remaining, 60);
});

test("a vendor that states its limits only later is heard", async () => {
  const { workers } = startWorkers();
  const [one] = workers;
  for (let count = 0; count < 3; count++) (await call(one, "later")).answered({ "content-type": "application/json" });
  (await call(one, "later")).answered(stated("requests", [10, 0, "30s"]));
  assert.ok((await waitOf(one, "later")) > 0);
});

test("a limit that the vendor raises is raised at once", async () => {
  const { workers } = startWorkers();
  const [one] = workers;
  const made = [await call(one, "raised"), await call(one, "raised")];
  made[0]?.answered(stated("requests", [10, 0, "40s"]));
  await waitOf(one, "raised");
  made[1]?.answered(stated("requests", [100, 90, "39s"]));
  await until("calls go", async () => typeof (await take(one, "raised")) !== "number");
});

test("calls that were under way when a limit became known count", async () => {
  const { workers } = startWorkers();
  const [one, other] = workers;
  const first = await call(one, "new");
  for (let count = 0; count < 3; count++) await call(other, "new");
  first.answered(stated("requests", [6, 5, "30s"]));
  const taken = await Promise.all(Array.from({ length: 10 }, () => take(one, "new")));
  assert.equal(taken.filter((made) => typeof made !== "number").length, 2);
});

test("a limit that time refills lets one more call go as soon as it is there", async () => {
  const { workers, time } = startWorkers();
  const [one] = workers;
  const made = await one.take("refilled", "api.openai.com", { inputTokens: 0, outputTokensMax: undefined });
  assert.ok(typeof made !== "number");
  made.answered(stated("requests", [600, 0, "60s"]));
  const waitMs = await waitOf(one, "refilled");
  assert.ok(waitMs > 0 && waitMs <= 100, `600 in a minute are one in 100 ms, not in ${waitMs} ms`);
  time.now += waitMs;
  await until("there is one", async () => {
    const taken = await take(one, "refilled");
    if (typeof taken === "number") time.now += taken;
    return typeof taken !== "number";
  });
});

test("without Redis calls go, and limits that Redis lost are learnt again", async () => {
  const { workers } = startWorkers();
  const [one] = workers;
  (await call(one, "lost")).answered(stated("requests", [10, 0, "30s"]));
  await waitOf(one, "lost");
  await (connections[0] as (typeof connections)[number]).flushall();
  const { workers: others } = startWorkers();
  others[0].hear(
    JSON.stringify([
      "another",
      "lost",
      [
        {
          name: "requests",
          counts: "requests",
          max: 10,
          remaining: 9,
          periodMs: 60_000,
          isRefilled: false,
          countsCachedTokens: true,
        },
      ],
    ]),
  );
  await call(others[0], "lost");
  assert.ok(!others[0].has("lost"));
});
