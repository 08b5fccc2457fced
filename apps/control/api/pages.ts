/** Pages of lists that are ordered by time, newest first, and then by id. */
import { type SelectQueryBuilder, type SqlBool, type StringReference, sql } from "kysely";
import { isStorableTime } from "#api/common.ts";
import { Fault } from "./faults.ts";
import { isStorable } from "./texts.ts";

/** The last item of a page. */
interface Place {
  at: Date;
  id: string;
}

const cursorOf = ({ at, id }: Place): string => Buffer.from(JSON.stringify([at.getTime(), id])).toString("base64url");

/** Throws a Fault for anything but a cursor of ours. */
function placeOf(cursor: string): Place {
  try {
    const [ms, id] = JSON.parse(Buffer.from(cursor, "base64url").toString()) as [unknown, unknown];
    if (typeof ms === "number" && isStorableTime(ms) && typeof id === "string" && isStorable(id))
      return { at: new Date(ms), id };
  } catch {
    // Like any other text that is no cursor.
  }
  throw new Fault("invalid", "`cursor` is not the `nextCursor` of a page.", { field: "cursor" });
}

/**
 * The rows of a page, and the cursor of the next one. `columns` are those of the time and of the
 * id; a row has both by these names.
 */
export async function readPage<Tables, Table extends keyof Tables, Row>(
  listed: SelectQueryBuilder<Tables, Table, Row>,
  { limit = 50, cursor }: { limit?: number; cursor?: string },
  columns: readonly [at: StringReference<Tables, Table>, id: StringReference<Tables, Table>],
): Promise<{ rows: Row[]; nextCursor: string | null }> {
  let page = listed.limit(limit + 1);
  for (const column of columns) page = page.orderBy(sql.ref(column), "desc");
  if (cursor !== undefined) {
    const { at, id } = placeOf(cursor);
    page = page.where(sql<SqlBool>`(${sql.join(columns.map((column) => sql.ref(column)))}) < (${at}, ${id})`);
  }
  const read = await page.execute();
  const rows = read.slice(0, limit);
  const last = read.length > limit ? (rows.at(-1) as Record<string, unknown> | undefined) : undefined;
  const [at, id] = columns.map((column) => last?.[column.slice(column.lastIndexOf(".") + 1)]);
  return { rows, nextCursor: last === undefined ? null : cursorOf({ at: at as Date, id: id as string }) };
}
