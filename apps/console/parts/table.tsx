/**
 * Tables: cells and columns by the kind of their values, and rows that are sorted, loaded and drawn
 * in sight.
 */

import { ActionIcon, Button, Center, Menu, Paper, Table, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import {
  type ColumnDef,
  createSortedRowModel,
  flexRender,
  metaHelper,
  rowSortingFeature,
  type Row as TableRow,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type CSSProperties,
  memo,
  type ReactNode,
  type RefCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { useFormats } from "../app/language.tsx";
import { useTexts } from "../app/texts.ts";
import type { Precision } from "./amounts.ts";
import { AccountName, Cut, Money, useCurrency } from "./facts.tsx";
import { SettingsIcon } from "./icons.tsx";
import { Loaded, type Reading } from "./page.tsx";

export type CellColor = "teal" | "blue" | "yellow" | "red" | "orange" | "gray";

export const StateCell = ({ color, children }: { color: CellColor; children: ReactNode }) => (
  <span
    className="state-cell"
    style={{
      background: `var(--mantine-color-${color}-light)`,
      color: `var(--mantine-color-${color}-light-color)`,
    }}
  >
    {children}
  </span>
);

interface RowButtonProps {
  /** Names the row too, for screen readers; by default the text. */
  label?: string;
  isDestructive?: boolean;
  onClick(): void;
  children: ReactNode;
}

export const RowButton = ({ label, isDestructive = false, onClick, children }: RowButtonProps) => (
  <button
    type="button"
    className="row-button"
    data-destructive={isDestructive || undefined}
    aria-label={label}
    onClick={onClick}
  >
    {children}
  </button>
);

interface ColumnMeta {
  isNumber: boolean;
  width: number | undefined;
  /** A cell below the column. */
  footer: ReactNode;
  /** The amount of money of a row; null if it is unknown. */
  amountOf: ((row: object) => string | null) | undefined;
}

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  columnMeta: metaHelper<ColumnMeta>(),
});
export type Column<Row extends object> = ColumnDef<typeof features, Row, unknown>;

interface ColumnOptions<Row> {
  /** Without it the column does not sort. */
  sortBy?: (row: Row) => string | number;
  isNumber?: boolean;
  width?: number;
  footer?: ReactNode;
}

/** The members of a row with such a value. */
type NameOf<Row, Value> = { [Name in keyof Row]: Row[Name] extends Value ? Name : never }[keyof Row] & string;

function columnsOf<Row extends object>(format: ReturnType<typeof useFormats>) {
  const cell = (
    id: string,
    title: string,
    show: (row: Row) => ReactNode,
    { sortBy, isNumber = false, width, footer }: ColumnOptions<Row> = {},
  ): Column<Row> => ({
    id,
    header: title,
    meta: { isNumber, width, footer, amountOf: undefined },
    cell: ({ row }) => show(row.original),
    ...(sortBy && { accessorFn: sortBy }),
  });
  const textual =
    (show: (text: string) => ReactNode) =>
    (name: NameOf<Row, string | null>, title: string, whenNull: ReactNode = "–") => {
      const memberOf = (row: Row) => row[name] as string | null;
      const shown = (row: Row) => {
        const value = memberOf(row);
        return value === null ? whenNull : show(value);
      };
      return cell(name, title, shown, { sortBy: (row) => memberOf(row) ?? "" });
    };
  const numeric = (show: (value: number) => ReactNode) => (name: NameOf<Row, number | null>, title: string) => {
    const memberOf = (row: Row) => row[name] as number | null;
    const shown = (row: Row) => {
      const value = memberOf(row);
      return value === null ? "–" : show(value);
    };
    return cell(name, title, shown, { isNumber: true, sortBy: (row) => memberOf(row) ?? -1 });
  };
  /** Amounts, aligned at the decimal point; "–" for one that is unknown. */
  const money = (
    id: string,
    title: string,
    amountOf: (row: Row) => string | null,
    { total, precisionOf }: { total?: Row | undefined; precisionOf?(row: Row): Precision } = {},
  ): Column<Row> => {
    const shown = (row: Row) => (
      <Money of={amountOf(row)} precision={precisionOf?.(row)} alignedIn={`--decimals-${id}`} />
    );
    return {
      id,
      header: title,
      meta: {
        isNumber: true,
        width: undefined,
        footer: total === undefined ? undefined : shown(total),
        amountOf: (row) => amountOf(row as Row),
      },
      cell: ({ row }) => shown(row.original),
      accessorFn: (row) => Number(amountOf(row) ?? Number.NEGATIVE_INFINITY),
    };
  };
  return {
    cell,
    money,
    format,
    text: textual((text) => text),
    cut: (name: NameOf<Row, string | null>, title: string, width: number) =>
      textual((text) => <Cut width={width}>{text}</Cut>)(name, title),
    account: (title: string, width = 120) =>
      cell("account", title, (row) => <AccountName id={(row as { account: string | null }).account} width={width} />, {
        sortBy: (row) => (row as { account: string | null }).account ?? "",
      }),
    time: textual(format.time),
    day: textual(format.day),
    ago: textual((iso) => <span title={format.time(iso)}>{format.ago(iso)}</span>),
    count: numeric(format.count),
    ms: numeric(format.ms),
    bytes: numeric(format.bytes),
    actions: (show: (row: Row) => ReactNode) => cell("actions", "", show, { isNumber: true }),
  };
}

