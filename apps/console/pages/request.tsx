/** One generation: where its time went, what it cost and why, what went wrong, and all its ids. */
import { Alert, Box, Group, Paper, SimpleGrid, Table, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { precisionOf } from "../parts/amounts.ts";
import { CopyText } from "../parts/copy.tsx";
import { type CostLine, costStepsOf, linesOf } from "../parts/cost.ts";
import { decimalOf, nanoOf } from "../parts/decimal.ts";
import { Facts, Tags, useMoney } from "../parts/facts.tsx";
import { AccountLink, KeyLink, ModelLink } from "../parts/link.tsx";
import { Loaded, Page, Section } from "../parts/page.tsx";
import type { UsageRecord } from "../parts/usage-types.ts";
import { type Phase, phasesOf } from "../parts/waterfall.ts";
import { useRequestTexts } from "./request.texts.ts";
import { RequestContent } from "./request-content.tsx";
import { OutcomeBadge } from "./requests.tsx";

const route = getRouteApi("/inside/requests/$id");

interface RecordProps {
  record: UsageRecord;
}

export function Request() {
  const t = useRequestTexts();
  const format = useFormats();
  return (
    <Loaded from={useRead("getUsage", { params: route.useParams() })}>
      {(record) => (
        <Page
          title={record.model || t.request}
          about={
            <Group component="span">
              <OutcomeBadge outcome={record.outcome} status={record.status} />
              {t.received(format.time(record.receivedAt))}
            </Group>
          }
        >
          <ErrorNotice record={record} />
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <Waterfall record={record} />
            <Cost record={record} />
          </SimpleGrid>
          <RequestContent key={record.id} record={record} />
          <Section title={t.facts}>
            <RecordFacts record={record} />
          </Section>
        </Page>
      )}
    </Loaded>
  );
}

function ErrorNotice({ record: { outcome, errorCode, isEstimated } }: RecordProps) {
  const t = useRequestTexts();
  if (outcome === "left")
    return (
      <Alert color="gray" title={t.leftTitle}>
        {t.leftWhy} {isEstimated && t.estimated}
      </Alert>
    );
  if (errorCode === null) return isEstimated ? <Alert color="gray">{t.estimated}</Alert> : null;
  const [event, action] = t.errors[errorCode] ?? [t.unknownError, ""];
  return (
    <Alert color={outcome === "refused" ? "yellow" : "red"} title={errorCode}>
      <Text>{event}</Text>
      <Text>{action}</Text>
      {outcome === "refused" && (
        <Text size="sm" mt={4}>
          {t.refusedWhy}
        </Text>
      )}
    </Alert>
  );
}

const phaseColours: Record<Phase["name"], string> = {
  admission: "gray",
  queue: "yellow",
  worker: "orange",
  upstream: "blue",
  answer: "teal",
  end: "gray",
};

interface FigureTableProps {
  title: string;
  /** The first one is a text, the others are figures. */
  headings: readonly string[];
  children: ReactNode;
  footer: ReactNode;
  below?: ReactNode;
}

function FigureTable({ title, headings, children, footer, below }: FigureTableProps) {
  return (
    <Section title={title}>
      <Paper withBorder style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label={title}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              {headings.map((heading, index) => (
                <Table.Th key={heading} {...(index > 0 && { className: "number" })}>
                  {heading}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>{children}</Table.Tbody>
          <Table.Tfoot>{footer}</Table.Tfoot>
        </Table>
        {below}
      </Paper>
    </Section>
  );
}

interface SpanRowProps {
  name: ReactNode;
  fromMs: number;
  tookMs: number;
  wholeMs: number;
  colour: string;
  outcome?: string;
}

/** A name, two times, and their place in the whole. */
function SpanRow({ name, fromMs, tookMs, wholeMs, colour, outcome }: SpanRowProps) {
  const format = useFormats();
  const [from, to] = [Math.min(fromMs / wholeMs, 1), Math.min((fromMs + tookMs) / wholeMs, 1)];
  return (
    <Table.Tr data-call={outcome}>
      <Table.Td>{name}</Table.Td>
      <Table.Td className="number">{format.ms(fromMs)}</Table.Td>
      <Table.Td className="number">{format.ms(tookMs)}</Table.Td>
      <Table.Td aria-hidden="true" w="34%" miw={60}>
        <Box pos="relative" h={14}>
          <Box
            pos="absolute"
            h={14}
            left={`${from * 100}%`}
            w={`max(2px, ${(to - from) * 100}%)`}
            bg={`light-dark(var(--mantine-color-${colour}-6), var(--mantine-color-${colour}-5))`}
            style={{ borderRadius: 2 }}
          />
        </Box>
      </Table.Td>
    </Table.Tr>
  );
}

function Waterfall({ record }: RecordProps) {
  const t = useRequestTexts();
  const format = useFormats();
  const phases = phasesOf(record);
  const wholeMs = Math.max(1, record.durationMs);
  const answer = phases.find(({ name }) => name === "answer");
  const seconds = answer ? (answer.to - answer.from) / 1_000 : 0;
  const hasSpeed = seconds > 0.05 && record.tokens.output > 0;
  const footer = (
    <Table.Tr>
      <Table.Th>{t.end}</Table.Th>
      <Table.Th className="number">{format.ms(record.durationMs)}</Table.Th>
      <Table.Td colSpan={2} className="number">
        {hasSpeed && t.perSecond(format.count(Math.round((record.tokens.output / seconds) * 10) / 10))}
      </Table.Td>
    </Table.Tr>
  );
  return (
    <FigureTable title={t.timing} headings={[t.phase, t.begins, t.took, ""]} footer={footer}>
      {phases.map(({ name, from, to }) => (
        <SpanRow
          key={name}
          name={t[name]}
          fromMs={from}
          tookMs={to - from}
          wholeMs={wholeMs}
          colour={phaseColours[name]}
        />
      ))}
      {record.callLog !== null && (
        <Table.Tr>
          <Table.Th colSpan={4} scope="rowgroup">
            {t.callsTitle(format.count(record.calls))}
          </Table.Th>
        </Table.Tr>
      )}
      {record.callLog?.map(({ upstream, target, outcome, status, startedMs, durationMs }, index) => (
        <SpanRow
          // biome-ignore lint/suspicious/noArrayIndexKey: the calls of a record do not change.
          key={index}
          name={
            <>
              <Text size="sm">
                {upstream} · {target}
              </Text>
              <Text size="xs" c="dimmed" title={t.errors[outcome]?.[0]}>
                {outcome === "answered" ? t.answered : outcome}
                {status !== null && ` ${status}`}
              </Text>
            </>
          }
          fromMs={startedMs}
          tookMs={durationMs}
          wholeMs={wholeMs}
          colour={outcome === "answered" ? "teal" : "red"}
          outcome={outcome}
        />
      ))}
    </FigureTable>
  );
}

function Cost({ record }: RecordProps) {
  const t = useRequestTexts();
  const format = useFormats();
  const { exact } = useMoney();
  const steps = costStepsOf(record);
  const lines = steps?.lines ?? linesOf(record);
  const priceText = ({ isEach, unitPrice }: CostLine) =>
    unitPrice === undefined
      ? steps === undefined
        ? t.none
        : t.unknownPrice
      : (isEach ? t.perOne : t.perMillion)(exact(unitPrice));
  const row = (name: string, value: ReactNode, fw = 400) => (
    <Table.Tr key={name}>
      <Table.Th colSpan={3} fw={fw}>
        {name}
      </Table.Th>
      <Table.Td className="number" fw={fw}>
        {value}
      </Table.Td>
    </Table.Tr>
  );
  const { cost, upstreamCost } = record;
  const precision = precisionOf(record);
  const footer =
    steps === undefined
      ? row(t.notBilled, exact(cost, precision), 700)
      : [
          row(t.sum, exact(steps.sum)),
          row(t.groupRatio(record.group), `× ${steps.groupRatio}`),
          row(t.serviceRatio(record.serviceTier ?? t.standard), `× ${steps.serviceRatio}`),
          row(t.rounded, <span data-cost="">{exact(cost, precision)}</span>, 700),
          ...(upstreamCost === null
            ? []
            : [
                row(t.upstreamCost, exact(upstreamCost)),
                row(t.margin, exact(decimalOf(nanoOf(cost) - nanoOf(upstreamCost)), precisionOf(record, "margin"))),
              ]),
        ];
  const below = steps !== undefined && steps.cost !== cost && (
    <Alert color="yellow" m="xs">
      {t.differs}
    </Alert>
  );
  return (
    <FigureTable title={t.costTitle} headings={[t.kind, t.count, t.unitPrice, t.amount]} footer={footer} below={below}>
      {lines.length === 0 && (
        <Table.Tr>
          <Table.Td colSpan={4} c="dimmed">
            {t.nothingCounted}
          </Table.Td>
        </Table.Tr>
      )}
      {lines.map((line) => (
        <Table.Tr key={line.kind}>
          <Table.Td>{t[line.kind]}</Table.Td>
          <Table.Td className="number">{format.count(line.count)}</Table.Td>
          <Table.Td className="number">{priceText(line)}</Table.Td>
          <Table.Td className="number">{line.amount === undefined ? t.none : exact(line.amount)}</Table.Td>
        </Table.Tr>
      ))}
    </FigureTable>
  );
}

function RecordFacts({ record }: RecordProps) {
  const t = useRequestTexts();
  const format = useFormats();
  const idOf = (name: string, id: string | null) =>
    [name, id === null ? undefined : <CopyText key={name} value={id} label={name} />] as const;
  const modelAnswered = record.modelAnswered ?? record.model;
  const image = [record.imageSize, record.imageQuality].filter(Boolean).join(", ");
  return (
    <Facts
      facts={[
        idOf(t.requestId, record.requestId),
        idOf(t.generationId, record.id === record.requestId ? null : record.id),
        idOf(t.upstreamId, record.upstreamRequestId),
        idOf(t.traceId, record.traceId),
        [
          t.key,
          <KeyLink key="key" id={record.key}>
            {record.keyName ?? record.key}
          </KeyLink>,
        ],
        [t.account, <AccountLink key="account" id={record.account} />],
        [t.group, record.group || t.none],
        [t.model, <ModelLink key="model" id={record.model} />],
        [t.answeredBy, modelAnswered === record.model ? undefined : <ModelLink key="answered" id={modelAnswered} />],
        [t.upstreamName, record.upstream || t.none],
        [t.target, record.target ?? t.none],
        [t.operation, record.operation ?? t.none],
        [t.dialect, [record.dialect, record.upstreamDialect].filter((each) => each !== null).join(" → ") || t.none],
        [t.queueName, record.queue ?? t.none],
        [t.streamed, record.isStreamed ? t.yes : t.no],
        [t.calls, format.count(record.calls)],
        [t.attempts, format.count(record.attempts)],
        [t.size, t.sizes(format.bytes(record.bodyBytes), format.bytes(record.bytes), format.count(record.chunks))],
        [t.serviceTier, record.serviceTier ?? undefined],
        [t.imageSize, image || undefined],
        [t.priceVersion, record.price === null ? undefined : (record.price.version ?? t.none)],
        [t.user, record.user ?? undefined],
        [t.session, record.session ?? undefined],
        [t.tags, record.tags.length === 0 ? undefined : <Tags key="tags" tags={record.tags} />],
      ]}
    />
  );
}
