/**
 * The conditions that need the operator now, each with links to where one acts and to its runbook.
 */
import { Alert, Anchor, Stack, Text } from "@mantine/core";
import { type Formats, useFormats } from "../app/language.tsx";
import type { LiveState } from "../app/live.ts";
import { useConditionsTexts } from "./conditions.texts.ts";

export type Condition = LiveState["conditions"][number];

/** The build copies the guide beside the console's files. */
const guide = new URL("../../../docs/operations.md", import.meta.url).href;
/** The heading of the runbook in docs/operations.md, and the place where one acts. */
const places: Record<Condition["kind"], readonly [heading: string, href: string]> = {
  requestsFail: ["Requests fail", "#targets"],
  requestsRefused: ["Ingress full", "#queues"],
  noWorker: ["No worker for a queue", "#queues"],
  oldestWait: ["Requests wait too long", "#queues"],
  queueGrows: ["Requests wait too long", "#queues"],
  queuePaused: ["Control queues, generations and circuit breakers", "#queues"],
  queueDraining: ["Control queues, generations and circuit breakers", "#queues"],
  targetFails: ["Upstream fails", "#targets"],
  circuitBreakerOpen: ["Circuit breaker open", "#targets"],
  credentialCools: ["Credential in cooldown", "#targets"],
  processSilent: ["Process silent", "#processes"],
  processNotReady: ["Process not ready", "#processes"],
  ledgerBehind: ["Ledger behind", "#stores"],
  invalidRecords: ["Records put aside", "#stores"],
  redisMemory: ["Redis memory", "#stores"],
  catalogueRefused: ["Catalogue refused", "/catalogue?tab=file"],
};

const shares: readonly Condition["kind"][] = ["requestsFail", "requestsRefused", "targetFails", "redisMemory"];
const durations: readonly Condition["kind"][] = ["oldestWait", "ledgerBehind"];

const shownMax = 8;

export function textOfCondition(
  { kind, subject, value, share }: Condition,
  t: ReturnType<typeof useConditionsTexts>,
  format: Formats,
): string {
  const figure =
    value === null
      ? []
      : shares.includes(kind)
        ? [format.percent(value)]
        : [durations.includes(kind) ? format.ms(value * 1_000) : format.count(value)];
  const values = [
    ...(subject === null ? [] : [subject]),
    ...figure,
    ...(share === null ? [] : [format.percent(share)]),
  ];
  return (t[kind] as (...values: string[]) => string)(...values);
}

/** `oldAt`: the time of the figures, if later ones are missing. */
export function Conditions({ conditions, oldAt }: { conditions: readonly Condition[]; oldAt: string | undefined }) {
  const t = useConditionsTexts();
  const format = useFormats();
  if (conditions.length === 0)
    return <Text c="dimmed">{oldAt === undefined ? t.none : t.unknown(format.time(oldAt))}</Text>;
  return (
    <Alert color="yellow" role="region" aria-label={t.title} title={t.title} p="sm">
      <Stack gap={4}>
        {conditions.slice(0, shownMax).map((condition) => (
          <Text key={`${condition.kind} ${condition.subject}`}>
            {textOfCondition(condition, t, format)}{" "}
            <Anchor
              href={places[condition.kind][1]}
              c="inherit"
              underline="always"
              aria-label={`${t.show}: ${textOfCondition(condition, t, format)}`}
            >
              {t.show}
            </Anchor>{" "}
            <Anchor
              href={`${guide}#:~:text=${encodeURIComponent(places[condition.kind][0])}`}
              target="_blank"
              rel="noreferrer"
              c="inherit"
              underline="always"
              aria-label={`${t.runbook}: ${places[condition.kind][0]}`}
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
