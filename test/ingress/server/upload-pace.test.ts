import assert from "node:assert/strict";
import { test } from "node:test";
import { UploadPace, uploadCheckMsOf } from "../../../apps/ingress/server/upload-pace.ts";

const limits = { uploadBytesPerSecondMin: 1_000, uploadGraceMs: 4_000 };
const lookMs = uploadCheckMsOf(limits);

/**
 * After how many ms a sender with this rate is found too slow; undefined when it is not within a
 * minute.
 */
function cutAfterMs(bytesIn: (second: number) => number): number | undefined {
  const pace = new UploadPace(limits, 500, 0);
  let bytes = 500;
  for (let now = lookMs; now <= 60_000; now += lookMs) {
    bytes += bytesIn(now / 1_000);
    if (pace.isTooSlow(bytes, now)) return now;
  }
  return undefined;
}

test("a sender that keeps the rate is never too slow; one that stalls is too slow after the grace, and one that is slow a little later", () => {
  assert.equal(
    cutAfterMs(() => 1_000),
    undefined,
  );
  assert.equal(
    cutAfterMs((second) => (second % 3 === 0 ? 3_000 : 0)),
    undefined,
  );
  assert.equal(
    cutAfterMs(() => 0),
    4_000,
  );
  assert.equal(
    cutAfterMs(() => 500),
    8_000,
  );
});

test("a fast beginning does not extend the grace of a later stall", () => {
  assert.equal(
    cutAfterMs((second) => (second < 10 ? 10_000_000 : 0)),
    13_000,
  );
});

test("time between two late checks does not count against a sender", () => {
  const pace = new UploadPace(limits, 0, 0);
  assert.equal(pace.isTooSlow(0, 60_000), false);
  assert.equal(pace.isTooSlow(0, 120_000), true);
});
