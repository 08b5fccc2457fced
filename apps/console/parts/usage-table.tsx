/** The figures of usage: those of the whole time, and those of each group. */
import { Paper, SimpleGrid, Skeleton, Text, UnstyledButton } from "@mantine/core";
import { useMemo } from "react";
import { useFilters } from "../app/address.ts";
import { useFormats } from "../app/language.tsx";
import { useMe } from "../app/session.ts";
import { useAccounts } from "./accounts.ts";
import { precisionOf } from "./amounts.ts";
import { Cut } from "./facts.tsx";
import { AccountLink, KeyLink, ModelLink } from "./link.tsx";
import { useMeasureFormats } from "./measure-format.ts";
import { changeOf, type MeasureName, measures } from "./measures.ts";
import { Empty } from "./page.tsx";
import { DataTable, useColumns } from "./table.tsx";
import { useUsageTexts } from "./usage.texts.ts";
import { useUsageFiltersTexts } from "./usage-filters.texts.ts";
import type { UsageDimension } from "./usage-filters.tsx";
import { idOf } from "./usage-series.ts";
import type { SumRow, Sums, UsageSums } from "./usage-types.ts";

const tileNames = [
  "cost",
  "requests",
  "tokens",
  "errorRate",
  "cacheRate",
  "cacheSaving",
  "firstContentMs",
] as const satisfies MeasureName[];
/** Measures of which more is bad. */
const isWorse: Partial<Record<MeasureName, true>> = {
  errorRate: true,
  firstContentMs: true,
  errors: true,
  durationMs: true,
};

interface UsageSumsProps {
  /** The sums of the period; undefined before they are there. */
  now: UsageSums | undefined;
  /** The sums of the period before; undefined without a comparison. */
  before: UsageSums | undefined;
  measure: MeasureName;
}

export interface TilesProps extends UsageSumsProps {
  isCompared: boolean;
  /** The period before, in words. */
  beforeText: string;
}

/** The main measures; a click chooses the measure of the plot. */
export function Tiles({ now, before, isCompared, measure: chosen, beforeText }: TilesProps) {
  const t = useUsageTexts();
  const formatOf = useMeasureFormats();
  const { filter } = useFilters();
  return (
    <SimpleGrid cols={{ base: 2, xs: 3, lg: 7 }} spacing="xs">
      {tileNames.map((name) => (
        <UnstyledButton key={name} onClick={() => filter({ measure: name })} aria-pressed={name === chosen}>
          <Paper
            withBorder
            p="xs"
            px="sm"
            style={name === chosen ? { borderColor: "var(--mantine-primary-color-filled)" } : undefined}
          >
            <Text c="dimmed" size="sm">
              {t[name]}
            </Text>
            {now === undefined ? (
              <Skeleton h={28} w={90} />
            ) : (
              <Text size="xl" fw={600} title={formatOf(name).exact(now.total)} data-measure={name}>
                {formatOf(name).of(now.total)}
              </Text>
            )}
            {isCompared && <Difference now={now?.total} before={before?.total} measure={name} title={beforeText} />}
          </Paper>
        </UnstyledButton>
      ))}
    </SimpleGrid>
  );
}

interface DifferenceProps {
  now: Sums | undefined;
  before: Sums | undefined;
  measure: MeasureName;
  title?: string;
}

const differenceOf = ({ now, before, measure }: DifferenceProps): number | null => {
  const { value } = measures[measure];
  return changeOf(now ? value(now) : null, before ? value(before) : null);
};

/** The change to the period before, such as "+12 %". */
function Difference(props: DifferenceProps) {
  const format = useFormats();
  const change = differenceOf(props);
  const isBad = change !== null && isWorse[props.measure] === true && change > 0;
  return (
    <Text
      size="xs"
      span
      c={isBad ? "light-dark(var(--mantine-color-red-9), var(--mantine-color-red-4))" : "dimmed"}
      title={props.title}
    >
      {change === null ? "–" : change === 0 ? "±0" : `${change > 0 ? "+" : "−"}${format.percent(Math.abs(change))}`}
    </Text>
  );
}

interface GroupsProps extends UsageSumsProps {
  now: UsageSums;
  by: readonly UsageDimension[];
  longTime(ms: number): string;
}

const countNames = [
  "requests",
  "refused",
  "failed",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "reasoningTokens",
  "images",
] as const;

/** Measures that few people look at: they are hidden until somebody chooses them. */
const hiddenAtFirst = ["cacheSaving", "cachedInputTokens", "reasoningTokens", "images", "durationMs"];

