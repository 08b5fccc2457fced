/**
 * The common part of the tests of official clients: one gateway whose models use upstreams of each
 * dialect.
 */
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type Gateway, type GatewayOptions, startGateway } from "../support/gateway.ts";

/** Settings of the simulator, by the end of a model's id. */
const variants = {
  text: "rate=0;first=0",
  slow: "rate=20;tokens=400",
  failing: "status=500",
  busy: "status=429;retry-after=1;fail-first=1",
  refusing: "status=400",
  overloaded: "status=503",
  breaking: "error=3;rate=0",
} as const;

export const modelOf = (upstream: ConversationDialect, variant: keyof typeof variants = "text"): string =>
  `${upstream}-${variant}`;

/** The simulator's name of the model. */
const simulated = (upstream: ConversationDialect, variant: keyof typeof variants) =>
  `sim-text;${variants[variant]};cached=${conversationDialects.indexOf(upstream)}`;

export const simulatedModelOf = (upstream: ConversationDialect, variant: keyof typeof variants = "text"): string =>
  simulated(upstream, variant);

export function startClientsGateway({ processes }: Pick<GatewayOptions, "processes"> = {}): Promise<Gateway> {
  const upstreams = [
    ...conversationDialects.map(
      (dialect) =>
        `  ${dialect}: { dialect: ${dialect}, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/${dialect === "gemini" ? "v1beta" : "v1"}" }`,
    ),
    `  cohere: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v2" }`,
    `  images: { dialect: openai-images, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }`,
  ];
  const line = (id: string, upstream: string, model: string, queue = "chat") =>
    `  - { id: "${id}", retries: 0, queue: ${queue}, contextWindow: 128000, outputTokensMax: 8192, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${upstream}, model: "${model}" }] }`;
  const models = [
    line("reasoner", "openai-responses", "sim-reasoning").replace(
      "retries: 0",
      "retries: 0, capabilities: [text, reasoning]",
    ),
    line("gemini-reasoner", "gemini", "sim-reasoning"),
    ...conversationDialects.flatMap((upstream) =>
      (Object.keys(variants) as (keyof typeof variants)[]).map((variant) =>
        line(modelOf(upstream, variant), upstream, simulated(upstream, variant)),
      ),
    ),
    line("picture", "images", "sim-image", "image"),
    line("gemini-picture", "gemini", "sim-image", "image"),
    line("embedding", "openai-chat", "sim-embedding"),
    line("omni-moderation-latest", "openai-chat", "sim-moderation"),
    line("completing", "openai-chat", "sim-text;rate=0;first=0").replace(
      "retries: 0",
      "retries: 0, traits: { completions: true }",
    ),
    line("speaker", "openai-chat", "sim-speech", "audio"),
    line("breaking-speaker", "openai-chat", "sim-speech;reset=3", "audio"),
    line("failing-speaker", "openai-chat", "sim-speech;status=500", "audio"),
    line("transcriber", "openai-chat", "sim-transcript", "audio"),
    line("moderation", "openai-chat", "sim-moderation"),
    line("reranker", "openai-chat", "sim-rerank"),
    line("cohere-reranker", "cohere", "sim-rerank"),
    line("gemini-embedding", "gemini", "sim-embedding"),
  ];
  return startGateway({
    ...(processes && { processes }),
    workers: ["chat=64,image=4,audio=8,background=4"],
    catalogue: `groups: { default: { models: ["*"] } }\nupstreams:\n${upstreams.join("\n")}\nmodels:\n${models.join("\n")}\n`,
    environment: { ATTACHMENT_NETWORKS: "127.0.0.0/8" },
  });
}

export const greeting = "You said: hello there\nThis is the simulator: the same words always get the same answer.";
export const weather = {
  name: "get_weather",
  description: "Says the weather of a city.",
  schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
} as const;
