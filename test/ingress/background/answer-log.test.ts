import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock as clock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { LogWriter, logStateOf, readLog } from "../../../apps/ingress/background/answer-log.ts";
import { Sealing } from "../../../apps/ingress/common/sealing.ts";
import { BoundedStore } from "../../../apps/ingress/stored/bounded-store.ts";
import { logIdOf, SealedStore } from "../../../apps/ingress/stored/sealed-store.ts";
import { connectTestRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const redis = await connectTestRedis("request");
const store = new SealedStore(
  new BoundedStore({
    redis,
    keyspace: keyspaceOf("test"),
    space: { hasSpace: async () => true },
    lifeMs: 60_000,
    keyBytesMax: 1_000_000,
    bytesMax: 1_000_000,
  }),
  { clock, redisWaitMs: 0 },
);
const owner = { keyId: "key_1", sealing: Sealing.of("sk-one", "key_1") };
const event = (text: string) => Buffer.from(`data: ${text}\n\n`);

/** A log whose writer stored two events and vanished, and which another one went on with. */
async function takenOverLog(id: string): Promise<void> {
  await store.put(owner, { id: logIdOf(id), value: Buffer.from("log") });
  const common = { store, owner, id, clock, drained: () => {} };
  const first = new LogWriter({ ...common, parts: 0, events: 0, isTakenOver: false });
  first.head({ status: 200, headers: {} });
  first.event(event("one"));
  first.event(event("two"));
  // Gives Redis the events that are gathered.
  first.head({ status: 200, headers: {} });
  await until("two events are stored", async () => (await logStateOf(store, owner, id))?.parts === 3);
  const state = await logStateOf(store, owner, id);
  assert.ok(state !== undefined);
  assert.equal(state.events, 2);
  const second = new LogWriter({ ...common, ...state, isTakenOver: true });
  second.event(event("three"));
  await second.end();
}

async function readFrom(id: string, after: number): Promise<{ outcome: string; text: string; next: number }> {
  const read = { text: "", next: -1 };
  const outcome = await readLog(
    { store, clock },
    { owner, id, after },
    {
      head: () => {},
      events: async (bytes, next) => {
        read.text += bytes.toString().replaceAll(/^id: .*\n/gm, "");
        read.next = next;
      },
      waits: () => true,
      isWritten: async () => true,
    },
  );
  return { outcome, ...read };
}

test("a reader that saw no more than the log has gets what another writer added", async () => {
  await takenOverLog("gen_a");
  const all = ["one", "two", "three"].map((text) => String(event(text)));
  assert.deepEqual(await readFrom("gen_a", -1), { outcome: "end", text: all.join(""), next: 3 });
  assert.deepEqual(await readFrom("gen_a", 1), { outcome: "end", text: all[2], next: 3 });
});

test("for a reader that saw an event which the log lost with its writer, the answer is lost", async () => {
  await takenOverLog("gen_b");
  assert.equal((await readFrom("gen_b", 2)).outcome, "lost");
  assert.equal((await readFrom("gen_b", 7)).outcome, "lost");
});

test("a log is not lost because Redis does not say once whether it is still written", async () => {
  const id = "gen_c";
  await store.put(owner, { id: logIdOf(id), value: Buffer.from("log") });
  const writer = new LogWriter({
    ...{ store, owner, id, parts: 0, events: 0 },
    isTakenOver: false,
    clock,
    drained() {},
  });
  // Each look at the clock is longer than a log may be silent.
  let now = 0;
  let questions = 0;
  const outcome = await readLog(
    { store, clock: { ...clock, now: () => (now += 20_000) } },
    { owner, id, after: -1 },
    {
      head: () => {},
      events: async () => {},
      waits: () => true,
      isWritten: async () => {
        if (questions++ === 0) throw new Error("Command timed out");
        if (questions === 2) await writer.end();
        return true;
      },
    },
  );
  assert.deepEqual([outcome, questions], ["end", 2]);
});
