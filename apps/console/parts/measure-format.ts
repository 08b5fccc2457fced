/** The texts of a measure's values. */
import { useMemo } from "react";
import { useFormats } from "../app/language.tsx";
import { type Precision, precisionOf } from "./amounts.ts";
import { useMoney } from "./facts.tsx";
import { type MeasureName, measures } from "./measures.ts";
import type { Sums } from "./usage-types.ts";

export interface MeasureFormat {
  text(value: number | null, precision?: Precision): string;
  /** The text of the measure of these sums, shortened. */
  of(sums: Sums): string;
  exact(sums: Sums): string;
  /** For the axis of a plot; empty for a value that has no text there. */
  axis(value: number): string;
}

/** The formats of all measures. */
export function useMeasureFormats(): (measure: MeasureName) => MeasureFormat {
  const format = useFormats();
  const money = useMoney();
  return useMemo(() => {
    const kinds = {
      percent: format.percent,
      ms: format.ms,
      count: format.count,
    };
    return (measure) => {
      const { unit, value: read } = measures[measure];
      const text = (value: number | null, precision?: Precision) =>
        value === null ? "–" : unit === "money" ? money.rounded(value, precision) : kinds[unit](value);
      const count = (value: number) => (Number.isInteger(value) ? format.short(value) : "");
      const precise = (sums: Sums) => text(read(sums), precisionOf(sums, measure));
      const of = (sums: Sums) => (unit === "count" ? format.short(read(sums) ?? 0) : precise(sums));
      const exact = (sums: Sums) =>
        unit === "money" ? money.exact(sums[measure as "cost"], precisionOf(sums, measure)) : precise(sums);
      return { text, of, exact, axis: unit === "count" ? count : text };
    };
  }, [format, money]);
}
