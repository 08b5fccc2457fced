/**
 * Waiting for a condition; time limits that hold on a busy machine: they count only time in which
 * the test itself could run.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import type { Role } from "./gateway.ts";
import { metricsOf } from "./metrics.ts";

const pauseMs = 5;
/** The most that one look counts: a little more than it takes where nothing is in its way. */
const lookMsMax = 10;

/** Settles when the condition holds; an error that names it after `timeoutMs`. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, timeoutMs = 10_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await delay(10);
  }
}

/**
 * Fails when the condition does not hold within so many ms. Their clock stands still while this
 * process is held up, while a look takes its time, and while `answers` is not through: what is
 * asked there is a Redis or a disk that what is waited for needs as well.
 */
export async function within(
  ms: number,
  what: string,
  holds: () => boolean | Promise<boolean>,
  answers: () => unknown = () => undefined,
): Promise<void> {
  for (let passedMs = 0; !(await holds()); ) {
    assert.ok(passedMs < ms, `not within ${ms} ms: ${what}`);
    const lookedAt = performance.now();
    await delay(pauseMs);
    await answers();
    passedMs += Math.min(performance.now() - lookedAt, lookMsMax);
  }
}

/** How long the processor worked for this process while it did something, in ms. */
export async function workMsOf(act: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** How long the processors have worked for these roles, in seconds. */
export async function workedSecondsOf(roles: readonly Role[]): Promise<number> {
  const texts = await Promise.all(roles.map(metricsOf));
  return texts.reduce((sum, text) => sum + Number(/^process_cpu_seconds_total (\S+)/m.exec(text)?.[1]), 0);
}
