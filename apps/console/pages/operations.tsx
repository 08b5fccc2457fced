/** What the gateway does right now, for operators, every second, and what they can do about it. */
import { Alert, Badge, Button, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { call } from "../app/call.ts";
import { type Formats, translated, useFormats, useTexts } from "../app/language.tsx";
import { figuresOf, type LiveFigures, type LiveState, useLive } from "../app/live.ts";
import type { Search } from "../app/router.tsx";
import { Conditions } from "../operations/conditions.tsx";
import { Generations } from "../operations/generations.tsx";
import { Queues } from "../operations/queues.tsx";
import { Section } from "../operations/section.tsx";
import { Targets } from "../operations/targets.tsx";
import { type Column, DataTable } from "../parts/data-table.tsx";
import { ConfirmDialog } from "../parts/dialogs.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { Page } from "../parts/page.tsx";
import { Figure, SparkLine } from "../parts/spark-line.tsx";
import { Waiting } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Operations",
    live: "Live, every second",
    wall: "Wall screen",
    lost: "The live connection is lost. The figures below are of the last moment before; they continue when it is back.",
    requests: "Requests per second",
    failed: "Failed per second",
    chunks: "Chunks per second",
    running: "Running",
    waiting: "Waiting",
    last: (minutes: number) => `last ${minutes} minutes`,
    processes: "Processes",
    role: "Role",
    process: "Process",
    state: "State",
    ready: "Ready",
    late: "No report",
    generations: "Generations",
    cores: "CPU (cores)",
    memory: "Memory",
    delay: "Event-loop delay",
    up: "Up since",
    version: "Version",
    drain: "Drain",
    drainTitle: (name: string) => `Drain ${name}?`,
    drainWhy:
      "The process accepts no more work, finishes what it has within its drain time, and ends. Its supervisor starts it anew. Other processes take new requests meanwhile.",
    stores: "Redis, ledger, database",
    redisMemory: "Redis memory",
    ofMax: (max: string) => `of ${max}`,
    unlimited: "without a limit",
    commands: "Redis commands per second",
    lag: "Ledger behind by",
    lagDetail: (count: string) => `${count} records stored by this process`,
    differences: "Budget corrections",
    invalid: (count: string) => `${count} unreadable records`,
    database: "Database",
    embedded: "Embedded",
    postgres: "Postgres",
  },
  zh: {
    title: "运维",
    live: "实时，每秒更新",
    wall: "大屏视图",
    lost: "实时连接已断开。以下为断开前的数据，恢复后会继续更新。",
    requests: "每秒请求数",
    failed: "每秒失败数",
    chunks: "每秒数据块数",
    running: "运行中",
    waiting: "等待中",
    last: (minutes: number) => `最近 ${minutes} 分钟`,
    processes: "进程",
    role: "角色",
    process: "进程",
    state: "状态",
    ready: "就绪",
    late: "无报告",
    generations: "生成数",
    cores: "CPU（核）",
    memory: "内存",
    delay: "事件循环延迟",
    up: "启动时间",
    version: "版本",
    drain: "排空",
    drainTitle: (name: string) => `排空 ${name}？`,
    drainWhy:
      "该进程不再接受新工作，在排空时限内完成现有工作后退出，随后由其监管程序重新启动。其间由其他进程处理新请求。",
    stores: "Redis、账本与数据库",
    redisMemory: "Redis 内存",
    ofMax: (max: string) => `上限 ${max}`,
    unlimited: "无上限",
    commands: "Redis 每秒命令数",
    lag: "账本延迟",
    lagDetail: (count: string) => `此进程已存储 ${count} 条记录`,
    differences: "预算修正次数",
    invalid: (count: string) => `${count} 条无法读取的记录`,
    database: "数据库",
    embedded: "内嵌",
    postgres: "Postgres",
  },
});

type Texts = typeof texts.en;
type Process = LiveState["processes"][number];

const figureNames = ["requests", "failed", "chunks", "running", "waiting"] as const;
const route = getRouteApi("/inside/operations");

export function Operations() {
  const t = useTexts(texts);
  const { state, history, isConnected } = useLive();
  return (
    <Page
      title={t.title}
      about={t.live}
      actions={
        <ButtonLink to="/operations/wall" variant="default">
          {t.wall}
        </ButtonLink>
      }
    >
      {state !== undefined && !isConnected && (
        <Alert color="yellow" role="status">
          {t.lost}
        </Alert>
      )}
      {state === undefined ? <Waiting rows={12} /> : <State state={state} history={history} />}
    </Page>
  );
}

