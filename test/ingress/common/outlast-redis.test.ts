import type { ServerResponse } from "node:http";
/**
 * Requests that read or change something in Redis by one command outlast a failure of it. The keys
 * of a cluster fail one by one.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { FastifyError, FastifyRequest } from "fastify";
import { Admission, type AdmissionOptions } from "../../../apps/ingress/admission/admission.ts";
import { DetachedGenerations, type DetachedOptions } from "../../../apps/ingress/background/detached.ts";
import { LogFollower, type LogFollowerOptions } from "../../../apps/ingress/background/log-follower.ts";
import type { ServedEndpoint } from "../../../apps/ingress/common/endpoints.ts";
import { failureOf, unavailable } from "../../../apps/ingress/common/failures.ts";
import { outlastRedis } from "../../../apps/ingress/common/outlast-redis.ts";
import { StoredAnswers, type StoredAnswersOptions } from "../../../apps/ingress/idempotency/stored-answers.ts";
import type { StoreOwner } from "../../../apps/ingress/stored/sealed-store.ts";
import type { ResolvedBody } from "../../../apps/ingress/stored/storing.ts";
import { partOf } from "../../support/part-of.ts";

const redisWait = { clock: { now: () => 0, epoch: () => 0 }, redisWaitMs: 1 };

/** Fails once, and then does it. */
function failsOnce<Result>(command: () => Result): () => Promise<Result> {
  let calls = 0;
  return async () => {
    if (calls++ === 0) throw new Error("Command timed out");
    return command();
  };
}

test("a request is unavailable when Redis is away for longer than it may wait", async () => {
  const away = outlastRedis({ ...redisWait, redisWaitMs: 0 }, () => Promise.reject(new Error("Command timed out")));
  await assert.rejects(away, (error: FastifyError) => failureOf(error) === unavailable);
});

test("a request that gets another one's answer outlasts a failure of its limits", async () => {
  const admitted = { kind: "admitted", headers: {} };
  const admission = new Admission(
    partOf<AdmissionOptions>({
      ...redisWait,
      catalogue: () => ({ modelFor: () => ({}) }),
      limits: { admitReplay: failsOnce(() => admitted) },
    }),
  );
  const request = partOf<FastifyRequest>({ caller: { group: "default" }, headers: {} });
  const endpoint = { dialect: "openai-chat" } as ServedEndpoint;
  assert.deepEqual(
    await admission.replay({ request, endpoint, model: "sim", response: partOf<ServerResponse>({}) }),
    admitted,
  );
});

test("the answer for an Idempotency-Key is stored when Redis fails at first, and its entry is not freed", async () => {
  const scripts: string[] = [];
  const run = failsOnce(() => 1);
  const command = (text: string | Buffer) => {
    scripts.push(String(text));
    return run();
  };
  const answers = new StoredAnswers(
    partOf<StoredAnswersOptions>({
      ...redisWait,
      redis: { eval: command, evalsha: command },
      keyspace: { idempotency: () => "entry", idempotencyStored: "stored", idempotencyBytes: "bytes" },
      space: { hasSpace: async () => true },
      windowMs: 1_000,
      keyBytesMax: 1_000,
      bytesMax: 1_000,
    }),
  );
  const claim = answers.claimOf("key_1", "hash", "fingerprint", "this request");
  await answers.store(claim, { status: 200, headers: {}, body: Buffer.from("{}") });
  assert.equal(scripts.length, 2);
  assert.match(scripts[0] as string, /HSET|SET/);
  assert.equal(/^[0-9a-f]{40}$/.test(scripts[1] as string), true, "the same script, by its hash");
});

test("a resumable stream begins when its lease fails at first", async () => {
  const begun: string[] = [];
  const detached = new DetachedGenerations(
    partOf<DetachedOptions>({
      ...redisWait,
      runs: { begin: failsOnce(() => undefined), end: async () => undefined },
      store: { put: async () => 1, remove: async () => true, append: async () => 1 },
      admission: {},
      generations: { begin: ({ model }: { model: string }) => void begun.push(model) },
    }),
  );
  const request = partOf<FastifyRequest>({ caller: { id: "key_1" }, apiKey: "sk-1", id: "req_1", headers: {} });
  const owner = partOf<StoreOwner>({ keyId: "key_1", sealing: { keysFor: () => ({}) } });
  const endpoint = partOf<ServedEndpoint>({
    dialect: "openai-chat",
    operation: "answer",
    path: "/v1/chat/completions",
  });
  const live = { once: () => undefined, closed: false } as never;
  const own = {
    model: "sim",
    answered: () => ({ framing: "sse" as const }),
  };
  const resolved = partOf<ResolvedBody>({ bytes: Buffer.from("{}"), body: {} });
  const source = { request, owner, endpoint, resolved, live, name: undefined, fingerprint: "f" };
  assert.deepEqual(await detached.beginResumable(source, own), { id: "gen_1", isNew: true });
  assert.deepEqual(begun, ["sim"]);
});

test("a stream is resumed when a read of its log fails at first", async () => {
  const follower = new LogFollower(
    partOf<LogFollowerOptions>({
      ...redisWait,
      // Only the reading of whole values outlasts Redis; that of parts is repeated by its loop.
      store: { read: async () => [{ value: Buffer.from("f"), version: 1 }], parts: failsOnce(() => undefined) },
      followers: { claim: () => ({ hold: () => undefined, end: () => undefined }) },
      runs: { has: async () => true },
    }),
  );
  let isTaken = false;
  const response = { once: () => undefined, headersSent: true, write: () => true, end: () => undefined, closed: false };
  const request = partOf<FastifyRequest>({ caller: { id: "key_1" }, url: "/v1/chat/completions", headers: {} });
  const reply = {
    raw: response,
    hijack() {
      isTaken = true;
    },
  };
  const position = { owner: {} as StoreOwner, id: "gen_1", after: 0 };
  assert.equal(await follower.follow(request, reply as never, position, unavailable), undefined);
  assert.ok(isTaken);
});
