/**
 * One timer for all answers: a wheel of 1 ms slots, so that thousands of paced streams need one
 * timer and no allocation per token.
 */

/** An entry is in the wheel at most once. Its owner creates it once and sets it repeatedly. */
export interface WheelEntry {
  /** Runs once, up to some milliseconds after `dueMs`, never before. */
  run(nowMs: number): void;
  dueMs: number;
  previous: WheelEntry | undefined;
  next: WheelEntry | undefined;
}

export interface Wheel {
  /** Milliseconds on the wheel's own clock. */
  now(): number;
  /** Sets the entry to run at a time of this clock, instead of an earlier setting. */
  set(entry: WheelEntry, dueMs: number): void;
  /** Removes the entry, if it is set. */
  remove(entry: WheelEntry): void;
}

/** 4 s; an entry due later stays in its slot for another turn. */
const slotCount = 4_096;
/**
 * The most slots that the timer sleeps for; bounds the search for the next slot that is not empty.
 */
const sleepSlotsMax = 64;

export const createWheelEntry = (run: (nowMs: number) => void): WheelEntry => ({
  run,
  dueMs: 0,
  previous: undefined,
  next: undefined,
});

/** An empty ring. */
function createRing(): WheelEntry {
  const head = createWheelEntry(() => {});
  head.previous = head;
  head.next = head;
  return head;
}

const isEmpty = (head: WheelEntry) => head.next === head;

/** Runs a timer only while an entry is set. `now` gives milliseconds of a monotonic clock. */
export function createWheel(now: () => number = () => performance.now()): Wheel {
  const slots = Array.from({ length: slotCount }, createRing);
  const batch = createRing();
  let count = 0;
  /** All slots up to this tick have run. */
  let doneTick = Math.floor(now());
  let armed: NodeJS.Timeout | undefined;
  let armedTick = 0;
  let turning = false;

  const unlink = (entry: WheelEntry) => {
    if (entry.next === undefined || entry.previous === undefined) return;
    entry.previous.next = entry.next;
    entry.next.previous = entry.previous;
    entry.previous = undefined;
    entry.next = undefined;
    count--;
  };

  const link = (entry: WheelEntry, head: WheelEntry) => {
    entry.previous = head.previous;
    entry.next = head;
    (head.previous as WheelEntry).next = entry;
    head.previous = entry;
    count++;
  };

  const arm = (tick: number) => {
    if (turning || (armed !== undefined && armedTick <= tick)) return;
    clearTimeout(armed);
    armedTick = tick;
    armed = setTimeout(turn, Math.max(1, tick - now()));
  };

  /** Removes the entries first: a run may set and remove any entry, including its own. */
  const runSlot = (slot: WheelEntry, nowMs: number) => {
    if (isEmpty(slot)) return;
    batch.next = slot.next as WheelEntry;
    batch.previous = slot.previous as WheelEntry;
    (batch.next as WheelEntry).previous = batch;
    (batch.previous as WheelEntry).next = batch;
    slot.next = slot;
    slot.previous = slot;
    while (!isEmpty(batch)) {
      const entry = batch.next as WheelEntry;
      unlink(entry);
      if (entry.dueMs <= nowMs) entry.run(nowMs);
      else link(entry, slot);
    }
  };

  const turn = () => {
    armed = undefined;
    turning = true;
    const nowMs = now();
    const nowTick = Math.floor(nowMs);
    for (let tick = Math.max(doneTick + 1, nowTick - slotCount + 1); tick <= nowTick; tick++) {
      doneTick = tick;
      runSlot(slots[tick % slotCount] as WheelEntry, nowMs);
    }
    turning = false;
    if (count === 0) return;
    let next = nowTick + 1;
    while (next < nowTick + sleepSlotsMax && isEmpty(slots[next % slotCount] as WheelEntry)) next++;
    arm(next);
  };

  return {
    now,
    set(entry, dueMs) {
      unlink(entry);
      if (count === 0 && armed === undefined) doneTick = Math.max(doneTick, Math.floor(now()));
      entry.dueMs = dueMs;
      const tick = Math.max(Math.ceil(dueMs), doneTick + 1);
      link(entry, slots[tick % slotCount] as WheelEntry);
      arm(tick);
    },
    remove(entry) {
      unlink(entry);
      if (count > 0 || turning) return;
      clearTimeout(armed);
      armed = undefined;
    },
  };
}
