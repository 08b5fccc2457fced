import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { dataBytesMax, decodeData } from "#relay/job.ts";
import type { AnswerKind } from "#relay/owner.ts";
import { AnswerFrames } from "../../../apps/worker/attempt/answer-frames.ts";
import { UsageReports } from "../../../apps/worker/attempt/usage-reports.ts";
import { gatherBytesMax } from "../../../apps/worker/bounds.ts";
import { StreamPace } from "../../../apps/worker/upstream/stream-pace.ts";

const intervalMs = 40;

/**
 * Frames whose process is busy or not, and what they sent: the text of data, the kind of others.
 */
function framesOf(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 1_000;
  const sent: string[] = [];
  const send = (kind: AnswerKind, payload: Buffer) =>
    void sent.push(kind === "data" ? decodeData(payload).bytes.toString() : `<${kind}>`);
  const pace = new StreamPace({ now: () => now, epoch: () => 0 });
  pace.intervalMs = intervalMs;
  const frames = new AnswerFrames(send, new UsageReports("answer", send), { hasHead: true, pace });
  const write = (...texts: string[]) =>
    frames.data(
      texts.map((text) => Buffer.from(text)),
      undefined,
    );
  const tick = (ms: number) => {
    now += ms;
    t.mock.timers.tick(ms);
  };
  return { frames, write, sent, pace, tick };
}

test("the first data leaves at once, and what comes within a moment together while the process is busy", (t) => {
  const { write, sent, pace, tick } = framesOf(t);
  write("a");
  tick(intervalMs / 4);
  write("b");
  tick(intervalMs / 4);
  write("c", "d");
  assert.deepEqual(sent, ["a"]);
  tick(intervalMs);
  assert.deepEqual(sent, ["a", "bcd"]);
  write("e");
  assert.deepEqual(sent, ["a", "bcd", "e"], "its moment is over");
  write("f");
  pace.intervalMs = 0;
  write("g");
  assert.deepEqual(sent, ["a", "bcd", "e"], "nothing overtakes what has gathered");
  tick(intervalMs);
  write("h");
  write("i");
  assert.deepEqual(sent, ["a", "bcd", "e", "fg", "h", "i"]);
});

test("what is read at the pace leaves at once", (t) => {
  const { write, sent, tick } = framesOf(t);
  for (const text of ["a", "b", "c", "d"]) {
    write(text);
    tick(intervalMs);
  }
  assert.deepEqual(sent, ["a", "b", "c", "d"]);
});

test("an end and a failure take along what has gathered, and a discarded answer forgets it", (t) => {
  const { frames, write, sent, tick } = framesOf(t);
  write("a");
  write("b");
  frames.end({ usage: null });
  assert.deepEqual(sent, ["a", "b", "<end>"]);
  tick(intervalMs);
  assert.equal(sent.length, 3);
  write("c");
  write("forgotten");
  frames.discard();
  tick(intervalMs);
  write("d");
  write("e");
  frames.fail({ code: "internal", message: "…" });
  assert.deepEqual(sent.slice(3), ["c", "d", "e", "<fail>"]);
});

test("many gathered bytes leave early, and wait for the window like others", (t) => {
  const { frames, write, sent, tick } = framesOf(t);
  write("a");
  write("b".repeat(gatherBytesMax));
  assert.deepEqual(
    sent.map(({ length }) => length),
    [1, gatherBytesMax],
  );
  frames.setOpen(false);
  write("c");
  assert.equal(frames.isBlocked, true);
  tick(intervalMs);
  assert.equal(sent.length, 2);
  frames.setOpen(true);
  assert.equal(sent.at(-1), "c");
});

test("a chunk that fits into a frame is not divided because others have gathered", (t) => {
  const { write, sent, tick } = framesOf(t);
  write("a");
  write("b");
  write("c".repeat(dataBytesMax));
  write("d");
  tick(intervalMs);
  assert.deepEqual(
    sent.map(({ length }) => length),
    [1, 1, dataBytesMax, 1],
  );
});
