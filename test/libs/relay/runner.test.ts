import assert from "node:assert/strict";
import { test } from "node:test";
import { type RelayBounds, relayBounds } from "#relay/bounds.ts";
import {
  decodeAccept,
  type Frame,
  type FrameKind,
  frameBytesOf,
  frameKinds,
  noPayload,
  type Urgency,
} from "#relay/frame.ts";
import { type Run, Runner } from "#relay/runner.ts";

const self = "worker";
const startAt = 1_000;
const nameOf = new Map(Object.entries(frameKinds).map(([name, kind]) => [kind, name]));

function lineOf(mailbox: string, { kind, attempt, seq, payload }: Frame, urgency: Urgency): string {
  const accept = kind === frameKinds.accept ? decodeAccept(payload) : undefined;
  const details = accept === undefined ? "" : ` ${accept.waits ? "waits" : "begins"}, ${accept.freeSlots} free`;
  return `${mailbox} ${nameOf.get(kind)} #${attempt} seq ${seq}${details}${urgencyTexts[urgency]}`;
}

const urgencyTexts: Record<Urgency, string> = { prompt: "", soon: " soon", idle: " idly" };

/**
 * A runner with a sound link on a clock that the test sets. It records what the runner does, one
 * line for each action.
 */
function runnerOf({ bounds = relayBounds }: { bounds?: RelayBounds } = {}) {
  let lines: string[] = [];
  let now = startAt;
  const runs = new Map<string, Run<string>>();
  const runner = new Runner<string>(
    self,
    bounds,
    {
      send: (mailbox, frame, urgency = "prompt") => lines.push(lineOf(mailbox, frame, urgency)),
      heartbeat: (mailbox) => {
        if (mailbox !== self) lines.push(`${mailbox} heartbeat`);
      },
      run: (task, run) => {
        runs.set(task, run);
        lines.push(`run ${task}`);
      },
      abort: (task) => lines.push(`abort ${task}`),
      flow: (task, { isOpen }) => lines.push(`${isOpen ? "open" : "close"} ${task}`),
      input: (task, payload, seq) => lines.push(`${task} input ${seq} ${payload}`.trim()),
      dispatched: (task) => lines.push(`dispatched ${task}`),
      settle: (task, { outcome }) => lines.push(`settle ${task} ${outcome}`),
      witness: (task, { outcome }) => lines.push(`witness ${task} ${outcome}`),
      forget: (task) => lines.push(`forget ${task}`),
    },
    startAt,
  );
  const hear = (...names: string[]) => {
    for (const name of [self, ...names]) runner.heard(name, now);
  };
  const receive = (
    kind: FrameKind,
    number: number,
    { attempt = 1, seq = 0, payload = noPayload, from = "owner" } = {},
  ) => {
    hear(from);
    runner.receive(from, { kind, number, attempt, seq, payload }, now);
  };
  return {
    runner,
    hear,
    receive,
    take: (task: string, number: number, { attempt = 1, owner = "owner", freeSlots = 7 } = {}) =>
      runner.take(task, { mailbox: owner, number, attempt, freeSlots }, now),
    ack(number: number, arrived: number, taken: number, attempt = 1): void {
      const payload = Buffer.alloc(4);
      payload.writeUInt32LE(taken);
      receive(frameKinds.ack, number, { attempt, seq: arrived, payload });
    },
    runOf: (task: string) => runs.get(task) as Run<string>,
    send: (task: string, kind: "head" | "data" | "usage" | "end" | "fail", payload = noPayload) =>
      runner.send(runs.get(task) as Run<string>, kind, payload, now),
    /** Heartbeats until this time, while the runner hears itself and the owners of `heard`. */
    pass(untilMs: number, ...heard: string[]): void {
      while (now < startAt + untilMs) {
        now = Math.min(startAt + untilMs, now + bounds.heartbeatMs);
        hear(...heard);
        runner.tick(now);
      }
    },
    jump(ms: number): void {
      now = startAt + ms;
    },
    did(): string[] {
      const done = lines;
      lines = [];
      return done;
    },
  };
}

/**
 * A runner with one attempt, "a" of number 1, whose owner is known to be alive and has sent `go`.
 */
