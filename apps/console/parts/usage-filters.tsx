/** The range of time and the filters of the pages on usage. All of them live in the address. */
import { Button, Select, TextInput } from "@mantine/core";
import { useDebouncedValue, useDisclosure, useInterval } from "@mantine/hooks";
import { useMemo, useState } from "react";
import type { usageDimensions } from "#api/usage.ts";
import { otherLabels, usageLabels } from "#api/vocabulary.ts";
import { type Search, useFilters } from "../app/address.ts";
import { useList, useRead } from "../app/queries.ts";
import { useLanguage } from "../app/texts.ts";
import { useAccounts } from "./accounts.ts";
import { FilterSelect } from "./filters.tsx";
import { FilterMultiSelect, valuesOf } from "./multi-filter.tsx";
import { type Interval, localTimeOf, type Period, type RangeName, rangeNameOf, rangeNames } from "./periods.ts";
import { useUsageFiltersTexts } from "./usage-filters.texts.ts";

export type UsageDimension = (typeof usageDimensions)[number];
export const dimensionNames = [
  ...(["model", "key", "account", "group", "upstream"] as const),
  ...usageLabels,
] as const satisfies UsageDimension[];

/** Sums know one label at a time. */
const isLabel = (name: UsageDimension): boolean => usageLabels.some((label) => label === name);

/** Only the first label among these dimensions. */
export function withOneLabel<Name extends UsageDimension>(names: readonly Name[]): Name[] {
  const first = names.find(isLabel);
  return names.filter((name) => !isLabel(name) || name === first);
}

/** The part of an address that chooses a period by its bounds. */
export const customRange = (period: Period): Search => ({ range: "custom", ...timesOf(period) });

export function RangeSelect({ period, byDefault }: { period: Period; byDefault: RangeName }) {
  const t = useUsageFiltersTexts();
  const { search, filter } = useFilters();
  const name = rangeNameOf(search, byDefault);
  const choose = (value: string | null) =>
    filter(
      value === "custom"
        ? customRange(period)
        : { range: value === byDefault ? undefined : (value ?? undefined), from: undefined, to: undefined },
    );
  return (
    <>
      <Select
        aria-label={t.range}
        data={rangeNames.map((value) => ({ value, label: t[value] }))}
        value={name}
        onChange={choose}
        allowDeselect={false}
        w={130}
      />
      {name === "custom" &&
        (["from", "to"] as const).map((bound) => (
          <TextInput
            key={bound}
            type="datetime-local"
            aria-label={t[bound]}
            value={localTimeOf(period[bound])}
            onChange={({ currentTarget: { value } }) =>
              value !== "" && filter({ range: "custom", [bound]: new Date(value).toISOString() })
            }
          />
        ))}
    </>
  );
}

/** The filters by dimension that the address has, beside a grouping. */
export function filtersOf(search: Search, by: readonly UsageDimension[] = []): Partial<Record<UsageDimension, string>> {
  const own = dimensionNames.filter((name) => search[name]);
  const names = withOneLabel([...by, ...own]);
  return Object.fromEntries(own.flatMap((name) => (names.includes(name) ? [[name, search[name]]] : [])));
}

export function DimensionFilters({ period }: { period: Period }) {
  const t = useUsageFiltersTexts();
  const { search } = useFilters();
  const accounts = useAccounts("reader");
  const [isOpen, { toggle }] = useDisclosure();
  const names = dimensionNames.filter((name) => name !== "account" || accounts.length > 1);
  const chosen = names.filter((name) => search[name] !== undefined);
  return (
    <>
      <Button className="on-phones" variant="default" onClick={toggle} aria-expanded={isOpen}>
        {chosen.length === 0 ? t.filters : `${t.filters} (${chosen.length})`}
      </Button>
      <div className="filters" data-open={isOpen || undefined}>
        {names.map((dimension) => (
          <DimensionFilter key={dimension} dimension={dimension} period={period} />
        ))}
      </div>
    </>
  );
}

/** How many values are offered before something is typed. */
const offeredMax = 50;

interface DimensionFilterProps {
  dimension: UsageDimension;
  period: Period;
}

