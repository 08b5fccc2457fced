/** The log of requests: a histogram above, then every generation, newest first. */
import { Badge, Button, Group, MultiSelect, Paper, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type FormEvent, useCallback, useEffect, useMemo, useState } from "react";
import { call, type Input } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { type Item, useList } from "../app/pages.ts";
import { queryClient, useRead } from "../app/queries.ts";
import type { Search } from "../app/router.tsx";
import { useAccounts } from "../parts/accounts.ts";
import { type Column, Cut, DataTable } from "../parts/data-table.tsx";
import { errorCodes } from "../parts/error-texts.ts";
import { ChatIcon } from "../parts/icons.tsx";
import { PageLink } from "../parts/link.tsx";
import { Page } from "../parts/page.tsx";
import { intervalOf, nextStep, periodOf, stepsOf } from "../parts/periods.ts";
import { Plot } from "../parts/plot.tsx";
import type { PlotSeries } from "../parts/plot-shape.ts";
import { SavedViews } from "../parts/saved-views.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import {
  DimensionFilters,
  dimensionTexts,
  filtersOf,
  RangeSelect,
  timesOf,
  timeZone,
  usePeriodNow,
  useRowTime,
  useStepTexts,
} from "../parts/usage-filters.tsx";

const texts = translated({
  en: {
    title: "Requests",
    about: "Every generation and every refused request.",
    content: "The content is stored",
    openById: "Id of a request, a generation or the upstream",
    open: "Open",
    live: "Live",
    refresh: "Refresh",
    outcome: "Outcome",
    errorCode: "Error",
    complete: "Complete",
    left: "Caller left",
    refused: "Refused",
    failed: "Failed",
    answered: "Answered",
    plot: "Requests over time by outcome. Drag over the plot to choose a shorter range.",
    dragHelp: "Drag or click in the plot for a shorter range; go back for the former one.",
    time: "Time",
    model: "Model",
    firstContent: "First content",
    duration: "Duration",
    tokens: "Tokens in / out",
    cost: "Cost",
    none: "No request matches",
    noneWhy: "Choose a longer range or fewer filters.",
    answeredBy: (model: string) => `answered by ${model}`,
    loaded: (count: string) => `${count} loaded`,
  },
  zh: {
    title: "请求",
    about: "每次生成和每个被拒绝的请求。",
    content: "内容已保存",
    openById: "请求、生成或上游的 ID",
    open: "打开",
    live: "实时",
    refresh: "刷新",
    outcome: "结果",
    errorCode: "错误",
    complete: "完成",
    left: "调用方离开",
    refused: "被拒绝",
    failed: "失败",
    answered: "已回答",
    plot: "各结果的请求数随时间变化。在图中拖动可选择更短的范围。",
    dragHelp: "在图中拖动或点击可选择更短的范围；后退可恢复原范围。",
    time: "时间",
    model: "模型",
    firstContent: "首个内容",
    duration: "时长",
    tokens: "令牌 输入 / 输出",
    cost: "费用",
    none: "没有匹配的请求",
    noneWhy: "请选择更长的时间范围或减少筛选。",
    answeredBy: (model: string) => `由 ${model} 回答`,
    loaded: (count: string) => `已加载 ${count}`,
  },
});

const route = getRouteApi("/inside/requests");
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
  const t = useTexts(texts);
  return (
    <Badge variant="light" color={colours[outcome]} radius="sm" tt="none">
      {t[outcome]}
      {status > 0 && ` ${status}`}
    </Badge>
  );
}

