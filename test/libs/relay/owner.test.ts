import assert from "node:assert/strict";
import { test } from "node:test";
import { relayBounds } from "#relay/bounds.ts";
import { encodeAccept, type Frame, type FrameKind, frameKinds, noPayload } from "#relay/frame.ts";
import { type AnswerKind, Owner } from "#relay/owner.ts";

/** An owner with one generation that a worker has accepted, what it sends, and what it delivers. */
function boundOwner() {
  const sent: Frame[] = [];
  const delivered: [AnswerKind, string][] = [];
  const nothing = () => undefined;
  const owner = new Owner<string>(
    "owner",
    relayBounds,
    {
      send: (_mailbox, frame) => void sent.push(frame),
      heartbeat: nothing,
      enqueue: nothing,
      dequeue: nothing,
      probe: nothing,
      bound: nothing,
      mayRestart: () => false,
      restart: nothing,
      deliver: (_client, kind, payload) => void delivered.push([kind, payload.toString()]),
      fail: nothing,
    },
    1_000,
  );
  const number = owner.takeNumber();
  owner.start("client", number, 60_000, 1_000);
  const receive = (kind: FrameKind, seq: number, payload = noPayload, now = 1_000) => {
    owner.heard("owner", now);
    owner.heard("worker", now);
    owner.receive("worker", { kind, number, attempt: 1, seq, payload }, now);
  };
  receive(frameKinds.accept, 0, encodeAccept({ waits: false, freeSlots: 1 }));
  sent.length = 0;
  return {
    sent,
    delivered,
    receive,
    missing: () => sent.filter(({ kind }) => kind === frameKinds.missing).map(({ seq }) => seq),
  };
}

test("a gap between frames is asked for at once, before any heartbeat reveals it", () => {
  const { receive, missing, delivered } = boundOwner();
  receive(frameKinds.head, 1, Buffer.from("head"));
  receive(frameKinds.data, 3, Buffer.from("second"));
  assert.deepEqual(missing(), [2]);
  assert.deepEqual(delivered, [["head", "head"]], "what is behind the gap waits");
  receive(frameKinds.data, 2, Buffer.from("first"));
  receive(frameKinds.data, 3, Buffer.from("second"));
  assert.deepEqual(delivered.slice(1), [
    ["data", "first"],
    ["data", "second"],
  ]);
});

test("the same gap is not asked for again before the resent frames had time to arrive", () => {
  const { receive, missing } = boundOwner();
  receive(frameKinds.data, 2);
  receive(frameKinds.data, 3);
  receive(frameKinds.data, 4, noPayload, 1_000 + relayBounds.missingRetryMs - 1);
  assert.deepEqual(missing(), [1]);
  receive(frameKinds.data, 5, noPayload, 1_000 + relayBounds.missingRetryMs);
  assert.deepEqual(missing(), [1, 1]);
});
