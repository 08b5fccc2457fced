import assert from "node:assert/strict";
import { test } from "node:test";
import { type RelayBounds, relayBounds } from "#relay/bounds.ts";
import {
  encodeAccept,
  type Frame,
  type FrameKind,
  frameBytesOf,
  frameKinds,
  noPayload,
  type Urgency,
} from "#relay/frame.ts";
import { type AttemptJob, type JobState, Owner, type OwnerAction } from "#relay/owner.ts";

const self = "owner";
const startAt = 1_000;
const waitMs = 60_000;
const nameOf = new Map(Object.entries(frameKinds).map(([name, kind]) => [kind, name]));

/**
 * One line for a frame: who gets it, what it is, of which attempt, and what its payload or seq
 * says.
 */
function lineOf(mailbox: string, { kind, attempt, seq, payload }: Frame, urgency: Urgency): string {
  const name = nameOf.get(kind);
  const details =
    kind === frameKinds.ack
      ? ` arrived ${seq} taken ${payload.readUInt32LE()}`
      : kind === frameKinds.missing
        ? ` ${seq}`
        : kind === frameKinds.cancel
          ? payload[0] === 1
            ? " settle"
            : " drop"
          : "";
  return `${mailbox} ${name} #${attempt}${details}${urgency === "idle" ? " idly" : ""}`;
}

/** The lines for an action; none for a probe. */
function linesOf(action: OwnerAction<string>): string[] {
  switch (action.kind) {
    case "enqueue":
    case "dequeue":
      return [`${action.client} ${action.kind} #${action.attempt}`];
    case "restart":
      return [`${action.client} restart`, `${action.client} enqueue #${action.attempt}`];
    case "bind":
      return [`${action.client} bound ${action.freeSlots}`];
    case "flow":
      return [`${action.isOpen ? "open" : "close"} ${action.client}`];
    case "fail":
      return [`${action.client} failed ${action.fault}`];
    case "probe":
      return [];
  }
}

/**
 * An owner with a sound link, on a clock that the test sets. It writes down what the owner does,
 * one line each.
 */
function ownerOf({ limits = relayBounds, mayRestart = true }: { limits?: RelayBounds; mayRestart?: boolean } = {}) {
  let lines: string[] = [];
  let heartbeatsToSelf = 0;
  let now = startAt;
  const probes: (readonly AttemptJob<string>[])[] = [];
  const owner = new Owner<string>(
    self,
    limits,
    {
      send: (mailbox, frame, urgency = "prompt") => lines.push(lineOf(mailbox, frame, urgency)),
      heartbeat: (mailbox) => (mailbox === self ? heartbeatsToSelf++ : lines.push(`${mailbox} heartbeat`)),
      mayRestart: () => mayRestart,
      deliver: (client, kind, payload) => lines.push(`${client} ${kind} ${payload}`.trim()),
    },
    startAt,
  );
  const act = (actions: readonly OwnerAction<string>[]) => {
    for (const action of actions)
      if (action.kind === "probe") probes.push(action.jobs);
      else lines.push(...linesOf(action));
  };
  const receive = (
    number: number,
    kind: FrameKind,
    seq: number,
    { payload = noPayload, attempt = 1, from = "worker" } = {},
  ) => {
    owner.heard(self, now);
    owner.heard(from, now);
    act(owner.receive(from, { kind, number, attempt, seq, payload }, now));
  };
  return {
    owner,
    act,
    probes,
    receive,
    heartbeatsToSelf: () => heartbeatsToSelf,
    at: (ms: number) => {
      now = startAt + ms;
    },
    start(client: string): number {
      const number = owner.takeNumber();
      act(owner.start(client, number, { waitMs, now }));
      return number;
    },
    /** A worker accepts an attempt. */
    accept: (number: number, { attempt = 1, from = "worker", waits = false, freeSlots = 1 } = {}) =>
      receive(number, frameKinds.accept, 0, { attempt, from, payload: encodeAccept({ waits, freeSlots }) }),
    /** Heartbeats until this time, while the owner hears itself, and every worker of `heard`. */
    pass(untilMs: number, ...heard: string[]): void {
      while (now < startAt + untilMs) {
        now = Math.min(startAt + untilMs, now + limits.heartbeatMs);
        for (const name of [self, ...heard]) owner.heard(name, now);
        act(owner.tick(now));
      }
    },
    /** A heartbeat now. */
    tick(): void {
      owner.heard(self, now);
      act(owner.tick(now));
    },
    answer: (number: number, state: JobState, attempt = 1) => act(owner.probed(number, attempt, state, now)),
    /** The lines since the last call. */
    did(): string[] {
      const done = lines;
      lines = [];
      return done;
    },
  };
}

