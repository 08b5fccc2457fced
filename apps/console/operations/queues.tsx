/** The queues: what waits and runs on them, and what operators decided about them. */
import { ActionIcon, Group, Menu, Progress, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMemo, useState } from "react";
import { call } from "../app/call.ts";
import { type Formats, translated, useFormats, useTexts } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";
import { type Column, Cut, DataTable } from "../parts/data-table.tsx";
import { ConfirmDialog } from "../parts/dialogs.tsx";
import { MoreIcon } from "../parts/icons.tsx";
import { StateCell } from "./cells.tsx";
import { ReasonDialog } from "./reason-dialog.tsx";
import { Section } from "./section.tsx";

const texts = translated({
  en: {
    queues: "Queues",
    queue: "Queue",
    state: "State",
    accepting: "Accepting",
    paused: "Paused",
    draining: "Draining",
    until: (time: string) => `until ${time}`,
    queued: "Waiting",
    groups: "Waiting by group",
    others: "others",
    jobs: "Jobs",
    oldest: "Oldest wait",
    running: "Running",
    load: "Load",
    workers: "Workers",
    noWorker: "No worker takes jobs from this queue",
    actions: (name: string) => `Actions for ${name}`,
    pause: "Pause",
    pauseTitle: (name: string) => `Pause ${name}?`,
    pauseWhy: "Workers take nothing more from this queue. What runs goes on. Requests wait, within the queue's bounds.",
    drain: "Drain",
    drainTitle: (name: string) => `Drain ${name}?`,
    drainWhy: "New requests are refused with 503 and the reason. What waits and runs is finished.",
    resume: "Resume",
    resumeTitle: (name: string) => `Resume ${name}?`,
    resumeWhy: "The queue accepts requests and workers take them again.",
    clear: "Clear",
    clearTitle: (name: string) => `Clear ${name}?`,
    clearWhy: (count: string) =>
      `All requests that wait on this queue end with 503 and the reason: ${count} at the moment. What runs goes on. This cannot be undone.`,
    cleared: (count: string) => `${count} requests were ended`,
    silent: (count: number) => `${count} ingresses did not answer: what waits there may still wait`,
  },
  zh: {
    queues: "队列",
    queue: "队列",
    state: "状态",
    accepting: "接收中",
    paused: "已暂停",
    draining: "排空中",
    until: (time: string) => `至 ${time}`,
    queued: "等待中",
    groups: "按分组等待",
    others: "其他",
    jobs: "任务",
    oldest: "最长等待",
    running: "运行中",
    load: "负载",
    workers: "工作进程",
    noWorker: "没有工作进程处理此队列",
    actions: (name: string) => `${name} 的操作`,
    pause: "暂停",
    pauseTitle: (name: string) => `暂停 ${name}？`,
    pauseWhy: "工作进程不再从此队列取任务。运行中的继续，请求在队列限制内等待。",
    drain: "排空",
    drainTitle: (name: string) => `排空 ${name}？`,
    drainWhy: "新请求会以 503 和原因被拒绝。等待中和运行中的请求会完成。",
    resume: "恢复",
    resumeTitle: (name: string) => `恢复 ${name}？`,
    resumeWhy: "队列重新接受请求，工作进程重新取任务。",
    clear: "清空",
    clearTitle: (name: string) => `清空 ${name}？`,
    clearWhy: (count: string) =>
      `此队列中等待的所有请求会以 503 和原因结束：目前 ${count} 个。运行中的继续。此操作无法撤销。`,
    cleared: (count: string) => `已结束 ${count} 个请求`,
    silent: (count: number) => `${count} 个入口没有回答：其中的请求可能仍在等待`,
  },
});

type Texts = typeof texts.en;
type Queue = LiveState["queues"][number];
type Action = "pause" | "drain" | "resume" | "clear";

const ends = [null, 15, 60, 240, 1_440] as const;

export function Queues({ queues }: { queues: readonly Queue[] }) {
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
