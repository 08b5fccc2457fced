import assert from "node:assert/strict";
import { test } from "node:test";
import { copyOf, TaskThread, TaskTimeout } from "#service/task-thread.ts";
import type { TestTask } from "./fixtures/task-thread.ts";

async function withThread(
  timeoutMs: number,
  act: (thread: TaskThread<TestTask, unknown>) => Promise<void>,
): Promise<void> {
  const thread = new TaskThread<TestTask, unknown>(new URL("./fixtures/task-thread.ts", import.meta.url), timeoutMs);
  try {
    await act(thread);
  } finally {
    await thread.close();
  }
}

const say = (text: string, workMs?: number) => () => ({
  value: { say: text, ...(workMs !== undefined && { workMs }) },
});
const key = "a";

test("a task that throws, crashes or takes too long fails alone, and the next thread runs the waiting tasks", () =>
  withThread(2_000, async (thread) => {
    const done = [
      say("one"),
      () => ({ value: "fail" as const }),
      say("two"),
      () => ({ value: "crash" as const }),
      say("three"),
      () => ({ value: "hang" as const }),
      say("four"),
    ].map((make) => thread.run(make, { key }));
    const [one, failed, two, crashed, three, hung, four] = await Promise.allSettled(done);
    for (const [settled, text] of [
      [one, "one"],
      [two, "two"],
      [three, "three"],
      [four, "four"],
    ] as const)
      assert.deepEqual(settled, { status: "fulfilled", value: text });
    assert.match(String((failed as PromiseRejectedResult).reason), /no such work/);
    assert.match(String((crashed as PromiseRejectedResult).reason), /the thread has ended/);
    assert.ok((hung as PromiseRejectedResult).reason instanceof TaskTimeout);
  }));

test("keys share the thread's time equally, whatever the number and size of their tasks", () =>
  withThread(10_000, async (thread) => {
    const order: string[] = [];
    const run = (by: string, workMs: number) => thread.run(say(by, workMs), { key: by }).then(() => order.push(by));
    const large = Array.from({ length: 5 }, () => run("large", 60));
    await large[0];
    await Promise.all([...large, ...Array.from({ length: 5 }, () => run("small", 5)), run("late", 5)]);
    assert.ok(order.lastIndexOf("small") < order.lastIndexOf("large"), order.join());
    assert.ok(order.indexOf("late") < 5, order.join());
    assert.equal(order.indexOf("small") <= 3, true, order.join());
  }));

test("a cancelled task does not start, and neither does one after close", () =>
  withThread(10_000, async (thread) => {
    const leaving = new AbortController();
    let made = 0;
    const first = thread.run(say("first", 20), { key });
    const left = thread.run(
      () => {
        made++;
        return say("left")();
      },
      { key, signal: leaving.signal },
    );
    leaving.abort(new Error("left"));
    await assert.rejects(left, /left/);
    await assert.rejects(thread.run(say("late"), { key, signal: leaving.signal }), /left/);
    assert.equal(await first, "first");
    const waiting = Promise.allSettled([thread.run(say("x"), { key }), thread.run(say("y"), { key })]);
    await thread.close();
    assert.deepEqual(
      (await waiting).map(({ status }) => status),
      ["rejected", "rejected"],
    );
    await assert.rejects(thread.run(say("z"), { key }), /ended/);
    assert.equal(made, 0);
  }));

test("bytes are transferred in both directions", () =>
  withThread(10_000, async (thread) => {
    const bytes = Buffer.from("hello there");
    const copy = copyOf(bytes);
    const back = await thread.run(() => ({ value: { bytes: copy }, transfer: [copy.buffer] }), { key });
    assert.deepEqual(Buffer.from(back as Uint8Array), bytes);
    assert.equal(copy.length, 0);
  }));
