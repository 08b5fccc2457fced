import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { soonFrameMs } from "#relay/bounds.ts";
import { decodeEnvelope, encodeEnvelope, type Frame, frameKinds, noPayload } from "#relay/frame.ts";
import { Mailbox } from "#relay/redis/mailbox.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { protocols } from "#service/protocol.ts";
import { connectRedis, type Redis } from "#service/redis.ts";
import { startFailover } from "../../../support/failover.ts";
import { startRedis } from "../../../support/redis.ts";
import { until } from "../../../support/time.ts";

const keyspace = keyspaceOf("mailbox-test");

interface Heard {
  heartbeats: string[];
  frames: { sender: string; frame: Frame }[];
  resubscriptions: number;
  unreachable: string[];
}

async function open(url: string, role: string): Promise<{ mailbox: Mailbox; heard: Heard; subscriber: Redis }> {
  const heard: Heard = { heartbeats: [], frames: [], resubscriptions: 0, unreachable: [] };
  const publisher = await connectRedis(url, "request");
  const subscriber = await connectRedis(url, "subscribe");
  const mailbox = new Mailbox({ publisher, subscriber }, keyspace, role);
  await mailbox.listen({
    heard: (sender) => heard.heartbeats.push(sender),
    receive: (sender, frame) => heard.frames.push({ sender, frame: { ...frame, payload: Buffer.from(frame.payload) } }),
    resubscribed: () => heard.resubscriptions++,
    unreachable: (mailbox) => heard.unreachable.push(mailbox),
  });
  return { mailbox, heard, subscriber };
}

const frameOf = (seq: number, payload: Buffer = noPayload): Frame => ({
  kind: frameKinds.data,
  number: 7,
  attempt: 1,
  seq,
  payload,
});

test("frames of one turn of the event loop leave in one envelope, in order", async () => {
  await using redis = await startRedis();
  const one = await open(redis.url, "ingress");
  const other = await open(redis.url, "worker");
  for (let seq = 0; seq < 100; seq++) other.mailbox.send(one.mailbox.self, frameOf(seq, Buffer.from(`piece ${seq}`)));
  await until("all arrive", () => one.heard.frames.length === 100);
  assert.deepEqual(one.heard.heartbeats, [other.mailbox.self]);
  assert.equal(other.mailbox.statistics.publishes, 1);
  for (const [seq, { sender, frame }] of one.heard.frames.entries()) {
    assert.equal(sender, other.mailbox.self);
    assert.deepEqual(frame, frameOf(seq, Buffer.from(`piece ${seq}`)));
  }
  await Promise.all([one.mailbox.close(), other.mailbox.close()]);
});

test("frames that gather while an envelope is on its way leave in few envelopes, none above its bound", async () => {
  await using redis = await startRedis();
  const one = await open(redis.url, "ingress");
  const other = await open(redis.url, "worker");
  const payload = Buffer.alloc(60_000, 1);
  for (let seq = 0; seq < 50; seq++) other.mailbox.send(one.mailbox.self, frameOf(seq, payload));
  await until("all arrive", () => one.heard.frames.length === 50);
  assert.deepEqual(
    one.heard.frames.map(({ frame }) => frame.seq),
    Array.from({ length: 50 }, (_, seq) => seq),
  );
  assert.ok(
    other.mailbox.statistics.publishes >= 12 && other.mailbox.statistics.publishes <= 17,
    `${other.mailbox.statistics.publishes} envelopes`,
  );
  await Promise.all([one.mailbox.close(), other.mailbox.close()]);
});

test("a frame that nobody waits for leaves with an urgent one, or alone a little later, and frames keep their order", async () => {
  await using redis = await startRedis();
  const one = await open(redis.url, "ingress");
  const other = await open(redis.url, "worker");
  const seqs = () => one.heard.frames.map(({ frame }) => frame.seq);
  other.mailbox.send(one.mailbox.self, frameOf(0), "idle");
  other.mailbox.send(one.mailbox.self, frameOf(1));
  await until("both arrive", () => one.heard.frames.length === 2);
  assert.equal(other.mailbox.statistics.publishes, 1);
  other.mailbox.send(one.mailbox.self, frameOf(2), "idle");
  await until("the third arrives", () => one.heard.frames.length === 3);
  const payload = Buffer.alloc(60_000, 1);
  const count = 2_000;
  await new Promise<void>((resolve) => {
    let sent = 3;
    const more = () => {
      for (let some = 0; some < 7 && sent < count; some++)
        other.mailbox.send(
          one.mailbox.self,
          frameOf(sent, sent % 50 === 0 ? payload : undefined),
          sent++ % 3 === 0 ? "idle" : "prompt",
        );
      if (sent === count) resolve();
      else if (sent % 2 === 0) setTimeout(more, sent % 4);
      else setImmediate(more);
    };
    more();
  });
  await until("all arrive", () => one.heard.frames.length === count);
  assert.deepEqual(
    seqs(),
    Array.from({ length: count }, (_, seq) => seq),
  );
  await Promise.all([one.mailbox.close(), other.mailbox.close()]);
});

