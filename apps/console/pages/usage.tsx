/** Usage over time: any measure, by up to two dimensions, beside the period before. */
import { Box, Group, Paper, SegmentedControl, Select, Stack, Switch } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { type Formats, useFormats, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import type { Search } from "../app/router.tsx";
import { useMe } from "../app/session.ts";
import { useAccounts } from "../parts/accounts.ts";
import { CsvButton } from "../parts/csv-button.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { type MeasureName, measureNames, measures } from "../parts/measures.ts";
import { Page } from "../parts/page.tsx";
import {
  intervalOf,
  intervalsFor,
  type Period,
  periodBefore,
  periodOf,
  rangeNameOf,
  stepsOf,
} from "../parts/periods.ts";
import { Plot } from "../parts/plot.tsx";
import { SavedViews } from "../parts/saved-views.tsx";
import { Loaded } from "../parts/states.tsx";
import {
  DimensionFilters,
  dimensionNames,
  dimensionTexts,
  filtersOf,
  RangeSelect,
  timesOf,
  timeZone,
  type UsageDimension,
  usePeriodNow,
  useStepTexts,
} from "../parts/usage-filters.tsx";

import { beforeSeries, type GroupName, seriesOf, totalText } from "../parts/usage-series.ts";
import { axisText, Groups, measureText, Tiles } from "../parts/usage-table.tsx";
import { type UsageTexts, usageTexts } from "../parts/usage-texts.ts";

const route = getRouteApi("/inside/usage");
const defaultRange = "7d";
/** Groups of a plot; the rest is one more. */
const topGroups = 8;
/** How often a range that ends now is read again. */
const everyMs = 30_000;

/** What the address says. */
function choiceOf(search: Search, isOperator: boolean, now: number) {
  const range = rangeNameOf(search, defaultRange);
  const period = periodOf(search, defaultRange, now);
  const name = measureNames.find((each) => each === search.measure) ?? "cost";
  const measure: MeasureName = measures[name].isFor === "operator" && !isOperator ? "cost" : name;
  const asked = search.by === undefined ? ["model"] : search.by.split(",");
  const by = [...new Set(asked.filter((each): each is UsageDimension => dimensionNames.some((own) => own === each)))];
  return {
    range,
    period,
    before: periodBefore(period, range),
    interval: intervalOf(period, search.interval),
    measure,
    by: by.slice(0, 2),
    kind: search.kind === "lines" || !measures[measure].isAdditive ? ("lines" as const) : ("bars" as const),
    isCompared: search.compare === "1",
    filters: filtersOf(search),
  };
}

export function Usage() {
  const t = useTexts(usageTexts);
  const names = useTexts(dimensionTexts);
  const format = useFormats();
  const me = useMe();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (changed: Search) => void navigate({ search: (now) => ({ ...now, ...changed }), replace: true });
  const now = usePeriodNow();
  const choice = useMemo(() => choiceOf(search, me.isOperator, now), [search, me.isOperator, now]);
  const { period, before, interval, measure, by, kind, isCompared, filters } = choice;
  const currency = useRead("readCatalogue").data?.currency ?? "USD";
  const groupName = useGroupName(t);

  const grouping = by.length > 0 ? { by: by.join(",") } : {};
  const query = { ...timesOf(period), ...filters, timeZone };
  const queryBefore = { ...timesOf(before), ...filters, timeZone };
  const live = period.to > Date.now() ? { everyMs } : {};
  const options = { ...live, keepsPrevious: true };
  const plotQuery = { ...query, interval, ...grouping };
  const plotted = useRead(
    "sumUsage",
    { query: by.length > 0 ? { ...plotQuery, top: topGroups, topBy: measures[measure].topBy } : plotQuery },
    options,
  );
  const plottedBefore = useRead(
    "sumUsage",
    { query: { ...queryBefore, interval } },
    { keepsPrevious: true, enabled: isCompared },
  );
  const table = useRead(
    "sumUsage",
    { query: { ...query, ...grouping, interval: by.length > 0 ? "none" : interval } },
    options,
  );
  const tableBefore = useRead(
    "sumUsage",
    { query: { ...queryBefore, ...grouping, interval: "none" } },
    { keepsPrevious: true, enabled: isCompared },
  );

  const formatMeasure = useCallback(
    (value: number | null) => measureText(value, measures[measure].unit, currency, format),
    [measure, currency, format],
  );
  const axis = useCallback(
    (value: number) => axisText(value, measures[measure].unit, currency, format),
    [measure, currency, format],
  );
  const times = useMemo(() => stepsOf(choice.period, choice.interval), [choice]);
  const [sums, sumsBefore] = [plotted.data, plottedBefore.data];
  const series = useMemo(
    () => [
      ...(sums ? seriesOf(sums, { ...choice, times, t, groupName }) : []),
      ...(choice.isCompared && sumsBefore ? [beforeSeries(sumsBefore.rows, { ...choice, times, t })] : []),
    ],
    [sums, sumsBefore, choice, times, t, groupName],
  );
  const stepTexts = useStepTexts(interval);
  const measureChoices = measureNames.filter((name) => me.isOperator || measures[name].isFor !== "operator");

  return (
    <Page
      title={t.title}
      about={t.about}
      isHeavy
      actions={
        <>
          <ButtonLink to="/requests" search={requestsOf(search)} variant="default">
            {t.seeRequests}
          </ButtonLink>
          <SavedViews page="usage" search={search} onChoose={(view) => void navigate({ search: view })} />
          <CsvButton query={{ ...query, ...grouping }} interval={interval} isGrouped={by.length > 0} />
        </>
      }
    >
      <Stack gap="xs">
        <Group gap="xs">
          <RangeSelect search={search} onChange={change} period={period} byDefault={defaultRange} />
          <Select
            aria-label={t.interval}
            data={[
              { value: "auto", label: t.auto },
              ...intervalsFor(period).map((value) => ({ value, label: t[value] })),
            ]}
            value={search.interval === interval ? interval : "auto"}
            onChange={(value) => change({ interval: value === "auto" ? undefined : (value ?? undefined) })}
            allowDeselect={false}
            w={150}
          />
          <Switch
            label={t.compare}
            checked={isCompared}
            onChange={({ currentTarget }) => change({ compare: currentTarget.checked ? "1" : undefined })}
          />
        </Group>
        <DimensionFilters search={search} onChange={change} period={period} />
      </Stack>
      <Tiles
        total={table.data?.total}
        before={isCompared ? tableBefore.data?.total : undefined}
        {...{ isCompared, currency, measure, t }}
        onChoose={(name) => change({ measure: name })}
        beforeText={t.beforeIs(periodText(before, format))}
      />
      <Paper withBorder p="sm" style={fading(plotted)}>
        <Stack gap="sm">
          <Group gap="xs" justify="space-between">
            <Group gap="xs">
              <Select
                aria-label={t.measure}
                data={measureChoices.map((value) => ({ value, label: t[value] }))}
                value={measure}
                onChange={(value) => change({ measure: value ?? undefined })}
                allowDeselect={false}
                w={180}
              />
              {[0, 1].map((place) => (
                <Select
                  key={place}
                  aria-label={place === 0 ? t.by : t.thenBy}
                  placeholder={t.thenBy}
                  data={[
                    ...(place === 0 ? [{ value: "none", label: t.notGrouped }] : []),
                    ...dimensionNames
                      .filter((name) => name !== by[1 - place])
                      .map((value) => ({ value, label: `${place === 0 ? t.by : t.thenBy}: ${names[value]}` })),
                  ]}
                  value={by[place] ?? (place === 0 ? "none" : null)}
                  onChange={(value) => change({ by: byText(by, place, value) })}
                  allowDeselect={false}
                  clearable={place === 1}
                  clearButtonProps={{ "aria-label": `${t.thenBy} ×` }}
                  disabled={place === 1 && by.length === 0}
                  w={190}
                />
              ))}
            </Group>
            <SegmentedControl
              aria-label={t.kind}
              size="xs"
              data={(["bars", "lines"] as const).map((value) => ({ value, label: t[value] }))}
              value={kind}
              disabled={!measures[measure].isAdditive}
              onChange={(value) => change({ kind: value === "bars" ? undefined : value })}
            />
          </Group>
          <Loaded from={plotted} rows={9}>
            {({ total }) => (
              <Plot
                label={t.plotLabel(t[measure], by.map((name) => names[name]).join(", "))}
                times={times}
                series={series}
                kind={kind}
                isStacked={measures[measure].isAdditive}
                axis={axis}
                {...stepTexts}
                format={formatMeasure}
                total={(each) =>
                  totalText(each, {
                    series,
                    total,
                    table: table.data,
                    by,
                    measure,
                    before: tableBefore.data?.total,
                    formatMeasure,
                  })
                }
              />
            )}
          </Loaded>
        </Stack>
      </Paper>
      <Box style={fading(table)}>
        <Loaded from={table}>
          {(sums) => (
            <Groups
              {...{ of: sums, by, currency, measure, t }}
              rowsBefore={isCompared ? tableBefore.data?.rows : undefined}
              totalBefore={isCompared ? tableBefore.data?.total : undefined}
              longTime={stepTexts.longTime}
              isOperator={me.isOperator}
            />
          )}
        </Loaded>
      </Box>
    </Page>
  );
}

/** What is shown is of the former choice until the answer is there. */
const fading = ({ isPlaceholderData }: { isPlaceholderData: boolean }) => ({ opacity: isPlaceholderData ? 0.5 : 1 });

/** The same range and filters, for the log. */
const requestsOf = (search: Search): Search => ({
  range: rangeNameOf(search, defaultRange),
  ...(search.from && { from: search.from }),
  ...(search.to && { to: search.to }),
  ...filtersOf(search),
});

function byText(by: readonly UsageDimension[], place: number, value: string | null): string | undefined {
  if (place === 0 && value === "none") return "none";
  const next = [...by];
  if (value === null) next.splice(place, 1);
  else next[place] = value as UsageDimension;
  return next.join(",");
}

const periodText = ({ from, to }: Period, format: Formats) => `${format.time(from)} – ${format.time(to)}`;

/** The name of a group: its dimensions' values, keys and accounts by name. */
function useGroupName(t: UsageTexts): GroupName {
  const accounts = useAccounts("reader");
  const known = JSON.stringify(accounts);
  return useCallback(
    (group, keyNames) => {
      const labels = new Map((JSON.parse(known) as typeof accounts).map(({ value, label }) => [value, label]));
      const nameOf = (dimension: string, value: string) =>
        (dimension === "key" ? keyNames[value] : dimension === "account" ? labels.get(value) : undefined) ??
        (value || t.unknown);
      return Object.entries(group)
        .map(([dimension, value]) => nameOf(dimension, value))
        .join(" · ");
    },
    [known, t],
  );
}
