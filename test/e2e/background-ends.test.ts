/**
 * Every background response comes to an end that a poll shows: while Redis is nearly full or full,
 * and when Redis has lost that it was over.
 */
import assert from "node:assert/strict";
import { after, afterEach, test } from "node:test";
import type { Response } from "openai/resources/responses/responses";
import { decodeUsageRecord, type UsageRecord } from "#ledger/usage-record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { socketCatalogue } from "./socket-support.ts";

const gateway = await startGateway({
  ingresses: 2,
  workers: ["chat=16,background=16"],
  catalogue: socketCatalogue({
    sim: "sim-text;rate=0",
    paced: "sim-text;rate=80;tokens=30;first=0",
    endless: "sim-text;rate=20;tokens=5000;first=0",
    breaking: "sim-text;rate=80;tokens=30;error=20;first=0",
  }),
});
const redis = await connectRedis(gateway.redis.url, "patient");
const keyspace = keyspaceOf("sluice");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
});
afterEach(() => redis.config("SET", "maxmemory", "0"));

const client = gateway.client();
const elsewhere = gateway.client({ url: gateway.ingresses[1]?.urls.api as string });

async function polled(id: string, ...statuses: string[]): Promise<Response> {
  let response = await elsewhere.responses.retrieve(id);
  await until(`the response is ${statuses.join(" or ")}`, async () => {
    response = await elsewhere.responses.retrieve(id);
    return statuses.includes(String(response.status));
  });
  return response;
}

const begin = async (model: string, stream: boolean): Promise<string> => {
  const create = { model, input: "Hello there.", background: true } as const;
  if (!stream) return (await client.responses.create(create)).id;
  for await (const event of await client.responses.create({ ...create, stream: true }))
    if (event.type === "response.created") return event.response.id;
  throw new Error("no response was created");
};

/** How full Redis is, from now on. */
const fills: Record<string, () => Promise<unknown>> = {
  "more than half full": async () => {
    const used = Number(/used_memory:(\d+)/.exec(await redis.info("memory"))?.[1]);
    await redis.config("SET", "maxmemory", String(Math.round(used * 1.4)));
  },
  full: () => redis.config("SET", "maxmemory", "100kb"),
};

for (const [name, fill] of Object.entries(fills))
  for (const stream of [false, true]) {
    const how = `${stream ? "a stream" : "an answer"} that ends while Redis is ${name}`;
    test(`${how} is stored`, async () => {
      const id = await begin("paced", stream);
      await polled(id, "in_progress");
      await fill();
      const response = await polled(id, "completed", "failed");
      assert.equal(response.status, "completed");
      assert.match(response.output_text, /^You said: Hello there\./);
    });

    test(`${how} with an error is stored as failed`, async () => {
      const id = await begin("breaking", stream);
      await polled(id, "in_progress");
      await fill();
      assert.ok((await polled(id, "completed", "failed")).error?.message);
    });

    test(`${stream ? "a stream" : "an answer"} is cancelled while Redis is ${name}`, async () => {
      const id = await begin("endless", stream);
      await polled(id, "in_progress");
      await fill();
      assert.equal((await elsewhere.responses.cancel(id)).status, "cancelled");
      assert.equal((await client.responses.retrieve(id)).status, "cancelled");
    });
  }

/** The only run, as Redis has it. */
async function runNow(): Promise<{ member: string; name: string; dump: Buffer }> {
  let member = "";
  await until("it runs", async () => {
    member = (await redis.zrange(keyspace.runs, "0", "-1"))[0] ?? "";
    return member !== "";
  });
  const name = keyspace.run(member);
  return { member, name, dump: (await redis.dumpBuffer(name)) as Buffer };
}

/** Redis has the run again, without a lease. */
async function lostEnd({ member, name, dump }: Awaited<ReturnType<typeof runNow>>): Promise<void> {
  await redis.restore(name, 0, dump, "REPLACE");
  await redis.zadd(keyspace.runs, 0, member);
}

const runsEnd = () => until("the run is over", async () => (await redis.zcard(keyspace.runs)) === 0);

async function recordsOf(generationId: string): Promise<UsageRecord[]> {
  const entries = await redis.xrange(keyspace.usage, "-", "+");
  return entries
    .flatMap(([, [, lines = ""]]) => lines.split("\n").filter((line) => line !== ""))
    .map((line) => decodeUsageRecord(JSON.parse(line)))
    .filter((record) => record?.generationId === generationId) as UsageRecord[];
}

for (const stream of [false, true])
  test(`${stream ? "a stream" : "an answer"} that was over does not run again when Redis has lost that`, async () => {
    await runsEnd();
    const id = await begin("paced", stream);
    const run = await runNow();
    const before = await polled(id, "completed");
    await runsEnd();
    const calls = (await gateway.seen("sim-text;rate=80;tokens=30;first=0")).length;
    await lostEnd(run);
    await runsEnd();
    assert.deepEqual(await client.responses.retrieve(id), before);
    assert.equal((await gateway.seen("sim-text;rate=80;tokens=30;first=0")).length, calls);
  });

test("an answer whose end Redis has lost runs again, and is charged as one", async () => {
  await runsEnd();
  const id = await begin("paced", false);
  const run = await runNow();
  await polled(id, "in_progress");
  const entry = keyspace.storedEntry(run.member.split(" ")[0] as string, id);
  const unended = (await redis.dumpBuffer(entry)) as Buffer;
  await polled(id, "completed");
  await runsEnd();
  const { requestId } = JSON.parse((await redis.hget(run.name, "run")) ?? '{"requestId":""}');
  assert.equal(requestId, "");
  await redis.restore(entry, 0, unended, "REPLACE");
  await lostEnd(run);
  await polled(id, "completed");
  await runsEnd();
  const generationId = `gen_${JSON.parse(await runText(run.dump, run.name)).requestId.replace("req_", "")}`;
  await until("both are recorded", async () => (await recordsOf(generationId)).length === 2);
  const [first, second] = await recordsOf(generationId);
  assert.ok(first !== undefined && second !== undefined);
  assert.deepEqual([first.receivedAt, first.isOwner, first.cost], [second.receivedAt, second.isOwner, second.cost]);
  assert.ok(second.attempt > first.attempt);
  assert.ok(Number(second.cost) > 0);
});

async function runText(dump: Buffer, name: string): Promise<string> {
  await redis.restore(`${name}:copy`, 0, dump, "REPLACE");
  const text = (await redis.hget(`${name}:copy`, "run")) as string;
  await redis.del(`${name}:copy`);
  return text;
}
