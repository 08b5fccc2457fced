/** The targets with their circuit breakers; an operator can keep one open, or close it. */
import { Group } from "@mantine/core";
import { useMemo } from "react";
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

export function Targets({ targets }: { targets: readonly Target[] }) {
  const t = useTargetsTexts();
  return (
    <Section title={t.title}>
      <DataTable
        label={t.title}
        columns={useTargetColumns()}
        rows={targets}
        rowId="target"
        minWidth={980}
        empty={<Empty title={t.none} />}
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

function useTargetColumns() {
  const t = useTargetsTexts();
  const c = useColumns<Target>();
  return useMemo(
    () => [
      c.cut("target", t.target, 280),
      c.cell(
        "state",
        t.state,
        ({ state, control }) => (
          <Group wrap="nowrap">
            <StateCell color={colors[state]}>{t[state]}</StateCell>
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
      c.ms("firstTokenMs", t.firstToken),
      c.count("cooling", t.cooling),
      c.actions((target) => {
        const word = target.state === "closed" ? t.doOpen : t.doClose;
        return (
          <RowButton label={`${word} ${target.target}`} onClick={() => openDialog(<TargetDialog of={target} />)}>
            {word}
          </RowButton>
        );
      }),
    ],
    [t, c],
  );
}