function State({ state, history }: { state: LiveState; history: readonly LiveFigures[] }) {
  const t = useTexts(texts);
  const format = useFormats();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [draining, setDraining] = useState<Process>();
  const filter = useCallback(
    (change: Search) => void navigate({ search: (now) => ({ ...now, ...change }), replace: true, resetScroll: false }),
    [navigate],
  );
  const columns = useMemo(() => processColumns(t, format, setDraining), [t, format]);
  return (
    <Stack gap="lg">
      <Conditions conditions={state.conditions} />
      <Rates state={state} history={history} />
      <Queues queues={state.queues} />
      <Targets targets={state.targets} />
      <Section title={t.processes}>
        <DataTable
          label={t.processes}
          columns={columns}
          rows={state.processes}
          rowId={({ id }) => id}
          minWidth={920}
          empty={null}
        />
      </Section>
      <Section title={t.stores}>
        <Stores state={state} />
      </Section>
      {/* The last, because its length changes. */}
      <Generations queues={state.queues.map(({ name }) => name).join(" ")} search={search} onFilter={filter} />
      {draining && (
        <ConfirmDialog
          title={t.drainTitle(draining.id)}
          submit={t.drain}
          consequence={t.drainWhy}
          onClose={() => setDraining(undefined)}
          onSubmit={() => call("drainProcess", { params: { process: draining.id } })}
        />
      )}
    </Stack>
  );
}

function Rates({ state, history }: { state: LiveState; history: readonly LiveFigures[] }) {
  const t = useTexts(texts);
  const format = useFormats();
  const minutes = Math.ceil(history.length / 60);
  const now = figuresOf(state);
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }}>
      {figureNames.map((name) => (
        <Paper key={name} withBorder p="sm">
          <Figure name={t[name]} value={format.short(Math.round(now[name] * 10) / 10)} />
          <SparkLine values={history.map((figures) => figures[name])} label={`${t[name]}, ${t.last(minutes)}`} />
        </Paper>
      ))}
    </SimpleGrid>
  );
}

const processColumns = (t: Texts, format: Formats, drain: (process: Process) => void): Column<Process>[] => [
  { id: "role", title: t.role, sortBy: ({ role }) => role, cell: ({ role }) => <Text fw={500}>{role}</Text> },
  { id: "id", title: t.process, cell: ({ id, host, pid }) => <span title={id}>{`${host}:${pid}`}</span> },
  {
    id: "state",
    title: t.state,
    cell: ({ isLate, notReady }) => (
      <Badge variant="light" radius="sm" tt="none" color={isLate ? "red" : notReady === null ? "teal" : "yellow"}>
        {isLate ? t.late : (notReady ?? t.ready)}
      </Badge>
    ),
  },
  {
    id: "generations",
    title: t.generations,
    isNumber: true,
    sortBy: ({ generations }) => generations,
    cell: ({ generations }) => format.count(generations),
  },
  { id: "cores", title: t.cores, isNumber: true, sortBy: ({ cores }) => cores, cell: ({ cores }) => cores.toFixed(2) },
  {
    id: "delay",
    title: t.delay,
    isNumber: true,
    sortBy: ({ eventLoopDelayMs }) => eventLoopDelayMs,
    cell: ({ eventLoopDelayMs }) => format.ms(eventLoopDelayMs),
  },
  {
    id: "memory",
    title: t.memory,
    isNumber: true,
    sortBy: ({ memoryBytes }) => memoryBytes,
    cell: ({ memoryBytes }) => format.bytes(memoryBytes),
  },
  {
    id: "up",
    title: t.up,
    sortBy: ({ startedAt }) => startedAt,
    cell: ({ startedAt }) => <span title={format.time(startedAt)}>{format.ago(startedAt)}</span>,
  },
  { id: "version", title: t.version, cell: ({ version }) => version },
  {
    id: "drain",
    title: "",
    isNumber: true,
    cell: (process) =>
      process.role === "control" || process.isLate ? null : (
        <Button
          size="compact-xs"
          variant="subtle"
          color="red"
          onClick={() => drain(process)}
          aria-label={`${t.drain} ${process.id}`}
        >
          {t.drain}
        </Button>
      ),
  },
];

function Stores({ state: { redis, ledger, database } }: { state: LiveState }) {
  const t = useTexts(texts);
  const format = useFormats();
  const isBehind = ledger.lagSeconds > 10;
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }}>
      <Paper withBorder p="sm">
        <Figure
          name={t.redisMemory}
          value={format.bytes(redis.memoryBytes)}
          detail={redis.memoryMaxBytes === 0 ? t.unlimited : t.ofMax(format.bytes(redis.memoryMaxBytes))}
        />
      </Paper>
      <Paper withBorder p="sm">
        <Figure name={t.commands} value={format.short(redis.commandsPerSecond)} detail={redis.version} />
      </Paper>
      <Paper withBorder p="sm" {...(isBehind && { bd: "1px solid red" })}>
        <Figure
          name={t.lag}
          value={format.ms(ledger.lagSeconds * 1_000)}
          detail={t.lagDetail(format.count(ledger.records))}
        />
      </Paper>
      <Paper withBorder p="sm">
        <Figure
          name={t.differences}
          value={format.count(ledger.budgetDifferences)}
          detail={t.invalid(format.count(ledger.invalid))}
        />
      </Paper>
      <Paper withBorder p="sm">
        <Figure name={t.database} value={t[database as "embedded"] ?? database} />
      </Paper>
    </SimpleGrid>
  );
}
