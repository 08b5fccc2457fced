/** The queues: what waits and runs on them, and what operators decided about them. */
import { Group, Progress, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMemo } from "react";
import { call } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";
import { ConfirmDialog, openDialog } from "../parts/dialogs.tsx";
import { Cut } from "../parts/facts.tsx";
import { Section } from "../parts/page.tsx";
import { RowMenu } from "../parts/row-menu.tsx";
import { DataTable, StateCell, useColumns } from "../parts/table.tsx";
import { useQueuesTexts } from "./queues.texts.ts";
import { ReasonDialog } from "./reason-dialog.tsx";

type Queue = LiveState["queues"][number];
type Action = "pause" | "drain" | "resume" | "clear";

const ends = [null, 15, 60, 240, 1_440] as const;

/** Whether nothing takes its requests, and how long they have waited. */
const urgencyOf = ({ workers, queued, control, oldestWaitMs }: Queue): number =>
  (workers === 0 && queued > 0 ? 2e12 : 0) + (control === null ? 0 : 1e12) + oldestWaitMs;

export function Queues({ queues }: { queues: readonly Queue[] }) {
  const t = useQueuesTexts();
  // The worst first; others keep their order.
  const rows = queues.toSorted((a, b) => urgencyOf(b) - urgencyOf(a));
  return (
    <Section id="queues" title={t.queues}>
      <DataTable
        label={t.queues}
        columns={useQueueColumns()}
        rows={rows}
        rowId="name"
        minWidth={1_000}
        chooser="queues"
      />
    </Section>
  );
}

function useQueueColumns() {
  const t = useQueuesTexts();
  const c = useColumns<Queue>();
  return useMemo(
    () => [
      c.cell("name", t.queue, ({ name }) => <strong>{name}</strong>, { sortBy: ({ name }) => name }),
      c.cell("state", t.state, (queue) => <QueueState control={queue.control} />, {
        sortBy: ({ control }) => control?.state ?? "",
      }),
      c.count("queued", t.queued),
      c.cell("groups", t.groups, ({ groups, otherGroups }) => {
        const counts = groups.map(({ group, waiting }) => `${group} ${c.format.count(waiting)}`);
        if (otherGroups > 0) counts.push(`${t.others} ${c.format.count(otherGroups)}`);
        return <Cut width={150}>{counts.join(", ") || "–"}</Cut>;
      }),
      c.count("waiting", t.jobs),
      c.ms("oldestWaitMs", t.oldest),
      c.cell(
        "running",
        t.running,
        ({ running, capacity }) => `${c.format.count(running)} / ${c.format.count(capacity)}`,
        { isNumber: true, sortBy: ({ running }) => running },
      ),
      c.cell(
        "load",
        t.load,
        ({ name, running, capacity, workers }) =>
          workers === 0 ? (
            <Text c="red">{t.noWorker}</Text>
          ) : (
            <Progress
              value={(100 * running) / Math.max(1, capacity)}
              color={running >= capacity ? "red" : "teal"}
              aria-label={`${t.load}: ${name}`}
            />
          ),
        { width: 110 },
      ),
      c.count("workers", t.workers),
      c.actions((queue) => <QueueMenu queue={queue} />),
    ],
    [t, c],
  );
}

function QueueState({ control }: Pick<Queue, "control">) {
  const t = useQueuesTexts();
  const format = useFormats();
  if (control === null) return <StateCell color="teal">{t.accepting}</StateCell>;
  const { state, reason, by, at, until } = control;
  const end = until === null ? "" : `, ${t.until(format.time(until))}`;
  return (
    <Group wrap="nowrap">
      <StateCell color={state === "paused" ? "yellow" : "orange"}>{t[state]}</StateCell>
      <Cut width={150}>{`${reason} (${by}, ${format.time(at)}${end})`}</Cut>
    </Group>
  );
}

function QueueMenu({ queue }: { queue: Queue }) {
  const t = useQueuesTexts();
  const actions: Action[] = queue.control === null ? ["pause", "drain", "clear"] : ["resume", "clear"];
  return (
    <RowMenu
      label={t.actions(queue.name)}
      items={actions.map((action) => ({
        text: t[action],
        isDestructive: action === "clear",
        onClick: () => openDialog(<QueueDialog action={action} queue={queue} />),
      }))}
    />
  );
}

function QueueDialog({ action, queue }: { action: Action; queue: Queue }) {
  const t = useQueuesTexts();
  const format = useFormats();
  const params = { queue: queue.name };
  const dialog = { title: t[`${action}Title`](queue.name), submit: t[action] };
  if (action === "resume")
    return <ConfirmDialog {...dialog} consequence={t.resumeWhy} onSubmit={() => call("resumeQueue", { params })} />;
  if (action === "clear")
    return (
      <ReasonDialog
        {...dialog}
        isDestructive
        consequence={t.clearWhy(format.count(queue.queued))}
        onSubmit={async (reason) => {
          const { ended, silent } = await call("clearQueue", { params, body: { reason } });
          notifications.show({
            message: `${t.cleared(format.count(ended))}${silent.length === 0 ? "" : `. ${t.silent(silent.length)}`}`,
            color: silent.length === 0 ? "teal" : "yellow",
          });
        }}
      />
    );
  return (
    <ReasonDialog
      {...dialog}
      isDestructive={action === "drain"}
      consequence={t[`${action}Why`]}
      ends={ends}
      onSubmit={(reason, minutes) => {
        const until = minutes === null ? null : new Date(Date.now() + minutes * 60_000).toISOString();
        return call(`${action}Queue`, { params, body: { reason, until } });
      }}
    />
  );
}
