/**
 * A table: sorts what is loaded, loads further pages, and draws only the rows in sight when there
 * are many.
 */
import { Button, Center, Paper, Table, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { translated, useTexts } from "../app/language.tsx";

const texts = translated({ en: { more: "Load more", actions: "Actions" }, zh: { more: "加载更多", actions: "操作" } });

export interface Column<Row> {
  id: string;
  /** Empty for a column of buttons. */
  title: string;
  cell(row: Row): ReactNode;
  /** What the rows are sorted by; without it the column does not sort. */
  sortBy?: (row: Row) => string | number;
  isNumber?: boolean;
  width?: number | string;
}

export interface DataTableProps<Row> {
  /** Says what the table shows, for screen readers. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowId(row: Row): string;
  /** Loads the next page; absent if there is none. */
  more?: (() => void) | undefined;
  isLoadingMore?: boolean;
  empty: ReactNode;
  /** The width below which the table scrolls sideways. */
  minWidth?: number;
  footer?: ReactNode;
  /**
   * Loads the next page when its end comes into sight. Such a table has a height of its own from
   * the first row on.
   */
  isEndless?: boolean;
  /** A class of CSS for some rows. */
  rowClass?(row: Row): string | undefined;
}

/** More rows than this are drawn only in sight. */
const drawnMax = 200;
const rowHeight = 34;
const viewHeight = 640;
/** So many rows before its end a table asks for more. */
const nearEnd = 30;

type Columns = readonly Column<unknown>[];

interface DataRowProps {
  row: unknown;
  columns: Columns;
  className: string | undefined;
}

/**
 * Plain elements with Mantine's classes, because its components cost much more to draw. With the
 * same columns, a row is drawn again only when its content changes.
 */
const DataRow = memo(
  ({ row, columns, className = "" }: DataRowProps) => (
    <tr
      className={`${Table.classes.tr} ${className}`}
      style={{ height: rowHeight }}
      data-with-row-border="true"
      data-hover="true"
    >
      {columns.map(({ id, cell, isNumber }) => (
        <td key={id} className={`${Table.classes.td} ${isNumber ? "number" : ""}`}>
          {cell(row)}
        </td>
      ))}
    </tr>
  ),
  (before, now) =>
    before.columns === now.columns && before.className === now.className && isSameContent(before.row, now.row),
);

const isSameContent = (a: unknown, b: unknown) => a === b || JSON.stringify(a) === JSON.stringify(b);

export function DataTable<Row>({
  label,
  columns,
  rows,
  rowId,
  more,
  isLoadingMore = false,
  empty,
  minWidth = 640,
  footer,
  isEndless = false,
  rowClass,
}: DataTableProps<Row>) {
  const t = useTexts(texts);
  const [sorting, setSorting] = useState<{ id: string; isDescending: boolean }>();
  const sorted = useMemo(() => sortedRows(rows, columns, sorting), [rows, columns, sorting]);
  const scroller = useRef<HTMLElement>(null);
  const isLong = isEndless || sorted.length > drawnMax;
  const virtual = useVirtualizer({
    count: isLong ? sorted.length : 0,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 20,
  });
  const shown = virtual.getVirtualItems();
  const isNearEnd = isEndless && (shown.at(-1)?.index ?? 0) >= sorted.length - nearEnd;
  useEffect(() => {
    if (isNearEnd && !isLoadingMore) more?.();
  }, [isNearEnd, isLoadingMore, more]);
  // Rows that come in above leave those in sight where they are.
  const first = sorted[0];
  const top = useRef<string>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when another row is the first.
  useLayoutEffect(() => {
    const added = isEndless ? sorted.findIndex((row) => rowId(row) === top.current) : 0;
    if (added > 0 && scroller.current && scroller.current.scrollTop > 0)
      scroller.current.scrollTop += added * rowHeight;
    top.current = first && rowId(first);
  }, [first && rowId(first)]);
  if (rows.length === 0) return <>{empty}</>;
  const before = isLong ? (shown[0]?.start ?? 0) : 0;
  const after = isLong ? virtual.getTotalSize() - (shown.at(-1)?.end ?? 0) : 0;
  const visible = isLong ? shown.map(({ index }) => sorted[index] as Row) : sorted;
  const sortOn = (id: string) =>
    setSorting((now) =>
      now?.id !== id ? { id, isDescending: true } : now.isDescending ? { id, isDescending: false } : undefined,
    );
  return (
    <Paper withBorder>
      <section
        ref={scroller}
        style={{
          position: "relative",
          overflow: "auto",
          ...(isLong && { maxHeight: viewHeight }),
          ...(isEndless && { overflowAnchor: "none" }),
        }}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
        tabIndex={0}
        aria-label={label}
      >
        <Table
          className="data-table"
          miw={minWidth}
          highlightOnHover
          stickyHeader={isLong}
          aria-rowcount={sorted.length}
        >
          <Table.Thead>
            <Table.Tr>
              {columns.map(({ id, title, sortBy, isNumber, width }) => {
                const order = sorting?.id === id ? (sorting.isDescending ? "descending" : "ascending") : undefined;
                return (
                  <Table.Th key={id} aria-sort={order} w={width} className={isNumber ? "number" : ""}>
                    {title === "" ? (
                      <VisuallyHidden>{t.actions}</VisuallyHidden>
                    ) : sortBy === undefined ? (
                      title
                    ) : (
                      <UnstyledButton fz="inherit" fw="inherit" onClick={() => sortOn(id)}>
                        {title}
                        {order === "descending" ? " ↓" : order === "ascending" ? " ↑" : ""}
                      </UnstyledButton>
                    )}
                  </Table.Th>
                );
              })}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {before > 0 && <tr style={{ height: before }} />}
            {visible.map((row) => (
              <DataRow key={rowId(row)} row={row} columns={columns as Columns} className={rowClass?.(row)} />
            ))}
            {after > 0 && <tr style={{ height: after }} />}
          </Table.Tbody>
          {footer !== undefined && <Table.Tfoot>{footer}</Table.Tfoot>}
        </Table>
      </section>
      {more && (
        <Center p="xs">
          <Button variant="subtle" size="compact-sm" loading={isLoadingMore} onClick={more}>
            {t.more}
          </Button>
        </Center>
      )}
    </Paper>
  );
}

function sortedRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  sorting: { id: string; isDescending: boolean } | undefined,
): readonly Row[] {
  const sortBy = columns.find(({ id }) => id === sorting?.id)?.sortBy;
  if (sorting === undefined || sortBy === undefined) return rows;
  const factor = sorting.isDescending ? -1 : 1;
  return [...rows].sort((left, right) => {
    const [a, b] = [sortBy(left), sortBy(right)];
    return factor * (typeof a === "string" && typeof b === "string" ? a.localeCompare(b) : Number(a) - Number(b));
  });
}

/** One line, cut with an ellipsis; its whole text on hover. */
export const Cut = ({ children, width = 220 }: { children: string; width?: number }) => (
  <span className="cut" style={{ maxWidth: width }} title={children}>
    {children}
  </span>
);
