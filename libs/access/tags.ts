/** Tags of usage records: short texts by which people group what they used. */

import { tagLengthMax, tagsMax } from "./bounds.ts";

/**
 * The tags of a header `x-sluice-tags: a, b`. Tags beyond the bounds are left out: a tag never
 * fails a request.
 */
export const tagsIn = (header: string): string[] =>
  header
    .split(",", tagsMax)
    .map((tag) => tag.trim().slice(0, tagLengthMax))
    .filter((tag) => tag !== "");
