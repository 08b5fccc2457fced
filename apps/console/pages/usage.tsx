/** Usage over time: any measure, by up to two dimensions, beside the period before. */
import { Box, Group, Paper, SegmentedControl, Select, Stack, Switch } from "@mantine/core";
import { useCallback, useMemo } from "react";
import { type Search, useFilters } from "../app/address.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { useAccounts } from "../parts/accounts.ts";
import { CsvButton } from "../parts/csv-button.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { useMeasureFormats } from "../parts/measure-format.ts";
import { measureNames, measures } from "../parts/measures.ts";
import { Loaded, Page } from "../parts/page.tsx";
import { intervalOf, intervalsFor, periodBefore, periodOf, rangeNameOf, stepsOf } from "../parts/periods.ts";
import { Plot } from "../parts/plot.tsx";
import { SavedViews } from "../parts/saved-views.tsx";
import { useUsageTexts } from "../parts/usage.texts.ts";
import { useUsageFiltersTexts } from "../parts/usage-filters.texts.ts";
import {
  DimensionFilters,
  dimensionNames,
  filtersOf,
  RangeSelect,
  timesOf,
  timeZone,
  type UsageDimension,
  usePeriodNow,
  useStepTexts,
  withOneLabel,
} from "../parts/usage-filters.tsx";
import { beforeSeries, type GroupName, seriesOf, totalText } from "../parts/usage-series.ts";
import { Groups, Tiles } from "../parts/usage-table.tsx";

const defaultRange = "7d";
/** Groups of a plot; the rest is one more. */
const topGroups = 8;
/** How often a range that ends now is read again. */
const everyMs = 30_000;

/** The choices of the address. */
function choiceOf(search: Search, isOperator: boolean, now: number) {
  const range = rangeNameOf(search, defaultRange);
  const period = periodOf(search, defaultRange, now);
  const name = measureNames.find((each) => each === search.measure) ?? "cost";
  const measure = measures[name].isFor === "operator" && !isOperator ? "cost" : name;
  const names = search.by === undefined ? ["model"] : search.by.split(",");
  const by = withOneLabel([
    ...new Set(names.filter((each): each is UsageDimension => dimensionNames.some((own) => own === each))),
  ]).slice(0, 2);
  return {
    period,
    before: periodBefore(period, range),
    interval: intervalOf(period, search.interval),
    measure,
    by,
    kind: search.kind === "lines" || !measures[measure].isAdditive ? ("lines" as const) : ("bars" as const),
    isCompared: search.compare === "1",
    filters: filtersOf(search, by),
  };
}
type Choice = ReturnType<typeof choiceOf>;

/** The sums for the plot and for the table, of the period and of the one before. */
function useUsage({ period, before, interval, measure, by, isCompared, filters }: Choice) {
  const isGrouped = by.length > 0;
  const grouping = isGrouped ? { by: by.join(",") } : {};
  const query = { ...timesOf(period), ...filters, timeZone };
  const queryBefore = { ...timesOf(before), ...filters, timeZone };
  const options = { everyMs: period.to > Date.now() ? everyMs : undefined, keepsPrevious: true };
  const optionsBefore = { keepsPrevious: true, enabled: isCompared };
  const top = isGrouped ? { top: topGroups, topBy: measures[measure].topBy } : {};
  const plot = useRead("sumUsage", { query: { ...query, interval, ...grouping, ...top } }, options);
  const plotBefore = useRead("sumUsage", { query: { ...queryBefore, interval } }, optionsBefore);
  const table = useRead(
    "sumUsage",
    { query: { ...query, ...grouping, interval: isGrouped ? "none" : interval } },
    options,
  );
  const tableBefore = useRead("sumUsage", { query: { ...queryBefore, ...grouping, interval: "none" } }, optionsBefore);
  return {
    plot,
    plotBefore: isCompared ? plotBefore.data : undefined,
    table,
    tableBefore: isCompared ? tableBefore.data : undefined,
    csvQuery: { ...query, ...grouping },
  };
}
type UsageReads = ReturnType<typeof useUsage>;

export function Usage() {
  const t = useUsageTexts();
  const format = useFormats();
  const me = useMe();
  const { search, filter } = useFilters();
  const now = usePeriodNow();
  const choice = useMemo(() => choiceOf(search, me.isOperator, now), [search, me.isOperator, now]);
  const { period, before, interval, measure, by, isCompared } = choice;
  const reads = useUsage(choice);
  const { longTime } = useStepTexts(interval);
  const sums = { before: reads.tableBefore, measure };
  return (
    <Page
      title={t.usage}
      about={t.about}
      isHeavy
      actions={
        <>
          <ButtonLink to="/requests" search={requestsOf(search)} variant="default">
            {t.requests}
          </ButtonLink>
          <SavedViews page="usage" search={search} />
          <CsvButton query={reads.csvQuery} interval={interval} isGrouped={by.length > 0} />
        </>
      }
    >
      <Stack>
        <Group>
          <RangeSelect period={period} byDefault={defaultRange} />
          <Select
            aria-label={t.interval}
            data={[
              { value: "auto", label: t.auto },
              ...intervalsFor(period).map((value) => ({ value, label: t[value] })),
            ]}
            value={search.interval === interval ? interval : "auto"}
            onChange={(value) => filter({ interval: value === "auto" ? undefined : (value ?? undefined) })}
            allowDeselect={false}
            w={150}
          />
          <Switch
            label={t.compare}
            checked={isCompared}
            onChange={({ currentTarget }) => filter({ compare: currentTarget.checked ? "1" : undefined })}
          />
        </Group>
        <DimensionFilters period={period} />
      </Stack>
      <Tiles
        {...sums}
        now={reads.table.data}
        isCompared={isCompared}
        beforeText={t.beforeIs(`${format.time(before.from)} – ${format.time(before.to)}`)}
      />
      <Paper withBorder p="sm" style={fading(reads.plot)}>
        <Stack gap="sm">
          <PlotChoice choice={choice} />
          <UsagePlot choice={choice} reads={reads} />
        </Stack>
      </Paper>
      <Box style={fading(reads.table)}>
        <Loaded from={reads.table}>{(data) => <Groups {...sums} now={data} {...{ by, longTime }} />}</Loaded>
      </Box>
    </Page>
  );
}