test("parts of answers that may wait share an envelope if one has just left, or leave with an urgent frame", async () => {
  await using redis = await startRedis();
  const one = await open(redis.url, "ingress");
  const other = await open(redis.url, "worker");
  other.mailbox.send("ingress-other", frameOf(0));
  await until(
    "it has left",
    () => other.mailbox.statistics.publishes === 1 && other.mailbox.statistics.roundTripMs > 0,
  );
  const count = 3_000;
  const startedAt = performance.now();
  await new Promise<void>((resolve) => {
    let sent = 0;
    const more = () => {
      other.mailbox.send(one.mailbox.self, frameOf(sent++), "soon");
      if (sent === count) resolve();
      else setImmediate(more);
    };
    more();
  });
  await until("all arrive", () => one.heard.frames.length === count);
  const envelopesMax = Math.ceil((performance.now() - startedAt) / soonFrameMs) + 1;
  const { publishes } = other.mailbox.statistics;
  assert.ok(publishes <= envelopesMax + 1, `${publishes} envelopes in place of ${envelopesMax + 1}`);
  for (const urgency of ["prompt", "soon", "prompt"] as const)
    other.mailbox.send(one.mailbox.self, frameOf(0), urgency);
  await until("they arrive", () => one.heard.frames.length === count + 3);
  assert.equal(other.mailbox.statistics.publishes, publishes + 1);
  assert.deepEqual(
    one.heard.frames.slice(0, count).map(({ frame }) => frame.seq),
    Array.from({ length: count }, (_, seq) => seq),
  );
  await Promise.all([one.mailbox.close(), other.mailbox.close()]);
});

test("a mailbox receives its own heartbeat, and again after Redis was away", async () => {
  await using redis = await startRedis();
  const { mailbox, heard } = await open(redis.url, "ingress");
  mailbox.heartbeat(mailbox.self);
  await until(
    "it hears itself, and knows that its heartbeat has left",
    () => heard.heartbeats.includes(mailbox.self) && mailbox.statistics.roundTripMs > 0,
  );
  await redis.kill();
  await until("the loss is noticed", () => !mailbox.isConnected);
  mailbox.send("worker-gone", frameOf(0));
  await redis.restartEmpty();
  await until("it is subscribed again", () => heard.resubscriptions === 1 && mailbox.isConnected);
  heard.heartbeats.length = 0;
  mailbox.heartbeat(mailbox.self);
  await until("it hears itself again", () => heard.heartbeats.includes(mailbox.self));
  assert.equal(mailbox.statistics.publishFailures, 1);
  await mailbox.close();
});

test("frames survive encoding, and bytes that are not an envelope are ignored", () => {
  const frame = fc
    .record({
      kind: fc.constantFrom(...Object.values(frameKinds)),
      number: fc.nat(0xffff_ffff),
      attempt: fc.nat(0xffff),
      seq: fc.nat(0xffff_ffff),
      payload: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    })
    .map((each) => ({ ...each }));
  fc.assert(
    fc.property(
      fc.stringMatching(/^[a-z]{1,10}-[A-Za-z0-9]{1,12}$/),
      fc.array(frame, { maxLength: 20 }),
      (sender, frames) => {
        const bytes = encodeEnvelope(sender, frames, 1);
        assert.deepEqual(decodeEnvelope(bytes, protocols), { sender, frames });
        assert.equal(decodeEnvelope(bytes.subarray(0, -1), protocols), undefined);
      },
    ),
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      decodeEnvelope(Buffer.from(bytes), protocols);
    }),
  );
});

test("a process that writes nothing notices that its Redis became a replica, and reconnects to the new primary", async () => {
  await using failover = await startFailover();
  const { mailbox, heard } = await open(failover.url, "ingress");
  const primary = await failover.failOver();
  await until("it is subscribed there", async () => {
    mailbox.heartbeat(mailbox.self);
    const reply = await primary.call("PUBSUB", "SHARDNUMSUB", keyspace.mailbox(mailbox.self));
    return (reply as [string, number])[1] === 1;
  });
  heard.heartbeats = [];
  await until("it hears itself", () => {
    mailbox.heartbeat(mailbox.self);
    return heard.heartbeats.includes(mailbox.self);
  });
  await mailbox.close();
});

