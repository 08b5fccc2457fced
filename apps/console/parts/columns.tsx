/** Columns of tables by the kind of their values, with their formats and their order. */
import {
  type ColumnDef,
  createSortedRowModel,
  metaHelper,
  rowSortingFeature,
  tableFeatures,
} from "@tanstack/react-table";
import { type ReactNode, useMemo } from "react";
import { useFormats } from "../app/language.tsx";
import { Cut } from "./facts.tsx";

interface ColumnMeta {
  isNumber: boolean;
  width: number | undefined;
}

export const features = tableFeatures({
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
}

/** The members of a row with such a value. */
type NameOf<Row, Value> = { [Name in keyof Row]: Row[Name] extends Value ? Name : never }[keyof Row] & string;

function columnsOf<Row extends object>(format: ReturnType<typeof useFormats>) {
  const cell = (
    id: string,
    title: string,
    show: (row: Row) => ReactNode,
    { sortBy, isNumber = false, width }: ColumnOptions<Row> = {},
  ): Column<Row> => ({
    id,
    header: title,
    meta: { isNumber, width },
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
  return {
    cell,
    format,
    text: textual((text) => text),
    cut: (name: NameOf<Row, string | null>, title: string, width: number) =>
      textual((text) => <Cut width={width}>{text}</Cut>)(name, title),
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
