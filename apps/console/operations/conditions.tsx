/** What needs the operator now, each with what to do about it. */
import { Alert, Anchor, Stack, Text } from "@mantine/core";
import { type Formats, translated, useFormats, useTexts } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";

export type Condition = LiveState["conditions"][number];

const texts = translated({
  en: {
    title: "Needs attention",
    none: "Nothing needs attention.",
    more: (count: number) => `and ${count} more`,
    runbook: "Runbook",
    ledgerBehind: (_: string, value: string) => `The ledger is ${value} behind.`,
    invalidRecords: (_: string, value: string) => `The ledger put ${value} usage records aside.`,
    noWorker: (subject: string) => `No worker takes jobs from the queue ${subject}.`,
    oldestWait: (subject: string, value: string) => `A request has waited on the queue ${subject} for ${value}.`,
    circuitBreakerOpen: (subject: string) => `The circuit breaker of ${subject} is not closed.`,
    processSilent: (subject: string) => `The process ${subject} does not report.`,
    redisMemory: (_: string, value: string) => `Redis uses ${value} of its memory.`,
  },
  zh: {
    title: "需要处理",
    none: "目前没有需要处理的情况。",
    more: (count: number) => `另有 ${count} 项`,
    runbook: "处理手册",
    ledgerBehind: (_: string, value: string) => `账本落后 ${value}。`,
    invalidRecords: (_: string, value: string) => `账本搁置了 ${value} 条用量记录。`,
    noWorker: (subject: string) => `没有工作进程处理队列 ${subject}。`,
    oldestWait: (subject: string, value: string) => `队列 ${subject} 中有请求已等待 ${value}。`,
    circuitBreakerOpen: (subject: string) => `${subject} 的熔断器未闭合。`,
    processSilent: (subject: string) => `进程 ${subject} 没有报告。`,
    redisMemory: (_: string, value: string) => `Redis 已使用 ${value} 的内存。`,
  },
});
export const conditionTexts = texts;

/** The build copies the guide beside the console's files. */
const guide = new URL("../../../docs/operations.md", import.meta.url).href;
/** The headings of the runbooks in docs/operations.md. */
const headings: Record<Condition["kind"], string> = {
  ledgerBehind: "Ledger behind",
  invalidRecords: "Records put aside",
  noWorker: "No worker for a queue",
  oldestWait: "Requests wait too long",
  circuitBreakerOpen: "Circuit breaker open",
  processSilent: "Process silent",
  redisMemory: "Redis memory",
};

const shownMax = 8;

export function textOfCondition({ kind, subject, value }: Condition, t: (typeof texts)["en"], format: Formats): string {
  const figure =
    value === null
      ? ""
      : kind === "redisMemory"
        ? format.percent(value)
        : kind === "invalidRecords"
          ? format.count(value)
          : format.ms(value * 1_000);
  return t[kind](subject ?? "", figure);
}

export function Conditions({ conditions }: { conditions: readonly Condition[] }) {
  const t = useTexts(texts);
  const format = useFormats();
  if (conditions.length === 0) return <Text c="dimmed">{t.none}</Text>;
  return (
    <Alert color="yellow" role="region" aria-label={t.title} title={t.title} p="sm">
      <Stack gap={4}>
        {conditions.slice(0, shownMax).map((condition) => (
          <Text key={`${condition.kind} ${condition.subject}`}>
            {textOfCondition(condition, t, format)}{" "}
            <Anchor
              href={`${guide}#:~:text=${encodeURIComponent(headings[condition.kind])}`}
              target="_blank"
              rel="noreferrer"
              c="inherit"
              underline="always"
              aria-label={`${t.runbook}: ${headings[condition.kind]}`}
            >
              {t.runbook}
            </Anchor>
          </Text>
        ))}
        {conditions.length > shownMax && <Text>{t.more(conditions.length - shownMax)}</Text>}
      </Stack>
    </Alert>
  );
}
