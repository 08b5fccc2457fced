/**
 * The fields that targets refused lately, so that later requests go without them at once. In this
 * process only; bounded, and forgotten after an hour.
 */
import { refusedFieldsMax, refusedFieldsMs, refusingTargetsMax } from "../bounds.ts";

export class RefusedFields {
  /** By the target's key: each field's path, and when it is forgotten. */
  readonly #targets = new Map<string, Map<string, number>>();

  of(target: string, now: number): string[] {
    const fields = this.#targets.get(target);
    if (fields === undefined) return [];
    for (const [field, until] of fields) if (until <= now) fields.delete(field);
    if (fields.size === 0) this.#targets.delete(target);
    return [...fields.keys()];
  }

  /** The target answered a request without these fields, which it had refused. */
  learn(target: string, learned: readonly string[], now: number): void {
    const fields = this.#targets.get(target) ?? new Map<string, number>();
    for (const field of learned) if (fields.size < refusedFieldsMax) fields.set(field, now + refusedFieldsMs);
    this.#targets.delete(target);
    this.#targets.set(target, fields);
    for (const [oldest] of this.#targets) {
      if (this.#targets.size <= refusingTargetsMax) break;
      this.#targets.delete(oldest);
    }
  }
}
