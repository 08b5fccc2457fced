/** The figures of usage: those of the whole time, and those of each group. */

import { Paper, SimpleGrid, Skeleton, Table, Text, UnstyledButton } from "@mantine/core";
import { type ReactNode, useMemo } from "react";
import { type Formats, useFormats, useTexts } from "../app/language.tsx";
import { useAccounts } from "./accounts.ts";
import { type Column, Cut, DataTable } from "./data-table.tsx";
import { PageLink } from "./link.tsx";
import { changeOf, type MeasureName, measures } from "./measures.ts";
import { Empty } from "./states.tsx";
import { dimensionTexts, type UsageDimension } from "./usage-filters.tsx";
import { idOf } from "./usage-series.ts";
import type { UsageTexts } from "./usage-texts.ts";
import type { SumRow, Sums, UsageSums } from "./usage-types.ts";

export function measureText(
  value: number | null,
  unit: "money" | "count" | "percent" | "ms",
  currency: string,
  format: Formats,
) {
  if (value === null) return "–";
  switch (unit) {
    case "money":
      return format.money(value, currency);
    case "percent":
      return format.percent(value);
    case "ms":
      return format.ms(value);
    case "count":
      return format.count(value);
  }
}

export const axisText = (
  value: number,
  unit: "money" | "count" | "percent" | "ms",
  currency: string,
  format: Formats,
) =>
  unit === "count" ? (Number.isInteger(value) ? format.short(value) : "") : measureText(value, unit, currency, format);

const tileNames = [
  "cost",
  "requests",
  "tokens",
  "errorRate",
  "cacheRate",
  "firstContentMs",
] as const satisfies MeasureName[];
/** More of these is bad. */
const isWorse: Partial<Record<MeasureName, true>> = {
  errorRate: true,
  firstContentMs: true,
  errors: true,
  durationMs: true,
};

export function Tiles({
  total,
  before,
  isCompared,
  currency,
  measure: chosen,
  t,
  onChoose,
  beforeText,
}: {
  total: Sums | undefined;
  before: Sums | undefined;
  isCompared: boolean;
  currency: string;
  measure: MeasureName;
  t: UsageTexts;
  onChoose(name: MeasureName): void;
  beforeText: string;
}) {
  const format = useFormats();
  return (
    <SimpleGrid cols={{ base: 2, xs: 3, lg: 6 }} spacing="xs">
      {tileNames.map((name) => {
        const { value, unit } = measures[name];
        const exact = total && (name === "cost" ? format.exactMoney(total.cost, currency) : undefined);
        return (
          <UnstyledButton key={name} onClick={() => onChoose(name)} aria-pressed={name === chosen}>
            <Paper
              withBorder
              p="xs"
              px="sm"
              style={name === chosen ? { borderColor: "var(--mantine-primary-color-filled)" } : undefined}
            >
              <Text c="dimmed" size="sm">
                {t[name]}
              </Text>
              {total === undefined ? (
                <Skeleton h={28} w={90} />
              ) : (
                <Text size="xl" fw={600} title={exact} data-measure={name}>
                  {measureText(value(total), unit, currency, format)}
                </Text>
              )}
              {isCompared && (
                <Difference
                  now={total && value(total)}
                  before={before && value(before)}
                  isWorse={isWorse[name] === true}
                  title={beforeText}
                />
              )}
            </Paper>
          </UnstyledButton>
        );
      })}
    </SimpleGrid>
  );
}

/** The change to the period before, such as "+12 %". */
function Difference({
  now,
  before,
  isWorse: isMoreWorse,
  title,
}: {
  now: number | null | undefined;
  before: number | null | undefined;
  isWorse: boolean;
  title?: string;
}) {
  const format = useFormats();
  const change = changeOf(now ?? null, before ?? null);
  const isBad = change !== null && isMoreWorse && change > 0;
  return (
    <Text
      size="xs"
      span
      c={isBad ? "light-dark(var(--mantine-color-red-9), var(--mantine-color-red-4))" : "dimmed"}
      title={title}
    >
      {changeText(change, format)}
    </Text>
  );
}

const changeText = (change: number | null, format: Formats): string =>
  change === null ? "–" : change === 0 ? "±0" : `${change > 0 ? "+" : "−"}${format.percent(Math.abs(change))}`;

interface GroupsProps {
  of: UsageSums;
  rowsBefore: readonly SumRow[] | undefined;
  totalBefore: Sums | undefined;
  by: readonly UsageDimension[];
  currency: string;
  measure: MeasureName;
  longTime(ms: number): string;
  isOperator: boolean;
  t: UsageTexts;
}

