import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { connect } from "node:net";
import { after, test } from "node:test";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { contentsOf } from "./support.ts";

const text = (settings: string) => `sim-text;${settings}`;
const paced = text("rate=50;tokens=5000;first=0");
const silent = text("first=60000");
const headless = text("head=60000");
const fast = text("rate=0;first=0");
const gateway = await startGateway({
  workers: ["chat=8"],
  catalogue: `queues:\n  fragile: {}\n  short: { waitMs: 1200 }\n  narrow: { waitingMax: 2, waitMs: 60000 }\n${catalogueOf(
    [
      { id: "paced", model: paced },
      { id: "silent", model: silent },
      { id: "headless", model: headless },
      { id: "fast", model: fast },
      { id: "unserved", model: text("tokens=1"), queue: "image" },
      { id: "impatient", model: text("tokens=1"), queue: "short" },
      { id: "fragile", model: headless, queue: "fragile" },
      { id: "crowded", model: text("tokens=1"), queue: "narrow" },
    ],
  )}`,
});
const redis: Redis = await connectRedis(gateway.redis.url, "patient");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
});
const client = gateway.client();
const metricsText = () => metricsOf(gateway.ingresses[0]);
const messages = [{ role: "user" as const, content: "hello" }];

/** The time in which others notice that a caller's process is gone; leaving is noticed sooner. */
const graceMs = 5_000;

/** Leaves in the way given, and checks that the upstream was hung up on at once. */
async function leave(name: string, model: string, stream: boolean, afterChunks: number): Promise<void> {
  const before = (await gateway.seen(name)).length;
  const controller = new AbortController();
  const outcome = (async () => {
    const completion = await client.chat.completions.create({ model, messages, stream }, { signal: controller.signal });
    let chunks = 0;
    if (Symbol.asyncIterator in completion)
      for await (const _ of completion) if (++chunks === afterChunks) controller.abort();
  })().catch((error: unknown) => error);
  await until("the upstream was asked", async () => (await gateway.seen(name)).length > before);
  if (afterChunks === 0) controller.abort();
  await outcome;
  const leftAt = Date.now();
  const entry = async () => (await gateway.seen(name))[before];
  await until("the upstream was hung up on", async () => (await entry())?.outcome !== "running");
  const { outcome: ending, closedAt = 0 } = (await entry()) ?? {};
  assert.equal(ending, "client-closed");
  assert.ok(closedAt - leftAt < graceMs, `${closedAt - leftAt} ms`);
}

test("a caller that leaves in mid-stream ends its upstream call", () => leave(paced, "paced", true, 5));
test("a caller that leaves before the first token ends its upstream call", () => leave(silent, "silent", true, 0));
test("a caller that leaves before the upstream's head ends its upstream call", () =>
  leave(headless, "headless", true, 0));
test("a caller that leaves before a whole answer is complete ends its upstream call", () =>
  leave(paced, "paced", false, 0));

test("requests whose callers left are counted, and hold no capacity", async () => {
  await until("all is over", async () => {
    const metrics = await metricsText();
    return (
      /sluice_ended_generations_total\{queue="chat",outcome="left"\} 4\n/.test(metrics) &&
      /sluice_requests_total\{path="\/v1\/chat\/completions",status="499"\} 4\n/.test(metrics) &&
      /sluice_generations\{queue="chat",state="running"\} 0\n/.test(metrics) &&
      /sluice_bodies_bytes 0\n/.test(metrics)
    );
  });
});

test("output for a caller that left is counted once, approximately", async () => {
  const metrics = await metricsOf(gateway.workers[0]);
  const counted = (kind: string) =>
    Number(new RegExp(`sluice_tokens_total\\{model="paced",kind="${kind}"\\} (\\d+)`).exec(metrics)?.[1] ?? 0);
  const sent = (await gateway.seen(paced))[0]?.chunksSent ?? 0;
  // The first of its five pieces was the stream's opening, which says nothing; long words count for
  // more than one token.
  assert.ok(counted("output") >= 4 && counted("output") <= 1.5 * sent, `${counted("output")} of ${sent}`);
  assert.ok(counted("input") > 5 && counted("input") < 60, String(counted("input")));
});

const isWaiting = async () => /sluice_generations\{queue="image",state="waiting"\} 1\n/.test(await metricsText());
const jobsOf = async (queue: string) => (await redis.keys(`*:queue:${queue}}:${queue}:gen_*`)).length;

test("a caller that leaves while it waits for a worker leaves no job behind, and no upstream is called", async () => {
  const controller = new AbortController();
  const outcome = gateway.post({ model: "unserved", messages }, { signal: controller.signal }).catch(() => undefined);
  await until("it waits", async () => (await isWaiting()) && (await jobsOf("image")) === 1);
  controller.abort();
  await outcome;
  await until("the job is gone", async () => (await jobsOf("image")) === 0);
  assert.deepEqual(await gateway.seen(text("tokens=1")), []);
});

const picture = `data:image/png;base64,${randomBytes(6 << 20).toString("base64")}`;
const largeBody = (model: string) =>
  JSON.stringify({
    model,
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: picture } },
        ],
      },
    ],
  });
const marker = picture.slice(-2_000, -1_900);
const holdsMarker = async () => (await contentsOf(redis)).includes(marker);

