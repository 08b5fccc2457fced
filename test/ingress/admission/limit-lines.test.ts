import assert from "node:assert/strict";
import { test } from "node:test";
import { LimitLines, type LineRefusal } from "../../../apps/ingress/admission/limit-lines.ts";
import { randomFrom } from "../../support/random.ts";

interface Waiting {
  key: string;
  joinedAt: number;
}

const slots: LineRefusal = { retryMs: 1_000, perMinute: undefined, countsTokens: false };
const tokens: LineRefusal = { retryMs: 1_000, perMinute: undefined, countsTokens: true };
const requests = (retryMs: number, perMinute: number): LineRefusal => ({ retryMs, perMinute, countsTokens: false });
const waiting = (key = "a", joinedAt = 0): Waiting => ({ key, joinedAt });
const shareOf = ({ key }: Waiting) => ({ group: "default", weight: 1, key });

const linesOf = (random = () => 0) => {
  const lines = new LimitLines<Waiting>(random);
  const join = (item: Waiting, refusal: LineRefusal, until = 30_000) =>
    lines.join("line", item, { share: shareOf(item), until, refusal }, item.joinedAt);
  return { lines, join };
};

test("a line asks when its limit may have capacity, sixteen at once, and again at once while all are admitted", () => {
  const { lines, join } = linesOf();
  const items = Array.from({ length: 20 }, () => waiting());
  for (const item of items) join(item, slots);
  assert.equal(lines.nextAt("line"), 1_000);
  assert.deepEqual(lines.takeDue("line", 999), { due: [], expired: [] });
  const { due } = lines.takeDue("line", 1_000);
  assert.deepEqual(due, items.slice(0, 16));
  assert.deepEqual(lines.takeDue("line", 1_001).due, []);
  for (const item of due) lines.leave(item, 1_005);
  assert.deepEqual(lines.takeDue("line", 1_005).due, items.slice(16));
});

test("what the limit refuses again stays first in its line, and a generation that ends meanwhile lets it ask at once", () => {
  const { lines, join } = linesOf();
  const items = [waiting(), waiting(), waiting()];
  for (const item of items) join(item, slots);
  const [first, second, third] = lines.takeDue("line", 1_000).due as [Waiting, Waiting, Waiting];
  lines.leave(first, 1_002);
  lines.wake("line", 1_002);
  lines.refused(second, slots, 1_003);
  lines.refused(third, slots, 1_003);
  join(waiting("a", 1_003), slots);
  assert.equal(lines.nextAt("line"), 1_003);
  assert.deepEqual(lines.takeDue("line", 1_003).due.slice(0, 2), [second, third]);
});

test("keys and groups take turns among those that the limit refused again and those that came later", () => {
  for (const groupOf of [() => "default", (key: string) => key]) {
    const lines = new LimitLines<Waiting>(() => 0);
    const join = (item: Waiting) => {
      const share = { group: groupOf(item.key), weight: 1, key: item.key };
      lines.join("line", item, { share, until: 60_000, refusal: slots }, item.joinedAt);
    };
    for (let count = 0; count < 8; count++) join(waiting("heavy"));
    const served: string[] = [];
    for (let now = 1_000; lines.size > 0; now += 1_000) {
      if (now === 3_000) for (const key of ["light", "other", "light"]) join(waiting(key, now));
      lines.wake("line", now);
      const [first, ...others] = lines.takeDue("line", now).due;
      assert.ok(first);
      served.push(first.key);
      lines.leave(first, now);
      for (const item of others) lines.refused(item, slots, now);
    }
    assert.equal(served.length, 11);
    assert.deepEqual(served.slice(0, 2), ["heavy", "heavy"]);
    for (const key of ["light", "other"]) assert.ok(served.slice(2, 5).includes(key), served.join(" "));
    assert.equal(served.slice(0, 8).filter((key) => key === "light").length, 2, served.join(" "));
  }
});

test("a waiting request has a place in its line, also while others ask, and a time where requests are counted", () => {
  for (const refusal of [slots, requests(20_000, 2)]) {
    const { lines, join } = linesOf();
    const items = [waiting("a"), waiting("a"), waiting("b"), waiting("a")];
    for (const item of items) join(item, refusal);
    const at = (ahead: number) => (refusal === slots ? undefined : 20_000 + Math.floor(ahead / 2) * 60_000);
    const places = [1, 2, 1, 3];
    for (const [index, item] of items.entries())
      assert.deepEqual(lines.placeOf(item), { ahead: places[index], at: at(places[index] as number) });
  }
  const { lines, join } = linesOf();
  const items = [waiting(), waiting()] as const;
  for (const item of items) join(item, tokens);
  lines.takeDue("line", 1_000);
  assert.deepEqual(
    items.map((item) => lines.placeOf(item)?.ahead),
    [0, 1],
  );
  assert.equal(lines.placeOf(waiting()), undefined);
});

