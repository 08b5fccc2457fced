/**
 * Whole workers inside the test's process, each with a real Redis, a scripted upstream, and an
 * owner that answers its frames.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { Registry } from "prom-client";
import { parseCatalogue } from "#catalogue/load.ts";
import { relayBounds } from "#relay/bounds.ts";
import { type Frame, type FrameKind, frameKinds, noPayload } from "#relay/frame.ts";
import { decodeData, type GenerationJob } from "#relay/job.ts";
import { openJobQueue } from "#relay/redis/job-queue.ts";
import { Mailbox } from "#relay/redis/mailbox.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { SecretFiles } from "#service/secret-files.ts";
import { loadWorkerConfig } from "../../apps/worker/config.ts";
import { workerRedisOf } from "../../apps/worker/redis.ts";
import { createAuthorization } from "../../apps/worker/upstream/authorization.ts";
import { Upstreams } from "../../apps/worker/upstream/upstreams.ts";
import { createWorker, type Worker } from "../../apps/worker/worker.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/time.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

interface WorkerOptions {
  redisUrl: string;
  namespace: string;
  upstreamUrl: string;
  queues?: string;
}

/** A worker with one upstream and one model, and the lines that it logs. */
async function workerOf({ redisUrl, namespace, upstreamUrl, queues = "chat=4" }: WorkerOptions) {
  const lines: { msg: string; [field: string]: unknown }[] = [];
  const environment = { REDIS_URL: redisUrl, SLUICE_NAMESPACE: namespace, DRAIN_MS: "1000" };
  const config = loadWorkerConfig(environment, ["--queues", queues]);
  const catalogue = parseCatalogue(
    Buffer.from(`groups: { default: { models: ["*"] } }
upstreams: { mine: { dialect: openai-chat, baseUrl: "${upstreamUrl}" } }
models: [{ id: m, retries: 0, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: mine, model: theirs }] }]
`),
    "catalogue.yaml",
    environment,
  );
  const worker: Worker = await createWorker(config, {
    log: pino({ level: "debug" }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    clock: systemClock,
    bounds: relayBounds,
    registry: new Registry(),
    redis: workerRedisOf(config),
    secrets: new SecretFiles(environment),
    upstreams: new Upstreams(createAuthorization(environment), environment),
    watchCatalogue: () => ({
      current: () => catalogue,
      inForceAs: () => catalogue,
      fault: () => undefined,
      put: () => undefined,
      revision: () => 0,
      file: () => new Uint8Array(),
      close() {},
    }),
  });
  return { worker, lines };
}

/**
 * An owner of one generation: it puts the job on the queue, binds the first worker that accepts,
 * and acknowledges the end.
 */
async function ask(redisUrl: string, namespace: string): Promise<string> {
  const keyspace = keyspaceOf(namespace);
  const redis = await connectRedis(redisUrl, "request");
  const { promise, resolve } = Promise.withResolvers<string>();
  const frames: { sender: string; frame: Frame }[] = [];
  const publisher = await connectRedis(redisUrl, "request");
  const subscriber = await connectRedis(redisUrl, "subscribe");
  const mailbox = new Mailbox({ publisher, subscriber }, keyspace, "ingress");
  await mailbox.listen({
    heard() {},
    receive(sender, frame) {
      frames.push({ sender, frame: { ...frame, payload: Buffer.from(frame.payload) } });
      if (frame.kind === frameKinds.accept) answer(sender, frameKinds.go);
      if (frame.kind !== frameKinds.end) return;
      answer(sender, frameKinds.done);
      const data = frames.filter((received) => received.frame.kind === frameKinds.data);
      resolve(data.map((received) => decodeData(received.frame.payload).bytes.toString()).join(""));
    },
    resubscribed() {},
    unreachable() {},
  });
  const answer = (sender: string, kind: FrameKind) =>
    mailbox.send(sender, { kind, number: 1, attempt: 1, seq: 0, payload: noPayload });
  const job: GenerationJob = {
    generation: "gen_1",
    owner: mailbox.self,
    number: 1,
    attempt: 1,
    dialect: "openai-chat",
    operation: "answer",
    framing: "whole",
    contentType: "application/json",
    headers: {},
    model: "m",
    group: "default",
    keyId: "key_1",
    admittedAt: systemClock.epoch(),
    body: '{"model":"m","messages":[{"role":"user","content":"hello"}]}',
  };
  const queue = await openJobQueue("chat", redis, keyspace, assert.ifError);
  try {
    queue.add(job, () => assert.fail("the queue refused the job"));
    return await promise;
  } finally {
    await mailbox.close();
    await queue.close();
    redis.disconnect();
  }
}

test("two workers with different configurations share a process and answer their own queues", async () => {
  await using redis = await startRedis();
  await using upstream = await startScriptedUpstream();
  upstream.answerWith(jsonAnswer(chatCompletion));
  const listeners = process.eventNames().map((name) => [name, process.listenerCount(name)]);
  const common = { redisUrl: redis.url, upstreamUrl: upstream.url };
  const workers = [
    await workerOf({ ...common, namespace: "one" }),
    await workerOf({ ...common, namespace: "other", queues: "chat=2,image=1" }),
  ];
  const urls = await Promise.all(workers.map(({ worker }) => worker.start()));
  assert.deepEqual(
    process.eventNames().map((name) => [name, process.listenerCount(name)]),
    listeners,
  );
  for (const [place, namespace] of ["one", "other"].entries()) {
    assert.equal(JSON.parse(await ask(redis.url, namespace)).choices[0].message.content, "hi");
    const { lines } = workers[place] as { lines: { msg: string }[] };
    await until("the end is logged", () => lines.some(({ msg }) => msg === "generation over"));
  }
  const metrics = await Promise.all(urls.map(async ({ operations }) => (await fetch(`${operations}/metrics`)).text()));
  assert.match(metrics[0] as string, /sluice_worker_capacity\{queue="chat"\} 4/);
  assert.match(metrics[1] as string, /sluice_worker_capacity\{queue="image"\} 1/);
  for (const text of metrics) {
    assert.match(text, /sluice_worker_generations_total\{queue="chat",outcome="done"\} 1/);
    assert.match(text, /sluice_upstream_calls_total\{upstream="mine",again="no"\} 1/);
    assert.match(text, /sluice_tokens_total\{model="m",kind="input"\} 3/);
    assert.match(text, /sluice_queue_wait_seconds_count\{queue="chat"\} 1/);
    assert.match(text, /sluice_upstream_first_token_seconds_count\{upstream="mine"\} 1/);
  }
  await Promise.all(workers.map(({ worker }) => worker.drain()));
  for (const { operations } of urls) {
    const response = await fetch(`${operations}/readyz`);
    assert.deepEqual(await response.json(), { status: "not ready", reason: "stopping" });
  }
  await Promise.all(workers.map(({ worker }) => worker.close()));
  await assert.rejects(fetch(`${urls[0]?.operations}/healthz`));
});

test("a worker whose Redis is missing fails to start and leaves nothing open", async () => {
  await using upstream = await startScriptedUpstream();
  await assert.rejects(
    workerOf({ redisUrl: "unix:///nowhere/redis.sock", namespace: "one", upstreamUrl: upstream.url }),
    /no Redis at/,
  );
});
