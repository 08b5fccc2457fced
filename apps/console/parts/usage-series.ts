/** From the API's sums to the series of a plot. */
import { type Precision, precisionOf, sumOf } from "./amounts.ts";
import { type MeasureName, measures } from "./measures.ts";
import { type Interval, type Period, stepsOf } from "./periods.ts";
import type { PlotSeries } from "./plot-shape.ts";
import type { UsageTexts } from "./usage.texts.ts";
import type { UsageDimension } from "./usage-filters.tsx";
import type { SumRow, Sums, UsageSums } from "./usage-types.ts";

export type GroupName = (group: SumRow["group"], keyNames: Record<string, string>) => string;

interface SeriesContext {
  times: readonly number[];
  by: readonly UsageDimension[];
  measure: MeasureName;
  t: UsageTexts;
  groupName: GroupName;
}

/** The values of a series, and their precision, at each step. */
interface Steps {
  values: (number | null)[];
  precisions: Precision[];
}

const partColours = { refused: "amber", failed: "red" } as const;

/**
 * One series for each group, largest first and the others last; without groups, one for each part
 * of the measure.
 */
export function seriesOf(
  { rows, keyNames }: UsageSums,
  { times, by, measure, t, groupName }: SeriesContext,
): PlotSeries[] {
  const { value, parts, isAdditive } = measures[measure];
  const place = new Map(times.map((time, index) => [time, index]));
  const empty = (): Steps => ({ values: times.map(() => (isAdditive ? 0 : null)), precisions: [] });
  const fill = ({ values, precisions }: Steps, row: SumRow, of: (sums: Sums) => number | null) => {
    const index = place.get(Date.parse(row.time ?? ""));
    if (index === undefined) return;
    values[index] = of(row);
    precisions[index] = precisionOf(row, measure);
  };
  if (by.length === 0) {
    const kinds: readonly (readonly [MeasureName | keyof UsageTexts, (sums: Sums) => number | null])[] = parts ?? [
      [measure, value],
    ];
    const series = kinds.map(([id, of]): PlotSeries => {
      const steps = empty();
      for (const row of rows) fill(steps, row, of);
      const colour = id === "refused" || id === "failed" ? partColours[id] : undefined;
      return { id, name: t[id] as string, ...steps, ...(colour && { colour }) };
    });
    // A part that never occurs says nothing, but one at least stays.
    return series.filter(({ values }, index) => index === 0 || values.some((each) => each !== 0 && each !== null));
  }
  const groups = new Map<string, Steps & { name: string; isOthers: boolean; size: number }>();
  for (const row of rows) {
    const id = row.isOthers ? "others" : idOf(row.group);
    const group = groups.get(id) ?? {
      name: row.isOthers ? t.others : groupName(row.group, keyNames),
      isOthers: row.isOthers,
      ...empty(),
      size: 0,
    };
    groups.set(id, group);
    fill(group, row, value);
    group.size += isAdditive ? (value(row) ?? 0) : row.requests;
  }
  return [...groups]
    .sort(([, left], [, right]) => Number(left.isOthers) - Number(right.isOthers) || right.size - left.size)
    .map(([id, { name, isOthers, values, precisions }]) => ({
      id,
      name,
      values,
      precisions,
      ...(isOthers && { isOthers }),
    }));
}

export const idOf = (group: SumRow["group"]) => JSON.stringify(group);

/**
 * The period before as one dashed line: its first step below the first of this period, and so on.
 */
export function beforeSeries(
  rows: readonly SumRow[],
  {
    times,
    before,
    interval,
    measure,
    t,
  }: Pick<SeriesContext, "times" | "measure" | "t"> & { before: Period; interval: Interval },
): PlotSeries {
  const { value, isAdditive } = measures[measure];
  const valuesByTime = new Map(rows.map((row) => [Date.parse(row.time ?? ""), value(row)]));
  const steps = stepsOf(before, interval);
  const values = times.map((_, index) => {
    const step = steps[index];
    return step === undefined ? null : (valuesByTime.get(step) ?? (isAdditive ? 0 : null));
  });
  return { id: "before", name: t.before, values, isBefore: true };
}

/** A series' value over the whole time, as the API sums it. */
export function totalText(
  { id, isBefore, isOthers }: PlotSeries,
  {
    series,
    total,
    table,
    by,
    measure,
    before,
    text,
  }: {
    series: readonly PlotSeries[];
    total: Sums;
    table: UsageSums | undefined;
    by: readonly UsageDimension[];
    measure: MeasureName;
    before: Sums | undefined;
    text(value: number | null, precision?: Precision): string;
  },
): string {
  const { value, parts, unit, isAdditive } = measures[measure];
  const written = (sums: Sums, of = value) => text(of(sums), precisionOf(sums, measure));
  if (isBefore) return before === undefined ? "" : written(before);
  if (by.length === 0) return written(total, parts?.find(([name]) => name === id)?.[1]);
  if (table === undefined || (isOthers && !isAdditive)) return "";
  if (isOthers) {
    const shown = new Set(series.map((each) => each.id));
    const others = table.rows.filter(({ group }) => !shown.has(idOf(group)));
    if (unit !== "money") return text(others.reduce((sum, row) => sum + (value(row) ?? 0), 0));
    const { amount, precision } = sumOf(
      others.map((row) => ({ amount: row[measure as "upstreamCost"], precision: precisionOf(row, measure) })),
    );
    return text(amount === null ? null : Number(amount), precision);
  }
  const row = table.rows.find(({ group }) => idOf(group) === id);
  return row === undefined ? "" : written(row);
}
