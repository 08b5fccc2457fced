/**
 * How long targets took to begin their last answers, and how long a call may therefore stay silent.
 * In this process only, and bounded. A streamed answer begins with its first content; one that is
 * not streamed arrives as a whole, so its time is that of the whole answer.
 */
import type { Subscriber } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { contentTimesMax, quietFactor, timedTargetsMax } from "../bounds.ts";

interface Times {
  /** In ms; the oldest is replaced. */
  ms: number[];
  next: number;
}

const nameOf = (target: string, isStreamed: boolean) => `${isStreamed ? "s" : "w"} ${target}`;

export class ContentTimes {
  readonly #targets = new Map<string, Times>();
  /** Learns from answers, except from answers that another target began. */
  readonly subscriber: Subscriber<WorkerEvents> = {
    firstContent: ({ attempt: { isStreamed }, call: { target, resumes }, sinceCallMs }) => {
      if (!resumes) this.learn(target, isStreamed, sinceCallMs);
    },
  };

  learn(target: string, isStreamed: boolean, ms: number): void {
    const name = nameOf(target, isStreamed);
    const present = this.#targets.get(name);
    const times = present ?? { ms: [], next: 0 };
    times.ms[times.next] = ms;
    times.next = (times.next + 1) % contentTimesMax;
    if (present !== undefined) return;
    this.#targets.set(name, times);
    if (this.#targets.size <= timedTargetsMax) return;
    for (const [oldest] of this.#targets) {
      this.#targets.delete(oldest);
      break;
    }
  }

  /** Several times the 95th percentile, in ms; 0 for a target that has not answered yet. */
  usualMs(target: string, isStreamed: boolean): number {
    const ascending = this.#targets.get(nameOf(target, isStreamed))?.ms.toSorted((one, other) => one - other) ?? [];
    return quietFactor * (ascending[Math.ceil(ascending.length * 0.95) - 1] ?? 0);
  }
}
