/** An answer as it arrives: its text, its figures and its error. */
import { Alert, Code, Group, Paper, ScrollArea, Stack, Text } from "@mantine/core";
import { useFormats } from "../app/language.tsx";
import { PageLink } from "../parts/link.tsx";
import { useFault } from "../parts/states.tsx";
import { tokensPerSecond } from "./run.ts";
import { useRunViewTexts } from "./run-view.texts.ts";
import { isRunning, type ShownRun, useCost } from "./use-run.ts";

const isCutOff = (finish: string | undefined) =>
  finish !== undefined && /length|max_|content_filter|safety/i.test(finish);

/** Without a height it grows with its text. */
export function AnswerText({ run, height }: { run: ShownRun; height?: number }) {
  const t = useRunViewTexts();
  const { turn, state } = run;
  const content = (
    <Stack gap="xs" aria-live="polite" aria-busy={isRunning(run)}>
      {turn.reasoning !== "" && <Reasoning text={turn.reasoning} isOpen={turn.text === "" && isRunning(run)} />}
      {turn.text !== "" && <Text style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{turn.text}</Text>}
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
export function RunFigures({ run, currency }: { run: ShownRun | undefined; currency: string }) {
  const t = useRunViewTexts();
  const format = useFormats();
  const isEnded = run !== undefined && !isRunning(run);
  const cost = useCost(run?.requestId, run?.keyId, isEnded);
  const { usage } = run ?? {};
  const speed = run && tokensPerSecond(run);
  const figures: [name: string, value: string, more?: string | undefined][] = [
    [t.firstToken, format.ms(run?.firstContentMs ?? null)],
    [t.duration, format.ms(run?.durationMs ?? null)],
    [
      t.inputTokens,
      usage ? format.count(usage.input) : "–",
      usage?.cached ? t.ofCache(format.count(usage.cached)) : undefined,
    ],
    [
      t.tokens,
      usage ? format.count(usage.output) : "–",
      usage?.reasoning ? t.ofReasoning(format.count(usage.reasoning)) : undefined,
    ],
    [t.speed, speed === undefined ? "–" : format.count(Math.round(speed * 10) / 10)],
    [
      t.cost,
      cost === null ? "–" : format.money(cost, currency),
      cost === null ? undefined : format.exactMoney(cost, currency),
    ],
  ];
  return (
    <Group gap="lg" component="dl" m={0} style={{ rowGap: 4 }}>
      {figures.map(([name, value, more]) => (
        <div key={name}>
          <Text component="dt" size="xs" c="dimmed">
            {name}
          </Text>
          <Text component="dd" m={0} title={more}>
            {value}
          </Text>
        </div>
      ))}
      <div>
        <Text component="dt" size="xs" c="dimmed">
          {t.request}
        </Text>
        <Text component="dd" m={0} maw={180} truncate title={run?.requestId}>
          {run?.requestId === undefined ? (
            "–"
          ) : isEnded ? (
            <PageLink to="/requests/$id" params={{ id: run.requestId }}>
              {run.requestId}
            </PageLink>
          ) : (
            run.requestId
          )}
        </Text>
      </div>
    </Group>
  );
}

/** An answer with its figures, for a page that sends one request. */
export function RunCard({ run, currency }: { run: ShownRun; currency: string }) {
  return (
    <Paper withBorder p="sm" mih={160}>
      <Stack gap="sm">
        <AnswerText run={run} height={320} />
        <RunError run={run} />
        <RunFigures run={run} currency={currency} />
      </Stack>
    </Paper>
  );
}

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
