/**
 * The models of a run: for each upstream dialect one without reasoning, one with reasoning for each
 * family of names, a slow, a broken and a paused one; and `rerank`, `speech` and `transcript`.
 */
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type Client, families } from "./client.ts";

export const modelOf = (upstream: ConversationDialect): string => `sim-${upstream}`;
export const reasonerOf = (upstream: ConversationDialect, family: Client["family"]): string => `${family}-${upstream}`;
/** A model that answers with some 60 tokens, for two seconds. */
export const slowOf = (upstream: ConversationDialect): string => `slow-${upstream}`;
/** A model whose stream fails after three words of content. */
export const brokenOf = (upstream: ConversationDialect): string => `broken-${upstream}`;
/** A model with keep-alives before the first event and between all others. */
export const pausedOf = (upstream: ConversationDialect): string => `paused-${upstream}`;
/** The group whose streams can be resumed. */
export const resumableGroup = "resumable";
/**
 * The ingress sends a keep-alive with a heartbeat, one per second, when a stream has been silent
 * for this long.
 */
export const keepAliveMs = 400;
const pauseMs = keepAliveMs + 1_100;

const upstreamLine = (dialect: ConversationDialect) =>
  `  ${dialect}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/${dialect === "gemini" ? "v1beta" : "v1"}" }`;

const modelLine = (id: string, upstream: ConversationDialect, model: string, more = "") =>
  `  - { id: ${id}, retries: 0, contextWindow: 128000, outputTokensMax: 32000, ${more}prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: ${upstream}, model: "${model.includes("first=") ? model : `${model};first=0`}" }] }`;

/** A model for one operation. */
const operationLine = (id: string, capability: string, queue = "chat") =>
  `  - { id: ${id}, retries: 0, queue: ${queue}, capabilities: [${capability}], prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: openai-chat, model: sim-${id} }] }`;
const operationLines = [
  operationLine("rerank", "rerank"),
  operationLine("speech", "speech", "audio"),
  operationLine("transcript", "transcription", "audio"),
];

export function catalogue(): string {
  const reasons = "capabilities: [text, streaming, tools, json, reasoning], ";
  const models = conversationDialects.flatMap((upstream) => [
    modelLine(modelOf(upstream), upstream, "sim-text;rate=0"),
    modelLine(slowOf(upstream), upstream, "sim-text;rate=30;tokens=60"),
    modelLine(brokenOf(upstream), upstream, "sim-text;rate=50;error=3"),
    modelLine(pausedOf(upstream), upstream, `sim-text;tokens=2;rate=${(1_000 / pauseMs).toFixed(2)};first=${pauseMs}`),
    ...families.map((family) => modelLine(reasonerOf(upstream, family), upstream, "sim-reasoning;rate=0", reasons)),
  ]);
  const upstreams = conversationDialects.map(upstreamLine);
  return `groups: { default: { models: ["*"] }, ${resumableGroup}: { models: ["*"], resumableStreams: true } }\nupstreams:\n${upstreams.join("\n")}\nmodels:\n${[...models, ...operationLines].join("\n")}\n`;
}
