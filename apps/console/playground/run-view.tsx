/** An answer as it arrives: its text, its figures and its error. */
import { Alert, Code, Group, Paper, ScrollArea, Stack, Text } from "@mantine/core";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { PageLink } from "../parts/link.tsx";
import { useFault } from "../parts/states.tsx";
import { tokensPerSecond } from "./run.ts";
import { isRunning, type ShownRun, useCost } from "./use-run.ts";

const texts = translated({
  en: {
    answer: "Answer",
    waiting: "Waiting for the first token …",
    reasoning: "Reasoning",
    firstContent: "First token",
    duration: "Time",
    input: "Input tokens",
    output: "Output tokens",
    ofReasoning: (count: string) => `${count} of reasoning`,
    ofCache: (count: string) => `${count} from the cache`,
    speed: "Tokens per second",
    cost: "Cost",
    request: "Request",
    stopped: "Stopped.",
    blocked:
      "The browser could not reach the gateway. Its address must be reachable from here and its origin allowed for this page.",
    requestId: (id: string) => `Request ${id}`,
    unfinished: (reason: string) => `Ended early: ${reason}`,
  },
  zh: {
    answer: "回答",
    waiting: "等待第一个令牌 …",
    reasoning: "推理",
    firstContent: "首个令牌",
    duration: "用时",
    input: "输入令牌",
    output: "输出令牌",
    ofReasoning: (count: string) => `其中推理 ${count}`,
    ofCache: (count: string) => `其中缓存 ${count}`,
    speed: "每秒令牌数",
    cost: "费用",
    request: "请求",
    stopped: "已停止。",
    blocked: "浏览器无法连接网关。请确认其地址可以访问，并且允许此页面的来源。",
    requestId: (id: string) => `请求 ${id}`,
    unfinished: (reason: string) => `提前结束：${reason}`,
  },
});

const isCutOff = (finish: string | undefined) =>
  finish !== undefined && /length|max_|content_filter|safety/i.test(finish);

/** Without a height it grows with its text. */
export function AnswerText({ run, height }: { run: ShownRun; height?: number }) {
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
  const format = useFormats();
  const isEnded = run !== undefined && !isRunning(run);
  const cost = useCost(run?.requestId, run?.keyId, isEnded);
  const { usage } = run ?? {};
  const speed = run && tokensPerSecond(run);
  const figures: [name: string, value: string, more?: string | undefined][] = [
    [t.firstContent, format.ms(run?.firstContentMs ?? null)],
    [t.duration, format.ms(run?.durationMs ?? null)],
    [
      t.input,
      usage ? format.count(usage.input) : "–",
      usage?.cached ? t.ofCache(format.count(usage.cached)) : undefined,
    ],
    [
      t.output,
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