export type Columns<Row extends object> = ReturnType<typeof columnsOf<Row>>;

export function useColumns<Row extends object>(): Columns<Row> {
  const format = useFormats();
  return useMemo(() => columnsOf<Row>(format), [format]);
}

interface TableProps<Row extends object> {
  /** Says what the table shows, for screen readers. */
  label: string;
  columns: readonly Column<Row>[];
  /** The member that tells rows apart, or a function that does. */
  rowId?: keyof Row | ((row: Row) => string);
  empty?: ReactNode;
  /** The width below which the table scrolls sideways. */
  minWidth?: number;
  /** The name under which the choice of columns is kept; without it all are shown. */
  chooser?: string;
  /** The columns that are hidden until somebody chooses. */
  hiddenAtFirst?: readonly string[];
  /**
   * Loads the next page when its end comes into sight. Such a table has a height of its own from
   * the first row on.
   */
  isEndless?: boolean;
  /** A class of CSS for some rows. */
  rowClass?(row: Row): string | undefined;
}

export interface DataTableProps<Row extends object> extends TableProps<Row> {
  rows: readonly Row[];
  /** Loads the next page; absent if there is none. */
  more?: (() => void) | undefined;
  isLoadingMore?: boolean;
}

/** More rows than this are drawn only in sight. */
const drawnMax = 200;
const rowHeight = 34;
/** Below it rows are cards, as in the style sheet; about as high as this until they are drawn. */
const phoneWidth = "(max-width: 30em)";
const cardHeight = 160;
const viewHeight = 640;
/** So many rows before its end a table asks for more. */
const nearEnd = 30;

type AnyRow = TableRow<typeof features, object>;

interface DataRowProps {
  row: AnyRow;
  columns: unknown;
  className: string | undefined;
  /** Set for a row whose height is measured: its place. */
  index: number | undefined;
  measure: RefCallback<Element> | undefined;
}

/**
 * Plain elements with Mantine's classes, because its components cost much more to draw. With the
 * same columns, a row is drawn again only when its content changes.
 */
const DataRow = memo(
  ({ row, className = "", index, measure }: DataRowProps) => (
    <tr
      ref={measure}
      data-index={index}
      className={`data-row ${Table.classes.tr} ${className}`}
      data-with-row-border="true"
      data-hover="true"
    >
      {row.getAllCells().map((cell) => (
        <td
          key={cell.id}
          data-label={String(cell.column.columnDef.header)}
          className={`${Table.classes.td} ${cell.column.columnDef.meta?.isNumber ? "number" : ""}`}
        >
          {flexRender(cell.column.columnDef.cell, cell.getContext())}
        </td>
      ))}
    </tr>
  ),
  (before, now) =>
    before.columns === now.columns &&
    before.className === now.className &&
    before.index === now.index &&
    isSameContent(before.row.original, now.row.original),
);

const isSameContent = (a: unknown, b: unknown) => a === b || JSON.stringify(a) === JSON.stringify(b);

function compare<Row extends object>(left: TableRow<typeof features, Row>, right: typeof left, column: string) {
  const [a, b] = [left.getValue(column), right.getValue(column)];
  return typeof a === "string" && typeof b === "string" ? a.localeCompare(b) : Number(a) - Number(b);
}
const defaultColumn = { sortFn: compare };