/** All groups with all measures; without groups, all steps. */
export function Groups({
  of: { rows, total, keyNames },
  rowsBefore,
  totalBefore,
  by,
  currency,
  measure,
  longTime,
  isOperator,
  t,
}: GroupsProps) {
  const names = useTexts(dimensionTexts);
  const format = useFormats();
  const accounts = useAccounts("reader");
  const { value: measured } = measures[measure];
  const before = useMemo(() => new Map(rowsBefore?.map((row) => [idOf(row.group), row])), [rowsBefore]);
  const sorted = useMemo(
    () =>
      by.length === 0
        ? [...rows].sort((left, right) => Date.parse(right.time ?? "") - Date.parse(left.time ?? ""))
        : [...rows].sort((left, right) => (measured(right) ?? 0) - (measured(left) ?? 0)),
    [rows, by.length, measured],
  );
  const isCompared = rowsBefore !== undefined && by.length > 0;
  const money = (amount: string | null): ReactNode =>
    amount === null ? "–" : <span title={format.exactMoney(amount, currency)}>{format.money(amount, currency)}</span>;
  const figures: { id: string; title: string; value(sums: Sums): number | null; cell(sums: Sums): ReactNode }[] = [
    ...(["cost", ...(isOperator ? (["upstreamCost", "margin"] as const) : [])] as const).map((id) => ({
      id,
      title: t[id],
      value: measures[id].value,
      cell: (sums: Sums) => money(sums[id]),
    })),
    ...(
      [
        ["requests", (sums) => sums.requests],
        ["refused", (sums) => sums.refused],
        ["failed", (sums) => sums.failed],
        ["inputTokens", (sums) => sums.inputTokens],
        ["cachedInputTokens", (sums) => sums.cachedInputTokens],
        ["outputTokens", (sums) => sums.outputTokens],
        ["reasoningTokens", (sums) => sums.reasoningTokens],
        ["images", (sums) => sums.images],
      ] as const satisfies [keyof UsageTexts, (sums: Sums) => number][]
    ).map(([id, value]) => ({ id, title: t[id], value, cell: (sums: Sums) => format.count(value(sums)) })),
    { id: "cacheRate", title: t.cacheRate, ...plain("cacheRate", currency, format) },
    { id: "firstContentMs", title: t.firstContentMs, ...plain("firstContentMs", currency, format) },
    { id: "durationMs", title: t.durationMs, ...plain("durationMs", currency, format) },
  ];
  const columns: Column<SumRow>[] = [
    ...(by.length === 0
      ? [
          {
            id: "time",
            title: t.time,
            sortBy: ({ time }: SumRow) => Date.parse(time ?? ""),
            cell: ({ time }: SumRow) => (
              <Text span style={{ whiteSpace: "nowrap" }}>
                {longTime(Date.parse(time ?? ""))}
              </Text>
            ),
          },
        ]
      : by.map((dimension): Column<SumRow> => {
          const nameOf = (value: string) =>
            dimension === "key"
              ? (keyNames[value] ?? value)
              : dimension === "account"
                ? (accounts.find((account) => account.value === value)?.label ?? value)
                : value;
          return {
            id: dimension,
            title: names[dimension],
            sortBy: ({ group }) => nameOf(group[dimension] ?? ""),
            cell: ({ group }) => (
              <DimensionValue
                dimension={dimension}
                value={group[dimension] ?? ""}
                name={nameOf(group[dimension] ?? "")}
                t={t}
              />
            ),
          };
        })),
    ...figures.map(
      ({ id, title, value, cell }): Column<SumRow> => ({
        id,
        title,
        isNumber: true,
        sortBy: (row) => value(row) ?? -1,
        cell,
      }),
    ),
    ...(isCompared
      ? [
          {
            id: "change",
            title: t.change(t[measure]),
            isNumber: true,
            sortBy: (row: SumRow) => changeOf(measured(row), measuredOf(before.get(idOf(row.group)), measured)) ?? 0,
            cell: (row: SumRow) => (
              <Difference
                now={measured(row)}
                before={measuredOf(before.get(idOf(row.group)), measured)}
                isWorse={isWorse[measure] === true}
              />
            ),
          },
        ]
      : []),
  ];
  return (
    <DataTable
      label={t.tableLabel}
      columns={columns}
      rows={sorted}
      rowId={(row) => `${row.time}${idOf(row.group)}`}
      minWidth={1_180}
      empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
      footer={
        <Table.Tr fw={600}>
          <Table.Td colSpan={Math.max(1, by.length)}>{t.total}</Table.Td>
          {figures.map(({ id, cell }) => (
            <Table.Td key={id} className="number" data-total={id}>
              {cell(total)}
            </Table.Td>
          ))}
          {isCompared && (
            <Table.Td className="number">
              <Difference
                now={measured(total)}
                before={measuredOf(totalBefore, measured)}
                isWorse={isWorse[measure] === true}
              />
            </Table.Td>
          )}
        </Table.Tr>
      }
    />
  );
}

const measuredOf = (sums: Sums | undefined, measured: (sums: Sums) => number | null): number | null =>
  sums === undefined ? null : measured(sums);

const plain = (name: MeasureName, currency: string, format: Formats) => ({
  value: measures[name].value,
  cell: (sums: Sums) => measureText(measures[name].value(sums), measures[name].unit, currency, format),
});

function DimensionValue({
  dimension,
  value,
  name,
  t,
}: {
  dimension: UsageDimension;
  value: string;
  name: string;
  t: UsageTexts;
}) {
  if (value === "") return <Text c="dimmed">{t.unknown}</Text>;
  const shown = <Cut>{name}</Cut>;
  switch (dimension) {
    case "key":
      return (
        <PageLink to="/keys/$key" params={{ key: value }} title={value}>
          {shown}
        </PageLink>
      );
    case "account":
      return (
        <PageLink to="/accounts/$account" params={{ account: value }}>
          {shown}
        </PageLink>
      );
    case "model":
      return (
        <PageLink to="/models/$model" params={{ model: value }}>
          {shown}
        </PageLink>
      );
    default:
      return shown;
  }
}
