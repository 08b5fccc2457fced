/** The targets of the catalogue: their calls of the last minute, and their circuit breakers. */
import { Group } from "@mantine/core";
import { useMemo, useState } from "react";
import { call } from "../app/call.ts";
import { type Formats, useFormats } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";
import { type Column, Cut, DataTable } from "../parts/data-table.tsx";
import { ConfirmDialog } from "../parts/dialogs.tsx";
import { Empty } from "../parts/states.tsx";
import { RowButton, StateCell } from "./cells.tsx";
import { ReasonDialog } from "./reason-dialog.tsx";
import { Section } from "./section.tsx";
import { useTargetsTexts } from "./targets.texts.ts";

type Texts = ReturnType<typeof useTargetsTexts>;
type Target = LiveState["targets"][number];

const ends = [5, 15, 60, 240, 1_440] as const;
const colors = { closed: "teal", open: "red", "half-open": "yellow" } as const;

export function Targets({ targets }: { targets: readonly Target[] }) {
  const t = useTargetsTexts();
  const format = useFormats();
  const [asked, setAsked] = useState<Target>();
  const columns = useMemo(() => columnsOf(t, format, setAsked), [t, format]);
  const close = () => setAsked(undefined);
  const params = { target: asked?.target ?? "" };
  return (
    <Section title={t.title}>
      <DataTable
        label={t.title}
        columns={columns}
        rows={targets}
        rowId={({ target }) => target}
        minWidth={980}
        empty={<Empty title={t.none} />}
      />
      {asked?.state === "closed" && (
        <ReasonDialog
          title={t.openTitle(asked.target)}
          submit={t.doOpen}
          consequence={t.openWhy}
          isDestructive
          ends={ends}
          onClose={close}
          onSubmit={(reason, minutes) =>
            call("openCircuitBreaker", { params, body: { reason, minutes: minutes ?? ends[0] } })
          }
        />
      )}
      {asked !== undefined && asked.state !== "closed" && (
        <ConfirmDialog
          title={t.closeTitle(asked.target)}
          submit={t.doClose}
          consequence={t.closeWhy}
          onClose={close}
          onSubmit={() => call("closeCircuitBreaker", { params })}
        />
      )}
    </Section>
  );
}

const columnsOf = (t: Texts, format: Formats, ask: (target: Target) => void): Column<Target>[] => [
  {
    id: "target",
    title: t.target,
    sortBy: ({ target }) => target,
    cell: ({ target }) => <Cut width={280}>{target}</Cut>,
  },
  {
    id: "state",
    title: t.state,
    sortBy: ({ state }) => state,
    cell: ({ state, control }) =>
      control?.until ? (
        <Group gap="xs" wrap="nowrap">
          <StateCell color={colors[state]}>{t[state]}</StateCell>
          <Cut width={200}>{t.kept(control.reason, control.by, format.time(control.until))}</Cut>
        </Group>
      ) : (
        <StateCell color={colors[state]}>{t[state]}</StateCell>
      ),
  },
  {
    id: "calls",
    title: t.calls,
    isNumber: true,
    sortBy: ({ calls }) => calls,
    cell: ({ calls }) => format.count(calls),
  },
  {
    id: "failed",
    title: t.failed,
    isNumber: true,
    sortBy: ({ calls, failed }) => failed / Math.max(1, calls),
    cell: ({ calls, failed }) => (calls === 0 ? "–" : format.percent(failed / calls)),
  },
  {
    id: "firstToken",
    title: t.firstToken,
    isNumber: true,
    sortBy: ({ firstTokenMs }) => firstTokenMs ?? -1,
    cell: ({ firstTokenMs }) => format.ms(firstTokenMs),
  },
  {
    id: "cooling",
    title: t.cooling,
    isNumber: true,
    sortBy: ({ cooling }) => cooling,
    cell: ({ cooling }) => format.count(cooling),
  },
  {
    id: "actions",
    title: "",
    isNumber: true,
    cell: (target) => {
      const word = target.state === "closed" ? t.doOpen : t.doClose;
      return (
        <RowButton label={`${word} ${target.target}`} onClick={() => ask(target)}>
          {word}
        </RowButton>
      );
    },
  },
];
