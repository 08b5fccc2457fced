/** The generations that wait or run now, oldest first; one can be stopped. */
import { Alert, Group, Select, Text } from "@mantine/core";
import { memo, useState } from "react";
import { type Answer, call } from "../app/call.ts";
import { type Formats, translated, useFormats, useTexts } from "../app/language.tsx";
import { queryClient, useRead } from "../app/queries.ts";
import type { Search } from "../app/router.tsx";
import { type Column, Cut, DataTable } from "../parts/data-table.tsx";
import { PageLink } from "../parts/link.tsx";
import { Empty, Loaded } from "../parts/states.tsx";
import { RowButton, StateCell } from "./cells.tsx";
import { ReasonDialog } from "./reason-dialog.tsx";
import { Section } from "./section.tsx";

const texts = translated({
  en: {
    title: "Running generations",
    shown: (shown: string, total: string) => `The oldest ${shown} of ${total}`,
    all: (total: string) => `${total} now`,
    silent: (names: string) => `Without the generations of ${names}, which did not answer in time.`,
    none: "No generation waits or runs",
    noneWhy: "The list is read again every two seconds.",
    any: "All",
    since: "For",
    key: "Key",
    model: "Model",
    queue: "Queue",
    state: "State",
    queued: "In ingress",
    dispatched: "On queue",
    running: "Running",
    streamed: "Streamed",
    whole: "Whole",
    kind: "Response",
    tokens: "Output tokens",
    target: "Upstream and model",
    worker: "Worker",
    ingress: "Ingress",
    id: "Id",
    stop: "Stop",
    stopTitle: "Stop this generation?",
    stopWhy: (id: string, model: string) =>
      `${id} (${model}): its caller gets an error with the reason, the upstream's call is aborted, and what it used so far is charged.`,
  },
  zh: {
    title: "运行中的生成",
    shown: (shown: string, total: string) => `最早的 ${shown} 个，共 ${total} 个`,
    all: (total: string) => `当前 ${total} 个`,
    silent: (names: string) => `不含 ${names} 的生成：它们未及时回答。`,
    none: "没有等待或运行中的生成",
    noneWhy: "列表每两秒刷新一次。",
    any: "全部",
    since: "时长",
    key: "密钥",
    model: "模型",
    queue: "队列",
    state: "状态",
    queued: "入口中",
    dispatched: "队列中",
    running: "运行中",
    streamed: "流式",
    whole: "整体",
    kind: "响应",
    tokens: "输出令牌",
    target: "上游与模型",
    worker: "工作进程",
    ingress: "入口",
    id: "ID",
    stop: "停止",
    stopTitle: "停止此生成？",
    stopWhy: (id: string, model: string) =>
      `${id}（${model}）：调用方会收到带原因的错误，上游调用会中止，已使用的部分会计费。`,
  },
});

type Texts = typeof texts.en;
type Listed = Answer<"listGenerations">;
type Generation = Listed["items"][number];

const everyMs = 2_000;
const stateColors = { queued: "gray", dispatched: "yellow", running: "teal" } as const;

export interface GenerationsProps {
  /** The names of the queues, separated by spaces. */
  queues: string;
  search: Search;
  onFilter(change: Search): void;
}

