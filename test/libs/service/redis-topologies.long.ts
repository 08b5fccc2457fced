import assert from "node:assert/strict";
import { type EventEmitter, once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pino } from "pino";
import { decodeUsageRecord } from "#ledger/usage-record.ts";
import { UsageStream } from "#ledger/usage-stream.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis, type Redis, serversOf, usedMemoryShare } from "#service/redis.ts";
import { usageRecord } from "../../control/records.ts";
import { catalogueOf, startGateway } from "../../support/gateway.ts";
import type { SecurityOptions } from "../../support/redis-security.ts";
import {
  type Server,
  startCluster,
  startSentinels,
  startSingle,
  type Topology,
} from "../../support/redis-topologies.ts";
import { readStream } from "../../support/stream.ts";
import { until } from "../../support/time.ts";

/**
 * Writes and published messages work before a fail-over in order, after it, and after the death of
 * the primary.
 */
async function outlivesFailOvers(topology: Topology): Promise<void> {
  const request = await connectRedis(topology.url, "request");
  const subscriber = await connectRedis(topology.url, "subscribe");
  const heard: string[] = [];
  subscriber.on("smessage", (_channel: string, message: string) => heard.push(message));
  try {
    await subscriber.ssubscribe("news");
    const heardAgain = async (message: string) => {
      // A primary that is being replaced may take a write and lose it.
      await until("a write lasts", () =>
        request
          .set("news", message)
          .then(() => request.get("news"))
          .then(
            (value) => value === message,
            () => false,
          ),
      );
      await until("a message arrives", async () => {
        await request.spublish("news", message).catch(() => 0);
        return heard.includes(message);
      });
      assert.equal(await request.get("news"), message);
    };
    await heardAgain("at first");
    await topology.failOver("news");
    await heardAgain("after a planned fail-over");
    const primary = await topology.primaryOf("news");
    await primary.kill();
    await heardAgain("after the primary's death");
    assert.ok((await usedMemoryShare(request)) > 0);
  } finally {
    request.disconnect();
    subscriber.disconnect();
  }
}

test("Sentinels: connections follow the primary", async () => {
  await using sentinels = await startSentinels();
  await outlivesFailOvers(sentinels);
});

/** Usage records that are written all the time, while primaries change in order and by force. */
async function losesNoRecord(topology: Topology): Promise<void> {
  const keyspace = keyspaceOf("records");
  const directory = await mkdtemp(join(tmpdir(), "sluice-records-"));
  const redis = await connectRedis(topology.url, "request");
  redis.on("error", () => undefined);
  const stream = new UsageStream({ redis, keyspace, directory, log: pino({ level: "silent" }) });
  const written = new Set<string>();
  const writing = setInterval(() => {
    const generationId = `gen_${written.size}`;
    written.add(generationId);
    stream.write(usageRecord({ generationId }));
  }, 2);
  const soon = async () => {
    const { size } = written;
    await until("more was written", () => written.size > size + 500);
  };
  try {
    for (const fail of [topology.failOver, topology.failOver, killed]) {
      await soon();
      await fail(keyspace.usage);
      await soon();
      await topology.settled();
    }
    clearInterval(writing);
    await stream.flush();
    const missing = async () => {
      const entries = await redis.xrange(keyspace.usage, "-", "+");
      const lines = entries.flatMap(([, [, text = ""]]) => text.split("\n"));
      const ids = new Set(lines.map((line) => decodeUsageRecord(JSON.parse(line))?.generationId));
      return [...written].filter((id) => !ids.has(id)).length;
    };
    await until("every record is there", async () => (await missing()) === 0, 20_000);
  } finally {
    clearInterval(writing);
    await stream.close();
    redis.disconnect();
    await rm(directory, { recursive: true });
  }

  async function killed(key: string): Promise<void> {
    const primary = await topology.primaryOf(key);
    await primary.kill();
    await until(
      "another primary",
      async () => (await topology.primaryOf(key).catch(() => primary)) !== primary,
      20_000,
    );
    await primary.restart();
  }
}

test("Sentinels: no usage record is lost while primaries change", async () => {
  await using sentinels = await startSentinels();
  await losesNoRecord(sentinels);
});

test("a cluster: no usage record is lost while primaries change", async () => {
  await using cluster = await startCluster();
  await losesNoRecord(cluster);
});

