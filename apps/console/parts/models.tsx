/** What several pages say about models: prices, capabilities and health. */
import { Badge, Group, Text } from "@mantine/core";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useMaybeMe } from "../app/session.ts";
import type { Catalogue, Model } from "./access.tsx";

export const modelTexts = translated({
  en: {
    model: "Model",
    vendor: "Vendor",
    context: "Context",
    output: "Max output",
    capabilities: "Capabilities",
    dialect: "Recommended dialect",
    released: "Released",
    health: "Last 24 hours",
    inputPerMillion: "Input, per million tokens",
    outputPerMillion: "Output, per million tokens",
    cachedInputPerMillion: "Cached input, per million tokens",
    cacheWritePerMillion: "Cache writes, per million tokens",
    reasoningPerMillion: "Reasoning, per million tokens",
    audioInputPerMillion: "Audio input, per million tokens",
    audioOutputPerMillion: "Audio output, per million tokens",
    cachedAudioPerMillion: "Cached audio, per million tokens",
    cacheWrite1hPerMillion: "Cache writes for an hour, per million tokens",
    imageInputPerMillion: "Image input, per million tokens",
    imageOutputPerMillion: "Image output, per million tokens",
    perWebSearch: "Per web search",
    perMapSearch: "Per map search",
    perFileSearch: "Per file search",
    perCodeSession: "Per code sandbox",
    perAudioSecond: "Per second of audio",
    perRequest: "Per request",
    perImage: "Per image",
    tokens: (count: string) => `${count} tokens`,
    unknown: "Not stated",
    free: "Free",
    good: "Good",
    some: "Some errors",
    many: "Many errors",
    share: (word: string, failed: string) => `${word} · ${failed} failed`,
    noRequests: "No requests",
    failedOf: (failed: string, requests: string) => `${failed} of ${requests} requests failed`,
  },
  zh: {
    model: "模型",
    vendor: "厂商",
    context: "上下文",
    output: "最大输出",
    capabilities: "能力",
    dialect: "推荐协议",
    released: "发布日期",
    health: "最近 24 小时",
    inputPerMillion: "输入，每百万令牌",
    outputPerMillion: "输出，每百万令牌",
    cachedInputPerMillion: "缓存输入，每百万令牌",
    cacheWritePerMillion: "缓存写入，每百万令牌",
    reasoningPerMillion: "推理，每百万令牌",
    audioInputPerMillion: "音频输入，每百万令牌",
    audioOutputPerMillion: "音频输出，每百万令牌",
    cachedAudioPerMillion: "缓存音频，每百万令牌",
    cacheWrite1hPerMillion: "一小时缓存写入，每百万令牌",
    imageInputPerMillion: "图片输入，每百万令牌",
    imageOutputPerMillion: "图片输出，每百万令牌",
    perWebSearch: "每次网络搜索",
    perMapSearch: "每次地图搜索",
    perFileSearch: "每次文件搜索",
    perCodeSession: "每个代码沙箱",
    perAudioSecond: "每秒音频",
    perRequest: "每次请求",
    perImage: "每张图像",
    tokens: (count: string) => `${count} 令牌`,
    unknown: "未说明",
    free: "免费",
    good: "良好",
    some: "少量错误",
    many: "较多错误",
    share: (word: string, failed: string) => `${word} · 失败 ${failed}`,
    noRequests: "没有请求",
    failedOf: (failed: string, requests: string) => `${requests} 次请求中 ${failed} 次失败`,
  },
});

const capabilityTexts = translated<Record<string, string>>({
  en: { text: "text", streaming: "streaming", tools: "tools", vision: "vision", json: "JSON", reasoning: "reasoning" },
  zh: {
    text: "文本",
    streaming: "流式",
    tools: "工具",
    vision: "视觉",
    json: "JSON",
    reasoning: "推理",
    image: "图像",
    embedding: "嵌入",
    moderation: "审核",
    rerank: "重排",
    realtime: "实时",
    speech: "语音",
    transcription: "转写",
  },
});

export function useCapabilityName(): (capability: string) => string {
  const t = useTexts(capabilityTexts);
  return (capability) => t[capability] ?? capability;
}

export function Capabilities({ of }: { of: readonly string[] }) {
  const nameOf = useCapabilityName();
  return (
    <Group gap={4}>
      {of.map((capability) => (
        <Badge key={capability} variant="default" radius="sm" size="sm" tt="none" fw={400}>
          {nameOf(capability)}
        </Badge>
      ))}
    </Group>
  );
}

/** Sizes of models are written with K and M in every language. */
const sizes = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function TokenCount({ value }: { value: number | null }) {
  const t = useTexts(modelTexts);
  const format = useFormats();
  if (value === null) return <>–</>;
  return <span title={t.tokens(format.count(value))}>{sizes.format(value)}</span>;
}

/** An exact amount; "–" for one that is not there. */
export function Price({ amount, currency }: { amount: string | undefined; currency: string }) {
  const format = useFormats();
  return <>{amount === undefined ? "–" : format.exactMoney(amount, currency)}</>;
}

export type GroupPrices = Model["prices"][number];
export const pricesFor = (model: Model, group: string | undefined): GroupPrices | undefined =>
  model.prices.find((prices) => prices.group === group);

/** The group that prices are shown for: what is chosen, or the default. */
export const groupAmong = (catalogue: Catalogue, chosen: string | undefined): string | undefined =>
  [chosen, "default", catalogue.publicGroup]
    .map((name) => catalogue.groups.find((group) => group.name === name)?.name)
    .find((name) => name !== undefined) ?? catalogue.groups[0]?.name;

export interface Health {
  requests: number;
  failed: number;
}

const stepMs = 1_800_000;
const stepsShown = 48;
/** Sums are kept by half hours. */
const dayAgo = () => new Date((Math.floor(Date.now() / stepMs) - stepsShown) * stepMs).toISOString();

/** Requests of the last day by model; undefined without sign-in and before the answer is there. */
export function useHealth(): ReadonlyMap<string, Health> | undefined {
  const me = useMaybeMe();
  const { data } = useRead(
    "sumUsage",
    { query: { from: dayAgo(), interval: "none", by: "model" } },
    { enabled: me !== null, everyMs: 30_000, keepsPrevious: true },
  );
  return data && new Map(data.rows.map(({ group, requests, failed }) => [group.model ?? "", { requests, failed }]));
}

const someShare = 0.01;
const manyShare = 0.05;

export function HealthText({ of }: { of: Health | undefined }) {
  const t = useTexts(modelTexts);
  const format = useFormats();
  if (of === undefined || of.requests === 0) return <Text c="dimmed">{t.noRequests}</Text>;
  const share = of.failed / of.requests;
  const word = share >= manyShare ? t.many : share >= someShare ? t.some : t.good;
  return (
    <Text
      title={t.failedOf(format.count(of.failed), format.count(of.requests))}
      {...(share >= manyShare && { fw: 600 })}
    >
      {t.share(word, format.percent(share))}
    </Text>
  );
}
