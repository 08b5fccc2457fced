/** The queues: what waits and runs on them, and what operators decided about them. */
import { ActionIcon, Group, Menu, Progress, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMemo, useState } from "react";
import { call } from "../app/call.ts";
import { type Formats, useFormats } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";
import { type Column, Cut, DataTable } from "../parts/data-table.tsx";
import { ConfirmDialog } from "../parts/dialogs.tsx";
import { MoreIcon } from "../parts/icons.tsx";
import { StateCell } from "./cells.tsx";
import { useQueuesTexts } from "./queues.texts.ts";
import { ReasonDialog } from "./reason-dialog.tsx";
import { Section } from "./section.tsx";

type Texts = ReturnType<typeof useQueuesTexts>;
type Queue = LiveState["queues"][number];
type Action = "pause" | "drain" | "resume" | "clear";

const ends = [null, 15, 60, 240, 1_440] as const;

export function Queues({ queues }: { queues: readonly Queue[] }) {
  const t = useQueuesTexts();
  const format = useFormats();
  const [asked, setAsked] = useState<{ action: Action; queue: Queue }>();
  const columns = useMemo(() => columnsOf(t, format, (action, queue) => setAsked({ action, queue })), [t, format]);
  return (
    <Section title={t.queues}>
      <DataTable
        label={t.queues}
        columns={columns}
        rows={queues}
        rowId={({ name }) => name}
        minWidth={1_100}
        empty={null}
      />
      {asked && <QueueDialog {...asked} onClose={() => setAsked(undefined)} />}
    </Section>
  );
}

function QueueDialog({ action, queue, onClose }: { action: Action; queue: Queue; onClose(): void }) {
  const t = useQueuesTexts();
  const format = useFormats();
  const params = { queue: queue.name };
  const dialog = { title: t[`${action}Title`](queue.name), submit: t[action], onClose };
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
            closeButtonProps: { "aria-label": "×" },
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

function QueueState({ queue: { control }, t, format }: { queue: Queue; t: Texts; format: Formats }) {
  if (control === null) return <StateCell color="teal">{t.accepting}</StateCell>;
  const { state, reason, by, at, until } = control;
  const end = until === null ? "" : `, ${t.until(format.time(until))}`;
  return (
    <Group gap="xs" wrap="nowrap">
      <StateCell color={state === "paused" ? "yellow" : "orange"}>{t[state]}</StateCell>
      <Cut width={260}>{`${reason} (${by}, ${format.time(at)}${end})`}</Cut>
    </Group>
  );
}

/** The menu is made when it is first opened: one for each row would cost more than the table. */
function QueueMenu({ queue, t, act }: { queue: Queue; t: Texts; act(action: Action, queue: Queue): void }) {
  const [isMade, setIsMade] = useState(false);
  const button = (
    <ActionIcon
      variant="subtle"
      color="gray"
      size="sm"
      aria-label={t.actions(queue.name)}
      aria-haspopup="menu"
      onClick={() => setIsMade(true)}
    >
      <MoreIcon />
    </ActionIcon>
  );
  if (!isMade) return button;
  return (
    <Menu position="bottom-end" opened onClose={() => setIsMade(false)}>
      <Menu.Target>{button}</Menu.Target>
      <Menu.Dropdown>
        {queue.control === null ? (
          <>
            <Menu.Item onClick={() => act("pause", queue)}>{t.pause}</Menu.Item>
            <Menu.Item onClick={() => act("drain", queue)}>{t.drain}</Menu.Item>
          </>
        ) : (
          <Menu.Item onClick={() => act("resume", queue)}>{t.resume}</Menu.Item>
        )}
        <Menu.Item c="red" onClick={() => act("clear", queue)}>
          {t.clear}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

const groupsTextOf = ({ groups, otherGroups }: Queue, t: Texts, format: Formats): string =>
  [
    ...groups.map(({ group, waiting }) => `${group} ${format.count(waiting)}`),
    ...(otherGroups > 0 ? [`${t.others} ${format.count(otherGroups)}`] : []),
  ].join(", ") || "–";

const columnsOf = (t: Texts, format: Formats, act: (action: Action, queue: Queue) => void): Column<Queue>[] => [
  { id: "name", title: t.queue, sortBy: ({ name }) => name, cell: ({ name }) => <strong>{name}</strong> },
  {
    id: "state",
    title: t.state,
    sortBy: ({ control }) => control?.state ?? "",
    cell: (queue) => <QueueState queue={queue} t={t} format={format} />,
  },
  {
    id: "queued",
    title: t.queued,
    isNumber: true,
    sortBy: ({ queued }) => queued,
    cell: ({ queued }) => format.count(queued),
  },
  { id: "groups", title: t.groups, cell: (queue) => <Cut width={200}>{groupsTextOf(queue, t, format)}</Cut> },
  {
    id: "waiting",
    title: t.jobs,
    isNumber: true,
    sortBy: ({ waiting }) => waiting,
    cell: ({ waiting }) => format.count(waiting),
  },
  {
    id: "oldest",
    title: t.oldest,
    isNumber: true,
    sortBy: ({ oldestWaitMs }) => oldestWaitMs,
    cell: ({ oldestWaitMs }) => format.ms(oldestWaitMs),
  },
  {
    id: "running",
    title: t.running,
    isNumber: true,
    sortBy: ({ running }) => running,
    cell: ({ running, capacity }) => `${format.count(running)} / ${format.count(capacity)}`,
  },
  {
    id: "load",
    title: t.load,
    width: 140,
    cell: ({ name, running, capacity, workers }) =>
      workers === 0 ? (
        <Text c="red">{t.noWorker}</Text>
      ) : (
        <Progress
          value={(100 * running) / Math.max(1, capacity)}
          color={running >= capacity ? "red" : "teal"}
          aria-label={`${t.load}: ${name}`}
        />
      ),
  },
  { id: "workers", title: t.workers, isNumber: true, cell: ({ workers }) => format.count(workers) },
  {
    id: "actions",
    title: "",
    isNumber: true,
    cell: (queue) => <QueueMenu queue={queue} t={t} act={act} />,
  },
];
