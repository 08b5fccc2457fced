import assert from "node:assert/strict";
import { mkdtemp, rename, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { Redis } from "ioredis";
import { connectRedis } from "#service/redis.ts";
import { until } from "../../support/gateway.ts";
import { startRedis } from "../../support/redis.ts";

/** An address that leads to the primary of the moment, as a name or a proxy does. */
const directory = await mkdtemp(join(tmpdir(), "primary-"));
const url = `unix://${join(directory, "primary.sock")}`;
const leadTo = async (server: string) => {
  await symlink(new URL(server).pathname, join(directory, "next.sock"));
  await rename(join(directory, "next.sock"), join(directory, "primary.sock"));
};
const servers = [await startRedis(), await startRedis()] as const;
const [first, second] = [await connectRedis(servers[0].url, "patient"), await connectRedis(servers[1].url, "patient")];
await leadTo(servers[0].url);
const [request, publisher] = [await connectRedis(url, "request"), await connectRedis(url, "request")];
const [patient, subscriber] = [await connectRedis(url, "patient"), await connectRedis(url, "patient")];
await subscriber.subscribe("news");
after(async () => {
  for (const redis of [first, second, request, publisher, patient, subscriber]) redis.disconnect();
  for (const server of servers) await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

/** The demoted one keeps its connections; there is nobody at the address that it is to follow. */
async function failOver(): Promise<Redis> {
  const [old, next, address] = (await first.role())[0] === "master" ? [first, second, servers[1].url] : [second, first, servers[0].url];
  await next.replicaof("NO", "ONE");
  await leadTo(address);
  await old.replicaof("127.0.0.1", "1");
  return next;
}
/** Two that settle as one, for a pipeline resolves whatever becomes of its commands. */
const settled = async (replies: Promise<[Error | null, unknown][] | null>) => {
  for (const [error] of (await replies) ?? []) if (error) throw error;
};

const writes: Record<string, (name: string) => Promise<unknown>> = {
  "a command that a caller waits for": (name) => request.set(name, 1),
  "a command that is patient": (name) => patient.set(name, 1),
  "a script": (name) => request.eval("redis.call('SET', KEYS[1], 1)", 1, name),
  "a pipeline": (name) => settled(request.pipeline().get(name).set(name, 1).get(name).exec()),
  "a transaction": (name) => settled(patient.multi().get(name).set(name, 1).exec()),
};
for (const [what, write] of Object.entries(writes))
  test(`${what} that meets a demoted Redis is refused, and all connections are made anew, to where the address leads now`, async () => {
    const primary = await failOver();
    await assert.rejects(write(what));
    await until("writes again", () =>
      write(what).then(
        () => true,
        () => false,
      ),
    );
    assert.equal(await primary.get(what), "1");
    await until("the subscription is there, too", async () => (await primary.publish("news", "")) === 1);
    await until("what is published reaches it", () =>
      publisher.publish("news", "").then(
        (count) => count === 1,
        () => false,
      ),
    );
  });

test("an error of another kind leaves the connections alone", async () => {
  let closed = 0;
  for (const redis of [request, subscriber]) redis.on("close", () => closed++);
  await request.set("text", "a");
  await assert.rejects(request.incr("text"), /not an integer/);
  await request.ping();
  await subscriber.ping();
  assert.equal(closed, 0);
});
