/** The live state of the gateway, for operators, every second, and their means to change it. */
import { Alert, Badge, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { figuresOf, type LiveFigures, type LiveState, useLive } from "../app/live.ts";
import { useRead } from "../app/queries.ts";
import { Conditions } from "../operations/conditions.tsx";
import { Generations } from "../operations/generations.tsx";
import { Queues } from "../operations/queues.tsx";
import { Targets } from "../operations/targets.tsx";
import { ConfirmDialog, openDialog } from "../parts/dialogs.tsx";
import { Figures } from "../parts/facts.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { Page, Section, Waiting } from "../parts/page.tsx";
import { SparkLine } from "../parts/spark-line.tsx";
import { DataTable, RowButton, useColumns } from "../parts/table.tsx";
import { useOperationsTexts } from "./operations.texts.ts";

type Process = LiveState["processes"][number];

const figureNames = ["requests", "failed", "refused", "chunks", "running", "waiting"] as const;
const cols = { base: 2, sm: 3, lg: 6 };
/** A ledger that is later than this is marked. */
const lagSecondsMax = 10;

export function Operations() {
  const t = useOperationsTexts();
  const { state, history, isConnected } = useLive();
  return (
    <Page
      title={t.operations}
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
      {state === undefined ? <Waiting rows={12} /> : <State state={state} history={history} isOld={!isConnected} />}
    </Page>
  );
}

interface StateProps {
  state: LiveState;
  history: readonly LiveFigures[];
}

function State({ state, history, isOld }: StateProps & { isOld: boolean }) {
  const t = useOperationsTexts();
  return (
    <Stack gap="lg">
      <Conditions conditions={state.conditions} oldAt={isOld ? state.at : undefined} />
      <Rates state={state} history={history} />
      <Queues queues={state.queues} />
      <Targets targets={state.targets} />
      <Section id="processes" title={t.processes}>
        <DataTable
          label={t.processes}
          columns={useProcessColumns()}
          rows={state.processes.toSorted((a, b) => troubleOf(b) - troubleOf(a))}
          minWidth={920}
          chooser="processes"
        />
      </Section>
      <Section id="stores" title={t.stores}>
        <Stores state={state} />
      </Section>
      {/* The last, because its length changes. */}
      <Generations queues={state.queues.map(({ name }) => name).join(" ")} />
    </Stack>
  );
}

function Rates({ state, history }: StateProps) {
  const t = useOperationsTexts();
  const format = useFormats();
  const now = figuresOf(state);
  const { minutes = [] } = useRead("readLastHour", {}, { everyMs: lastHourEveryMs }).data ?? {};
  const past = useMemo(() => perSecond(minutes, state.at), [minutes, state.at]);
  const valuesOf = (name: (typeof figureNames)[number]) =>
    name in past ? [...past[name as PastName], now[name]] : history.map((figures) => figures[name]);
  return (
    <Figures
      cols={cols}
      figures={figureNames.map((name) => ({
        name: t[name],
        value: format.short(Math.round(now[name] * 10) / 10),
        detail: (
          <SparkLine
            values={valuesOf(name)}
            label={`${t[name]}, ${t.last(name in past ? minutesPerHour : Math.ceil(history.length / 60))}`}
          />
        ),
      }))}
    />
  );
}

const pastNames = ["requests", "failed", "refused", "chunks"] as const;
type PastName = (typeof pastNames)[number];

const minuteMs = 60_000;
const minutesPerHour = 60;
const lastHourEveryMs = 30_000;

/** The means of each minute of the hour before `now`, without the one that is not over. */
function perSecond(
  minutes: readonly (Record<PastName, number> & { time: string })[],
  now: string,
): Record<PastName, number[]> {
  const current = Math.floor(Date.parse(now) / minuteMs);
  const byMinute = new Map(minutes.map((minute) => [Date.parse(minute.time) / minuteMs, minute]));
  const valuesOf = (name: PastName) =>
    Array.from({ length: minutesPerHour }, (_, place) => {
      const minute = byMinute.get(current - minutesPerHour + place);
      return (minute?.[name] ?? 0) / 60;
    });
  return Object.fromEntries(pastNames.map((name) => [name, valuesOf(name)])) as Record<PastName, number[]>;
}

/** The worst first; others keep their order. */
const troubleOf = ({ isLate, notReady }: Process): number => (isLate ? 2 : notReady === null ? 0 : 1);

function useProcessColumns() {
  const t = useOperationsTexts();
  const c = useColumns<Process>();
  return useMemo(() => {
    const drain = (id: string) => (
      <ConfirmDialog
        title={t.drainTitle(id)}
        submit={t.drain}
        consequence={t.drainWhy}
        onSubmit={() => call("drainProcess", { params: { process: id } })}
      />
    );
    return [
      c.cell("role", t.role, ({ role }) => <Text fw={500}>{role}</Text>, { sortBy: ({ role }) => role }),
      c.cell("id", t.process, ({ id, host, pid }) => <span title={id}>{`${host}:${pid}`}</span>),
      c.cell("state", t.state, ({ isLate, notReady }) => (
        <Badge color={isLate ? "red" : notReady === null ? "teal" : "yellow"}>
          {isLate ? t.late : (notReady ?? t.ready)}
        </Badge>
      )),
      c.count("generations", t.generations),
      c.cell("cores", t.cores, ({ cores }) => cores.toFixed(2), { isNumber: true, sortBy: ({ cores }) => cores }),
      c.ms("eventLoopDelayMs", t.delay),
      c.bytes("memoryBytes", t.memory),
      c.ago("startedAt", t.up),
      c.text("version", t.version),
      c.actions(
        ({ id, role, isLate }) =>
          role !== "control" &&
          !isLate && (
            <RowButton label={`${t.drain} ${id}`} isDestructive onClick={() => openDialog(drain(id))}>
              {t.drain}
            </RowButton>
          ),
      ),
    ];
  }, [t, c]);
}

function Stores({ state: { redis, ledger, database } }: { state: LiveState }) {
  const t = useOperationsTexts();
  const format = useFormats();
  return (
    <Figures
      cols={{ ...cols, lg: 5 }}
      figures={[
        {
          name: t.redisMemory,
          value: format.bytes(redis.memoryBytes),
          detail: redis.memoryMaxBytes === 0 ? t.unlimited : t.ofMax(format.bytes(redis.memoryMaxBytes)),
        },
        { name: t.commands, value: format.short(redis.commandsPerSecond), detail: redis.version },
        {
          name: t.lag,
          value: format.ms(ledger.lagSeconds * 1_000),
          detail: t.lagDetail(format.count(ledger.records)),
          isWrong: ledger.lagSeconds > lagSecondsMax,
        },
        {
          name: t.differences,
          value: format.count(ledger.budgetDifferences),
          detail: t.invalid(format.count(ledger.invalid)),
        },
        { name: t.database, value: t[database as "embedded"] ?? database },
      ]}
    />
  );
}