/** It has a pace of its own: the live state does not draw it again. */
export const Generations = memo(function Generations({
  queues,
  search: { model, key, queue },
  onFilter,
}: GenerationsProps) {
  const t = useTexts(texts);
  const format = useFormats();
  const query = { ...(model && { model }), ...(key && { key }), ...(queue && { queue }) };
  const listed = useRead("listGenerations", { query }, { everyMs, keepsPrevious: true });
  const { models = [] } = useRead("readCatalogue").data ?? {};
  const [stopping, setStopping] = useState<Generation>();
  const items = listed.data?.items ?? [];
  const keys = new Map(items.map(({ keyId, keyName }) => [keyId, keyName]));
  if (key !== undefined && !keys.has(key)) keys.set(key, key);
  const filter = (label: string, name: "model" | "key" | "queue", value: string | undefined, data: Option[]) => (
    <Select
      size="xs"
      w={170}
      aria-label={label}
      placeholder={`${label}: ${t.any}`}
      data={data}
      value={value ?? null}
      onChange={(chosen) => onFilter({ [name]: chosen ?? undefined })}
      clearable
      searchable
    />
  );
  return (
    <Section
      title={t.title}
      aside={
        <Group gap="xs">
          <Text c="dimmed" size="sm" role="status">
            {listed.data && countText(listed.data, t, format)}
          </Text>
          {filter(
            t.model,
            "model",
            model,
            models.map(({ id }) => ({ value: id, label: id })),
          )}
          {filter(
            t.key,
            "key",
            key,
            [...keys].map(([value, label]) => ({ value, label })),
          )}
          {filter(
            t.queue,
            "queue",
            queue,
            queues.split(" ").map((name) => ({ value: name, label: name })),
          )}
        </Group>
      }
    >
      <Loaded from={listed} rows={4}>
        {({ silent }) => (
          <>
            {silent.length > 0 && (
              <Alert color="yellow" p="xs">
                {t.silent(silent.join(", "))}
              </Alert>
            )}
            <DataTable
              label={t.title}
              columns={columnsOf(t, format, setStopping)}
              rows={items}
              rowId={({ id }) => id}
              minWidth={1_100}
              empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
            />
          </>
        )}
      </Loaded>
      {stopping && (
        <ReasonDialog
          title={t.stopTitle}
          submit={t.stop}
          consequence={t.stopWhy(stopping.id, stopping.model)}
          isDestructive
          onClose={() => setStopping(undefined)}
          onSubmit={async (reason) => {
            await call("stopGeneration", { params: { generation: stopping.id }, body: { reason } });
            await queryClient.invalidateQueries({ queryKey: ["listGenerations"] });
          }}
        />
      )}
    </Section>
  );
});

interface Option {
  value: string;
  label: string;
}

const countText = ({ items, total }: Listed, t: Texts, format: Formats): string =>
  items.length < total ? t.shown(format.count(items.length), format.count(total)) : t.all(format.count(total));

const columnsOf = (t: Texts, format: Formats, stop: (generation: Generation) => void): Column<Generation>[] => [
  {
    id: "since",
    title: t.since,
    isNumber: true,
    sortBy: ({ since }) => -Date.parse(since),
    cell: ({ since }) => (
      <span title={format.time(since)}>
        {format.ms(Math.max(0, Math.round((Date.now() - Date.parse(since)) / 100) * 100))}
      </span>
    ),
  },
  { id: "model", title: t.model, sortBy: ({ model }) => model, cell: ({ model }) => <Cut width={130}>{model}</Cut> },
  {
    id: "key",
    title: t.key,
    sortBy: ({ keyName }) => keyName,
    cell: ({ keyId, keyName, account }) => (
      <PageLink to="/keys/$key" params={{ key: keyId }} title={account === null ? keyId : `${account}: ${keyId}`}>
        <Cut width={110}>{keyName}</Cut>
      </PageLink>
    ),
  },
  { id: "queue", title: t.queue, sortBy: ({ queue }) => queue, cell: ({ queue }) => queue },
  {
    id: "state",
    title: t.state,
    sortBy: ({ state }) => state,
    cell: ({ state }) => <StateCell color={stateColors[state]}>{t[state]}</StateCell>,
  },
  { id: "kind", title: t.kind, cell: ({ isStreamed }) => (isStreamed ? t.streamed : t.whole) },
  {
    id: "tokens",
    title: t.tokens,
    isNumber: true,
    sortBy: ({ outputTokens }) => outputTokens ?? -1,
    cell: ({ outputTokens }) => (outputTokens === null ? "–" : format.count(outputTokens)),
  },
  {
    id: "target",
    title: t.target,
    cell: ({ upstream, target }) => <Cut width={150}>{upstream === null ? "–" : `${upstream}/${target}`}</Cut>,
  },
  { id: "worker", title: t.worker, cell: ({ worker }) => <Cut width={84}>{worker ?? "–"}</Cut> },
  { id: "ingress", title: t.ingress, cell: ({ ingress }) => <Cut width={84}>{ingress}</Cut> },
  { id: "id", title: t.id, cell: ({ id }) => <Cut width={84}>{id}</Cut> },
  {
    id: "stop",
    title: "",
    isNumber: true,
    cell: (generation) => (
      <RowButton label={`${t.stop} ${generation.id}`} isDestructive onClick={() => stop(generation)}>
        {t.stop}
      </RowButton>
    ),
  },
];