test("a heartbeat to another mailbox costs Redis one SPUBLISH and nothing else, however many are sent in a turn", async () => {
  await using redis = await startRedis();
  const one = await open(redis.url, "ingress");
  const other = await open(redis.url, "worker");
  const observer = await connectRedis(redis.url, "patient");
  await observer.config("RESETSTAT");
  for (let count = 0; count < 3; count++) other.mailbox.heartbeat(one.mailbox.self);
  await until("it arrives", () => one.heard.heartbeats.length > 0);
  const statistics = await observer.info("commandstats");
  assert.match(statistics, /cmdstat_spublish:calls=1,/);
  assert.doesNotMatch(statistics, /cmdstat_(ping|del):/);
  assert.deepEqual([one.heard.heartbeats.length, one.mailbox.statistics.framesReceived], [1, 0]);
  observer.disconnect();
  await Promise.all([one.mailbox.close(), other.mailbox.close()]);
});

test("closing a mailbox first sends everything, including frames that nobody waits for", async () => {
  await using redis = await startRedis();
  const one = await open(redis.url, "ingress");
  const other = await open(redis.url, "worker");
  const payload = Buffer.alloc(60_000, 1);
  for (let seq = 0; seq < 20; seq++)
    other.mailbox.send(one.mailbox.self, frameOf(seq, payload), seq % 2 === 0 ? "idle" : "prompt");
  other.mailbox.send("worker-elsewhere", frameOf(0), "idle");
  await other.mailbox.close();
  const { framesSent, publishFailures, roundTripMs } = other.mailbox.statistics;
  assert.deepEqual([framesSent, publishFailures, roundTripMs > 0], [21, 0, true]);
  await until("all arrive", () => one.heard.frames.length === 20);
  assert.equal(one.mailbox.statistics.framesReceived, 20);
  await one.mailbox.close();
});

test("the bytes that gather for one mailbox are bounded, and a full one does not affect others", async () => {
  await using redis = await startRedis();
  const one = await open(redis.url, "ingress");
  const other = await open(redis.url, "worker");
  const payload = Buffer.alloc(1 << 20);
  for (let seq = 0; seq < 40; seq++) other.mailbox.send("worker-elsewhere", frameOf(seq, payload));
  other.mailbox.send("worker-elsewhere", frameOf(40));
  other.mailbox.send(one.mailbox.self, frameOf(0));
  await other.mailbox.close();
  assert.equal(other.mailbox.statistics.framesSent, 31 + 1 + 1, "31 of a megabyte, and both that are small");
  await until("the other arrives", () => one.heard.frames.length === 1);
  await one.mailbox.close();
});

test("messages on other channels, and bytes that are not an envelope, do not reach the mailbox", async () => {
  await using redis = await startRedis();
  const { mailbox, heard, subscriber } = await open(redis.url, "ingress");
  const publisher = await connectRedis(redis.url, "patient");
  await subscriber.ssubscribe("elsewhere");
  await publisher.spublish("elsewhere", encodeEnvelope("stranger", [frameOf(0)], 1));
  await publisher.spublish(keyspace.mailbox(mailbox.self), "nonsense");
  await publisher.spublish(keyspace.mailbox(mailbox.self), encodeEnvelope("friend", [frameOf(1)], 1));
  await until("the last one arrives", () => heard.frames.length > 0);
  assert.deepEqual(heard, {
    heartbeats: ["friend"],
    frames: [{ sender: "friend", frame: frameOf(1) }],
    resubscriptions: 0,
    unreachable: [],
  });
  publisher.disconnect();
  await mailbox.close();
});

test("a mailbox that nobody reads any more is reported with the next envelope to it; one that is read is not", async () => {
  await using redis = await startRedis();
  const one = await open(redis.url, "ingress");
  const other = await open(redis.url, "worker");
  other.mailbox.send(one.mailbox.self, frameOf(0));
  await until("it arrives", () => one.heard.frames.length === 1);
  await one.mailbox.close();
  other.mailbox.heartbeat(other.mailbox.self);
  await until("its own arrives", () => other.heard.heartbeats.length === 1);
  assert.deepEqual(other.heard.unreachable, []);
  // Redis may take a moment to see that the connection is closed.
  await until("it is reported", () => {
    other.mailbox.heartbeat(one.mailbox.self);
    return other.heard.unreachable.length > 0;
  });
  assert.ok(other.heard.unreachable.every((mailbox) => mailbox === one.mailbox.self));
  await other.mailbox.close();
});