/** With one generation, "a", that a worker has accepted. */
function boundOwner(options: Parameters<typeof ownerOf>[0] = {}) {
  const world = ownerOf(options);
  const number = world.start("a");
  world.accept(number);
  world.did();
  return {
    ...world,
    number,
    receive: (kind: FrameKind, seq: number, payload = noPayload, source: { attempt?: number; from?: string } = {}) =>
      world.receive(number, kind, seq, { payload, ...source }),
  };
}

test("a gap between frames is requested at once, before a heartbeat reveals it", () => {
  const { receive, did } = boundOwner();
  receive(frameKinds.head, 1, Buffer.from("head"));
  receive(frameKinds.data, 3, Buffer.from("second"));
  assert.deepEqual(did(), ["a head head", "worker missing #1 2"], "what is behind the gap waits");
  receive(frameKinds.data, 2, Buffer.from("first"));
  receive(frameKinds.data, 3, Buffer.from("second"));
  assert.deepEqual(did(), ["a data first", "a data second"]);
});

test("a gap is not requested again before the resent frames had time to arrive", () => {
  const { at, receive, did } = boundOwner();
  receive(frameKinds.data, 2);
  receive(frameKinds.data, 3);
  at(relayBounds.missingRetryMs - 1);
  receive(frameKinds.data, 4);
  assert.deepEqual(did(), ["worker missing #1 1"]);
  at(relayBounds.missingRetryMs);
  receive(frameKinds.data, 5);
  assert.deepEqual(did(), ["worker missing #1 1"]);
});

test("a quiet worker is asked only for frames that never arrived", () => {
  const { receive, did } = boundOwner();
  receive(frameKinds.quiet, 0);
  assert.deepEqual(did(), []);
  receive(frameKinds.quiet, 1);
  assert.deepEqual(did(), ["worker missing #1 1"]);
});

test("frames of an unknown kind are ignored", () => {
  const { receive, did } = boundOwner();
  for (const kind of [frameKinds.go, frameKinds.ack, frameKinds.done, 0 as FrameKind]) receive(kind, 1);
  assert.deepEqual(did(), []);
  receive(frameKinds.usage, 1, Buffer.from("12"));
  assert.deepEqual(did(), ["a usage 12"], "and they take no place among those of a worker");
});

test("generation numbers differ, and none is 0", () => {
  const { owner } = ownerOf();
  assert.deepEqual([owner.takeNumber(), owner.takeNumber(), owner.takeNumber()], [1, 2, 3]);
});

test("a job that its queue refuses fails its generation at once, and a worker that got it anyway drops it", () => {
  const { owner, act, start, accept, did } = ownerOf();
  const number = start("a");
  act(owner.enqueueFailed(number + 1, 1));
  act(owner.enqueueFailed(number, 2));
  assert.deepEqual(did(), ["a enqueue #1"]);
  act(owner.enqueueFailed(number, 1));
  assert.deepEqual(did(), ["a dequeue #1", "a failed unavailable"]);
  accept(number);
  assert.deepEqual(did(), ["worker cancel #1 drop"]);
});

test("a late refusal of a job that a worker already runs changes nothing", () => {
  const { owner, act, number, did } = boundOwner();
  act(owner.enqueueFailed(number, 1));
  assert.deepEqual(did(), []);
  assert.equal(owner.size, 1);
});

test("a refused later attempt does not fail: a probe finds it missing and enqueues it again", () => {
  const { owner, act, number, receive, did, pass, probes, answer } = boundOwner();
  receive(frameKinds.gone, 0);
  assert.deepEqual(did(), ["a restart", "a enqueue #2"]);
  act(owner.enqueueFailed(number, 2));
  assert.deepEqual(did(), []);
  pass(6_000);
  assert.deepEqual(probes.at(-1), [{ client: "a", number, attempt: 2 }]);
  answer(number, "missing", 2);
  assert.deepEqual(did(), ["a restart", "a enqueue #3"]);
});