export function Requests() {
  const t = useTexts(texts);
  const names = useTexts(dimensionTexts);
  const format = useFormats();
  const rowTime = useRowTime();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (changed: Search, replace = true) =>
    void navigate({ search: (now) => ({ ...now, ...changed }), replace });
  const now = usePeriodNow();
  const period = useMemo(() => periodOf(search, defaultRange, now), [search, now]);
  const isLive = search.live === "1" && period.to > now;
  const filters = { ...timesOf(period), ...filtersOf(search) };
  const query: ListQuery = {
    ...filters,
    ...(search.outcome !== undefined && { outcome: search.outcome }),
    ...(search.errorCode !== undefined && { errorCode: search.errorCode }),
    limit: pageRows,
  };
  const list = useLog(query, isLive);
  const currency = useRead("readCatalogue").data?.currency ?? "USD";
  const hasAccounts = useAccounts("reader").length > 1;
  const columns = useMemo(
    (): Column<Row>[] => [
      {
        id: "time",
        title: t.time,
        cell: ({ id, receivedAt }) => (
          <PageLink to="/requests/$id" params={{ id }} style={{ whiteSpace: "nowrap" }} title={format.time(receivedAt)}>
            {rowTime(receivedAt)}
          </PageLink>
        ),
      },
      {
        id: "model",
        title: t.model,
        cell: ({ model, modelAnswered }) =>
          modelAnswered === null || modelAnswered === model ? (
            <Cut width={170}>{model || names.unknown}</Cut>
          ) : (
            <Cut width={170}>{`${model} → ${modelAnswered}`}</Cut>
          ),
      },
      {
        id: "key",
        title: names.key,
        cell: ({ key, keyName }) =>
          key === "" ? (
            names.unknown
          ) : (
            <PageLink to="/keys/$key" params={{ key }} title={key}>
              <Cut width={120}>{keyName ?? key}</Cut>
            </PageLink>
          ),
      },
      ...(hasAccounts
        ? [{ id: "account", title: names.account, cell: ({ account }: Row) => <Cut width={120}>{account}</Cut> }]
        : []),
      {
        id: "outcome",
        title: t.outcome,
        cell: ({ outcome, status, errorCode, hasContent }) => (
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
        ),
      },
      {
        id: "first",
        title: t.firstContent,
        isNumber: true,
        cell: ({ firstContentMs }) => format.ms(firstContentMs),
      },
      { id: "duration", title: t.duration, isNumber: true, cell: ({ durationMs }) => format.ms(durationMs) },
      {
        id: "tokens",
        title: t.tokens,
        isNumber: true,
        cell: ({ tokens }) => `${format.count(tokens.input)} / ${format.count(tokens.output)}`,
      },
      {
        id: "cost",
        title: t.cost,
        isNumber: true,
        cell: ({ cost }) => <span title={format.exactMoney(cost, currency)}>{format.money(cost, currency)}</span>,
      },
    ],
    [t, names, format, rowTime, currency, hasAccounts],
  );
  const chosenOutcomes = search.outcome?.split(",") ?? [];
  return (
    <Page
      title={t.title}
      about={t.about}
      isHeavy
      actions={
        <>
          <OpenById />
          <SavedViews
            page="requests"
            search={{ ...search, live: undefined }}
            onChoose={(view) => void navigate({ search: view })}
          />
        </>
      }
    >
      <Stack gap="xs">
        <Group gap="xs">
          <RangeSelect search={search} onChange={change} period={period} byDefault={defaultRange} />
          <MultiSelect
            aria-label={t.outcome}
            placeholder={chosenOutcomes.length === 0 ? t.outcome : ""}
            data={outcomes.map((value) => ({ value, label: t[value] }))}
            value={chosenOutcomes}
            onChange={(next) => change({ outcome: next.length === 0 ? undefined : next.join(",") })}
            clearable
            clearButtonProps={{ "aria-label": `${t.outcome} ×` }}
            maw={chosenOutcomes.length === 0 ? 150 : 360}
          />
          <MultiSelect
            aria-label={t.errorCode}
            placeholder={search.errorCode === undefined ? t.errorCode : ""}
            data={errorCodes}
            value={search.errorCode?.split(",") ?? []}
            onChange={(next) => change({ errorCode: next.length === 0 ? undefined : next.join(",") })}
            searchable
            clearable
            clearButtonProps={{ "aria-label": `${t.errorCode} ×` }}
            comboboxProps={{ width: 240, position: "bottom-start" }}
            maw={search.errorCode === undefined ? 150 : 360}
          />
          <Switch
            label={t.live}
            checked={isLive}
            disabled={period.to <= now}
            onChange={({ currentTarget }) => change({ live: currentTarget.checked ? "1" : undefined })}
          />
          <Button variant="default" onClick={list.refresh}>
            {t.refresh}
          </Button>
        </Group>
        <DimensionFilters search={search} onChange={change} period={period} />
      </Stack>
      <Histogram
        {...{ period, filters, isLive }}
        outcomes={chosenOutcomes}
        errorCode={search.errorCode}
        onRange={(from, to) =>
          change({ range: "custom", from: new Date(from).toISOString(), to: new Date(to).toISOString() }, false)
        }
      />
      <Loaded from={list} rows={16}>
        {(rows) => (
          <Stack gap={4}>
            <DataTable
              label={t.title}
              columns={columns}
              rows={rows}
              rowId={rowId}
              more={list.more}
              isLoadingMore={list.isLoadingMore}
              isEndless
              rowClass={({ id }) => (list.fresh.has(id) ? "fresh-row" : undefined)}
              minWidth={960}
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

const rowId = ({ id }: Row) => id;

/** Opens the record of any id that a person has. */
function OpenById() {
  const t = useTexts(texts);
  const navigate = route.useNavigate();
  const [id, setId] = useState("");
  const open = (event: FormEvent) => {
    event.preventDefault();
    if (id.trim() !== "") void navigate({ to: "/requests/$id", params: { id: id.trim() } });
  };
  return (
    <form onSubmit={open}>
      <Group gap="xs" wrap="nowrap">
        <TextInput
          aria-label={t.openById}
          placeholder={t.openById}
          value={id}
          onChange={({ currentTarget }) => setId(currentTarget.value)}
          w={{ base: 230, sm: 360 }}
        />
        <Button type="submit" variant="default">
          {t.open}
        </Button>
      </Group>
    </form>
  );
}

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
    const known = new Set(rows.map(rowId));
    const added = arrived.filter(({ id }) => !known.has(id));
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
  const known = new Set(rows.map(rowId));
  const added = tail.filter(({ id }) => !known.has(id));
  const placeOf = ({ receivedAt, id }: Row) => receivedAt + id;
  return [...added, ...rows].sort((left, right) => (placeOf(left) < placeOf(right) ? 1 : -1));
}

interface HistogramProps {
  period: { from: number; to: number };
  filters: object;
  isLive: boolean;
  outcomes: readonly string[];
  errorCode: string | undefined;
  onRange(from: number, to: number): void;
}

/**
 * From the totals, so it is quick over any range; errors of one code are counted in the records.
 */
function Histogram({ period, filters, isLive, outcomes: chosen, errorCode, onRange }: HistogramProps) {
  const t = useTexts(texts);
  const format = useFormats();
  const interval = intervalOf(period);
  const sums = useRead(
    "sumUsage",
    { query: { ...filters, interval, timeZone, ...(errorCode !== undefined && { errorCode }) } },
    { keepsPrevious: true, everyMs: isLive ? tailEveryMs : histogramEveryMs },
  );
  const times = useMemo(() => stepsOf(period, interval), [period, interval]);
  const { data } = sums;
  const shown = chosen.join();
  const series = useMemo((): PlotSeries[] => {
    const rows = new Map((data?.rows ?? []).map((row) => [Date.parse(row.time ?? ""), row]));
    const isShown = (...of: Outcome[]) => shown === "" || of.some((each) => shown.split(",").includes(each));
    const values = (of: (row: { requests: number; refused: number; failed: number }) => number) =>
      times.map((time) => {
        const row = rows.get(time);
        return row === undefined ? 0 : of(row);
      });
    return [
      ...(isShown("complete", "left")
        ? [{ id: "answered", name: t.answered, values: values((row) => row.requests - row.refused - row.failed) }]
        : []),
      ...(isShown("refused")
        ? [{ id: "refused", name: t.refused, values: values(({ refused }) => refused), colour: "amber" as const }]
        : []),
      ...(isShown("failed")
        ? [{ id: "failed", name: t.failed, values: values(({ failed }) => failed), colour: "red" as const }]
        : []),
    ];
  }, [data, times, shown, t]);
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
            total={({ id }) =>
              format.count(
                id === "refused"
                  ? total.refused
                  : id === "failed"
                    ? total.failed
                    : total.requests - total.refused - total.failed,
              )
            }
            onSelect={(first, last) => {
              const [from, to] = [times[first], times[last]];
              if (from !== undefined && to !== undefined) onRange(from, nextStep(to, interval));
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
