/**
 * The catalogue of a chaos run: models by pace, with upstreams of every dialect of conversations.
 */
import { conversationDialects } from "#dialects/dialect.ts";

/** Tokens and pace of the answers. */
const models = {
  /** At once. */
  fast: { upstream: "openai-chat", model: "sim-text;rate=0;first=0;tokens=40" },
  /** About two seconds, from an upstream of each dialect. */
  ...Object.fromEntries(
    conversationDialects.map((dialect) => [
      `paced-${dialect}`,
      { upstream: dialect, model: "sim-text;rate=40;first=50;tokens=80" },
    ]),
  ),
  /** Six seconds. */
  long: { upstream: "openai-chat", model: "sim-text;rate=25;first=50;tokens=150" },
  /** Six seconds; another worker goes on with it. */
  resumed: {
    upstream: "openai-chat",
    model: "sim-text;rate=25;first=50;tokens=150",
    more: "resume: true, deterministic: true, ",
  },
  /** More than buffers on the way hold. */
  large: { upstream: "openai-chat", model: "sim-text;rate=0;first=0;tokens=3000;size=256" },
  /** Completions, speech and other operations. */
  anything: { upstream: "openai-chat", model: "sim-text;rate=0;first=0", more: "traits: { completions: true }, " },
  picture: {
    upstream: "openai-chat",
    model: "sim-image;rate=0;first=400;image-bytes=100000",
    more: "queue: image, capabilities: [image], ",
  },
} as Record<string, { upstream: string; model: string; more?: string }>;

/** The settings of a model's answers, as the simulator has them in a model's name. */
export const simulatedModelOf = (model: string): string => (models[model] as { model: string }).model;

/** `version` changes something that no caller sees. */
export const catalogueText = (version: number): string => `groups: { default: { models: ["*"] } }
queues:
  chat: { waitingMax: 10000, waitMs: ${120_000 + version} }
  image: { waitingMax: 10000, waitMs: 600000 }
upstreams:
${conversationDialects.map((dialect) => `  ${dialect}: { dialect: ${dialect}, ${dialect === "openai-chat" ? "alsoSpeaks: [openai-images], " : ""}baseUrl: "\${SIMULATOR_URL}/${dialect === "gemini" ? "v1beta" : "v1"}" }`).join("\n")}
models:
${Object.entries(models)
  .map(
    ([id, { upstream, model, more = "" }]) =>
      `  - { id: ${id}, ${more}prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${upstream}, model: "${model}" }] }`,
  )
  .join("\n")}
`;