export function DataTable<Row extends object>({
  label,
  columns,
  rows,
  rowId = "id" as keyof Row,
  more,
  isLoadingMore = false,
  empty,
  minWidth = 640,
  chooser,
  hiddenAtFirst,
  isEndless = false,
  rowClass,
}: DataTableProps<Row>) {
  const t = useTexts();
  const idOf = typeof rowId === "function" ? rowId : (row: Row) => String(row[rowId]);
  const { shown, ...choice } = useShownColumns(columns, chooser, hiddenAtFirst);
  const table = useTable({ features, columns: shown, data: rows, getRowId: idOf, sortDescFirst: true, defaultColumn });
  const sortedRows = table.getRowModel().rows;
  const decimalsStyle = useDecimals(shown, rows);
  const scroller = useRef<HTMLElement>(null);
  const isLong = isEndless || sortedRows.length > drawnMax;
  const isPhone = useMediaQuery(phoneWidth) ?? false;
  const virtual = useVirtualizer({
    count: isLong ? sortedRows.length : 0,
    getScrollElement: () => scroller.current,
    estimateSize: () => (isPhone ? cardHeight : rowHeight),
    overscan: 20,
  });
  const inSight = virtual.getVirtualItems();
  const isNearEnd = isEndless && (inSight.at(-1)?.index ?? 0) >= sortedRows.length - nearEnd;
  useEffect(() => {
    if (isNearEnd && !isLoadingMore) more?.();
  }, [isNearEnd, isLoadingMore, more]);
  // Rows that come in above leave those in sight where they are.
  const first = sortedRows[0]?.id;
  const top = useRef<string>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when another row is the first.
  useLayoutEffect(() => {
    const added = isEndless ? sortedRows.findIndex(({ id }) => id === top.current) : 0;
    if (added > 0 && scroller.current && scroller.current.scrollTop > 0)
      scroller.current.scrollTop += added * rowHeight;
    top.current = first;
  }, [first]);
  if (rows.length === 0) return <>{empty}</>;
  const before = isLong ? (inSight[0]?.start ?? 0) : 0;
  const after = isLong ? virtual.getTotalSize() - (inSight.at(-1)?.end ?? 0) : 0;
  const drawn = isLong ? inSight.flatMap(({ index }) => sortedRows[index] ?? []) : sortedRows;
  const isMeasured = isLong && isPhone;
  const hasFooter = shown.some(({ meta }) => meta?.footer !== undefined);
  return (
    <Paper withBorder pos="relative">
      {chooser !== undefined && <ColumnMenu columns={columns} {...choice} />}
      <section
        ref={scroller}
        style={{
          position: "relative",
          overflow: "auto",
          ...decimalsStyle,
          ...(isLong && { maxHeight: viewHeight }),
          ...(isEndless && { overflowAnchor: "none" }),
        }}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
        tabIndex={0}
        aria-label={label}
      >
        <Table
          className="data-table data-cards"
          style={{ "--table-width": `${minWidth}px`, "--row-height": `${rowHeight}px` } as CSSProperties}
          highlightOnHover
          stickyHeader={isLong}
          aria-rowcount={sortedRows.length}
        >
          <Table.Thead>
            <Table.Tr>
              {table.getFlatHeaders().map(({ id, column }) => {
                const { header, meta } = column.columnDef;
                const order = column.getIsSorted();
                return (
                  <Table.Th
                    key={id}
                    aria-sort={order === false ? undefined : order === "desc" ? "descending" : "ascending"}
                    w={meta?.width}
                    className={meta?.isNumber ? "number" : ""}
                  >
                    {header === "" ? (
                      <VisuallyHidden>{t.actions}</VisuallyHidden>
                    ) : column.getCanSort() ? (
                      <UnstyledButton fz="inherit" fw="inherit" onClick={() => column.toggleSorting(undefined, false)}>
                        {String(header)}
                        {order === "desc" ? " ↓" : order === "asc" ? " ↑" : ""}
                      </UnstyledButton>
                    ) : (
                      String(header)
                    )}
                  </Table.Th>
                );
              })}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {before > 0 && <tr style={{ height: before }} />}
            {drawn.map((row, place) => (
              <DataRow
                key={row.id}
                row={row as object as AnyRow}
                columns={shown}
                className={rowClass?.(row.original)}
                index={isMeasured ? inSight[place]?.index : undefined}
                measure={isMeasured ? virtual.measureElement : undefined}
              />
            ))}
            {after > 0 && <tr style={{ height: after }} />}
          </Table.Tbody>
          {hasFooter && (
            <Table.Tfoot>
              <Table.Tr fw={600}>
                {shown.map(({ id, header, meta }) => (
                  <Table.Td
                    key={id}
                    data-total={id}
                    data-label={id === shown[0]?.id ? "" : String(header)}
                    className={meta?.isNumber ? "number" : ""}
                  >
                    {meta?.footer}
                  </Table.Td>
                ))}
              </Table.Tr>
            </Table.Tfoot>
          )}
        </Table>
      </section>
      {more && (
        <Center p="xs">
          <Button variant="subtle" size="compact-sm" loading={isLoadingMore} onClick={more}>
            {t.loadMore}
          </Button>
        </Center>
      )}
    </Paper>
  );
}