test("a caller that leaves removes its job from the queue, or its worker settles what was produced", () => {
  const { owner, act, start, accept, did } = ownerOf();
  const [waiting, running] = [start("a"), start("b")];
  accept(running);
  did();
  act(owner.leave(waiting));
  act(owner.leave(running));
  assert.deepEqual(did(), ["a dequeue #1", "worker cancel #1 settle"]);
  act(owner.leave(running));
  act(owner.leave(12_345));
  assert.deepEqual([did(), owner.size, owner.waitingSize], [[], 0, 0]);
});

test("a worker that missed the end of a generation is notified again, as long as it may remember it", () => {
  const { owner, act, start, accept, receive, at, tick, did } = ownerOf();
  const [ended, left] = [start("a"), start("b")];
  for (const number of [ended, left]) accept(number);
  receive(ended, frameKinds.end, 1);
  act(owner.leave(left));
  did();
  const again = () => {
    receive(ended, frameKinds.end, 1);
    receive(left, frameKinds.data, 1);
    return did();
  };
  assert.deepEqual(again(), ["worker done #1", "worker cancel #1 settle"]);
  for (const ms of [relayBounds.rememberMs, relayBounds.rememberMs + 1, 2 * relayBounds.rememberMs + 1]) {
    at(ms);
    tick();
    assert.deepEqual(again(), ["worker done #1", "worker cancel #1 settle"], `after ${ms} ms`);
  }
  at(2 * relayBounds.rememberMs + 2);
  tick();
  assert.deepEqual(again(), ["worker cancel #1 drop", "worker cancel #1 drop"], "then nothing of it counts");
});

test("a finished generation remembers only the attempt and the worker that finished it", () => {
  const { start, owner, act, accept, receive, did } = ownerOf();
  const [ended, left] = [start("a"), start("b")];
  accept(ended);
  receive(ended, frameKinds.end, 1);
  did();
  receive(ended, frameKinds.end, 1, { from: "other" });
  receive(ended, frameKinds.end, 1, { attempt: 2 });
  receive(ended, frameKinds.gone, 0);
  assert.deepEqual(did(), ["other cancel #1 drop", "worker cancel #2 drop"], "`gone` needs no answer");
  act(owner.leave(left));
  did();
  receive(left, frameKinds.data, 1);
  receive(left, frameKinds.data, 1, { from: "other" });
  assert.deepEqual(did(), ["worker cancel #1 settle", "other cancel #1 drop"], "the first to run it settles it, alone");
});

test("a worker with another attempt, or another worker with this one, is cancelled", () => {
  const { number, did, accept } = boundOwner();
  accept(number, { from: "other" });
  accept(number, { attempt: 2 });
  assert.deepEqual(did(), ["other cancel #1 drop", "worker cancel #2 drop"]);
});

test("`gone` of another worker changes nothing", () => {
  const world = ownerOf();
  const number = world.start("a");
  world.accept(number);
  world.did();
  world.receive(number, frameKinds.gone, 0, { from: "other" });
  world.receive(number, frameKinds.gone, 0, { attempt: 2 });
  assert.deepEqual(world.did(), []);
});

test("a waiting worker gets go at once, a running one with the next message", () => {
  const { owner, start, accept, did } = ownerOf();
  const [one, two] = [start("a"), start("b")];
  did();
  accept(one, { waits: true, freeSlots: 7 });
  accept(two, { waits: false, freeSlots: 0 });
  assert.deepEqual(did(), ["worker go #1", "a bound 7", "worker go #1 idly", "b bound 0"]);
  assert.deepEqual([owner.size, owner.waitingSize], [2, 0]);
});

test("a worker whose `accept` was lost gets go at once, because it may be waiting", () => {
  const { start, receive, did } = ownerOf();
  const number = start("a");
  did();
  receive(number, frameKinds.head, 1);
  assert.deepEqual(did(), ["worker go #1", "worker missing #1 0", "a bound 0"]);
});

