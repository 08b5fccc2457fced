/** The targets with their circuit breakers; an operator can keep one open, or close it. */
import { Button, Group } from "@mantine/core";
import { useMemo, useState } from "react";
import { call } from "../app/call.ts";
import type { LiveState } from "../app/live.ts";
import { ConfirmDialog, openDialog } from "../parts/dialogs.tsx";
import { Cut } from "../parts/facts.tsx";
import { Empty, Section } from "../parts/page.tsx";
import { DataTable, RowButton, StateCell, useColumns } from "../parts/table.tsx";
import { ReasonDialog } from "./reason-dialog.tsx";
import { useTargetsTexts } from "./targets.texts.ts";

type Target = LiveState["targets"][number];

const ends = [5, 15, 60, 240, 1_440] as const;
const colors = { closed: "teal", open: "red", "half-open": "yellow" } as const;

/** Neither called in the last minute nor in need of attention. */
const isIdle = ({ state, calls, running, cooling, control }: Target): boolean =>
  state === "closed" && calls + running + cooling === 0 && control === null;

/** The worst first. */
const urgencyOf = (target: Target): number => {
  const { state, calls, failed, cooling, oldestMs } = target;
  return (
    (state === "closed" ? 0 : 4e9) +
    (cooling > 0 || isFull(target) ? 3e9 : 0) +
    2e9 * (failed / Math.max(1, calls)) +
    Math.min(1e9, oldestMs)
  );
};

const partLeftOf = ({ remaining, max }: { remaining: number; max: number }) => remaining / Math.max(1, max);

/** The vendor accepts no call now. */
const isFull = ({ vendorLimit }: Target): boolean => (vendorLimit?.waitMs ?? 0) > 0;

export function Targets({ targets }: { targets: readonly Target[] }) {
  const t = useTargetsTexts();
  const [showsIdle, setShowsIdle] = useState(false);
  const idle = targets.filter(isIdle);
  const rows = (showsIdle ? [...targets] : targets.filter((target) => !isIdle(target))).sort(
    (a, b) => urgencyOf(b) - urgencyOf(a),
  );
  return (
    <Section
      id="targets"
      title={t.title}
      aside={
        idle.length > 0 && (
          <Button variant="subtle" size="compact-sm" onClick={() => setShowsIdle(!showsIdle)}>
            {showsIdle ? t.hideIdle : t.showIdle(idle.length)}
          </Button>
        )
      }
    >
      <DataTable
        label={t.title}
        columns={useTargetColumns(targets.some(({ vendorLimit }) => vendorLimit !== null))}
        rows={rows}
        rowId="target"
        minWidth={980}
        chooser="targets"
        empty={<Empty title={targets.length === 0 ? t.none : t.allIdle} />}
      />
    </Section>
  );
}

function TargetDialog({ of: { target, state } }: { of: Target }) {
  const t = useTargetsTexts();
  const params = { target };
  return state === "closed" ? (
    <ReasonDialog
      title={t.openTitle(target)}
      submit={t.doOpen}
      consequence={t.openWhy}
      isDestructive
      ends={ends}
      onSubmit={(reason, minutes) =>
        call("openCircuitBreaker", { params, body: { reason, minutes: minutes ?? ends[0] } })
      }
    />
  ) : (
    <ConfirmDialog
      title={t.closeTitle(target)}
      submit={t.doClose}
      consequence={t.closeWhy}
      onSubmit={() => call("closeCircuitBreaker", { params })}
    />
  );
}

/** Most vendors state no limits, and then the table has no column for them. */
function useTargetColumns(hasLimits: boolean) {
  const t = useTargetsTexts();
  const c = useColumns<Target>();
  return useMemo(
    () => [
      c.cut("target", t.target, 280),
      c.cell(
        "state",
        t.state,
        ({ state, control, calls }) => (
          <Group wrap="nowrap">
            <StateCell color={calls === 0 && state === "closed" ? "gray" : colors[state]}>{t[state]}</StateCell>
            {control?.until && (
              <Cut width={200}>{t.kept(control.reason, control.by, c.format.time(control.until))}</Cut>
            )}
          </Group>
        ),
        { sortBy: ({ state }) => state },
      ),
      c.count("calls", t.calls),
      c.cell("failed", t.failed, ({ calls, failed }) => (calls === 0 ? "–" : c.format.percent(failed / calls)), {
        isNumber: true,
        sortBy: ({ calls, failed }) => failed / Math.max(1, calls),
      }),
      c.cell(
        "running",
        t.running,
        ({ running, oldestMs }) =>
          running === 0 ? "–" : t.runningFor(c.format.count(running), c.format.ms(Math.round(oldestMs / 100) * 100)),
        { isNumber: true, sortBy: ({ oldestMs }) => oldestMs },
      ),
      c.ms("firstTokenMs", t.firstToken),
      c.count("cooling", t.cooling),
      ...(hasLimits
        ? [
            c.cell(
              "vendorLimit",
              t.vendorLimit,
              ({ vendorLimit: limit }) => {
                if (limit === null) return "–";
                return limit.waitMs > 0
                  ? t.limitWaits(c.format.ms(limit.waitMs))
                  : t.limitLeft(c.format.percent(partLeftOf(limit)), limit.limit);
              },
              { isNumber: true, sortBy: ({ vendorLimit }) => (vendorLimit === null ? 2 : partLeftOf(vendorLimit)) },
            ),
          ]
        : []),
      c.actions((target) => {
        const word = target.state === "closed" ? t.doOpen : t.doClose;
        return (
          <RowButton label={`${word} ${target.target}`} onClick={() => openDialog(<TargetDialog of={target} />)}>
            {word}
          </RowButton>
        );
      }),
    ],
    [t, c, hasLimits],
  );
}
