/** A Redis that is 25 ms away in each direction, as in another region. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { after, test } from "node:test";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { startRedis } from "../support/redis.ts";
import { startTcpServer } from "../support/tcp.ts";

const awayMs = 25;
const redis = await startRedis();
after(() => redis[Symbol.asyncDispose]());

function carry(from: Socket, to: Socket): void {
  from.on("data", (chunk) => void setTimeout(() => to.write(chunk), awayMs));
  from.on("close", () => to.destroy());
}
const proxy = await startTcpServer((client) => {
  const server = connect(new URL(redis.url).pathname).on("error", () => client.destroy());
  carry(client, server);
  carry(server, client);
});
after(() => proxy[Symbol.asyncDispose]());

const gateway = await startGateway({
  workers: ["chat=512"],
  catalogue: catalogueOf([{ id: "slow", model: "sim-text;tokens=1;first=300;rate=0" }]),
  environment: { REDIS_URL: `redis://127.0.0.1:${proxy.port}` },
});
after(() => gateway[Symbol.asyncDispose]());

const ask = async () => {
  const response = await gateway.post({ model: "slow", messages: [{ role: "user", content: "hello" }] });
  await response.text();
  return response.status;
};

test("requests that come at once share the way to a far Redis", async () => {
  assert.equal(await ask(), 200);
  const startedAt = performance.now();
  const statuses = await Promise.all(Array.from({ length: 150 }, ask));
  const ms = performance.now() - startedAt;
  assert.deepEqual([...new Set(statuses)], [200]);
  assert.ok(ms < 200 * awayMs, `150 requests took ${ms} ms`);
});
