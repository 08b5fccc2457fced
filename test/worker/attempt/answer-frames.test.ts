import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { dataBytesMax, decodeData } from "#relay/job.ts";
import type { AnswerKind } from "#relay/owner.ts";
import { AnswerFrames, AnswerPace } from "../../../apps/worker/attempt/answer-frames.ts";
import { UsageReports } from "../../../apps/worker/attempt/usage-reports.ts";
import { gatherBytesMax, gatherMs } from "../../../apps/worker/bounds.ts";

/**
 * Frames whose process is busy or not, and what they sent: the text of data, the kind of others.
 */
function framesOf(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const sent: string[] = [];
  const send = (kind: AnswerKind, payload: Buffer) =>
    void sent.push(kind === "data" ? decodeData(payload).bytes.toString() : `<${kind}>`);
  const load = { isBusy: true };
  const pace = new AnswerPace(() => load.isBusy);
  const frames = new AnswerFrames(send, new UsageReports("answer", send), { hasHead: true, pace });
  const write = (...texts: string[]) =>
    frames.data(
      texts.map((text) => Buffer.from(text)),
      undefined,
    );
  return { frames, write, sent, load, tick: (ms: number) => t.mock.timers.tick(ms) };
}

test("the first content leaves at once, and the chunks of a moment together while the process is busy", (t) => {
  const { write, sent, load, tick } = framesOf(t);
  write("a");
  write("b");
  write("c", "d");
  assert.deepEqual(sent, ["a"]);
  tick(gatherMs);
  assert.deepEqual(sent, ["a", "bcd"]);
  write("e");
  load.isBusy = false;
  write("f");
  assert.deepEqual(sent, ["a", "bcd"], "nothing overtakes what has gathered");
  tick(gatherMs);
  write("g");
  assert.deepEqual(sent, ["a", "bcd", "ef", "g"]);
});

test("an end and a failure take along what has gathered, and a discarded answer forgets it", (t) => {
  const { frames, write, sent, tick } = framesOf(t);
  write("a");
  write("b");
  frames.end({ usage: null });
  assert.deepEqual(sent, ["a", "b", "<end>"]);
  tick(gatherMs);
  assert.equal(sent.length, 3);
  write("c");
  frames.discard();
  tick(gatherMs);
  write("d");
  frames.fail({ code: "internal", message: "…" });
  assert.deepEqual(sent.slice(3), ["d", "<fail>"]);
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
  tick(gatherMs);
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
  tick(gatherMs);
  assert.deepEqual(
    sent.map(({ length }) => length),
    [1, 1, dataBytesMax, 1],
  );
});
