/** The texts of a measure's values. */
import { useMemo } from "react";
import { useFormats } from "../app/language.tsx";
import { useCurrency } from "./facts.tsx";
import { type MeasureName, measures } from "./measures.ts";

export interface MeasureFormat {
  text(value: number | null): string;
  /** For the axis of a plot; empty for a value that has no text there. */
  axis(value: number): string;
}

/** The formats of all measures. */
export function useMeasureFormats(): (measure: MeasureName) => MeasureFormat {
  const format = useFormats();
  const currency = useCurrency();
  return useMemo(() => {
    const kinds = {
      money: (value: number) => format.money(value, currency),
      percent: format.percent,
      ms: format.ms,
      count: format.count,
    };
    return (measure) => {
      const { unit } = measures[measure];
      const text = (value: number | null) => (value === null ? "–" : kinds[unit](value));
      const count = (value: number) => (Number.isInteger(value) ? format.short(value) : "");
      return { text, axis: unit === "count" ? count : text };
    };
  }, [format, currency]);
}