test("Sentinels: a connection that is being opened again outlives the announcement of another primary", async () => {
  await using sentinels = await startSentinels();
  const redis = await connectRedis(sentinels.url, "patient");
  try {
    const { connector } = redis as Redis & { connector: { failoverDetector: Detector | null } };
    await until("it listens to the Sentinels", () => (connector.failoverDetector?.sentinels.length ?? 0) > 0);
    const [{ client }] = (connector.failoverDetector as Detector).sentinels;
    redis.once("connecting", () => client.emit("message", "+switch-master", ""));
    const primary = await sentinels.primaryOf("any");
    const announced = once(client, "message");
    await primary.ask((own) => own.call("CLIENT", "KILL", "TYPE", "normal"));
    await announced;
    assert.equal(await redis.ping(), "PONG");
  } finally {
    redis.disconnect();
  }
});

/** ioredis' listener to the announcements of Sentinels. */
interface Detector {
  sentinels: [{ client: EventEmitter }];
}

test("a cluster: connections follow the primaries, and commands without a key are asked of each", async () => {
  await using cluster = await startCluster();
  const redis = await connectRedis(cluster.url, "request");
  assert.equal(serversOf(redis).length, 3);
  redis.disconnect();
  await outlivesFailOvers(cluster);
});

test("a cluster that has lost most of its primaries is no Redis at start", async () => {
  await using cluster = await startCluster();
  const [first, ...others] = cluster.servers as [Server, ...Server[]];
  for (const server of others) server.pause();
  await until("the server knows it", async () =>
    /cluster_state:fail/.test(String(await first.ask((redis) => redis.cluster("INFO")))),
  );
  await assert.rejects(connectRedis(cluster.url, "request"), /no Redis at/);
  for (const server of others) server.resume();
});

const guide = readFileSync(join(import.meta.dirname, "../../../docs/redis.md"), "utf8");
const [user = "", sentinelUser = ""] = guide.split("\n").filter((line) => line.startsWith("user sluice "));
const users = { user, sentinelUser };
const encryptions: [string, SecurityOptions][] = [
  ["with the users of the guide", users],
  ["with the users of the guide, an own CA and certificates of clients", { ...users, hasTls: true }],
];
const catalogue = catalogueOf([
  { id: "fast", model: "sim-text;rate=0;first=0;tokens=8" },
  { id: "stream", model: "sim-text;rate=100;first=0;tokens=200" },
]);
const messages = [{ role: "user", content: "hello" }];

/**
 * A stream during a planned fail-over, whole answers before and after it; and no server refused a
 * command.
 */
async function servesThrough(topology: Topology, failOver: () => Promise<void>): Promise<void> {
  await using gateway = await startGateway({ catalogue, environment: { REDIS_URL: topology.url } });
  const key = await gateway.createKey("default", { limits: { requestsPerMinute: 1_000 } });
  const isAnswered = async () => {
    const response = await gateway.post({ model: "fast", messages }, { key });
    const { choices } = (await response.json()) as { choices?: unknown[] };
    assert.deepEqual([response.status, choices?.length], [200, 1]);
  };
  await isAnswered();
  const whole = await readStream(await gateway.post({ model: "stream", stream: true, messages }, { key }));
  let replaced: Promise<void> | undefined;
  const read = await readStream(await gateway.post({ model: "stream", stream: true, messages }, { key }), () => {
    replaced ??= failOver();
  });
  await replaced;
  assert.deepEqual([read.error, read.done, read.content], [undefined, true, whole.content]);
  await isAnswered();
  await topology.settled();
  for (const server of topology.servers)
    assert.deepEqual(await server.ask((redis) => redis.call("ACL", "LOG")), [], "no command was refused");
}

for (const [name, security] of encryptions) {
  test(`one server ${name}: the gateway serves`, async () => {
    await using single = await startSingle({ security });
    await servesThrough(single, async () => undefined);
  });

  test(`Sentinels ${name}: the gateway serves through a planned fail-over`, async () => {
    await using sentinels = await startSentinels({ security });
    await servesThrough(sentinels, () => sentinels.failOver("any"));
  });

  test(`a cluster ${name}: the gateway serves through a planned fail-over`, async () => {
    await using cluster = await startCluster({ security });
    await servesThrough(cluster, () => cluster.failOver(keyspaceOf("sluice").queuePrefix("chat")));
  });
}
