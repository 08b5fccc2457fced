import assert from "node:assert/strict";
import { test } from "node:test";
import { quietMsMaxOf } from "../../../apps/worker/attempt/quiet-limit.ts";
import { ContentTimes } from "../../../apps/worker/routing/content-times.ts";
import type { Candidate } from "../../../apps/worker/routing/route.ts";
import { partOf } from "../../support/part-of.ts";

const candidateOf = (model: string, more: object = {}) =>
  partOf<Candidate>({
    key: "u/m",
    name: "u/m",
    model: { id: "m", capabilities: [], ...more },
    target: { upstream: "u", model },
    upstream: { name: "u", dialect: "openai-chat", alsoSpeaks: [] },
  });

const limitOf = (
  { model = "theirs", body = "{}", streams = true, hasOther = true, more = {} },
  times = new ContentTimes(),
): number =>
  Math.round(
    quietMsMaxOf(
      { candidate: candidateOf(model, more), dialect: "openai-chat", body: Buffer.from(body), streams },
      times,
      hasOther,
    ),
  );

test("a target without history may be silent for ten seconds, its last alternative for thirty, a whole answer for ninety", () => {
  assert.deepEqual([limitOf({}), limitOf({ hasOther: false }), limitOf({ streams: false })], [10_000, 30_000, 90_000]);
  assert.equal(limitOf({ body: " ".repeat(400_000) }), 30_000, "100,000 tokens of prompt");
  assert.equal(limitOf({ body: " ".repeat(30 << 20) }), 300_000, "five minutes at most");
});

test("a model that reasons, and a request for reasoning or for a low priority, may be silent for minutes", () => {
  for (const model of ["o3", "gpt-5.4-mini", "openai/gpt-5", "gpt-5-codex"])
    assert.equal(limitOf({ model }), 120_000, model);
  assert.equal(limitOf({ more: { capabilities: ["text", "reasoning"] } }), 120_000);
  assert.equal(limitOf({ more: { capabilities: ["text", "reasoning"] }, streams: false }), 300_000);
  for (const field of [
    '"reasoning_effort":"high"',
    '"reasoning": {"effort":"low"}',
    '"thinking":{"type":"enabled"}',
    '"generationConfig":{"thinkingConfig":{}}',
    '"service_tier":"flex"',
  ])
    assert.ok(limitOf({ body: `{${field}}` }) >= 120_000, field);
  assert.ok(limitOf({ body: '{"messages":[{"content":"\\"reasoning\\": yes"}]}' }) < 11_000, "a caller's words");
});

test("the limit is three times what 95 % of a target's last answers took, in bounds", () => {
  const times = new ContentTimes();
  for (let count = 0; count < 95; count++) times.learn("u/m", true, 400);
  assert.equal(limitOf({}, times), 10_000, "no less than the least");
  for (let count = 0; count < 3; count++) times.learn("u/m", true, 60_000);
  assert.equal(limitOf({}, times), 10_000, "a few slow answers do not count");
  times.learn("u/m", true, 60_000);
  for (let count = 0; count < 60; count++) times.learn("u/m", true, 7_000);
  assert.equal(limitOf({}, times), 180_000);
  for (let count = 0; count < 4; count++) times.learn("u/m", true, 7_000);
  assert.equal(limitOf({}, times), 21_000, "the last 64 answers");
  for (let count = 0; count < 64; count++) times.learn("u/m", true, 200_000);
  assert.equal(limitOf({}, times), 300_000);
  assert.equal(limitOf({ streams: false }, times), 90_000, "whole answers have times of their own");
});

test("targets are remembered up to a bound, and answers that another target began teach nothing", () => {
  const times = new ContentTimes();
  for (let target = 0; target <= 1_000; target++) times.learn(`t${target}`, true, 1_000);
  assert.deepEqual([times.usualMs("t0", true), times.usualMs("t1", true)], [0, 3_000]);
  const heard = (resumes: boolean) =>
    times.subscriber.firstContent?.({
      attempt: { isStreamed: true },
      call: { target: "new", resumes },
      sinceCallMs: 500,
    } as never);
  heard(true);
  assert.equal(times.usualMs("new", true), 0);
  heard(false);
  assert.equal(times.usualMs("new", true), 1_500);
});