/** The values of a dimension that can be chosen, and their names where they have any. */
function useDimensionValues({ dimension, period }: DimensionFilterProps, isOpen: boolean, text: string) {
  const { search } = useFilters();
  const [settled] = useDebouncedValue(text, 200);
  const own = search[dimension];
  const chosen = isLabel(dimension) && own !== undefined ? [own] : valuesOf(own);
  const used = useRead(
    "sumUsage",
    { query: { ...timesOf(period), by: dimension, interval: "none", top: offeredMax, topBy: "requests" } },
    { enabled: isOpen || (dimension === "key" && chosen.length > 0) },
  );
  const accounts = useAccounts("reader");
  const { models = [], groups = [] } = useRead("readCatalogue").data ?? {};
  const keys = useList("listKeys", {
    query: { limit: offeredMax, search: dimension === "key" ? settled : undefined },
  });
  const offered: Partial<Record<UsageDimension, readonly (readonly [value: string, name: string])[]>> = {
    account: accounts.map(({ value, label }) => [value, label]),
    key: [
      ...Object.entries(used.data?.keyNames ?? {}),
      ...(keys.data ?? []).map(({ id, name, hint }) => [id, `${name} (…${hint})`] as const),
    ],
    model: models.map(({ id }) => [id, id]),
    group: groups.map(({ name }) => [name, name]),
  };
  const names = new Map(offered[dimension] ?? []);
  const inUse = (used.data?.rows ?? [])
    .flatMap(({ group }) => group[dimension] || [])
    .filter((value) => !isLabel(dimension) || value !== otherLabels);
  const values = [...new Set([...chosen, ...inUse, ...names.keys()])];
  return values.map((value) => ({ value, label: names.get(value) ?? value }));
}

function DimensionFilter(props: DimensionFilterProps) {
  const t = useUsageFiltersTexts();
  const { search, filter } = useFilters();
  const [isOpen, setIsOpen] = useState(false);
  const [text, setText] = useState("");
  const { dimension } = props;
  const common = {
    name: dimension,
    title: t[dimension],
    data: useDimensionValues(props, isOpen, text),
    onDropdownOpen: () => setIsOpen(true),
    searchable: true,
    nothingFoundMessage: t.nothing,
    limit: 200,
    comboboxProps: { width: 280, position: "bottom-start" },
    "data-chosen": search[dimension] === undefined ? undefined : true,
  } as const;
  const others = Object.fromEntries(usageLabels.map((name) => [name, undefined]));
  return isLabel(dimension) ? (
    <FilterSelect {...common} onChange={(value) => filter({ ...others, [dimension]: value ?? undefined })} />
  ) : (
    <FilterMultiSelect {...common} searchValue={text} onSearchChange={setText} hidePickedOptions />
  );
}

/** A period as the API takes it. */
export const timesOf = ({ from, to }: Period) => ({
  from: new Date(from).toISOString(),
  to: new Date(to).toISOString(),
});

/** The browser's zone, which decides where days begin. */
export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The texts of steps: short below a plot, and in full. */
export function useStepTexts(interval: Interval): { shortTime(ms: number): string; longTime(ms: number): string } {
  const { language } = useLanguage();
  return useMemo(() => {
    const format = (options: Intl.DateTimeFormatOptions) =>
      new Intl.DateTimeFormat(language, { hourCycle: "h23", ...options });
    const clock = format({ hour: "2-digit", minute: "2-digit" });
    const day = format({ day: "numeric", month: "short" });
    const moment = format({ weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
    const wholeDay = format({ weekday: "short", day: "numeric", month: "short", year: "numeric" });
    const month = format({ month: "short", year: "numeric" });
    switch (interval) {
      case "month":
        return { shortTime: (ms) => month.format(ms), longTime: (ms) => month.format(ms) };
      case "day":
        return { shortTime: (ms) => day.format(ms), longTime: (ms) => wholeDay.format(ms) };
      default:
        return {
          shortTime: (ms) => (isMidnight(ms) ? day.format(ms) : clock.format(ms)),
          longTime: (ms) => moment.format(ms),
        };
    }
  }, [language, interval]);
}

/** The time of a row of a log: without the year. */
export function useRowTime(): (iso: string) => string {
  const { language } = useLanguage();
  return useMemo(() => {
    const format = new Intl.DateTimeFormat(language, {
      month: "short",
      day: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
    });
    return (iso) => format.format(new Date(iso));
  }, [language]);
}

const isMidnight = (ms: number) => {
  const date = new Date(ms);
  return date.getHours() === 0 && date.getMinutes() === 0;
};

/** The beginning of the present half hour: a range that ends now changes no more often. */
export function usePeriodNow(): number {
  const [now, setNow] = useState(halfHourNow);
  useInterval(() => setNow(halfHourNow()), 15_000, { autoInvoke: true });
  return now;
}

function halfHourNow(): number {
  const now = Date.now();
  return now - (now % 1_800_000);
}
