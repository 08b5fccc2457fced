/** The range of time and the filters of the pages on usage. All of them live in the address. */
import { Group, MultiSelect, Select, TextInput } from "@mantine/core";
import { useDebouncedValue, useInterval } from "@mantine/hooks";
import { useMemo, useState } from "react";
import type { usageDimensions } from "#api/usage.ts";
import { translated, useLanguage, useTexts } from "../app/language.tsx";
import { useList } from "../app/pages.ts";
import { useRead } from "../app/queries.ts";
import type { Search } from "../app/router.tsx";
import { useAccounts } from "./accounts.ts";
import { type Interval, localTimeOf, type Period, type RangeName, rangeNameOf, rangeNames } from "./periods.ts";

const texts = translated({
  en: {
    range: "Range",
    today: "Today",
    yesterday: "Yesterday",
    "24h": "24 hours",
    "7d": "7 days",
    "30d": "30 days",
    month: "This month",
    "last-month": "Last month",
    custom: "Custom",
    from: "From",
    to: "To",
    account: "Account",
    key: "Key",
    model: "Model",
    group: "Group",
    upstream: "Upstream",
    unknown: "(none)",
    search: "Type to search",
    nothing: "Nothing found",
  },
  zh: {
    range: "时间范围",
    today: "今天",
    yesterday: "昨天",
    "24h": "24 小时",
    "7d": "7 天",
    "30d": "30 天",
    month: "本月",
    "last-month": "上月",
    custom: "自定义",
    from: "从",
    to: "到",
    account: "账户",
    key: "密钥",
    model: "模型",
    group: "分组",
    upstream: "上游",
    unknown: "（无）",
    search: "输入以搜索",
    nothing: "没有结果",
  },
});
/** The names of dimensions. */
export const dimensionTexts = texts;

export type UsageDimension = (typeof usageDimensions)[number];
export const dimensionNames = ["model", "key", "account", "group", "upstream"] as const satisfies UsageDimension[];

/** Changes some fields of the address's search part. */
type Change = (change: Search) => void;

interface FilterProps {
  search: Search;
  onChange: Change;
}

export function RangeSelect({
  search,
  onChange,
  period,
  byDefault,
}: FilterProps & { period: Period; byDefault: RangeName }) {
  const t = useTexts(texts);
  const name = rangeNameOf(search, byDefault);
  const choose = (value: string | null) =>
    onChange(
      value === "custom"
        ? { range: "custom", from: new Date(period.from).toISOString(), to: new Date(period.to).toISOString() }
        : { range: value === byDefault ? undefined : (value ?? undefined), from: undefined, to: undefined },
    );
  const at = (field: "from" | "to") => (
    <TextInput
      type="datetime-local"
      aria-label={t[field]}
      value={localTimeOf(period[field])}
      onChange={({ currentTarget: { value } }) =>
        value !== "" && onChange({ range: "custom", [field]: new Date(value).toISOString() })
      }
    />
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
      {name === "custom" && (
        <>
          {at("from")}
          {at("to")}
        </>
      )}
    </>
  );
}

/** The filters by dimension that the address has. */
export const filtersOf = (search: Search): Partial<Record<UsageDimension, string>> =>
  Object.fromEntries(dimensionNames.flatMap((name) => (search[name] ? [[name, search[name]]] : [])));

export function DimensionFilters({ search, onChange, period }: FilterProps & { period: Period }) {
  const accounts = useAccounts("reader");
  return (
    <Group gap="xs" align="flex-start">
      {dimensionNames
        .filter((name) => name !== "account" || accounts.length > 1)
        .map((dimension) => (
          <DimensionFilter key={dimension} {...{ dimension, search, onChange, period }} />
        ))}
    </Group>
  );
}

/** How many values are offered before something is typed. */
const offeredMax = 50;

function DimensionFilter({
  dimension,
  search,
  onChange,
  period,
}: FilterProps & { dimension: UsageDimension; period: Period }) {
  const t = useTexts(texts);
  const [isOpen, setIsOpen] = useState(false);
  const [typed, setTyped] = useState("");
  const [settled] = useDebouncedValue(typed, 200);
  const chosen = search[dimension]?.split(",") ?? [];
  const used = useRead(
    "sumUsage",
    { query: { ...timesOf(period), by: dimension, interval: "none", top: offeredMax, topBy: "requests" } },
    { enabled: isOpen || (dimension === "key" && chosen.length > 0) },
  );
  const accounts = useAccounts("reader");
  const catalogue = useRead("readCatalogue");
  const keys = useList("listKeys", {
    query: { limit: offeredMax, ...(dimension === "key" && settled !== "" && { search: settled }) },
  });
  const names = new Map<string, string>([
    ...(dimension === "account" ? accounts.map(({ value, label }) => [value, label] as const) : []),
    ...(dimension === "key"
      ? [
          ...Object.entries(used.data?.keyNames ?? {}),
          ...(keys.data ?? []).map(({ id, name, hint }) => [id, `${name} (…${hint})`] as const),
        ]
      : []),
  ]);
  const known =
    dimension === "model"
      ? (catalogue.data?.models ?? []).map(({ id }) => id)
      : dimension === "group"
        ? (catalogue.data?.groups ?? []).map(({ name }) => name)
        : [...names.keys()];
  const inUse = (used.data?.rows ?? []).flatMap(({ group }) => group[dimension] || []);
  const values = [...new Set([...chosen, ...inUse, ...known])];
  return (
    <MultiSelect
      aria-label={t[dimension]}
      placeholder={chosen.length === 0 ? t[dimension] : ""}
      data={values.map((value) => ({ value, label: names.get(value) ?? value }))}
      value={chosen}
      onChange={(next) => onChange({ [dimension]: next.length === 0 ? undefined : next.join(",") })}
      onDropdownOpen={() => setIsOpen(true)}
      searchValue={typed}
      onSearchChange={setTyped}
      searchable
      clearable
      clearButtonProps={{ "aria-label": `${t[dimension]} ×` }}
      hidePickedOptions
      nothingFoundMessage={t.nothing}
      limit={200}
      comboboxProps={{ width: 280, position: "bottom-start" }}
      miw={130}
      maw={chosen.length === 0 ? 150 : 320}
      style={{ flex: chosen.length === 0 ? "0 1 150px" : "0 1 auto" }}
    />
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

const halfHourNow = () => Date.now() - (Date.now() % 1_800_000);
