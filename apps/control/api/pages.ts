/** Cursors of lists that are ordered by time, newest first, and then by id. */
import { isStorableTime } from "#api/common.ts";
import { Fault } from "./faults.ts";
import { isStorable } from "./texts.ts";

/** The last item of a page. */
export interface Place {
  at: Date;
  id: string;
}

const cursorOf = ({ at, id }: Place): string => Buffer.from(JSON.stringify([at.getTime(), id])).toString("base64url");

/** Throws a Fault for anything but a cursor of ours. */
export function placeOf(cursor: string): Place {
  try {
    const [ms, id] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [unknown, unknown];
    if (typeof ms === "number" && isStorableTime(ms) && typeof id === "string" && isStorable(id))
      return { at: new Date(ms), id };
  } catch {
    // Like any other text that is no cursor.
  }
  throw new Fault("invalid", "`cursor` is not the `nextCursor` of a page.", { field: "cursor" });
}

/** Of `limit + 1` rows, the page and the cursor of the next one. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  place: (row: Row) => Place,
  item: (row: Row) => Item,
): { items: Item[]; nextCursor: string | null } {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map(item),
    nextCursor: rows.length > limit && last !== undefined ? cursorOf(place(last)) : null,
  };
}
