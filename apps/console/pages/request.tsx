/** One generation: where its time went, what it cost and why, what went wrong, and all its ids. */
import { Alert, Badge, Box, Group, Paper, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { translated, useFormats, useLanguage, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { CopyText } from "../parts/copy.tsx";
import { type CostLine, costStepsOf, linesOf } from "../parts/cost.ts";
import { decimalOf, nanoOf } from "../parts/decimal.ts";
import { errorTexts } from "../parts/error-texts.ts";
import { PageLink } from "../parts/link.tsx";
import { Page } from "../parts/page.tsx";
import { Loaded } from "../parts/states.tsx";
import type { UsageRecord } from "../parts/usage-types.ts";
import { type Phase, phasesOf } from "../parts/waterfall.ts";
import { RequestContent } from "./request-content.tsx";
import { OutcomeBadge } from "./requests.tsx";

const texts = translated({
  en: {
    title: "Request",
    received: (time: string) => `Received ${time}`,
    refusedWhy: "The gateway refused it before a worker took it. It cost nothing.",
    leftTitle: "The caller closed the connection",
    leftWhy: "The answer was not delivered to its end. What was produced until then is charged.",
    estimated: "Some counts are estimates, because the caller left before the upstream reported them.",
    unknownError: "An error without a description.",
    timing: "Timing",
    phase: "Phase",
    begins: "Begins at",
    took: "Took",
    admission: "Checks and rate limits",
    queue: "Admission queue",
    worker: "Waits for a worker",
    upstream: "Until the first content",
    answer: "Answer",
    end: "End",
    perSecond: (rate: string) => `${rate} tokens a second`,
    callsTitle: (count: string) => `Calls of upstreams: ${count}`,
    answered: "answered",
    costTitle: "Tokens and cost",
    kind: "Kind",
    count: "Count",
    unitPrice: "Unit price",
    amount: "Amount",
    input: "Input",
    cacheRead: "Input read from cache",
    cacheWrite: "Input written to cache",
    audioInput: "Audio input",
    output: "Output",
    reasoning: "Reasoning",
    audioOutput: "Audio output",
    request: "Request",
    image: "Images",
    cacheWrite1hTokens: "Input written to cache for an hour",
    cachedAudioTokens: "Audio read from cache",
    imageInputTokens: "Image input",
    imageOutputTokens: "Image output",
    webSearches: "Web searches",
    mapSearches: "Map searches",
    fileSearches: "File searches",
    codeSessions: "Code sandboxes",
    audioSeconds: "Seconds of audio",
    unknownPrice: "unknown",
    perMillion: (price: string) => `${price} per million`,
    perOne: (price: string) => `${price} each`,
    sum: "Sum",
    groupRatio: (group: string) => `Ratio of the group ${group}`,
    serviceRatio: (tier: string) => `Ratio of the service tier ${tier}`,
    standard: "(standard)",
    rounded: "Cost, rounded once",
    notBilled: "Nothing was billed.",
    nothingCounted: "No tokens were counted.",
    priceVersion: "Version of the prices",
    upstreamCost: "Upstream cost",
    margin: "Margin",
    differs: "The unit prices do not give the recorded cost. Please report it.",
    facts: "Details",
    requestId: "Request id",
    generationId: "Generation id",
    upstreamId: "Upstream's id",
    traceId: "Trace id",
    model: "Model",
    answeredBy: "Answered by",
    key: "Key",
    account: "Account",
    group: "Group",
    upstreamName: "Upstream",
    target: "Target",
    operation: "Operation",
    dialect: "Dialect",
    queueName: "Queue",
    streamed: "Streamed",
    yes: "Yes",
    no: "No",
    calls: "Upstream calls",
    attempts: "Worker attempts",
    size: "Request / answer",
    sizes: (body: string, answer: string, chunks: string) => `${body} / ${answer} in ${chunks} chunks`,
    serviceTier: "Service tier",
    imageSize: "Image",
    user: "Caller's user",
    tags: "Tags",
    none: "–",
  },
  zh: {
    title: "请求",
    received: (time: string) => `收到于 ${time}`,
    refusedWhy: "网关在工作进程接手之前拒绝了它，没有费用。",
    leftTitle: "调用方关闭了连接",
    leftWhy: "回答没有完整送达。此前已生成的部分照常计费。",
    estimated: "部分计数为估算值，因为调用方在上游报告之前离开。",
    unknownError: "没有说明的错误。",
    timing: "耗时",
    phase: "阶段",
    begins: "开始于",
    took: "用时",
    admission: "检查与速率限制",
    queue: "准入队列",
    worker: "等待工作进程",
    upstream: "直到首个内容",
    answer: "回答",
    end: "结束",
    perSecond: (rate: string) => `每秒 ${rate} 个令牌`,
    callsTitle: (count: string) => `上游调用：${count}`,
    answered: "已回答",
    costTitle: "令牌与费用",
    kind: "种类",
    count: "数量",
    unitPrice: "单价",
    amount: "金额",
    input: "输入",
    cacheRead: "从缓存读取的输入",
    cacheWrite: "写入缓存的输入",
    audioInput: "音频输入",
    output: "输出",
    reasoning: "推理",
    audioOutput: "音频输出",
    request: "请求",
    image: "图片",
    cacheWrite1hTokens: "写入缓存一小时的输入",
    cachedAudioTokens: "从缓存读取的音频",
    imageInputTokens: "图片输入",
    imageOutputTokens: "图片输出",
    webSearches: "网络搜索",
    mapSearches: "地图搜索",
    fileSearches: "文件搜索",
    codeSessions: "代码沙箱",
    audioSeconds: "音频秒数",
    unknownPrice: "未知",
    perMillion: (price: string) => `每百万 ${price}`,
    perOne: (price: string) => `每个 ${price}`,
    sum: "合计",
    groupRatio: (group: string) => `分组 ${group} 的倍率`,
    serviceRatio: (tier: string) => `服务等级 ${tier} 的倍率`,
    standard: "（标准）",
    rounded: "费用（只舍入一次）",
    notBilled: "没有计费。",
    nothingCounted: "没有令牌计数。",
    priceVersion: "价格版本",
    upstreamCost: "上游成本",
    margin: "毛利",
    differs: "按单价计算的结果与记录的费用不一致，请反馈此问题。",
    facts: "详情",
    requestId: "请求 ID",
    generationId: "生成 ID",
    upstreamId: "上游 ID",
    traceId: "追踪 ID",
    model: "模型",
    answeredBy: "回答的模型",
    key: "密钥",
    account: "账户",
    group: "分组",
    upstreamName: "上游",
    target: "目标",
    operation: "操作",
    dialect: "方言",
    queueName: "队列",
    streamed: "流式",
    yes: "是",
    no: "否",
    calls: "上游调用",
    attempts: "工作进程尝试",
    size: "请求 / 回答",
    sizes: (body: string, answer: string, chunks: string) => `${body} / ${answer}，共 ${chunks} 块`,
    serviceTier: "服务等级",
    imageSize: "图片",
    user: "调用方的用户",
    tags: "标签",
    none: "–",
  },
});
type Texts = typeof texts.en;

const route = getRouteApi("/inside/requests/$id");

export function Request() {
  const t = useTexts(texts);
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
  const t = useTexts(texts);
  const words = useTexts(errorTexts);
  if (outcome === "left")
    return (
      <Alert color="gray" title={t.leftTitle}>
        {t.leftWhy} {isEstimated && t.estimated}
      </Alert>
    );
  if (errorCode === null) return isEstimated ? <Alert color="gray">{t.estimated}</Alert> : null;
  const [what, action] = (words as Partial<Record<string, readonly [string, string]>>)[errorCode] ?? [
    t.unknownError,
    "",
  ];
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
  const t = useTexts(texts);
  const format = useFormats();
  const words = useTexts(errorTexts) as Partial<Record<string, readonly [string, string]>>;
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
                <Text size="xs" c="dimmed" title={words[call.outcome]?.[0]}>
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
  const t = useTexts(texts);
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
  const t = useTexts(texts);
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
