/**
 * A list of the API as a table, with its states: waiting, an error, nothing there, and further
 * pages.
 */
import { DataTable, type DataTableProps } from "./data-table.tsx";
import { Loaded } from "./states.tsx";

export interface ListTableProps<Row> extends Omit<DataTableProps<Row>, "rows" | "more" | "isLoadingMore"> {
  /** What `useList` returns. */
  from: {
    data: readonly Row[] | undefined;
    error: unknown;
    refetch(): unknown;
    more: (() => void) | undefined;
    isLoadingMore: boolean;
  };
  /** The height of the list while it is loaded, in rows. */
  waitingRows?: number;
}

export const ListTable = <Row,>({ from, waitingRows, ...table }: ListTableProps<Row>) => (
  <Loaded from={from} {...(waitingRows && { rows: waitingRows })}>
    {(rows) => <DataTable {...table} rows={rows} more={from.more} isLoadingMore={from.isLoadingMore} />}
  </Loaded>
);
