/** One generation: where its time went, what it cost and why, what went wrong, and all its ids. */
import { Alert, Badge, Box, Group, Paper, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useLanguage } from "../app/texts.ts";
import { CopyText } from "../parts/copy.tsx";
import { type CostLine, costStepsOf, linesOf } from "../parts/cost.ts";
import { decimalOf, nanoOf } from "../parts/decimal.ts";
import { useErrorTexts } from "../parts/error.texts.ts";
import { PageLink } from "../parts/link.tsx";
import { Page } from "../parts/page.tsx";
import { Loaded } from "../parts/states.tsx";
import type { UsageRecord } from "../parts/usage-types.ts";
import { type Phase, phasesOf } from "../parts/waterfall.ts";
import { useRequestTexts } from "./request.texts.ts";
import { RequestContent } from "./request-content.tsx";
import { OutcomeBadge } from "./requests.tsx";

type Texts = ReturnType<typeof useRequestTexts>;

const route = getRouteApi("/inside/requests/$id");

export function Request() {
  const t = useRequestTexts();
  const format = useFormats();
  const { id } = route.useParams();
  const read = useRead("getUsage", { params: { id } });
  const currency = useRead("readCatalogue").data?.currency ?? "USD";
  return (
    <Loaded from={read}>
      {(record) => (
        <Page
          title={record.model || t.title}
          about={
            <Group gap="xs" component="span">
              <OutcomeBadge outcome={record.outcome} status={record.status} />
              {t.received(format.time(record.receivedAt))}
            </Group>
          }
        >
          <ErrorNotice record={record} />
          <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
            <Waterfall record={record} />
            <Cost record={record} currency={currency} />
          </SimpleGrid>
          <RequestContent key={record.id} record={record} />
          <Facts record={record} />
        </Page>
      )}
    </Loaded>
  );
}

function ErrorNotice({ record: { outcome, errorCode, isEstimated } }: { record: UsageRecord }) {
  const t = useRequestTexts();
  const { errors } = useErrorTexts();
  if (outcome === "left")
    return (
      <Alert color="gray" title={t.leftTitle}>
        {t.leftWhy} {isEstimated && t.estimated}
      </Alert>
    );
  if (errorCode === null) return isEstimated ? <Alert color="gray">{t.estimated}</Alert> : null;
  const [what, action] = errors[errorCode] ?? [t.unknownError, ""];
  return (
    <Alert color={outcome === "refused" ? "yellow" : "red"} title={errorCode}>
      <Text>{what}</Text>
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

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack gap="xs" style={{ minWidth: 0 }}>
      <Title order={2}>{title}</Title>
      <Paper withBorder style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label={title}>
        {children}
      </Paper>
    </Stack>
  );
}

