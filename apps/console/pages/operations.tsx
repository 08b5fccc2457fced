/** What the gateway does right now, for operators, every second, and what they can do about it. */
import { Alert, Badge, Button, Paper, SimpleGrid, Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { call } from "../app/call.ts";
import { type Formats, useFormats } from "../app/language.tsx";
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
import { useOperationsTexts } from "./operations.texts.ts";

type Texts = ReturnType<typeof useOperationsTexts>;
type Process = LiveState["processes"][number];

const figureNames = ["requests", "failed", "chunks", "running", "waiting"] as const;
const route = getRouteApi("/inside/operations");

export function Operations() {
  const t = useOperationsTexts();
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
  const t = useOperationsTexts();
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
  const t = useOperationsTexts();
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
  const t = useOperationsTexts();
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