function running(options: Parameters<typeof runnerOf>[0] = {}) {
  const world = runnerOf(options);
  world.hear("owner");
  world.take("a", 1);
  world.receive(frameKinds.go, 1);
  world.did();
  return world;
}

test("an attempt of a live owner starts at once; go ends its dispatch", () => {
  const { hear, take, receive, did } = runnerOf();
  hear("owner");
  take("a", 1);
  assert.deepEqual(did(), ["owner accept #1 seq 0 begins, 7 free idly", "run a"]);
  receive(frameKinds.go, 1);
  assert.deepEqual(did(), ["dispatched a"]);
  receive(frameKinds.go, 1);
  assert.deepEqual(did(), [], "a second go changes nothing");
});

test("an attempt of an unknown owner waits for go", () => {
  const { hear, take, receive, did } = runnerOf();
  hear();
  take("a", 1);
  assert.deepEqual(did(), ["owner accept #1 seq 0 waits, 7 free"]);
  receive(frameKinds.go, 1);
  assert.deepEqual(did(), ["dispatched a", "run a"]);
});

test("an acknowledgement or a request to resend also binds the attempt", () => {
  for (const kind of [frameKinds.ack, frameKinds.missing] as const) {
    const { hear, take, receive, did } = runnerOf();
    hear();
    take("a", 1);
    did();
    receive(kind, 1, { payload: Buffer.alloc(4) });
    assert.deepEqual(
      did().filter((line) => !line.startsWith("owner")),
      ["dispatched a", "run a"],
    );
  }
});

test("frames carry consecutive numbers, and nothing follows the end", () => {
  const { send, did } = running();
  for (const kind of ["head", "data", "data", "usage", "end", "data"] as const) send("a", kind);
  assert.deepEqual(did(), [
    "owner head #1 seq 1",
    "owner data #1 seq 2",
    "owner data #1 seq 3 soon",
    "owner usage #1 seq 4 idly",
    "owner end #1 seq 5",
  ]);
});

test("done settles an attempt that ended, and forgets it without an abort", () => {
  const { send, receive, did, runner } = running();
  send("a", "end");
  did();
  receive(frameKinds.done, 1);
  assert.deepEqual(did(), ["settle a done", "forget a"]);
  assert.equal(runner.size, 0);
});

test("cancel aborts; it settles the attempt only if the owner says so", () => {
  for (const [flag, expected] of [
    [1, ["settle a cancelled", "abort a", "forget a"]],
    [0, ["abort a", "forget a"]],
  ] as const) {
    const { receive, did } = running();
    receive(frameKinds.cancel, 1, { payload: Buffer.from([flag]) });
    assert.deepEqual(did(), expected);
  }
});

test("a frame for another attempt is answered with gone and changes nothing", () => {
  const { receive, did } = running();
  for (const kind of [frameKinds.go, frameKinds.ack, frameKinds.missing] as const) receive(kind, 1, { attempt: 2 });
  assert.deepEqual(did(), ["owner gone #2 seq 0", "owner gone #2 seq 0", "owner gone #2 seq 0"]);
  receive(frameKinds.done, 1, { attempt: 2 });
  receive(frameKinds.cancel, 9);
  assert.deepEqual(did(), []);
});

test("frames of another sender never touch an owner's attempt", () => {
  const { receive, did, runner } = running();
  receive(frameKinds.cancel, 1, { from: "stranger", payload: Buffer.from([1]) });
  assert.deepEqual(did(), []);
  assert.equal(runner.size, 1);
});

test("a missing frame is sent again with all that follow it, except those that arrived", () => {
  const { send, ack, receive, did, runner } = running();
  send("a", "head");
  send("a", "data");
  send("a", "data");
  ack(1, 2, 0);
  did();
  receive(frameKinds.missing, 1, { seq: 2 });
  assert.deepEqual(did(), ["owner data #1 seq 2", "owner data #1 seq 3"]);
  receive(frameKinds.missing, 1, { seq: 3 });
  assert.deepEqual(did(), ["owner data #1 seq 3"]);
  receive(frameKinds.missing, 1, { seq: 1 });
  assert.deepEqual(did(), [], "what the owner acknowledged is gone");
  assert.equal(runner.resends, 3);
});

