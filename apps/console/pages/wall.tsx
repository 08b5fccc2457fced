/** The live state for a screen on a wall: large figures on a dark ground, without navigation. */
import { VisuallyHidden } from "@mantine/core";
import { useEffect } from "react";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { figuresOf, type LiveState, useLive } from "../app/live.ts";
import { conditionTexts, textOfCondition } from "../operations/conditions.tsx";
import { SparkLine } from "../parts/spark-line.tsx";
import "./wall.css";

const texts = translated({
  en: {
    title: "Operations",
    requests: "Requests/s",
    failed: "Failed/s",
    running: "Running",
    waiting: "Waiting",
    oldest: "Oldest wait",
    queues: "Queues",
    paused: "paused",
    draining: "draining",
    noWorker: "no worker",
    fine: "Nothing needs attention",
    more: (count: number) => `and ${count} more`,
    connecting: "Connecting",
    stale: (time: string) => `No data since ${time}`,
    last: "last minutes",
  },
  zh: {
    title: "运维",
    requests: "每秒请求数",
    failed: "每秒失败数",
    running: "运行中",
    waiting: "等待中",
    oldest: "最长等待",
    queues: "队列",
    paused: "已暂停",
    draining: "排空中",
    noWorker: "无工作进程",
    fine: "目前没有需要处理的情况",
    more: (count: number) => `另有 ${count} 项`,
    connecting: "正在连接",
    stale: (time: string) => `自 ${time} 起没有数据`,
    last: "最近几分钟",
  },
});

const queuesMax = 8;
const conditionsMax = 4;
const plotted = ["requests", "failed", "running", "waiting"] as const;

export function Wall() {
  const t = useTexts(texts);
  const { state, history, isConnected } = useLive();
  const format = useFormats();
  useEffect(() => {
    document.title = `${t.title} · Sluice`;
  }, [t]);
  const notice = state === undefined ? t.connecting : isConnected ? undefined : t.stale(format.time(state.at));
  return (
    <main className="wall" data-stale={notice !== undefined || undefined}>
      <VisuallyHidden component="h1">{t.title}</VisuallyHidden>
      <p className="wall-notice" role="status">
        {notice}
      </p>
      {state !== undefined && (
        <div className="wall-content">
          <div className="wall-figures">
            {plotted.map((name) => (
              <div key={name} data-alarm={(name === "failed" && figuresOf(state).failed >= 1) || undefined}>
                <span>{t[name]}</span>
                <strong>{format.short(Math.round(figuresOf(state)[name] * 10) / 10)}</strong>
                <SparkLine values={history.map((figures) => figures[name])} label={`${t[name]}, ${t.last}`} />
              </div>
            ))}
            <div>
              <span>{t.oldest}</span>
              <strong>{format.ms(Math.max(0, ...state.queues.map(({ oldestWaitMs }) => oldestWaitMs)))}</strong>
            </div>
          </div>
          <ConditionLines conditions={state.conditions} />
          <QueueBars queues={state.queues} />
        </div>
      )}
    </main>
  );
}

function ConditionLines({ conditions }: { conditions: LiveState["conditions"] }) {
  const t = useTexts(texts);
  const lines = useTexts(conditionTexts);
  const format = useFormats();
  if (conditions.length === 0) return <p className="wall-fine">{t.fine}</p>;
  return (
    <ul className="wall-conditions">
      {conditions.slice(0, conditionsMax).map((condition) => (
        <li key={`${condition.kind} ${condition.subject}`}>{textOfCondition(condition, lines, format)}</li>
      ))}
      {conditions.length > conditionsMax && <li>{t.more(conditions.length - conditionsMax)}</li>}
    </ul>
  );
}

/** The busiest queues; those that an operator paused or drains come first. */
function QueueBars({ queues }: { queues: LiveState["queues"] }) {
  const t = useTexts(texts);
  const format = useFormats();
  const shown = [...queues]
    .sort(
      (a, b) =>
        Number(b.control !== null) - Number(a.control !== null) || b.running + b.queued - (a.running + a.queued),
    )
    .slice(0, queuesMax);
  return (
    <ul className="wall-queues" aria-label={t.queues}>
      {shown.map(({ name, running, capacity, queued, workers, control }) => (
        <li key={name}>
          <span>
            {name}
            {control !== null && <em> {t[control.state]}</em>}
            {workers === 0 && <em> {t.noWorker}</em>}
          </span>
          <meter min={0} max={Math.max(1, capacity)} value={running} aria-label={`${name}: ${t.running}`} />
          <span>
            {format.count(running)} / {format.count(capacity)}
            {queued > 0 && `, ${t.waiting} ${format.count(queued)}`}
          </span>
        </li>
      ))}
    </ul>
  );
}