test("a full worker is notified at once that a generation is done, one with capacity at its next message", () => {
  for (const [freeSlots, line] of [
    [0, "worker done #1"],
    [1, "worker done #1 idly"],
  ] as const) {
    const { start, accept, receive, did } = ownerOf();
    const number = start("a");
    accept(number, { freeSlots });
    did();
    receive(number, frameKinds.end, 1);
    assert.deepEqual(did(), [line, "a end"]);
  }
  const { start, receive, did } = ownerOf();
  const number = start("a");
  receive(number, frameKinds.quiet, 0);
  receive(number, frameKinds.accept, 0);
  did();
  receive(number, frameKinds.end, 1);
  assert.deepEqual(did(), ["worker done #1", "a end"], "it did not say how much capacity it has");
});

test("a generation without a worker fails when its wait expires, one with a worker does not", () => {
  const { start, accept, pass, did } = ownerOf();
  const [running] = [start("a"), start("b")];
  accept(running);
  pass(waitMs - 1, "worker");
  assert.deepEqual(
    did().filter((line) => line.includes("failed")),
    [],
  );
  pass(waitMs, "worker");
  assert.deepEqual(
    did().filter((line) => line.includes("failed") || line.includes("dequeue")),
    ["b dequeue #1", "b failed wait_expired"],
  );
});

test("a worker that is silent for the grace time loses its generation to another attempt, which starts from the beginning", () => {
  const { number, owner, receive, pass, did, accept, tick } = boundOwner();
  receive(frameKinds.head, 1);
  receive(frameKinds.data, 2);
  owner.taken(number, 2);
  pass(relayBounds.graceMs);
  did();
  pass(relayBounds.graceMs + 1);
  assert.deepEqual(did(), ["a restart", "a enqueue #2"]);
  assert.equal(owner.waitingSize, 1);
  accept(number, { attempt: 2, from: "second" });
  receive(frameKinds.head, 1, Buffer.from("again"), { attempt: 2, from: "second" });
  assert.deepEqual(did(), ["second go #2 idly", "a bound 1", "a head again"]);
  owner.taken(number, 1);
  tick();
  assert.deepEqual(
    did(),
    ["second heartbeat", "second ack #2 arrived 2 taken 2"],
    "nothing of the first attempt counts",
  );
});

test("a gap at the beginning of another attempt is requested at once", () => {
  const { did, receive } = boundOwner();
  receive(frameKinds.data, 2);
  receive(frameKinds.gone, 0);
  did();
  receive(frameKinds.head, 1, noPayload, { attempt: 2 });
  assert.deepEqual(did(), ["worker go #2", "worker missing #2 0", "a bound 0"]);
});

test("a later attempt waits for a worker as long as the first one", () => {
  const { pass, receive, did } = boundOwner();
  pass(30_000, "worker");
  receive(frameKinds.gone, 0);
  pass(30_000 + waitMs - 1);
  assert.deepEqual(
    did().filter((line) => line.includes("failed")),
    [],
  );
  pass(30_000 + waitMs);
  assert.deepEqual(
    did().filter((line) => line.includes("failed")),
    ["a failed wait_expired"],
  );
});

test("`gone` for a job that nobody accepted does not extend its wait", () => {
  const { start, receive, pass, did } = ownerOf();
  const number = start("a");
  pass(30_000);
  receive(number, frameKinds.gone, 0);
  pass(waitMs);
  assert.equal(did().at(-1), "a failed wait_expired");
});

test("a generation fails when it has lost its maximum of workers", () => {
  const { start, accept, receive, did } = ownerOf();
  const number = start("a");
  for (let attempt = 1; attempt < relayBounds.runsMax; attempt++) {
    accept(number, { attempt });
    receive(number, frameKinds.gone, 0, { attempt });
    assert.equal(did().at(-1), `a enqueue #${attempt + 1}`);
  }
  accept(number, { attempt: relayBounds.runsMax });
  did();
  receive(number, frameKinds.gone, 0, { attempt: relayBounds.runsMax });
  assert.deepEqual(did(), [`worker cancel #${relayBounds.runsMax} drop`, "a failed worker_lost"]);
});

test("a generation whose answer has begun fails with its worker, and what was produced does not count", () => {
  const { receive, did, owner } = boundOwner({ mayRestart: false });
  receive(frameKinds.gone, 0);
  assert.deepEqual(did(), ["worker cancel #1 drop", "a failed worker_lost"]);
  assert.equal(owner.size, 0);
});