/** The columns of all measures, with their totals. */
function useFigureColumns(total: Sums) {
  const t = useUsageTexts();
  const me = useMe();
  const formatOf = useMeasureFormats();
  const c = useColumns<SumRow>();
  const moneyNames = ["cost", "cacheSaving", ...(me.isOperator ? (["upstreamCost", "margin"] as const) : [])] as const;
  const count = (value: number) => <span title={c.format.count(value)}>{c.format.short(value)}</span>;
  return [
    ...moneyNames.map((id) =>
      c.money(id, t[id], (sums) => sums[id], {
        total: total as SumRow,
        precisionOf: (sums) => precisionOf(sums, id),
      }),
    ),
    ...countNames.map((id) =>
      c.cell(id, t[id], (sums) => count(sums[id]), {
        isNumber: true,
        sortBy: (sums) => sums[id],
        footer: count(total[id]),
      }),
    ),
    ...(["cacheRate", "firstContentMs", "durationMs"] as const).map((id) => {
      const { value } = measures[id];
      return c.cell(id, t[id], (sums) => formatOf(id).text(value(sums)), {
        isNumber: true,
        sortBy: (sums) => value(sums) ?? -1,
        footer: formatOf(id).text(value(total)),
      });
    }),
  ];
}

/** All groups with all measures; without groups, all steps. */
export function Groups({ now: { rows, total, keyNames }, before, by, measure, longTime }: GroupsProps) {
  const t = useUsageTexts();
  const names = useUsageFiltersTexts();
  const labels = new Map(useAccounts("reader").map(({ value, label }) => [value, label]));
  const c = useColumns<SumRow>();
  const figures = useFigureColumns(total);
  const rowsBefore = useMemo(() => new Map(before?.rows.map((row) => [idOf(row.group), row])), [before]);
  const { value: measureOf } = measures[measure];
  const isGrouped = by.length > 0;
  const sortedRows = useMemo(() => {
    const orderOf = (row: SumRow) => (isGrouped ? (measureOf(row) ?? 0) : Date.parse(row.time ?? ""));
    return [...rows].sort((left, right) => orderOf(right) - orderOf(left));
  }, [rows, isGrouped, measureOf]);
  const isCompared = before !== undefined && isGrouped;
  const difference = (row: SumRow) => ({ now: row, before: rowsBefore.get(idOf(row.group)), measure });
  const nameOf = (dimension: UsageDimension, value: string) =>
    (dimension === "key" ? keyNames[value] : dimension === "account" ? labels.get(value) : undefined) ?? value;
  const columns = [
    ...(isGrouped
      ? by.map((dimension) =>
          c.cell(
            dimension,
            names[dimension],
            ({ group: { [dimension]: value = "" } }) => (
              <DimensionValue dimension={dimension} value={value} name={nameOf(dimension, value)} />
            ),
            {
              sortBy: ({ group }) => nameOf(dimension, group[dimension] ?? ""),
              footer: dimension === by[0] ? t.total : "",
            },
          ),
        )
      : [
          c.cell("time", t.time, ({ time }) => longTime(Date.parse(time ?? "")), {
            sortBy: ({ time }) => Date.parse(time ?? ""),
            footer: t.total,
          }),
        ]),
    ...figures,
    ...(isCompared
      ? [
          c.cell("change", t.change(t[measure]), (row) => <Difference {...difference(row)} />, {
            isNumber: true,
            sortBy: (row) => differenceOf(difference(row)) ?? 0,
            footer: <Difference now={total} before={before.total} measure={measure} />,
          }),
        ]
      : []),
  ];
  return (
    <DataTable
      label={t.tableLabel}
      columns={columns}
      rows={sortedRows}
      rowId={(row) => `${row.time}${idOf(row.group)}`}
      minWidth={1_000}
      empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
      chooser="usage"
      hiddenAtFirst={hiddenAtFirst}
    />
  );
}

const links: Partial<Record<UsageDimension, typeof KeyLink>> = { key: KeyLink, account: AccountLink, model: ModelLink };

interface DimensionValueProps {
  dimension: UsageDimension;
  value: string;
  name: string;
}

function DimensionValue({ dimension, value, name }: DimensionValueProps) {
  const t = useUsageTexts();
  if (value === "") return <Text c="dimmed">{t.unknown}</Text>;
  const text = <Cut>{name}</Cut>;
  const Link = links[dimension];
  return Link ? (
    <Link id={value} title={value}>
      {text}
    </Link>
  ) : (
    text
  );
}
