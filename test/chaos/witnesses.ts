/**
 * Both witnesses of a generation die: its ingress and its worker, in each order. The second one
 * writes what the first may not have written, without waiting for the relay's grace time.
 */
import assert from "node:assert/strict";
import { decodeUsageRecord, type UsageRecord } from "#ledger/usage-record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { within } from "../support/time.ts";

export const orders = [
  ["ingress", "worker"],
  ["worker", "ingress"],
] as const;

const answersSize = 64;
const streamsSize = 4;
const messages = [{ role: "user", content: "Hello" }];
/** Less than the time after which a process gives up another one that is silent. */
const noticedMs = 3_000;

const catalogue = catalogueOf([
  { id: "together", model: "sim-text;rate=0;first=500;tokens=8" },
  { id: "paced", model: "sim-text;rate=5;first=0;tokens=400" },
]);

export const startWitnesses = (environment: Record<string, string> = {}): Promise<Gateway> =>
  startGateway({ processes: "all", catalogue, workers: ["chat=100"], environment });

/** The request ids of streams that run, and of answers that ended a moment ago, all at once. */
export async function runOn(gateway: Gateway): Promise<{ streams: string[]; answers: string[] }> {
  const idOf = (response: Response) => response.headers.get("x-request-id") as string;
  const begin = async () => {
    const response = await gateway.post({ model: "paced", messages, stream: true });
    await response.body?.getReader().read();
    return idOf(response);
  };
  const ask = async () => {
    const response = await gateway.post({ model: "together", messages });
    assert.equal(response.status, 200, await response.text());
    return idOf(response);
  };
  const streams = await Promise.all(Array.from({ length: streamsSize }, begin));
  return { streams, answers: await Promise.all(Array.from({ length: answersSize }, ask)) };
}

/** The records that the stream of this Redis has now. */
export async function recordsIn(redisUrl: string): Promise<UsageRecord[]> {
  const redis = await connectRedis(redisUrl, "patient");
  try {
    const entries = await redis.xrange(keyspaceOf("sluice").usage, "-", "+");
    const lines = entries.flatMap(([, [, text = ""]]) => text.split("\n"));
    return lines.map((line) => decodeUsageRecord(JSON.parse(line)) ?? assert.fail(line));
  } finally {
    redis.disconnect();
  }
}

export async function missingOf(redisUrl: string, requestIds: readonly string[]): Promise<string[]> {
  const recorded = new Set((await recordsIn(redisUrl)).map(({ requestId }) => requestId));
  return requestIds.filter((id) => !recorded.has(id));
}

/** Rejects if a generation has no record in time. `redisUrl` replaces the gateway's own Redis. */
export async function assertWitnessed([first, second]: (typeof orders)[number], redisUrl?: string): Promise<void> {
  await using gateway = await startWitnesses(redisUrl === undefined ? {} : { REDIS_URL: redisUrl });
  const url = redisUrl ?? gateway.redis.url;
  const { streams, answers } = await runOn(gateway);
  const all = [...answers, ...streams];
  const roles = { ingress: gateway.ingresses[0], worker: gateway.workers[0] };
  await roles[first]?.kill();
  const areRecorded = async () => (await missingOf(url, all)).length === 0;
  await within(noticedMs, `the ${second} has written all records`, areRecorded);
  await roles[second]?.kill();
  assert.deepEqual(await missingOf(url, all), []);
}