test("a full window closes, and opens when the caller has read half of it", () => {
  const payload = Buffer.alloc(100);
  const bytes = frameBytesOf({ kind: frameKinds.data, number: 1, attempt: 1, seq: 1, payload });
  const { send, ack, did } = running({ bounds: { ...relayBounds, windowBytes: bytes * 4 } });
  ack(1, 1, 1);
  for (let count = 0; count < 3; count++) send("a", "data", payload);
  assert.ok(!did().includes("close a"));
  send("a", "data", payload);
  assert.equal(did().at(-1), "close a");
  ack(1, 5, 1);
  ack(1, 5, 3);
  assert.deepEqual(did(), [], "two of four frames are still not taken");
  ack(1, 5, 4);
  assert.deepEqual(did(), ["open a"]);
});

test("a full mailbox window closes an attempt until frames have arrived, whether or not they were read", () => {
  const payload = Buffer.alloc(100);
  const bytes = frameBytesOf({ kind: frameKinds.data, number: 1, attempt: 1, seq: 1, payload });
  const { send, ack, take, receive, did } = running({ bounds: { ...relayBounds, mailboxWindowBytes: bytes * 2 } });
  ack(1, 1, 1);
  take("b", 2);
  receive(frameKinds.go, 2);
  ack(2, 1, 1);
  send("a", "data", payload);
  did();
  send("a", "data", payload);
  assert.deepEqual(did().slice(1), ["close a"]);
  send("b", "data", payload);
  assert.deepEqual(did().slice(1), ["close b"], "the mailbox is shared");
  ack(1, 3, 1);
  assert.deepEqual(did().toSorted(), ["open a", "open b"], "arrival opens both, though nothing was taken");
});

test("an acknowledgement beyond what was sent is ignored", () => {
  const { send, ack, receive, did } = running();
  send("a", "data");
  did();
  ack(1, 99, 1);
  ack(1, 1, 2);
  receive(frameKinds.missing, 1, { seq: 1 });
  assert.deepEqual(did(), ["owner data #1 seq 1"]);
});

test("a newer attempt replaces an older one; a late older one is dropped", () => {
  const { take, did, runner } = running();
  take("newer", 1, { attempt: 2 });
  assert.deepEqual(did(), ["abort a", "forget a", "owner accept #2 seq 0 begins, 7 free idly", "run newer"]);
  take("late", 1, { attempt: 1 });
  assert.deepEqual(did(), ["dispatched late", "forget late"]);
  assert.equal(runner.size, 1);
});

test("a heartbeat reports the last frame of a quiet attempt, so that losses are detected", () => {
  const { send, pass, did } = running();
  send("a", "data");
  pass(relayBounds.heartbeatMs, "owner");
  did();
  pass(2 * relayBounds.heartbeatMs, "owner");
  assert.deepEqual(did(), ["owner heartbeat", "owner quiet #1 seq 1"]);
});

test("an owner that falls silent loses its attempts; those that ran count as cancelled", () => {
  const { pass, did, runner } = running();
  pass(relayBounds.graceMs, "owner");
  did();
  pass(3 * relayBounds.graceMs);
  assert.deepEqual(did().slice(-3), ["settle a cancelled", "abort a", "forget a"]);
  assert.equal(runner.size, 0);
});

test("attempts of an owner that a message does not reach are witnessed once, and go on", () => {
  const { runner, take, receive, send, did } = running();
  take("b", 2, { owner: "other" });
  did();
  runner.unreachable("other");
  assert.deepEqual(did(), [], "it waits for go, so it has used nothing");
  runner.unreachable("owner");
  runner.unreachable("owner");
  assert.deepEqual(did(), ["witness a cancelled"]);
  send("a", "end");
  runner.unreachable("owner");
  did();
  receive(frameKinds.done, 1);
  assert.deepEqual(did(), ["settle a done", "forget a"]);
});

test("of a silent owner only one further attempt is kept at a time", () => {
  const { pass, take, did } = running();
  pass(3 * relayBounds.graceMs);
  did();
  take("b", 2);
  assert.deepEqual(did(), ["owner accept #1 seq 0 waits, 7 free"]);
  take("c", 3);
  assert.deepEqual(did(), ["dispatched c", "forget c"]);
});

