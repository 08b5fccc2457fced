import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { OutageLog } from "#service/outage-log.ts";

interface Line {
  msg: string;
  level: number;
  err?: { stack: string };
  failures?: number;
  reason?: string;
}

test("an outage logs its first failure in full, then one line a minute, then its end", () => {
  const lines: Line[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  let now = 1_000_000;
  const clock = { now: () => now, epoch: () => now };
  const outage = new OutageLog({ log, level: "error", failed: "it fails", works: "it works", clock });
  outage.worked();
  assert.equal(lines.length, 0);
  for (let second = 0; second < 150; second++, now += 1_000)
    outage.failed(Object.assign(new Error(""), { code: "ECONNREFUSED" }));
  outage.worked();
  outage.worked();
  assert.deepEqual(
    lines.map(({ msg, level, failures, reason, err }) => [msg, level, failures, reason, err !== undefined]),
    [
      ["it fails", 50, undefined, undefined, true],
      ["it fails", 50, 61, "ECONNREFUSED", false],
      ["it fails", 50, 121, "ECONNREFUSED", false],
      ["it works", 30, 150, undefined, false],
    ],
  );
  outage.failed(new Error("other"));
  assert.match(lines.at(-1)?.err?.stack ?? "", /Error: other\n/);
});
