/** The log of requests: a histogram above, then every generation, newest first. */
import { Badge, Button, Group, Paper, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useCallback, useEffect, useMemo, useState } from "react";
import { useFilters } from "../app/address.ts";
import { call, type Input } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { type Item, queryClient, useList, useRead } from "../app/queries.ts";
import { useAccounts } from "../parts/accounts.ts";
import { precisionOf } from "../parts/amounts.ts";
import { RecordsCsvButton } from "../parts/csv-button.tsx";
import { errorCodes } from "../parts/error.texts.ts";
import { Cut } from "../parts/facts.tsx";
import { ChatIcon } from "../parts/icons.tsx";
import { KeyLink, RequestLink } from "../parts/link.tsx";
import { FilterMultiSelect, valuesOf } from "../parts/multi-filter.tsx";
import { Empty, Loaded, Page } from "../parts/page.tsx";
import { intervalOf, nextStep, type Period, periodOf, stepsOf } from "../parts/periods.ts";
import { Plot } from "../parts/plot.tsx";
import type { PlotSeries } from "../parts/plot-shape.ts";
import { SavedViews } from "../parts/saved-views.tsx";
import { type Column, DataTable, useColumns } from "../parts/table.tsx";
import { useUsageFiltersTexts } from "../parts/usage-filters.texts.ts";
import {
  customRange,
  DimensionFilters,
  filtersOf,
  RangeSelect,
  timesOf,
  timeZone,
  usePeriodNow,
  useRowTime,
  useStepTexts,
} from "../parts/usage-filters.tsx";
import type { Sums } from "../parts/usage-types.ts";
import { useRequestsTexts } from "./requests.texts.ts";

const defaultRange = "24h";
const pageRows = 100;
const tailEveryMs = 2_000;
const histogramEveryMs = 30_000;
/** Rows that the live tail adds before the list is read anew. */
const tailRowsMax = 2_000;

const outcomes = ["complete", "left", "refused", "failed"] as const;
type Outcome = (typeof outcomes)[number];
type Row = Item<"listUsage">;
type ListQuery = NonNullable<Input<"listUsage">["query"]>;

const colours = { complete: "teal", left: "gray", refused: "yellow", failed: "red" } as const;

export function OutcomeBadge({ outcome, status }: { outcome: Outcome; status: number }) {
  const t = useRequestsTexts();
  return (
    <Badge color={colours[outcome]}>
      {t[outcome]}
      {status > 0 && ` ${status}`}
    </Badge>
  );
}

function useRequestColumns(): Column<Row>[] {
  const t = useRequestsTexts();
  const names = useUsageFiltersTexts();
  const rowTime = useRowTime();
  const hasAccounts = useAccounts("reader").length > 1;
  const c = useColumns<Row>();
  return useMemo(() => {
    const number = { isNumber: true };
    return [
      c.cell("time", t.time, ({ id, receivedAt }) => (
        <RequestLink id={id} style={{ whiteSpace: "nowrap" }} title={c.format.time(receivedAt)}>
          {rowTime(receivedAt)}
        </RequestLink>
      )),
      c.cell("model", t.model, ({ model, modelAnswered }) => (
        <Cut width={170}>
          {modelAnswered === null || modelAnswered === model ? model || names.unknown : `${model} → ${modelAnswered}`}
        </Cut>
      )),
      c.cell("key", names.key, ({ key, keyName }) =>
        key === "" ? (
          names.unknown
        ) : (
          <KeyLink id={key} title={key}>
            <Cut width={120}>{keyName ?? key}</Cut>
          </KeyLink>
        ),
      ),
      ...(hasAccounts ? [c.account(names.account)] : []),
      c.cell("outcome", t.outcome, ({ outcome, status, errorCode, hasContent }) => (
        <Group gap={6} wrap="nowrap">
          <OutcomeBadge outcome={outcome} status={status} />
          {errorCode !== null && (
            <Text span size="xs" c="dimmed">
              {errorCode}
            </Text>
          )}
          {hasContent && (
            <Text span c="dimmed" lh={0} role="img" aria-label={t.content} title={t.content}>
              <ChatIcon />
            </Text>
          )}
        </Group>
      )),
      c.cell("first", t.firstContent, ({ firstContentMs }) => c.format.ms(firstContentMs), number),
      c.cell("duration", t.duration, ({ durationMs }) => c.format.ms(durationMs), number),
      c.cell(
        "tokens",
        t.tokens,
        ({ tokens, price }) =>
          price === null ? "–" : `${c.format.count(tokens.input)} / ${c.format.count(tokens.output)}`,
        number,
      ),
      c.money("cost", t.cost, ({ cost }) => cost, { precisionOf }),
    ];
  }, [t, names, rowTime, hasAccounts, c]);
}