test("an attempt whose owner never sends go, or never done, is given up after downMs", () => {
  for (const ends of [false, true]) {
    const { hear, take, receive, send, pass, did } = runnerOf();
    hear("owner");
    take("a", 1);
    if (ends) {
      receive(frameKinds.go, 1);
      send("a", "end");
    }
    pass(relayBounds.downMs, "owner");
    assert.ok(!did().includes("forget a"));
    pass(relayBounds.downMs + 2 * relayBounds.heartbeatMs, "owner");
    assert.deepEqual(
      did().filter((line) => !line.startsWith("owner")),
      ends ? ["settle a done", "forget a"] : ["settle a cancelled", "abort a", "dispatched a", "forget a"],
    );
  }
});

test("a process that was frozen beyond the grace time sends nothing of what it ran", () => {
  const { jump, send, did, runner } = running();
  jump(relayBounds.graceMs + 1);
  send("a", "data");
  assert.deepEqual(did(), ["abort a", "forget a"]);
  assert.equal(runner.size, 0);
});

test("handing back notifies every owner, and counts attempts that had ended", () => {
  const world = running();
  world.take("b", 2);
  world.receive(frameKinds.go, 2);
  world.send("b", "end");
  world.did();
  world.runner.handBack(startAt);
  assert.deepEqual(world.did(), [
    "owner gone #1 seq 0",
    "abort a",
    "forget a",
    "owner gone #1 seq 0",
    "settle b done",
    "forget b",
  ]);
});

test("the load is the most bytes of one attempt and of one mailbox", () => {
  const { send, ack, runner } = running();
  ack(1, 1, 1);
  const before = runner.load();
  assert.deepEqual(before, { generationBytesMax: 0, mailboxBytesMax: 0 });
  send("a", "data", Buffer.alloc(100));
  const { generationBytesMax, mailboxBytesMax } = runner.load();
  assert.ok(generationBytesMax >= 100 && generationBytesMax === mailboxBytesMax);
  ack(1, 2, 1);
  assert.deepEqual(runner.load(), { generationBytesMax, mailboxBytesMax: 0 });
});

test("input reaches the upstream in order and once; what is missing is requested", () => {
  const world = running();
  const input = (seq: number) => world.receive(frameKinds.input, 1, { seq, payload: Buffer.from(`part ${seq}`) });
  input(0);
  input(2);
  input(0);
  input(1);
  input(2);
  assert.deepEqual(world.did(), [
    "a input 0 part 0",
    "owner ack #1 seq 1 idly",
    "owner missing #1 seq 1",
    "a input 1 part 1",
    "a input 2 part 2",
  ]);
});

test("input is acknowledged with the next heartbeat, and again after one in which nothing arrived", () => {
  const world = running();
  world.receive(frameKinds.input, 1, { seq: 0, payload: Buffer.from("part") });
  world.did();
  world.runner.taken(world.runOf("a"), 0);
  const acks = () => world.did().filter((line) => line.startsWith("owner ack"));
  assert.deepEqual(acks(), []);
  world.pass(relayBounds.heartbeatMs, "owner");
  assert.deepEqual(acks(), ["owner ack #1 seq 1"]);
  world.pass(2 * relayBounds.heartbeatMs, "owner");
  assert.deepEqual(acks(), ["owner ack #1 seq 1"]);
});

test("the upstream has taken half of the window: the owner learns it at once", () => {
  const world = running();
  const payload = Buffer.alloc(relayBounds.windowBytes / 2);
  world.receive(frameKinds.input, 1, { seq: 0, payload });
  world.did();
  world.runner.taken(world.runOf("a"), 0);
  assert.deepEqual(world.did(), ["owner ack #1 seq 1"]);
});

test("an owner that names input which did not arrive is asked for it; input for an attempt that is gone is answered", () => {
  const world = running();
  world.receive(frameKinds.quiet, 1, { seq: 0 });
  assert.deepEqual(world.did(), ["owner missing #1 seq 0"]);
  world.receive(frameKinds.input, 7);
  assert.deepEqual(world.did(), ["owner gone #1 seq 0"]);
});