test("an owner without a link fails everything when downMs is over", () => {
  const { owner, act, start, did } = ownerOf();
  start("a");
  did();
  act(owner.tick(startAt + relayBounds.downMs));
  assert.deepEqual(did(), []);
  act(owner.tick(startAt + relayBounds.downMs + 1));
  assert.deepEqual(did(), ["a dequeue #1", "a failed unavailable"]);
});

test("a heartbeat acknowledges what arrived or was read since the last one, and quiet generations", () => {
  const { owner, number, receive, tick, did } = boundOwner();
  tick();
  assert.deepEqual(did(), ["worker heartbeat", "worker ack #1 arrived 1 taken 1"], "the accept");
  receive(frameKinds.head, 1);
  receive(frameKinds.data, 2);
  did();
  tick();
  assert.deepEqual(did(), ["worker heartbeat", "worker ack #1 arrived 3 taken 1"]);
  receive(frameKinds.data, 2);
  did();
  tick();
  assert.deepEqual(did(), ["worker heartbeat"], "a frame that came twice is nothing new");
  receive(frameKinds.data, 2);
  owner.taken(number, 1);
  tick();
  assert.deepEqual(did(), ["worker heartbeat", "worker ack #1 arrived 3 taken 2"]);
  tick();
  assert.deepEqual(
    did(),
    ["worker heartbeat", "worker ack #1 arrived 3 taken 2"],
    "nothing was heard: the last one may be lost",
  );
});

test("reading half a window is acknowledged at once, so that the worker can send on", () => {
  const payload = Buffer.alloc(100);
  const bytes = frameBytesOf({ kind: frameKinds.data, number: 1, attempt: 1, seq: 1, payload });
  const { owner, number, receive, tick, did } = boundOwner({ limits: { ...relayBounds, windowBytes: 8 * bytes } });
  for (let seq = 1; seq <= 8; seq++) receive(frameKinds.data, seq, payload);
  did();
  owner.taken(number, 3);
  owner.taken(number, 3);
  assert.deepEqual(did(), [], "less than half of it");
  owner.taken(number, 4);
  assert.deepEqual(did(), ["worker ack #1 arrived 9 taken 5"]);
  owner.taken(number, 7);
  assert.deepEqual(did(), []);
  owner.taken(number, 2);
  tick();
  assert.deepEqual(did(), ["worker heartbeat", "worker ack #1 arrived 9 taken 8"], "what was taken stays so");
  owner.taken(number, 8);
  tick();
  did();
  tick();
  assert.deepEqual(did(), ["worker heartbeat", "worker ack #1 arrived 9 taken 9"]);
});

test("reads without a running worker are acknowledged to nobody", () => {
  const { owner, number, receive, did } = boundOwner({ limits: { ...relayBounds, windowBytes: 10 } });
  receive(frameKinds.gone, 0);
  did();
  owner.taken(number, 1);
  assert.deepEqual(did(), []);
});

test("bytes of a lost attempt do not count towards the window of the next", () => {
  const payload = Buffer.alloc(100);
  const bytes = frameBytesOf({ kind: frameKinds.data, number: 1, attempt: 1, seq: 1, payload });
  const { owner, number, did, accept, receive } = boundOwner({ limits: { ...relayBounds, windowBytes: 8 * bytes } });
  for (let seq = 1; seq <= 6; seq++) receive(frameKinds.data, seq, payload);
  owner.taken(number, 3);
  receive(frameKinds.gone, 0);
  accept(number, { attempt: 2 });
  for (let seq = 1; seq <= 4; seq++) receive(frameKinds.data, seq, payload, { attempt: 2 });
  did();
  owner.taken(number, 3);
  assert.deepEqual(did(), []);
  owner.taken(number, 4);
  assert.deepEqual(did(), ["worker ack #2 arrived 5 taken 5"]);
});

