/** Cache breakpoints: https://platform.claude.com/docs/en/build-with-claude/prompt-caching */

import { type JsonObject, objectOf } from "#wire/json/parse.ts";
import { cacheIn, marksMax } from "../neutral/cache-marks.ts";

export type WireBlock = JsonObject;

export const cacheOf = (control: unknown) => cacheIn({ cache_control: control });

/**
 * Removes all cache breakpoints except the last four, the format's maximum, and makes sure that no
 * long-lived one follows a short-lived one. `blocks` are in prompt order.
 */
export function boundCacheMarks(blocks: readonly WireBlock[]): void {
  const marked = blocks.filter(isMarked);
  for (const block of marked.slice(0, -marksMax)) delete block.cache_control;
  const kept = marked.slice(-marksMax);
  const short = kept.findIndex(({ cache_control: mark }) => objectOf(mark).ttl === undefined);
  if (short >= 0) for (const block of kept.slice(short)) block.cache_control = { type: "ephemeral" };
}

const isMarked = ({ cache_control: mark }: WireBlock) => mark !== undefined;
