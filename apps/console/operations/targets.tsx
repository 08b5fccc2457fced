/** The targets of the catalogue: their calls of the last minute, and their circuit breakers. */
import { Group } from "@mantine/core";
import { useMemo, useState } from "react";
import { call } from "../app/call.ts";
import { type Formats, translated, useFormats, useTexts } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";
import { type Column, Cut, DataTable } from "../parts/data-table.tsx";
import { ConfirmDialog } from "../parts/dialogs.tsx";
import { Empty } from "../parts/states.tsx";
import { RowButton, StateCell } from "./cells.tsx";
import { ReasonDialog } from "./reason-dialog.tsx";
import { Section } from "./section.tsx";

const texts = translated({
  en: {
    title: "Targets and circuit breakers",
    target: "Upstream and model",
    none: "The catalogue has no targets",
    state: "Circuit breaker",
    open: "Open",
    "half-open": "Half open",
    closed: "Closed",
    kept: (reason: string, by: string, until: string) => `${reason} (${by}, until ${until})`,
    calls: "Calls a minute",
    failed: "Failed",
    firstToken: "First token",
    cooling: "In cooldown",
    doOpen: "Keep open",
    openTitle: (target: string) => `Keep the circuit breaker of ${target} open?`,
    openWhy:
      "No worker calls this target until the time is over or you close it. Requests go to other targets, or fail if there is none.",
    doClose: "Close",
    closeTitle: (target: string) => `Close the circuit breaker of ${target}?`,
    closeWhy: "Workers call this target again at once. Further failures open it again.",
  },
  zh: {
    title: "目标与熔断器",
    target: "上游与模型",
    none: "目录中没有目标",
    state: "熔断器",
    open: "断开",
    "half-open": "半开",
    closed: "闭合",
    kept: (reason: string, by: string, until: string) => `${reason}（${by}，至 ${until}）`,
    calls: "每分钟调用",
    failed: "失败",
    firstToken: "首个令牌",
    cooling: "冷却中",
    doOpen: "保持断开",
    openTitle: (target: string) => `让 ${target} 的熔断器保持断开？`,
    openWhy: "在时间结束或您闭合之前，工作进程不会调用此目标。请求转向其他目标，没有其他目标时失败。",
    doClose: "闭合",
    closeTitle: (target: string) => `闭合 ${target} 的熔断器？`,
    closeWhy: "工作进程立即重新调用此目标。再次失败会使其重新断开。",
  },
});

type Texts = typeof texts.en;
type Target = LiveState["targets"][number];

const ends = [5, 15, 60, 240, 1_440] as const;
const colors = { closed: "teal", open: "red", "half-open": "yellow" } as const;

export function Targets({ targets }: { targets: readonly Target[] }) {
  const t = useTexts(texts);
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
