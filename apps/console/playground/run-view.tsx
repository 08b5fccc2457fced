/** An answer as it arrives: its text, its figures and its error. */
import { Alert, Code, Paper, ScrollArea, Stack, Text } from "@mantine/core";
import { lazy, Suspense } from "react";
import { useFormats } from "../app/language.tsx";
import { precisionOf } from "../parts/amounts.ts";
import { FigureLine, Money } from "../parts/facts.tsx";
import { RequestLink } from "../parts/link.tsx";
import { useFault } from "../parts/page.tsx";
import { tokensPerSecond } from "./run.ts";
import { useRunViewTexts } from "./run-view.texts.ts";
import { isRunning, type ShownRun, useCost } from "./use-run.ts";

const LoadedMarkdown = lazy(async () => ({ default: (await import("../parts/markdown.tsx")).Markdown }));

/** Its code is loaded with the first answer; until then the text is plain. */
export const Markdown = ({ text }: { text: string }) => (
  <Suspense fallback={<Text style={{ whiteSpace: "pre-wrap" }}>{text}</Text>}>
    <LoadedMarkdown text={text} />
  </Suspense>
);

const isCutOff = (finish: string | undefined) =>
  finish !== undefined && /length|max_|content_filter|safety/i.test(finish);

/** Without a height it grows with its text. */
export function AnswerText({ run, height }: { run: ShownRun; height?: number }) {
  const t = useRunViewTexts();
  const { turn, state } = run;
  const content = (
    <Stack aria-live="polite" aria-busy={isRunning(run)}>
      {turn.reasoning !== "" && <Reasoning text={turn.reasoning} isOpen={turn.text === "" && isRunning(run)} />}
      {turn.text !== "" && <Markdown text={turn.text} />}
      {state === "waiting" && turn.text === "" && <Text c="dimmed">{t.waiting}</Text>}
      <RunNote run={run} />
    </Stack>
  );
  if (height === undefined) return content;
  return (
    <ScrollArea.Autosize mah={height} viewportProps={{ tabIndex: 0, role: "region", "aria-label": t.answer }}>
      {content}
    </ScrollArea.Autosize>
  );
}

export function Reasoning({ text, isOpen = false }: { text: string; isOpen?: boolean }) {
  const t = useRunViewTexts();
  return (
    <details open={isOpen}>
      <summary>
        <Text span size="sm" c="dimmed">
          {t.reasoning}
        </Text>
      </summary>
      <Text size="sm" c="dimmed" style={{ whiteSpace: "pre-wrap" }}>
        {text}
      </Text>
    </details>
  );
}

/** Says that an answer is not whole. */
export function RunNote({ run }: { run: ShownRun }) {
  const t = useRunViewTexts();
  const text =
    run.state === "stopped"
      ? t.stopped
      : run.state === "complete" && isCutOff(run.finish)
        ? t.unfinished(run.finish ?? "")
        : undefined;
  if (text === undefined) return null;
  return (
    <Text size="sm" c="dimmed" role="status">
      {text}
    </Text>
  );
}

/** The gateway's own words, with the id of the request. */
export function RunError({ run }: { run: ShownRun }) {
  const t = useRunViewTexts();
  const fault = useFault(run.fault);
  if (run.fault === undefined && run.error === undefined) return null;
  const isBlocked = run.fault === undefined && run.status === undefined;
  return (
    <Alert color="red" role="alert" p="xs">
      <Text>{run.fault !== undefined ? fault : isBlocked ? t.blocked : run.error}</Text>
      {run.requestId !== undefined && (
        <Text size="sm">
          {run.status} · {t.requestId(run.requestId)}
        </Text>
      )}
    </Alert>
  );
}

/** The same fields before, during and after an answer, so that nothing moves. */
export function RunFigures({ run }: { run: ShownRun | undefined }) {
  const t = useRunViewTexts();
  const format = useFormats();
  const isEnded = run !== undefined && !isRunning(run);
  const { usage, requestId } = run ?? {};
  const speed = run && tokensPerSecond(run);
  const count = (tokens: number | undefined) => (tokens === undefined ? "–" : format.count(tokens));
  return (
    <FigureLine
      figures={[
        { name: t.firstToken, value: format.ms(run?.firstContentMs ?? null) },
        { name: t.duration, value: format.ms(run?.durationMs ?? null) },
        {
          name: t.tokensInOut,
          value: `${count(usage?.input)} / ${count(usage?.output)}`,
          exact: [
            usage?.cached && t.ofCache(format.count(usage.cached)),
            usage?.reasoning && t.ofReasoning(format.count(usage.reasoning)),
          ]
            .filter(Boolean)
            .join(", "),
        },
        { name: t.speed, value: count(speed && Math.round(speed * 10) / 10) },
        { name: t.cost, value: <Cost requestId={requestId} keyId={run?.keyId} isEnded={isEnded} /> },
      ]}
    />
  );
}

/** The cost of a request, when the ledger has it; it leads to the request. */
export function Cost({ requestId, keyId, isEnded }: CostProps) {
  const record = useCost(requestId, keyId, isEnded);
  if (record === null) return "–";
  return (
    <RequestLink id={record.id}>
      <Money of={record.cost} precision={precisionOf(record)} />
    </RequestLink>
  );
}

interface CostProps {
  requestId: string | undefined;
  keyId: string | undefined;
  isEnded: boolean;
}

/** An answer with its figures, for a page that sends one request. */
export const RunCard = ({ run }: { run: ShownRun }) => (
  <Paper withBorder p="sm" mih={160}>
    <Stack gap="sm">
      <AnswerText run={run} height={320} />
      <RunError run={run} />
      <RunFigures run={run} />
    </Stack>
  </Paper>
);

/** Raw lines, such as events; the last ones of very many. */
export function Lines({ lines, label }: { lines: readonly string[]; label: string }) {
  const shownMax = 2_000;
  return (
    <Code
      block
      tabIndex={0}
      aria-label={label}
      style={{ maxHeight: 420, overflow: "auto", whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}
    >
      {lines.length > shownMax ? `…\n${lines.slice(-shownMax).join("\n")}` : lines.join("\n")}
    </Code>
  );
}