/** The measure, the dimensions and the kind of the plot. */
function PlotChoice({ choice: { measure, by, kind } }: { choice: Choice }) {
  const t = useUsageTexts();
  const names = useUsageFiltersTexts();
  const me = useMe();
  const { filter } = useFilters();
  const measureChoices = measureNames.filter((name) => me.isOperator || measures[name].isFor !== "operator");
  const dimensions = (position: 0 | 1, label: string) =>
    dimensionNames
      .filter((name) => position === 0 || withOneLabel([...by.slice(0, 1), name]).includes(name))
      .filter((name) => name !== by[1 - position])
      .map((value) => ({ value, label: `${label}: ${names[value]}` }));
  return (
    <Group justify="space-between">
      <Group>
        <FilterSelect
          name="measure"
          aria-label={t.measure}
          data={measureChoices.map((value) => ({ value, label: t[value] }))}
          value={measure}
          allowDeselect={false}
          w={180}
        />
        <Select
          aria-label={t.by}
          data={[{ value: "none", label: t.notGrouped }, ...dimensions(0, t.by)]}
          value={by[0] ?? "none"}
          onChange={(value) => filter({ by: value === "none" ? value : [value, ...by.slice(1)].join(",") })}
          allowDeselect={false}
          w={190}
        />
        <Select
          aria-label={t.thenBy}
          placeholder={t.thenBy}
          data={dimensions(1, t.thenBy)}
          value={by[1] ?? null}
          onChange={(value) => filter({ by: [by[0], ...(value === null ? [] : [value])].join(",") })}
          allowDeselect={false}
          clearable
          clearButtonProps={{ "aria-label": `${t.thenBy} ×` }}
          disabled={by.length === 0}
          w={190}
        />
      </Group>
      <SegmentedControl
        aria-label={t.kind}
        size="xs"
        data={(["bars", "lines"] as const).map((value) => ({ value, label: t[value] }))}
        value={kind}
        disabled={!measures[measure].isAdditive}
        onChange={(value) => filter({ kind: value === "bars" ? undefined : value })}
      />
    </Group>
  );
}

function UsagePlot({ choice, reads }: { choice: Choice; reads: UsageReads }) {
  const t = useUsageTexts();
  const names = useUsageFiltersTexts();
  const formatOf = useMeasureFormats();
  const groupName = useGroupName();
  const { interval, measure, by, kind } = choice;
  const { text, axis } = useMemo(() => formatOf(measure), [formatOf, measure]);
  const times = useMemo(() => stepsOf(choice.period, interval), [choice.period, interval]);
  const [sums, sumsBefore] = [reads.plot.data, reads.plotBefore];
  const series = useMemo(
    () => [
      ...(sums ? seriesOf(sums, { ...choice, times, t, groupName }) : []),
      ...(sumsBefore ? [beforeSeries(sumsBefore.rows, { ...choice, times, t })] : []),
    ],
    [sums, sumsBefore, choice, times, t, groupName],
  );
  const stepTexts = useStepTexts(interval);
  const totals = {
    series,
    table: reads.table.data,
    by,
    measure,
    before: reads.tableBefore?.total,
    text,
  };
  return (
    <Loaded from={reads.plot} rows={9}>
      {({ total }) => (
        <Plot
          label={t.plotLabel(t[measure], by.map((name) => names[name]).join(", "))}
          times={times}
          series={series}
          kind={kind}
          isStacked={measures[measure].isAdditive}
          axis={axis}
          {...stepTexts}
          format={text}
          total={(each) => totalText(each, { ...totals, total })}
        />
      )}
    </Loaded>
  );
}

/** The sums on the page are those of the former choice until the answer is there. */
const fading = ({ isPlaceholderData }: { isPlaceholderData: boolean }) => ({ opacity: isPlaceholderData ? 0.5 : 1 });

/** The same range and filters, for the log. */
const requestsOf = (search: Search): Search => ({
  range: rangeNameOf(search, defaultRange),
  from: search.from,
  to: search.to,
  ...filtersOf(search),
});

/** The name of a group: its dimensions' values, keys and accounts by name. */
function useGroupName(): GroupName {
  const t = useUsageTexts();
  const accounts = JSON.stringify(useAccounts("reader").map(({ value, label }) => [value, label]));
  return useCallback(
    (group, keyNames) => {
      const labels = new Map(JSON.parse(accounts) as [string, string][]);
      const nameOf = (dimension: string, value: string) =>
        (dimension === "key" ? keyNames[value] : dimension === "account" ? labels.get(value) : undefined) ??
        (value || t.unknown);
      return Object.entries(group)
        .map(([dimension, value]) => nameOf(dimension, value))
        .join(" · ");
    },
    [accounts, t],
  );
}