test("arrived bytes are acknowledged with the next message once they are a quarter of a mailbox's window", () => {
  const payload = Buffer.alloc(85);
  const limits = { ...relayBounds, mailboxWindowBytes: 1_600 };
  const { start, accept, receive, tick, did } = ownerOf({ limits });
  const [one, two] = [start("a"), start("b")];
  for (const number of [one, two]) accept(number);
  tick();
  did();
  const arrive = (number: number, seq: number) => {
    receive(number, frameKinds.data, seq, { payload });
    return did().filter((line) => line.includes("ack"));
  };
  for (let round = 0; round < 2; round++) {
    const seq = 1 + round * 5;
    for (let count = 0; count < 4; count++)
      assert.deepEqual(arrive(one, seq + count), [], "400 bytes are not more than a quarter");
    assert.deepEqual(
      arrive(one, seq + 4),
      [`worker ack #1 arrived ${seq + 5} taken 1 idly`],
      "of the other there is nothing new",
    );
  }
  for (let count = 0; count < 4; count++) assert.deepEqual(arrive(two, 1 + count), []);
  tick();
  did();
  for (let count = 0; count < 4; count++)
    assert.deepEqual(arrive(two, 5 + count), [], "a heartbeat acknowledged the rest");
});

test("arrived bytes are acknowledged after a time, however few they are", () => {
  const { at, receive, tick, did } = boundOwner();
  const acks = () => did().filter((line) => line.includes("ack"));
  at(relayBounds.ackMs);
  receive(frameKinds.head, 1);
  assert.deepEqual(acks(), []);
  at(relayBounds.ackMs + 1);
  receive(frameKinds.data, 2);
  assert.deepEqual(acks(), ["worker ack #1 arrived 3 taken 1 idly"]);
  at(relayBounds.ackMs + 2);
  receive(frameKinds.data, 3);
  assert.deepEqual(acks(), [], "the last one is not long ago");
  at(2 * relayBounds.ackMs);
  tick();
  acks();
  at(3 * relayBounds.ackMs);
  receive(frameKinds.data, 4);
  assert.deepEqual(acks(), [], "nor is a heartbeat");
});

test("the queue is asked for the state of a waiting job after a while, and then at intervals", () => {
  const { start, pass, probes, answer, did } = ownerOf();
  const number = start("a");
  pass(relayBounds.probeMs - 1);
  assert.deepEqual(probes, []);
  pass(relayBounds.probeMs);
  assert.deepEqual(probes, [[{ client: "a", number, attempt: 1 }]]);
  answer(number, "waiting");
  pass(2 * relayBounds.probeMs - 1);
  assert.equal(probes.length, 1);
  pass(2 * relayBounds.probeMs);
  assert.equal(probes.length, 2);
  assert.deepEqual(did(), ["a enqueue #1"]);
});

test("a job that the queue lost is enqueued again after a delay", () => {
  const { start, pass, answer, did } = ownerOf();
  const number = start("a");
  did();
  pass(relayBounds.graceMs);
  answer(number, "missing");
  assert.deepEqual(did(), []);
  pass(relayBounds.graceMs + 1);
  answer(number, "missing", 2);
  assert.deepEqual(did(), [], "of another attempt this says nothing");
  answer(number, "missing");
  assert.deepEqual(did(), ["a restart", "a enqueue #2"]);
  answer(number, "missing", 2);
  assert.deepEqual(did(), [], "the next attempt has as much time");
});

test("a job that a worker took silently is enqueued again after the grace time, a waiting one is not", () => {
  const { start, pass, answer, did } = ownerOf();
  const number = start("a");
  did();
  pass(6_000);
  for (const state of ["waiting", "active", "waiting", "active"] as const) answer(number, state);
  pass(6_000 + relayBounds.graceMs);
  answer(number, "active");
  assert.deepEqual(did(), []);
  pass(6_000 + relayBounds.graceMs + 1);
  answer(number, "waiting");
  answer(number, "active");
  assert.deepEqual(did(), [], "it went back to the queue in between");
  pass(6_000 + 2 * relayBounds.graceMs + 2);
  answer(number, "active");
  assert.deepEqual(did(), ["a restart", "a enqueue #2"]);
  pass(6_000 + 2 * relayBounds.graceMs + 1_000);
  answer(number, "active", 2);
  assert.deepEqual(did(), [], "the next attempt was taken only now");
});

