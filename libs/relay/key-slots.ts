/**
 * The slots that keys have through one ingress or several, and the tokens that they used. Ingresses
 * tell each other once a second, so that a key's share counts over all of them.
 */
import type { KeyTokens } from "./fair-queue.ts";

export interface KeySlots {
  /** The least weight of a group that has items; infinite without any. */
  readonly lightest: number;
  readonly slots: ReadonlyMap<string, number>;
  readonly tokens: readonly PriorityTokens[];
}

/** A key's tokens with the priority of the items that used them. */
interface PriorityTokens extends KeyTokens {
  readonly priority: number;
}

export const noKeySlots: KeySlots = { lightest: Number.POSITIVE_INFINITY, slots: new Map(), tokens: [] };

/** Keys in one announcement: the ones with the most slots, and the ones with the most tokens. */
const keysMax = 100;

/** Sums of the other keys in one announcement, one for each group and priority. */
const sumsMax = 50;

/**
 * The least weight, then `<key>:<slots>` for each key, then for the tokens of each key
 * `<priority>:<group>:<weight>:<key>:<tokens>:<1 if it waits>`. Readers of releases without the
 * tokens skip these.
 */
export function textOfKeySlots({ lightest, slots, tokens }: KeySlots): string {
  if (slots.size === 0 && tokens.length === 0) return "";
  const largest = [...slots].sort(([, a], [, b]) => b - a).slice(0, keysMax);
  return [lightest, ...largest.map(([key, count]) => `${key}:${count}`), ...boundedTokens(tokens).map(textOf)].join(
    " ",
  );
}

const textOf = ({ priority, group, weight, key, tokens, waits }: PriorityTokens): string =>
  [priority, encodeURIComponent(group), weight, key, Math.round(tokens), Number(waits)].join(":");

function boundedTokens(tokens: readonly PriorityTokens[]): PriorityTokens[] {
  const largest = [...tokens].sort((a, b) => b.tokens - a.tokens);
  const sums = new Map<string, PriorityTokens>();
  for (const rest of largest.splice(keysMax)) {
    const name = `${rest.priority} ${rest.group}`;
    const sum = sums.get(name) ?? { ...rest, tokens: 0, waits: false };
    sums.set(name, { ...sum, key: "", tokens: sum.tokens + rest.tokens, waits: sum.waits || rest.waits });
  }
  return [...largest, ...[...sums.values()].slice(0, sumsMax)];
}

const tokensEntry = /^([0-2]):([^:]{1,400}):(\d{1,9}(?:\.\d{1,20})?):([^:]*):(\d{1,12}):([01])$/;

function tokensIn(entry: string): PriorityTokens[] {
  const [, priority, group = "", weight, key = "", tokens, waits] = tokensEntry.exec(entry) ?? [];
  const name = decodedOf(group);
  if (priority === undefined || name === undefined || !(Number(weight) > 0)) return [];
  const of = { group: name, weight: Number(weight), key };
  return [{ ...of, priority: Number(priority), tokens: Number(tokens), waits: waits === "1" }];
}

function decodedOf(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/**
 * The sum of announcements. What cannot be read is left out. Each counts one slot more for each of
 * its keys, which it may have taken since.
 */
export function keySlotsIn(texts: readonly string[]): KeySlots {
  let lightest = Number.POSITIVE_INFINITY;
  const slots = new Map<string, number>();
  const tokens: PriorityTokens[] = [];
  for (const text of texts) {
    const [weight, ...entries] = text.split(" ");
    if (Number(weight) > 0) lightest = Math.min(lightest, Number(weight));
    for (const entry of entries) {
      const [, key, count] = /^([^:]+):(\d{1,9})$/.exec(entry) ?? [];
      if (key !== undefined) slots.set(key, (slots.get(key) ?? 0) + Number(count) + 1);
      else tokens.push(...tokensIn(entry));
    }
  }
  return { lightest, slots, tokens };
}
