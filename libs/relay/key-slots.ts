/**
 * The slots that keys have through one ingress or several. Ingresses tell each other once a second,
 * so that a key's share counts over all of them.
 */

export interface KeySlots {
  /** The least weight of a group that has items; infinite without any. */
  readonly lightest: number;
  readonly slots: ReadonlyMap<string, number>;
}

export const noKeySlots: KeySlots = { lightest: Number.POSITIVE_INFINITY, slots: new Map() };

/** Keys in one announcement: the ones with the most slots. */
const keysMax = 100;

export function textOfKeySlots({ lightest, slots }: KeySlots): string {
  if (slots.size === 0) return "";
  const largest = [...slots].sort(([, a], [, b]) => b - a).slice(0, keysMax);
  return [lightest, ...largest.map(([key, count]) => `${key}:${count}`)].join(" ");
}

/**
 * The sum of announcements. What cannot be read is left out. Each counts one more for each of its
 * keys, which it may have taken since.
 */
export function keySlotsIn(texts: readonly string[]): KeySlots {
  let lightest = Number.POSITIVE_INFINITY;
  const slots = new Map<string, number>();
  for (const text of texts) {
    const [weight, ...entries] = text.split(" ");
    if (Number(weight) > 0) lightest = Math.min(lightest, Number(weight));
    for (const entry of entries) {
      const [, key, count] = /^([^:]+):(\d{1,9})$/.exec(entry) ?? [];
      if (key !== undefined) slots.set(key, (slots.get(key) ?? 0) + Number(count) + 1);
    }
  }
  return { lightest, slots };
}
