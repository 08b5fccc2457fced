/** The models of a run: for each upstream dialect one without reasoning, and one with reasoning for each family of names; and `rerank`, `speech` and `transcript`. */
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type Client, families } from "./client.ts";

export const modelOf = (upstream: ConversationDialect): string => `sim-${upstream}`;
export const reasonerOf = (upstream: ConversationDialect, family: Client["family"]): string => `${family}-${upstream}`;
/** A model that answers with some 60 tokens, for two seconds. */
export const slowOf = (upstream: ConversationDialect): string => `slow-${upstream}`;

const upstreamLine = (dialect: ConversationDialect) =>
  `  ${dialect}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/${dialect === "gemini" ? "v1beta" : "v1"}" }`;

const modelLine = (id: string, upstream: ConversationDialect, model: string, more = "") =>
  `  - { id: ${id}, retries: 0, contextWindow: 128000, outputTokensMax: 32000, ${more}prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: ${upstream}, model: "${model};first=0" }] }`;

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
    ...families.map((family) => modelLine(reasonerOf(upstream, family), upstream, "sim-reasoning;rate=0", reasons)),
  ]);
  const upstreams = conversationDialects.map(upstreamLine);
  return `groups: { default: { models: ["*"] } }\nupstreams:\n${upstreams.join("\n")}\nmodels:\n${[...models, ...operationLines].join("\n")}\n`;
}
