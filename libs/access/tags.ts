/** Tags of usage records: short texts by which people group what they used. */

import { tagLengthMax, tagsMax } from "./bounds.ts";

export interface NamedTags {
  tags: string[];
  /** Further tags, or ends of long ones, are left out: a tag never fails a request. */
  isCut: boolean;
}

/** The tags of a header `x-sluice-tags: a, b`. */
export function tagsIn(header: string): NamedTags {
  const names = header.split(",", tagsMax + 1).map((tag) => tag.trim());
  return {
    tags: names
      .slice(0, tagsMax)
      .map((name) => name.slice(0, tagLengthMax))
      .filter((tag) => tag !== ""),
    isCut: names.length > tagsMax || names.some(({ length }) => length > tagLengthMax),
  };
}
