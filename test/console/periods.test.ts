/**
 * Ranges, the periods before them, and the steps of a plot. Local days are those of the process's
 * zone.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { intervalOf, intervalsFor, periodBefore, periodOf, stepsOf } from "../../apps/console/parts/periods.ts";
import { labelled, ranksOf } from "../../apps/console/parts/plot-shape.ts";

process.env.TZ = "Europe/Berlin";
const local = (text: string) => new Date(text).getTime();
const now = local("2026-11-23T12:10:00");
const texts = ({ from, to }: { from: number; to: number }) => [new Date(from), new Date(to)];

test("a range that ends now ends with the present half hour, others with their day or month", () => {
  for (const [range, from, to] of [
    ["today", "2026-11-23T00:00", "2026-11-23T12:30"],
    ["yesterday", "2026-11-22T00:00", "2026-11-23T00:00"],
    ["24h", "2026-11-22T12:30", "2026-11-23T12:30"],
    ["7d", "2026-11-16T12:30", "2026-11-23T12:30"],
    ["month", "2026-11-01T00:00", "2026-11-23T12:30"],
    ["last-month", "2026-10-01T00:00", "2026-11-01T00:00"],
  ] as const)
    assert.deepEqual(texts(periodOf({ range }, "7d", now)), texts({ from: local(from), to: local(to) }), range);
});

test("ranges that make no sense still give a period", () => {
  const nonsense = [
    { range: "never" },
    { from: "x", to: "y" },
    { range: "custom", from: "2026-11-02T00:00:00Z", to: "2026-11-01T00:00:00Z" },
    { range: "custom", from: "2026-11-01T00:00:00Z", to: "2026-11-01T00:00:00Z" },
  ];
  for (const search of nonsense) {
    const { from, to } = periodOf(search, "7d", now);
    assert.ok(from < to, JSON.stringify(search));
  }
});

test("the period before", () => {
  const before = (range: "today" | "yesterday" | "24h" | "month" | "last-month") =>
    texts(periodBefore(periodOf({ range }, "7d", now), range));
  assert.deepEqual(before("today"), texts({ from: local("2026-11-22T00:00"), to: local("2026-11-22T12:30") }));
  assert.deepEqual(before("yesterday"), texts({ from: local("2026-11-21T00:00"), to: local("2026-11-22T00:00") }));
  assert.deepEqual(before("24h"), texts({ from: local("2026-11-21T12:30"), to: local("2026-11-22T12:30") }));
  assert.deepEqual(before("last-month"), texts({ from: local("2026-09-01T00:00"), to: local("2026-10-01T00:00") }));
  assert.deepEqual(before("month")[0], new Date(local("2026-10-01T00:00")));
});

test("a period before that would reach into this month ends with its own month", () => {
  const end = local("2026-03-31T20:00");
  const { to } = periodBefore(periodOf({ range: "month" }, "7d", end), "month");
  assert.equal(to, local("2026-03-01T00:00"));
});

test("intervals are neither too fine nor too long", () => {
  const day = { from: local("2026-11-22T12:30"), to: local("2026-11-23T12:30") };
  assert.equal(intervalOf(day), "half-hour");
  assert.equal(intervalOf(day, "hour"), "hour");
  assert.equal(intervalOf(day, "month"), "half-hour");
  const year = { from: local("2026-01-01T00:00"), to: local("2027-01-01T00:00") };
  assert.deepEqual(intervalsFor(year), ["day", "month"]);
  assert.equal(intervalOf(year, "half-hour"), "month");
});

test("steps cover the period, also when the clock changes", () => {
  const days = stepsOf({ from: local("2026-10-24T10:00"), to: local("2026-10-27T00:30") }, "day");
  assert.deepEqual(days, ["2026-10-24T00:00", "2026-10-25T00:00", "2026-10-26T00:00", "2026-10-27T00:00"].map(local));
  assert.equal(stepsOf({ from: days[1] as number, to: days[2] as number }, "hour").length, 25);
  const months = stepsOf({ from: local("2026-01-31T00:00"), to: local("2026-03-02T00:00") }, "month");
  assert.deepEqual(months, ["2026-01-01T00:00", "2026-02-01T00:00", "2026-03-01T00:00"].map(local));
});

test("labels prefer midnight and noon, and never crowd", () => {
  const times = stepsOf({ from: local("2026-11-16T12:30"), to: local("2026-11-23T12:30") }, "hour");
  const ranks = ranksOf(times);
  const midnights = labelled(ranks, 10).map((index) => new Date(times[index] as number).getHours());
  assert.deepEqual([...new Set(midnights)], [0]);
  for (const max of [1, 3, 12, 60, 500]) assert.ok(labelled(ranks, max).length <= max);
  assert.deepEqual(labelled(ranksOf([0, 86_400_000, 172_800_000]), 2), [0, 2]);
});
