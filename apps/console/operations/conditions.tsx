/** The conditions that need the operator now, each with a link to its runbook. */
import { Alert, Anchor, Stack, Text } from "@mantine/core";
import { type Formats, useFormats } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";
import { useConditionsTexts } from "./conditions.texts.ts";

export type Condition = LiveState["conditions"][number];

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

export function textOfCondition(
  { kind, subject, value }: Condition,
  t: ReturnType<typeof useConditionsTexts>,
  format: Formats,
): string {
  const figure =
    value === null
      ? ""
      : kind === "redisMemory"
        ? format.percent(value)
        : kind === "invalidRecords"
          ? format.count(value)
          : format.ms(value * 1_000);
  const values = [...(subject === null ? [] : [subject]), ...(value === null ? [] : [figure])];
  return (t[kind] as (...values: string[]) => string)(...values);
}

export function Conditions({ conditions }: { conditions: readonly Condition[] }) {
  const t = useConditionsTexts();
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
