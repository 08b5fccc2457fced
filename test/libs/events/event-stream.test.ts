import assert from "node:assert/strict";
import { test } from "node:test";
import { EventStream } from "#events/event-stream.ts";

interface Events {
  queued: { queue: string };
  ended: { outcome: string };
}

test("subscribers receive the events they asked for, in the order of their subscription", () => {
  const seen: string[] = [];
  const stream = new EventStream<Events>(
    { queued: ({ queue }) => seen.push(`first ${queue}`) },
    { queued: ({ queue }) => seen.push(`second ${queue}`), ended: ({ outcome }) => seen.push(`second ${outcome}`) },
  );
  stream.emit("queued", { queue: "chat" });
  stream.emit("ended", { outcome: "complete" });
  assert.deepEqual(seen, ["first chat", "second chat", "second complete"]);
});

test("a kind without a subscriber says so and emits to nobody", () => {
  const stream = new EventStream<Events>({ queued: () => assert.fail("not emitted") });
  assert.deepEqual([stream.has("queued"), stream.has("ended")], [true, false]);
  stream.emit("ended", { outcome: "complete" });
});