test("a body of eight megabytes reaches the upstream intact, and is deleted everywhere", async () => {
  const body = largeBody("fast");
  assert.ok(body.length > 8 << 20);
  const response = await gateway.post(body);
  assert.match(await response.text(), /image\/png, 6291456 bytes/);
  const expected = body.replace('"model":"fast"', `"model":"${fast}"`);
  const [seen] = await gateway.seen(fast);
  assert.equal(seen?.bodyBytes, expected.length);
  assert.equal(seen?.bodySha256, createHash("sha256").update(expected).digest("hex"));
  await until("Redis holds nothing of it", async () => !(await holdsMarker()));
  await until("the ingress holds nothing of it", async () => /sluice_bodies_bytes 0\n/.test(await metricsText()));
});

test("a large body whose caller leaves, waiting or running, is deleted everywhere", async () => {
  for (const model of ["unserved", "silent"]) {
    const controller = new AbortController();
    const outcome = gateway.post(largeBody(model), { signal: controller.signal }).catch(() => undefined);
    if (model === "unserved")
      await until("it waits in Redis", async () => (await isWaiting()) && (await holdsMarker()));
    else await until("the upstream has it", async () => (await gateway.seen(silent)).at(-1)?.outcome === "running");
    for (const key of await redis.keys("*:body:*")) {
      const lifeMs = await redis.pttl(key);
      assert.ok(lifeMs > 0 && lifeMs <= 120_000, "it would not outlive its owner for long");
    }
    controller.abort();
    await outcome;
    await until(`Redis holds nothing of it (${model})`, async () => !(await holdsMarker()));
    await until("the ingress holds nothing of it", async () => /sluice_bodies_bytes 0\n/.test(await metricsText()));
  }
});

test("memory of bodies whose callers leave during the upload is released", async () => {
  const { hostname, port } = new URL(gateway.url);
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.key}\r\nContent-Type: application/json\r\n`;
  for (const length of ["Content-Length: 5000000", "Transfer-Encoding: chunked"]) {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined);
    socket.write(`${head}${length}\r\n\r\n5\r\n{"a":`);
    await until("the bytes are counted", async () => !/sluice_bodies_bytes 0\n/.test(await metricsText()));
    socket.destroy();
    await until("the bytes are given back", async () => /sluice_bodies_bytes 0\n/.test(await metricsText()));
  }
});

/** From a second to a minute. */
const retryAfter = /^([1-9]|[1-5]\d|60)$/;

async function assertOverloaded(response: Response): Promise<void> {
  assert.equal(response.status, 503);
  assert.match(response.headers.get("retry-after") ?? "", retryAfter);
  assert.match(await response.text(), /"code":"server_is_overloaded"/);
}

test("no request waits longer than its queue allows", async () => {
  const startedAt = performance.now();
  const waiting = [false, true].map((stream) => gateway.post({ model: "impatient", messages, stream }));
  for (const response of await Promise.all(waiting)) await assertOverloaded(response);
  const ms = performance.now() - startedAt;
  // A queue's own limit is a minute.
  assert.ok(ms >= 1_200 && ms < 20_000, `${ms} ms`);
  await until("no job is left", async () => (await jobsOf("short")) === 0);
});

test("no more requests wait than the queue allows", async () => {
  const bothWait = async () => /sluice_generations\{queue="narrow",state="waiting"\} 2\n/.test(await metricsText());
  const controller = new AbortController();
  const waiting = [false, true].map((stream) =>
    gateway.post({ model: "crowded", messages, stream }, { signal: controller.signal }).catch(() => undefined),
  );
  await until("both wait", bothWait);
  await assertOverloaded(await gateway.post({ model: "crowded", messages }));
  assert.ok(await bothWait());
  controller.abort();
  await Promise.all(waiting);
  await until("no job is left", async () => (await jobsOf("narrow")) === 0);
});

test("x-sluice-max-wait counts from the beginning, also when the worker is lost", async () => {
  const doomed = await gateway.addWorker("fragile=4", {}, true);
  const before = (await gateway.seen(headless)).length;
  const startedAt = performance.now();
  const waits = [1_000, 8_000];
  const responses = waits.map(async (waitMs) => {
    const response = await gateway.post(
      { model: "fragile", messages },
      { headers: { "x-sluice-max-wait": String(waitMs) } },
    );
    return { response, ms: performance.now() - startedAt };
  });
  await until(
    "both run, and their jobs are done",
    async () => (await gateway.seen(headless)).length === before + 2 && (await jobsOf("fragile")) === 0,
  );
  await doomed.kill();
  const [past, ahead] = await Promise.all(responses);
  // The first one's time is over when the loss is noticed; the second one waits for the rest of its
  // time.
  await assertOverloaded(past?.response as Response);
  await assertOverloaded(ahead?.response as Response);
  assert.ok(Number(ahead?.ms) >= 8_000, `${ahead?.ms} ms`);
  // Waits that began anew with the loss would end seven seconds apart.
  const apartMs = Number(ahead?.ms) - Number(past?.ms);
  assert.ok(apartMs < 6_500, `${apartMs} ms`);
  await until("no job is left", async () => (await jobsOf("fragile")) === 0);
});

test("queue settings that Redis lost are written again", async () => {
  const [meta = ""] = await redis.keys("*:queue:chat}:chat:meta");
  assert.equal(await redis.hget(meta, "opts.maxLenEvents"), "0");
  await redis.del(meta);
  await until("they are there", async () => (await redis.hget(meta, "opts.maxLenEvents")) === "0", 15_000);
});
