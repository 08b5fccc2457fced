/**
 * The repairs that targets needed lately and that later requests need as well, so that they are
 * sent with them at once. In this process only; bounded, and forgotten after an hour.
 */
import type { Repair } from "#dialects/repairs/repairs.ts";
import { learnedRepairsMax, learnedRepairsMs, learnedTargetsMax } from "../bounds.ts";

const none: readonly Repair[] = [];

export class LearnedRepairs {
  /** By the target's key: each repair by its JSON, and when it is forgotten. */
  readonly #targets = new Map<string, Map<string, { repair: Repair; until: number }>>();

  of(target: string, now: number): readonly Repair[] {
    const repairs = this.#targets.get(target);
    if (repairs === undefined) return none;
    for (const [text, { until }] of repairs) if (until <= now) repairs.delete(text);
    if (repairs.size === 0) this.#targets.delete(target);
    return [...repairs.values()].map(({ repair }) => repair);
  }

  /** The target answered a request with these repairs, which it had refused without them. */
  learn(target: string, learned: readonly Repair[], now: number): void {
    const repairs = this.#targets.get(target) ?? new Map<string, { repair: Repair; until: number }>();
    for (const repair of learned)
      if (repairs.size < learnedRepairsMax)
        repairs.set(JSON.stringify(repair), { repair, until: now + learnedRepairsMs });
    this.#targets.delete(target);
    this.#targets.set(target, repairs);
    for (const [oldest] of this.#targets) {
      if (this.#targets.size <= learnedTargetsMax) break;
      this.#targets.delete(oldest);
    }
  }
}