interface ColumnChoice {
  hidden: readonly string[];
  setHidden(ids: readonly string[]): void;
}

/** The columns that the person has chosen; the choice stays in this browser. */
function useShownColumns<Row extends object>(
  columns: readonly Column<Row>[],
  chooser: string | undefined,
  hiddenAtFirst: readonly string[] = [],
): ColumnChoice & { shown: readonly Column<Row>[] } {
  const stored = `sluice-columns-${chooser}`;
  const [hidden, setHidden] = useState<readonly string[]>(() => {
    const text = chooser === undefined ? null : localStorage.getItem(stored);
    return text?.split(" ") ?? hiddenAtFirst;
  });
  const shown = useMemo(
    () => (hidden.length === 0 ? columns : columns.filter(({ id }) => !hidden.includes(id ?? ""))),
    [columns, hidden],
  );
  return {
    shown,
    hidden,
    setHidden(ids) {
      setHidden(ids);
      localStorage.setItem(stored, ids.join(" "));
    },
  };
}

function ColumnMenu<Row extends object>({
  columns,
  hidden,
  setHidden,
}: ColumnChoice & { columns: readonly Column<Row>[] }) {
  const t = useTexts();
  // The first column names the row.
  const choices = columns.slice(1).filter(({ header }) => header !== "");
  return (
    <Menu position="bottom-end" closeOnItemClick={false}>
      <Menu.Target>
        <ActionIcon className="column-menu" variant="subtle" color="gray" aria-label={t.columns} title={t.columns}>
          <SettingsIcon />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown mah={400} style={{ overflowY: "auto" }}>
        {choices.map(({ id = "", header }) => {
          const isShown = !hidden.includes(id);
          return (
            <Menu.CheckboxItem
              key={id}
              checked={isShown}
              onChange={() => setHidden(isShown ? [...hidden, id] : hidden.filter((each) => each !== id))}
            >
              {String(header)}
            </Menu.CheckboxItem>
          );
        })}
      </Menu.Dropdown>
    </Menu>
  );
}

/** Rows that decide where the decimal points of amounts are. */
const alignedRowsMax = 500;

/** The most decimals of each column of amounts, for Money. */
function useDecimals<Row extends object>(columns: readonly Column<Row>[], rows: readonly Row[]): CSSProperties {
  const format = useFormats();
  const currency = useCurrency();
  return useMemo(() => {
    const decimals = columns.flatMap(({ id, meta }) => {
      const { amountOf } = meta ?? {};
      if (amountOf === undefined) return [];
      const counts = rows.slice(0, alignedRowsMax).map((row) => {
        const amount = amountOf(row);
        return amount === null ? 0 : format.decimalsOf(amount, currency);
      });
      return [[`--decimals-${id}`, Math.max(2, ...counts)]];
    });
    return Object.fromEntries(decimals) as CSSProperties;
  }, [columns, rows, format, currency]);
}

export interface ListTableProps<Row extends object> extends TableProps<Row> {
  /** The result of `useList`. */
  from: Reading<readonly Row[]> & { more: (() => void) | undefined; isLoadingMore: boolean };
  /** The height of the list while it is loaded, in rows. */
  waitingRows?: number;
}

/**
 * A list of the API as a table, with its states: waiting, an error, nothing there, further pages.
 */
export const ListTable = <Row extends object>({ from, waitingRows, ...table }: ListTableProps<Row>) => (
  <Loaded from={from} rows={waitingRows}>
    {(rows) => <DataTable {...table} rows={rows} more={from.more} isLoadingMore={from.isLoadingMore} />}
  </Loaded>
);