/** The period and the filters that the address chooses. */
function useLogFilters() {
  const { search, filter } = useFilters();
  const now = usePeriodNow();
  const period = useMemo(() => periodOf(search, defaultRange, now), [search, now]);
  const filters = { ...timesOf(period), ...filtersOf(search) };
  const query: ListQuery = {
    ...filters,
    outcome: search.outcome,
    errorCode: search.errorCode,
    limit: pageRows,
  };
  return {
    search,
    filter,
    period,
    filters,
    query,
    isPast: period.to <= now,
    isLive: search.live === "1" && period.to > now,
  };
}

export function Requests() {
  const t = useRequestsTexts();
  const format = useFormats();
  const { search, filter, period, filters, query, isPast, isLive } = useLogFilters();
  const list = useLog(query, isLive);
  const columns = useRequestColumns();
  return (
    <Page
      title={t.requests}
      about={t.about}
      isHeavy
      actions={
        <>
          <OpenById />
          <SavedViews page="requests" search={{ ...search, live: undefined }} />
          <RecordsCsvButton query={{ ...filters, outcome: search.outcome, errorCode: search.errorCode }} />
        </>
      }
    >
      <Stack>
        <Group>
          <RangeSelect period={period} byDefault={defaultRange} />
          <FilterMultiSelect
            name="outcome"
            title={t.outcome}
            data={outcomes.map((value) => ({ value, label: t[value] }))}
            maw={search.outcome === undefined ? 150 : 360}
          />
          <FilterMultiSelect
            name="errorCode"
            title={t.errorCode}
            data={errorCodes}
            searchable
            comboboxProps={{ width: 240, position: "bottom-start" }}
            maw={search.errorCode === undefined ? 150 : 360}
          />
          <Switch
            label={t.live}
            checked={isLive}
            disabled={isPast}
            onChange={({ currentTarget }) => filter({ live: currentTarget.checked ? "1" : undefined })}
          />
          <Button variant="default" onClick={list.refresh}>
            {t.refresh}
          </Button>
        </Group>
        <DimensionFilters period={period} />
      </Stack>
      <Histogram {...{ period, filters, isLive }} />
      <Loaded from={list} rows={16}>
        {(rows) => (
          <Stack gap={4}>
            <DataTable
              label={t.requests}
              columns={columns}
              rows={rows}
              more={list.more}
              isLoadingMore={list.isLoadingMore}
              isEndless
              rowClass={({ id }) => (list.fresh.has(id) ? "fresh-row" : undefined)}
              minWidth={960}
              chooser="requests"
              empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
            />
            <Text size="sm" c="dimmed" role="status">
              {t.loaded(format.count(rows.length))}
            </Text>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

/** Opens the record of any id that a person has. */
function OpenById() {
  const t = useRequestsTexts();
  const navigate = useNavigate();
  const [id, setId] = useInputState("");
  const open = (event: FormEvent) => {
    event.preventDefault();
    if (id.trim() !== "") void navigate({ to: "/requests/$id", params: { id: id.trim() } });
  };
  return (
    <form onSubmit={open}>
      <Group wrap="nowrap">
        <TextInput
          aria-label={t.openById}
          placeholder={t.openById}
          value={id}
          onChange={setId}
          w={{ base: 230, sm: 360 }}
        />
        <Button type="submit" variant="default">
          {t.open}
        </Button>
      </Group>
    </form>
  );
}

const rowId = ({ id }: Row) => id;

/** The rows that are loaded, with those that came since on top while it is live. */
function useLog(query: ListQuery, isLive: boolean) {
  const input = JSON.stringify(query);
  const list = useList("listUsage", { query }, { isKept: true });
  // A list of an earlier visit is shown at once, and what came since is read.
  const [isOld] = useState(() => queryClient.getQueryData(listKey(query)) !== undefined);
  const [tail, setTail] = useState<{ input: string; rows: Row[]; fresh: ReadonlySet<string> }>(emptyTail(input));
  const newest = useQuery({
    queryKey: ["listUsage", "tail", query],
    queryFn: ({ signal }) => call("listUsage", { query }, { signal }),
    enabled: isLive || isOld,
    refetchInterval: isLive && tailEveryMs,
    staleTime: 0,
  });
  const { data, refetch } = list;
  const refresh = useCallback(() => {
    setTail(emptyTail(input));
    void queryClient.resetQueries({ queryKey: listKey(JSON.parse(input) as ListQuery) });
  }, [input]);
  const own = tail.input === input ? tail.rows : [];
  const rows = useMemo(
    () => (data === undefined ? undefined : own.length === 0 ? data : merged(own, data)),
    [own, data],
  );
  const arrived = newest.data?.items;
  // biome-ignore lint/correctness/useExhaustiveDependencies: each page of the tail is looked at once.
  useEffect(() => {
    if (arrived === undefined || rows === undefined) return;
    const ids = new Set(rows.map(rowId));
    const added = arrived.filter(({ id }) => !ids.has(id));
    // More came than a page has: the list begins anew, so that nothing is missing in between.
    if (rows.length > 0 && added.length === pageRows) refresh();
    else if (own.length + added.length > tailRowsMax) refresh();
    else if (added.length > 0 || tail.fresh.size > 0)
      setTail({ input, rows: [...added, ...own], fresh: new Set(added.map(rowId)) });
  }, [arrived]);
  return {
    data: rows,
    error: list.error ?? newest.error,
    refetch,
    more: list.more,
    isLoadingMore: list.isLoadingMore,
    fresh: tail.input === input && isLive ? tail.fresh : noIds,
    refresh,
  };
}

const listKey = (query: ListQuery) => ["listUsage", "list", { query }];
const noIds: ReadonlySet<string> = new Set();
const emptyTail = (input: string) => ({ input, rows: [], fresh: noIds });

/** In the order of the log. A generation that ran long comes in below others that began later. */
function merged(tail: readonly Row[], rows: readonly Row[]): Row[] {
  const ids = new Set(rows.map(rowId));
  const added = tail.filter(({ id }) => !ids.has(id));
  const placeOf = ({ receivedAt, id }: Row) => receivedAt + id;
  return [...added, ...rows].sort((left, right) => (placeOf(left) < placeOf(right) ? 1 : -1));
}

interface HistogramProps {
  period: Period;
  filters: object;
  isLive: boolean;
}

/**
 * From the totals, so it is quick over any range; errors of one code are counted in the records.
 */
function Histogram({ period, filters, isLive }: HistogramProps) {
  const t = useRequestsTexts();
  const format = useFormats();
  const { search, filter } = useFilters();
  const { outcome = "", errorCode } = search;
  const interval = intervalOf(period);
  const sums = useRead(
    "sumUsage",
    { query: { ...filters, interval, timeZone, errorCode } },
    { keepsPrevious: true, everyMs: isLive ? tailEveryMs : histogramEveryMs },
  );
  const times = useMemo(() => stepsOf(period, interval), [period, interval]);
  const { data } = sums;
  const series = useMemo((): PlotSeries[] => {
    const rows = new Map((data?.rows ?? []).map((row) => [Date.parse(row.time ?? ""), row]));
    const chosen = valuesOf(outcome);
    return histogramSeries.flatMap(({ id, outcomes: own, colour }) =>
      chosen.length > 0 && !own.some((each) => chosen.includes(each))
        ? []
        : [{ id, name: t[id], values: times.map((time) => countOf(id, rows.get(time))), ...(colour && { colour }) }],
    );
  }, [data, times, outcome, t]);
  const axis = useCallback((value: number) => (Number.isInteger(value) ? format.short(value) : ""), [format]);
  const stepTexts = useStepTexts(interval);
  return (
    <Paper withBorder p="sm">
      <Loaded from={sums} rows={5}>
        {({ total }) => (
          <Plot
            label={t.plot}
            {...stepTexts}
            {...{ times, series, axis }}
            kind="bars"
            isStacked
            height={150}
            format={(value) => format.count(value ?? 0)}
            total={({ id }) => format.count(countOf(id, total))}
            onSelect={(first, last) => {
              const [from, to] = [times[first], times[last]];
              if (from === undefined || to === undefined) return;
              filter(customRange({ from, to: nextStep(to, interval) }), { isStep: true });
            }}
          />
        )}
      </Loaded>
      <Text size="xs" c="dimmed">
        {t.dragHelp}
      </Text>
    </Paper>
  );
}

const histogramSeries = [
  { id: "answered", outcomes: ["complete", "left"], colour: undefined },
  { id: "refused", outcomes: ["refused"], colour: "amber" },
  { id: "failed", outcomes: ["failed"], colour: "red" },
] as const;

function countOf(id: string, sums: Pick<Sums, "requests" | "refused" | "failed"> | undefined): number {
  if (sums === undefined) return 0;
  const { requests, refused, failed } = sums;
  return id === "refused" ? refused : id === "failed" ? failed : requests - refused - failed;
}
