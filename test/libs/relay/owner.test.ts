import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeAccept, type FrameKind, frameKinds, noPayload } from "#relay/frame.ts";
import { relayLimits } from "#relay/limits.ts";
import { Owner } from "#relay/owner.ts";

/** An owner of one generation whose worker has begun, in a world where only its clock moves. */
function streaming() {
  let now = 0;
  let seq = 0;
  const faults: string[] = [];
  const delivered: number[] = [];
  const owner = new Owner<string>(
    "ingress",
    relayLimits,
    {
      enqueue() {},
      dequeue() {},
      probe() {},
      send() {},
      pulse() {},
      bound() {},
      deliver: (_client, _kind, _payload, at) => void delivered.push(at),
      mayRestart: () => false,
      restart() {},
      fail: (_client, fault) => void faults.push(fault),
    },
    now,
  );
  const receive = (kind: FrameKind, payload: Buffer) => {
    owner.heard("worker", now);
    owner.receive("worker", { kind, number: 1, attempt: 1, seq: seq++, payload }, now);
  };
  owner.start("caller", 1, 600_000, now);
  receive(frameKinds.accept, encodeAccept({ waits: false, room: 1 }));
  receive(frameKinds.head, noPayload);
  return {
    faults,
    take: () => owner.taken(1, delivered.at(-1) as number, now),
    data: (bytes: number) => receive(frameKinds.data, Buffer.alloc(bytes)),
    pass(ms: number) {
      for (const end = now + ms; now < end; ) {
        now += Math.min(relayLimits.pulseMs, end - now);
        for (const sender of ["ingress", "worker"]) owner.heard(sender, now);
        owner.tick(now);
      }
    },
  };
}

test("a caller is too slow when it takes nothing for a while though there is something, not when there was nothing before", () => {
  const { faults, take, data, pass } = streaming();
  take();
  pass(relayLimits.stallMs * 2);
  data(relayLimits.windowBytes * 0.6);
  pass(relayLimits.stallMs);
  assert.deepEqual(faults, []);
  pass(relayLimits.pulseMs);
  assert.deepEqual(faults, ["caller_too_slow"]);
});
