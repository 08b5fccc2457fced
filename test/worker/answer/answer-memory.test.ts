import assert from "node:assert/strict";
import { test } from "node:test";
import { AnswerMemory } from "../../../apps/worker/answer/answer-memory.ts";

const mebibyte = 1 << 20;

/** A memory, and claims in it that note when they go on. */
function memoryOf(bytesMax: number) {
  const memory = new AnswerMemory(bytesMax);
  const resumed: string[] = [];
  return { memory, resumed, claim: (key: string, name = key) => memory.claim(key, () => resumed.push(name)) };
}

test("answers within the memory never wait, and give back what they held", () => {
  const { memory, claim } = memoryOf(100 * mebibyte);
  const [one, other] = [claim("a"), claim("b")];
  one.hold(5 * mebibyte);
  other.hold(30 * mebibyte);
  assert.deepEqual([one.isWaiting, other.isWaiting, memory.used], [false, false, 40 * mebibyte]);
  one.end();
  one.end();
  assert.equal(memory.used, 32 * mebibyte);
  one.hold(90 * mebibyte);
  assert.equal(memory.used, 32 * mebibyte);
});

test("one key gets no more than its share while another is there, and goes on when there is space", () => {
  const { memory, resumed, claim } = memoryOf(100 * mebibyte);
  const greedy = Array.from({ length: 20 }, (_, index) => claim("greedy", `greedy ${index}`));
  for (const each of greedy) each.hold(8 * mebibyte);
  const waiting = greedy.filter(({ isWaiting }) => isWaiting);
  assert.deepEqual([memory.used, waiting.length], [80 * mebibyte, 10]);
  const neighbour = claim("neighbour");
  neighbour.hold(8 * mebibyte);
  assert.equal(neighbour.isWaiting, false);
  resumed.length = 0;
  greedy[0]?.end();
  greedy[1]?.end();
  assert.deepEqual(resumed, ["greedy 10"]);
});

test("answers that all wait for each other end one by one, the oldest first, beyond the bound by one answer at most", () => {
  const { memory, claim } = memoryOf(40 * mebibyte);
  const size = 24 * mebibyte;
  const answers = Array.from({ length: 6 }, (_, index) => ({ bytes: 0, claim: claim(`key ${index}`) }));
  let most = 0;
  let turns = 0;
  const ended: number[] = [];
  while (ended.length < answers.length) {
    assert.ok(++turns < 1_000, "nobody goes on");
    for (const [index, answer] of answers.entries()) {
      if (ended.includes(index) || answer.claim.isWaiting) continue;
      if (answer.bytes === size) {
        answer.claim.end();
        ended.push(index);
      } else {
        answer.bytes += mebibyte;
        answer.claim.hold(answer.bytes);
      }
      most = Math.max(most, memory.used);
    }
  }
  assert.equal(ended[0], 0);
  assert.ok(most <= 40 * mebibyte + size, `${most}`);
  assert.deepEqual([memory.used, memory.waiting], [0, 0]);
});