test("one probe of bounded size is open at a time; an unanswered one is repeated", () => {
  const limits = { ...relayBounds, probesMax: 2 };
  const { owner, start, pass, probes, answer, ...world } = ownerOf({ limits });
  const numbers = ["a", "b", "c"].map((client) => start(client)) as [number, number, number];
  const probedClients = () => probes.splice(0).map((jobs) => jobs.map(({ client }) => client).join(""));
  pass(relayBounds.probeMs);
  assert.deepEqual(probedClients(), ["ab"]);
  pass(4_000);
  assert.deepEqual(probedClients(), [], "the first two are not answered");
  for (const number of numbers.slice(0, 2)) answer(number, "waiting");
  pass(5_000);
  assert.deepEqual(probedClients(), ["ca"], "those that were not asked about come first");
  pass(5_000 + relayBounds.graceMs - 1);
  assert.deepEqual(probedClients(), []);
  pass(5_000 + relayBounds.graceMs);
  assert.deepEqual(probedClients(), ["bc"]);
  owner.probeFailed();
  world.tick();
  assert.deepEqual(probedClients(), ["a"], "b and c were asked about a moment ago");
});

test("when a queue lost jobs the next probe follows at once, and no job is probed twice", () => {
  const limits = { ...relayBounds, probesMax: 2 };
  const { start, pass, probes, answer, tick } = ownerOf({ limits });
  const numbers = new Map(["a", "b", "c", "d", "e"].map((client) => [client, start(client)]));
  const probedClients = () => probes.splice(0).map((jobs) => jobs.map(({ client }) => client).join(""));
  const answers = (client: string, state: JobState) => answer(numbers.get(client) as number, state);
  pass(relayBounds.probeMs);
  assert.deepEqual(probedClients(), ["ab"]);
  pass(relayBounds.graceMs + 1);
  answers("a", "missing");
  assert.deepEqual(probedClients(), [], "there is another answer to come");
  answers("b", "waiting");
  assert.deepEqual(probedClients(), ["cd"]);
  answers("c", "waiting");
  answers("d", "waiting");
  assert.deepEqual(probedClients(), [], "no more were lost");
  tick();
  assert.deepEqual(probedClients(), ["e"]);
  answers("e", "missing");
  assert.deepEqual(probedClients(), [], "all were asked about a moment ago");
});

test("every heartbeat also goes to the owner itself, which detects the state of its link", () => {
  const { owner, pass, heartbeatsToSelf } = ownerOf();
  pass(3_000);
  assert.equal(heartbeatsToSelf(), 3);
  assert.deepEqual([owner.isLinked(startAt + 5_500), owner.isLinked(startAt + 5_501)], [true, false]);
});

test("without a link no queue is probed, and no worker counts as lost", () => {
  const { owner, act, start, probes, did } = ownerOf();
  const number = start("a");
  did();
  act(owner.tick(startAt + 10_000));
  act(owner.probed(number, 1, "missing", startAt + 10_000));
  assert.deepEqual([probes, did()], [[], []]);
});

test("input goes to the attempt's worker, is sent again where it is missing, and closes its window", () => {
  const world = ownerOf();
  const number = world.start("a");
  world.act(world.owner.input(number, Buffer.from("too early")));
  world.accept(number);
  world.did();
  const half = Buffer.alloc(relayBounds.windowBytes / 2);
  world.act(world.owner.input(number, half));
  world.act(world.owner.input(number, half));
  assert.deepEqual(namesIn(world.did()), ["input", "input", "close a"]);
  world.receive(number, frameKinds.missing, 1);
  assert.deepEqual(namesIn(world.did()), ["input"]);
  assert.equal(world.owner.resends, 1);
  const taken = Buffer.alloc(4);
  taken.writeUInt32LE(2);
  world.receive(number, frameKinds.ack, 2, { payload: taken });
  assert.deepEqual(namesIn(world.did()), ["open a"]);
  assert.deepEqual(world.owner.load(), { generationBytesMax: 0, mailboxBytesMax: 0 });
});

test("input that may be lost is named with a heartbeat", () => {
  const world = ownerOf();
  const number = world.start("a");
  world.accept(number);
  world.act(world.owner.input(number, Buffer.from("x")));
  const quiets = () => world.did().filter((line) => line.startsWith("worker quiet"));
  world.tick();
  assert.deepEqual(quiets(), []);
  world.tick();
  assert.equal(quiets().length, 1);
});

const namesIn = (lines: readonly string[]): string[] =>
  lines.map((line) => (line.startsWith("worker input") ? "input" : line));