function Waterfall({ record }: { record: UsageRecord }) {
  const t = useRequestTexts();
  const format = useFormats();
  const { errors } = useErrorTexts();
  const phases = phasesOf(record);
  const whole = Math.max(1, record.durationMs);
  const answer = phases.find(({ name }) => name === "answer");
  const seconds = answer ? (answer.to - answer.from) / 1_000 : 0;
  return (
    <Section title={t.timing}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t.phase}</Table.Th>
            <Table.Th className="number">{t.begins}</Table.Th>
            <Table.Th className="number">{t.took}</Table.Th>
            <Table.Th w="34%" miw={80} aria-hidden="true" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {phases.map(({ name, from, to }) => (
            <Table.Tr key={name}>
              <Table.Td style={{ whiteSpace: "nowrap" }}>{t[name]}</Table.Td>
              <Table.Td className="number">{format.ms(from)}</Table.Td>
              <Table.Td className="number">{format.ms(to - from)}</Table.Td>
              <Table.Td aria-hidden="true">
                <Bar from={from / whole} to={to / whole} colour={phaseColours[name]} />
              </Table.Td>
            </Table.Tr>
          ))}
          {record.callLog !== null && (
            <Table.Tr>
              <Table.Th colSpan={4} scope="rowgroup">
                {t.callsTitle(format.count(record.calls))}
              </Table.Th>
            </Table.Tr>
          )}
          {record.callLog?.map((call, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the calls of a record do not change.
            <Table.Tr key={index} data-call={call.outcome}>
              <Table.Td>
                <Text size="sm">
                  {call.upstream} · {call.target}
                </Text>
                <Text size="xs" c="dimmed" title={errors[call.outcome]?.[0]}>
                  {call.outcome === "answered" ? t.answered : call.outcome}
                  {call.status !== null && ` ${call.status}`}
                </Text>
              </Table.Td>
              <Table.Td className="number">{format.ms(call.startedMs)}</Table.Td>
              <Table.Td className="number">{format.ms(call.durationMs)}</Table.Td>
              <Table.Td aria-hidden="true">
                <Bar
                  from={call.startedMs / whole}
                  to={(call.startedMs + call.durationMs) / whole}
                  colour={call.outcome === "answered" ? "teal" : "red"}
                />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
        <Table.Tfoot>
          <Table.Tr>
            <Table.Th>{t.end}</Table.Th>
            <Table.Th className="number">{format.ms(record.durationMs)}</Table.Th>
            <Table.Td colSpan={2} className="number">
              {seconds > 0.05 &&
                record.tokens.output > 0 &&
                t.perSecond(format.count(Math.round((record.tokens.output / seconds) * 10) / 10))}
            </Table.Td>
          </Table.Tr>
        </Table.Tfoot>
      </Table>
    </Section>
  );
}

/** From and to are shares of the whole width. */
function Bar({ from, to, colour }: { from: number; to: number; colour: string }) {
  return (
    <Box pos="relative" h={14}>
      <Box
        pos="absolute"
        h={14}
        left={`${Math.min(from, 1) * 100}%`}
        w={`max(2px, ${(Math.min(to, 1) - Math.min(from, 1)) * 100}%)`}
        bg={`light-dark(var(--mantine-color-${colour}-6), var(--mantine-color-${colour}-5))`}
        style={{ borderRadius: 2 }}
      />
    </Box>
  );
}

function Cost({ record, currency }: { record: UsageRecord; currency: string }) {
  const t = useRequestTexts();
  const format = useFormats();
  const exact = useExactMoney(currency);
  const steps = costStepsOf(record);
  const lines = steps?.lines ?? linesOf(record);
  const priceText = ({ isEach, unitPrice }: CostLine) =>
    unitPrice === undefined
      ? steps === undefined
        ? t.none
        : t.unknownPrice
      : isEach
        ? t.perOne(exact(unitPrice))
        : t.perMillion(exact(unitPrice));
  const row = (name: string, value: ReactNode, isStrong = false) => (
    <Table.Tr key={name}>
      <Table.Th colSpan={3} fw={isStrong ? 700 : 400}>
        {name}
      </Table.Th>
      <Table.Td className="number" fw={isStrong ? 700 : 400}>
        {value}
      </Table.Td>
    </Table.Tr>
  );
  return (
    <Section title={t.costTitle}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t.kind}</Table.Th>
            <Table.Th className="number">{t.count}</Table.Th>
            <Table.Th className="number">{t.unitPrice}</Table.Th>
            <Table.Th className="number">{t.amount}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
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
        </Table.Tbody>
        <Table.Tfoot>
          {steps === undefined
            ? row(t.notBilled, exact(record.cost), true)
            : [
                row(t.sum, exact(steps.sum)),
                row(t.groupRatio(record.group), `× ${steps.groupRatio}`),
                row(t.serviceRatio(record.serviceTier ?? t.standard), `× ${steps.serviceRatio}`),
                row(t.rounded, <span data-cost="">{exact(record.cost)}</span>, true),
                ...(record.upstreamCost === null
                  ? []
                  : [
                      row(t.upstreamCost, exact(record.upstreamCost)),
                      row(t.margin, exact(decimalOf(nanoOf(record.cost) - nanoOf(record.upstreamCost)))),
                    ]),
              ]}
        </Table.Tfoot>
      </Table>
      {steps !== undefined && steps.cost !== record.cost && (
        <Alert color="yellow" m="xs">
          {t.differs}
        </Alert>
      )}
    </Section>
  );
}

/** Every digit, however many: `Intl` rounds beyond twenty. */
function useExactMoney(currency: string): (amount: string) => string {
  const { language } = useLanguage();
  const formatter = new Intl.NumberFormat(language, {
    style: "currency",
    currency,
    currencyDisplay: "narrowSymbol",
    minimumFractionDigits: 2,
    maximumFractionDigits: 20,
  });
  return (amount) => formatter.format(amount as Intl.StringNumericLiteral);
}

function Facts({ record }: { record: UsageRecord }) {
  const t = useRequestTexts();
  const format = useFormats();
  const ids: [string, string | null][] = [
    [t.requestId, record.requestId],
    [t.generationId, record.id === record.requestId ? null : record.id],
    [t.upstreamId, record.upstreamRequestId],
    [t.traceId, record.traceId],
  ];
  const facts: [string, ReactNode][] = [
    ...ids.flatMap(([name, id]): [string, ReactNode][] =>
      id === null ? [] : [[name, <CopyText key={name} value={id} label={name} />]],
    ),
    [
      t.key,
      record.key === "" ? (
        t.none
      ) : (
        <PageLink key="key" to="/keys/$key" params={{ key: record.key }} title={record.key}>
          {record.keyName ?? record.key}
        </PageLink>
      ),
    ],
    [
      t.account,
      record.account === "" ? (
        t.none
      ) : (
        <PageLink key="account" to="/accounts/$account" params={{ account: record.account }}>
          {record.account}
        </PageLink>
      ),
    ],
    [t.group, record.group || t.none],
    [t.model, <ModelLink key="model" model={record.model} t={t} />],
    ...((record.modelAnswered ?? record.model) === record.model
      ? []
      : [[t.answeredBy, <ModelLink key="answered" model={record.modelAnswered ?? ""} t={t} />] as [string, ReactNode]]),
    [t.upstreamName, record.upstream || t.none],
    [t.target, record.target ?? t.none],
    [t.operation, record.operation ?? t.none],
    [t.dialect, [record.dialect, record.upstreamDialect].filter((each) => each !== null).join(" → ") || t.none],
    [t.queueName, record.queue ?? t.none],
    [t.streamed, record.isStreamed ? t.yes : t.no],
    [t.calls, format.count(record.calls)],
    [t.attempts, format.count(record.attempts)],
    [t.size, t.sizes(format.bytes(record.bodyBytes), format.bytes(record.bytes), format.count(record.chunks))],
    ...(record.serviceTier === null ? [] : [[t.serviceTier, record.serviceTier] as [string, ReactNode]]),
    ...(record.imageSize === null && record.imageQuality === null
      ? []
      : [[t.imageSize, [record.imageSize, record.imageQuality].filter(Boolean).join(", ")] as [string, ReactNode]]),
    ...(record.price === null ? [] : [[t.priceVersion, record.price.version ?? t.none] as [string, ReactNode]]),
    ...(record.user === null ? [] : [[t.user, record.user] as [string, ReactNode]]),
    ...(record.tags.length === 0
      ? []
      : [
          [
            t.tags,
            record.tags.map((tag) => (
              <Badge key={tag} variant="default" tt="none" mr={4}>
                {tag}
              </Badge>
            )),
          ] as [string, ReactNode],
        ]),
  ];
  return (
    <Section title={t.facts}>
      <Table variant="vertical">
        <Table.Tbody>
          {facts.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Th w={180}>{name}</Table.Th>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Section>
  );
}

const ModelLink = ({ model, t }: { model: string; t: Texts }) =>
  model === "" ? (
    t.none
  ) : (
    <PageLink to="/models/$model" params={{ model }}>
      {model}
    </PageLink>
  );
