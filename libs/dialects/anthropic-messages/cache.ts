/** Cache breakpoints: https://platform.claude.com/docs/en/build-with-claude/prompt-caching */
import { isObject, objectOf } from "../json.ts";
import type { TextPart } from "../neutral.ts";

type Mark = TextPart["cache"];
export type WireBlock = Record<string, unknown>;

const marksMax = 4;

export const cacheOf = (control: unknown): { cache?: NonNullable<Mark> } =>
  isObject(control) ? { cache: { ttl: objectOf(control).ttl === "1h" ? "long" : "short" } } : {};

export const cacheControlOf = ({ cache }: { cache?: Mark }): WireBlock =>
  cache === undefined ? {} : { cache_control: { type: "ephemeral", ...(cache.ttl === "long" && { ttl: "1h" }) } };

/**
 * Removes all cache breakpoints except the last four, the format's maximum, and makes sure that no long-lived one follows a short-lived one. `blocks` are in
 * prompt order.
 */
export function boundCacheMarks(blocks: readonly WireBlock[]): void {
  const marked = blocks
    .flatMap((block) => [...(Array.isArray(block.content) ? (block.content as WireBlock[]) : []), block])
    .filter(isMarked);
  for (const block of marked.slice(0, -marksMax)) delete block.cache_control;
  const kept = marked.slice(-marksMax);
  const short = kept.findIndex(({ cache_control: mark }) => objectOf(mark).ttl === undefined);
  if (short >= 0) for (const block of kept.slice(short)) block.cache_control = { type: "ephemeral" };
}

const isMarked = ({ cache_control: mark }: WireBlock) => mark !== undefined;
