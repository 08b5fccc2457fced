import assert from "node:assert/strict";
import { test } from "node:test";
import { copyOf, TaskThreads, TaskTimeout } from "#service/task-thread.ts";
import type { TestTask } from "./fixtures/task-thread.ts";

/** One thread for small tasks, and one for any. */
async function withThread(
  timeoutMs: number,
  act: (threads: TaskThreads<TestTask, unknown>) => Promise<void>,
): Promise<void> {
  const thread = new TaskThreads<TestTask, unknown>(
    new URL("./fixtures/task-thread.ts", import.meta.url),
    timeoutMs,
    1,
  );
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
const large = 2 << 20;

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
    ].map((make) => thread.run(make, { key, bytes: 1 }));
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
    const run = (by: string, workMs: number) =>
      thread.run(say(by, workMs), { key: by, bytes: large }).then(() => order.push(by));
    const many = Array.from({ length: 5 }, () => run("large", 60));
    await many[0];
    await Promise.all([...many, ...Array.from({ length: 5 }, () => run("small", 5)), run("late", 5)]);
    assert.ok(order.lastIndexOf("small") < order.lastIndexOf("large"), order.join());
    assert.ok(order.indexOf("late") < 5, order.join());
    assert.equal(order.indexOf("small") <= 3, true, order.join());
  }));

test("a cancelled task does not start, and neither does one after close", () =>
  withThread(10_000, async (thread) => {
    const leaving = new AbortController();
    let made = 0;
    const first = thread.run(say("first", 20), { key, bytes: large });
    const left = thread.run(
      () => {
        made++;
        return say("left")();
      },
      { key, bytes: large, signal: leaving.signal },
    );
    leaving.abort(new Error("left"));
    await assert.rejects(left, /left/);
    await assert.rejects(thread.run(say("late"), { key, bytes: large, signal: leaving.signal }), /left/);
    assert.equal(await first, "first");
    const waiting = Promise.allSettled([
      thread.run(say("x"), { key, bytes: large }),
      thread.run(say("y"), { key, bytes: large }),
    ]);
    await thread.close();
    assert.deepEqual(
      (await waiting).map(({ status }) => status),
      ["rejected", "rejected"],
    );
    await assert.rejects(thread.run(say("z"), { key, bytes: large }), /ended/);
    assert.equal(made, 0);
  }));

test("bytes are transferred in both directions", () =>
  withThread(10_000, async (thread) => {
    const bytes = Buffer.from("hello there");
    const copy = copyOf(bytes);
    const back = await thread.run(() => ({ value: { bytes: copy }, transfer: [copy.buffer] }), { key, bytes: 1 });
    assert.deepEqual(Buffer.from(back as Uint8Array), bytes);
    assert.equal(copy.length, 0);
  }));

test("large tasks of many keys do not keep a small one waiting, and a new key's large one waits for one", () =>
  withThread(10_000, async (threads) => {
    const order: string[] = [];
    const run = (name: string, by: string, bytes: number, workMs: number) =>
      threads.run(say(name, workMs), { key: by, bytes }).then(() => order.push(name));
    await Promise.all([run("warm", "x", 1, 0), run("warm", "y", large, 0)]);
    order.length = 0;
    const many = Array.from({ length: 12 }, (_, index) => run("large", `key${index % 6}`, large, 100));
    await Promise.all([run("small", "neighbour", 200_000, 1), run("new", "another", large, 1), ...many]);
    assert.equal(order[0], "small");
    assert.ok(order.indexOf("new") <= 7, order.join());
  }));

test("the limit is CPU time: a task that the machine leaves waiting goes on, and ends only after several times its limit", () =>
  withThread(300, async (threads) => {
    const sleep = (sleepMs: number) => threads.run(() => ({ value: { say: "slept", sleepMs } }), { key, bytes: 1 });
    // Its start takes CPU time too.
    await threads.run(say("warm"), { key, bytes: 1, timeoutMs: 10_000 });
    assert.equal(await sleep(700), "slept");
    await assert.rejects(sleep(60_000), (error) => error instanceof TaskTimeout && error.isBusy);
    await threads.run(say("warm"), { key, bytes: 1, timeoutMs: 10_000 });
    const hung = threads.run(() => ({ value: "hang" as const }), { key, bytes: 1 });
    await assert.rejects(hung, (error) => error instanceof TaskTimeout && !error.isBusy);
  }));