test("a line that waits for tokens asks for its first request alone", () => {
  const { lines, join } = linesOf();
  const items = [waiting(), waiting()];
  for (const item of items) join(item, tokens);
  assert.deepEqual(lines.takeDue("line", 1_000).due, [items[0]]);
});

test("a line for requests per minute does not ask earlier than its limit says, and refuses what no minute has space for", () => {
  const { lines, join } = linesOf();
  join(waiting(), requests(20_000, 2));
  lines.wake("line", 100);
  assert.equal(lines.nextAt("line"), 20_000);
  assert.equal(lines.canMeet("line", "a", 20_000), true);
  assert.equal(lines.canMeet("line", "a", 19_999), false);
  join(waiting(), requests(20_000, 2));
  assert.equal(lines.canMeet("line", "a", 79_999), false);
  assert.equal(lines.canMeet("line", "a", 80_000), true);
  assert.equal(lines.canMeet("line", "b", 20_000), true);
});

test("a request leaves at its bound, with others before and behind it, and not while it asks", () => {
  const { lines, join } = linesOf();
  const [early, late, asking] = [waiting(), waiting(), waiting()];
  join(asking, tokens, 1_200);
  assert.deepEqual(lines.takeDue("line", 1_000).due, [asking]);
  join(late, tokens, 5_000);
  join(early, tokens, 1_500);
  assert.equal(lines.nextAt("line"), 1_200);
  assert.deepEqual(lines.takeDue("line", 1_300), { due: [], expired: [] });
  assert.equal(lines.nextAt("line"), 1_500);
  lines.refused(asking, tokens, 1_400);
  assert.deepEqual(lines.takeDue("line", 1_600).expired, [asking, early]);
  assert.equal(lines.size, 1);
  lines.leave(late, 1_600);
  assert.equal(lines.has("line"), false);
  assert.equal(lines.nextAt("line"), undefined);
});

/** A limit of concurrent generations over several ingresses, in virtual time. */
function play(seed: number, { ingresses = 3, keys = 4, slotsMax = 5, arrivals = 400, runMs = 300 } = {}) {
  const random = randomFrom(seed);
  const parts = Array.from({ length: ingresses }, () => new LimitLines<Waiting>(random));
  const running: { endsAt: number; at: number }[] = [];
  const asks: { at: number; item: Waiting; answeredAt: number }[] = [];
  const waits: number[] = [];
  const servedOf = new Map<string, number>();
  let scripts = 0;
  let expired = 0;
  let left = arrivals;
  for (let now = 0; left > 0 || parts.some(({ size }) => size > 0); now++) {
    assert.ok(now < 200_000, `${seed}: the lines are not empty after 200 s`);
    for (let index = running.length - 1; index >= 0; index--) {
      const { endsAt, at } = running[index] as { endsAt: number; at: number };
      if (endsAt > now) continue;
      running.splice(index, 1);
      parts[at]?.wake("line", now);
    }
    if (left > 0 && now % 10 === 0) {
      left--;
      const item = waiting(`k${Math.floor(random() * keys)}`, now);
      parts[Math.floor(random() * ingresses)]?.join(
        "line",
        item,
        { share: shareOf(item), until: now + 60_000, refusal: slots },
        now,
      );
    }
    for (let index = asks.length - 1; index >= 0; index--) {
      const { at, item, answeredAt } = asks[index] as { at: number; item: Waiting; answeredAt: number };
      if (answeredAt > now) continue;
      asks.splice(index, 1);
      const lines = parts[at] as LimitLines<Waiting>;
      if (running.length >= slotsMax) {
        lines.refused(item, slots, now);
        continue;
      }
      running.push({ endsAt: now + runMs, at });
      waits.push(now - item.joinedAt);
      servedOf.set(item.key, (servedOf.get(item.key) ?? 0) + 1);
      lines.leave(item, now);
    }
    for (const [at, lines] of parts.entries()) {
      if ((lines.nextAt("line") ?? Number.POSITIVE_INFINITY) > now) continue;
      const taken = lines.takeDue("line", now);
      expired += taken.expired.length;
      if (taken.due.length > 0) scripts++;
      // Answers come in the order of the questions.
      for (const item of taken.due) asks.unshift({ at, item, answeredAt: now + 2 });
    }
  }
  return { waits, scripts, expired, servedOf };
}

test("three ingresses serve all that wait for one limit: none is lost, none starves, and scripts stay few", () => {
  for (let seed = 1; seed <= 50; seed++) {
    const { waits, scripts, expired } = play(seed);
    assert.equal(waits.length, 400, String(seed));
    assert.equal(expired, 0, String(seed));
    // 400 generations of 300 ms in five slots take 24 s.
    assert.ok(Math.max(...waits) < 26_000, `${seed}: ${Math.max(...waits)}`);
    assert.ok(scripts < 3 * 400, `${seed}: ${scripts}`);
  }
});
