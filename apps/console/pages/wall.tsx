/** The live state for a screen on a wall: large figures on a dark ground, without navigation. */
import { VisuallyHidden } from "@mantine/core";
import { useEffect } from "react";
import { useFormats } from "../app/language.tsx";
import { figuresOf, type LiveState, useLive } from "../app/live.ts";
import { useMaybeMe } from "../app/session.ts";
import { useConditionsTexts } from "../operations/conditions.texts.ts";
import { textOfCondition } from "../operations/conditions.tsx";
import { SparkLine } from "../parts/spark-line.tsx";
import { useWallTexts } from "./wall.texts.ts";
import "./wall.css";

const queuesMax = 8;
const conditionsMax = 4;
const plotted = ["requests", "failed", "running", "waiting"] as const;

export function Wall() {
  const t = useWallTexts();
  const { state, history, isConnected } = useLive();
  const format = useFormats();
  useEffect(() => {
    document.title = `${t.title} · Sluice`;
  }, [t]);
  const isForbidden = useMaybeMe()?.isOperator === false;
  const notice = isForbidden
    ? t.forbidden
    : state === undefined
      ? t.connecting
      : isConnected
        ? undefined
        : t.stale(format.time(state.at));
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
  const t = useWallTexts();
  const lines = useConditionsTexts();
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
  const t = useWallTexts();
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
