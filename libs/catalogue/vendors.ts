/**
 * Vendors and servers of models, as operators pick them when they add an upstream: the settings to
 * begin with. Quirks of their APIs that hold by the host are in
 * libs/dialects/repairs/strict-upstreams.ts, and those by the model's name in
 * libs/dialects/neutral/model-traits.ts. docs/examples has whole catalogues.
 */
import type { UpstreamDialect } from "#dialects/dialect.ts";

/** A part of the address that differs for each customer: `{name}` in `baseUrl`. */
interface Placeholder {
  readonly name: string;
  readonly label: string;
  readonly example: string;
}

export interface Vendor {
  readonly id: string;
  readonly name: string;
  readonly kind: "hosted" | "self-hosted" | "other";
  /** Settings of the upstream. */
  readonly upstream: {
    readonly dialect: UpstreamDialect;
    readonly alsoSpeaks?: readonly UpstreamDialect[];
    readonly baseUrl: string;
    readonly authentication?: "api-key" | "google" | "aws";
    readonly fetchesAttachments?: boolean;
    readonly countsTokens?: boolean;
    readonly tokenLimitField?: "max_tokens";
    readonly timeouts?: Readonly<Record<string, number>>;
    readonly region?: string;
  };
  readonly placeholders?: readonly Placeholder[];
  readonly credential: "needed" | "optional" | "none";
  /** The page where its customers make a credential. */
  readonly keysUrl?: string;
  /** For the operator: one or two sentences. */
  readonly note?: string;
}

/** Reasoning models think for minutes before they say a word. */
const patient = {
  firstByteTimeoutMs: 120_000,
  firstTokenTimeoutMs: 300_000,
  firstContentTimeoutMs: 300_000,
  betweenTokensTimeoutMs: 120_000,
};
/** The first call loads the model. */
const loading = { firstTokenTimeoutMs: 300_000 };
const chat = "openai-chat";
const responses = "openai-responses";
const messages = "anthropic-messages";
const local = "In a container, 127.0.0.1 is the container itself: use the name or address of the server.";

const hosted = (keysUrl: string) => ({ kind: "hosted", credential: "needed", keysUrl }) as const;
const selfHosted = (example: string) =>
  ({
    kind: "self-hosted",
    placeholders: [{ name: "host", label: "Host and port", example }],
    credential: "optional",
  }) as const;

export const vendors: readonly Vendor[] = [
  {
    id: "openai",
    name: "OpenAI",
    upstream: {
      dialect: responses,
      alsoSpeaks: [chat, "openai-images"],
      baseUrl: "https://api.openai.com/v1",
      fetchesAttachments: true,
      timeouts: patient,
    },
    ...hosted("https://platform.openai.com/api-keys"),
  },
  {
    id: "azure",
    name: "Azure OpenAI",
    upstream: {
      dialect: responses,
      alsoSpeaks: [chat],
      baseUrl: "https://{resource}.openai.azure.com/openai/v1",
      authentication: "api-key",
      timeouts: patient,
    },
    placeholders: [{ name: "resource", label: "Resource", example: "my-resource" }],
    ...hosted("https://portal.azure.com"),
    note: "A target's model is the name of your deployment. The list of models has the base models, not your deployments.",
  },
  {
    id: "anthropic",
    name: "Anthropic",
    upstream: {
      dialect: messages,
      baseUrl: "https://api.anthropic.com/v1",
      fetchesAttachments: true,
      timeouts: patient,
    },
    ...hosted("https://platform.claude.com/settings/keys"),
  },
  {
    id: "google",
    name: "Google AI Studio",
    upstream: {
      dialect: "gemini",
      baseUrl: "https://generativelanguage.googleapis.com/v1beta",
      timeouts: patient,
    },
    ...hosted("https://aistudio.google.com/api-keys"),
  },
  {
    id: "vertex",
    name: "Google Vertex AI",
    kind: "hosted",
    upstream: {
      dialect: "gemini",
      baseUrl: "https://aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/publishers/google",
      authentication: "google",
      timeouts: patient,
    },
    placeholders: [
      { name: "project", label: "Project", example: "my-project" },
      { name: "location", label: "Location", example: "global" },
    ],
    credential: "optional",
    keysUrl: "https://console.cloud.google.com/iam-admin/serviceaccounts",
    note: "The credential is the JSON key of a service account. Without one, that of the worker's environment is used. A location other than global has its own host: <location>-aiplatform.googleapis.com.",
  },
  {
    id: "bedrock",
    name: "Amazon Bedrock",
    kind: "hosted",
    upstream: {
      dialect: messages,
      baseUrl: "https://bedrock-mantle.{region}.api.aws/anthropic/v1",
      authentication: "aws",
      region: "{region}",
      countsTokens: false,
      timeouts: patient,
    },
    placeholders: [{ name: "region", label: "Region", example: "us-east-1" }],
    credential: "none",
    note: "Anthropic's models. Workers sign requests with the AWS credentials of their environment. Other models are below /v1 or /openai/v1 of the host, in the dialect openai-chat.",
  },
  {
    id: "openrouter",
    name: "OpenRouter",
    upstream: { dialect: chat, alsoSpeaks: [responses, messages], baseUrl: "https://openrouter.ai/api/v1" },
    ...hosted("https://openrouter.ai/settings/keys"),
    note: "Its list of models is public, so reading it does not prove the credential: test a model.",
  },
  {
    id: "groq",
    name: "Groq",
    upstream: { dialect: chat, alsoSpeaks: [responses], baseUrl: "https://api.groq.com/openai/v1" },
    ...hosted("https://console.groq.com/keys"),
  },
  {
    id: "deepseek",
    name: "DeepSeek",
    upstream: { dialect: chat, baseUrl: "https://api.deepseek.com" },
    ...hosted("https://platform.deepseek.com/api_keys"),
    note: "Prices differ by the time of day. Its Anthropic dialect has another address: https://api.deepseek.com/anthropic/v1.",
  },
  {
    id: "mistral",
    name: "Mistral",
    upstream: { dialect: chat, baseUrl: "https://api.mistral.ai/v1" },
    ...hosted("https://console.mistral.ai/api-keys"),
    note: "Its list lacks some models that answer; a 403 means that your plan does not include the model.",
  },
  {
    id: "xai",
    name: "xAI",
    upstream: { dialect: responses, alsoSpeaks: [chat], baseUrl: "https://api.x.ai/v1", timeouts: patient },
    ...hosted("https://console.x.ai"),
  },
  {
    id: "together",
    name: "Together",
    upstream: { dialect: chat, baseUrl: "https://api.together.ai/v1" },
    ...hosted("https://api.together.ai/settings/api-keys"),
  },
  {
    id: "fireworks",
    name: "Fireworks",
    upstream: { dialect: chat, alsoSpeaks: [responses, messages], baseUrl: "https://api.fireworks.ai/inference/v1" },
    ...hosted("https://app.fireworks.ai/settings/users/api-keys"),
    note: "Names of models begin with accounts/fireworks/models/.",
  },
  {
    id: "moonshot",
    name: "Moonshot (Kimi)",
    upstream: { dialect: chat, baseUrl: "https://api.moonshot.ai/v1" },
    ...hosted("https://platform.moonshot.ai/console/api-keys"),
    note: "In China: https://api.moonshot.cn/v1.",
  },
  {
    id: "zai",
    name: "z.ai (GLM)",
    upstream: { dialect: chat, baseUrl: "https://api.z.ai/api/paas/v4" },
    ...hosted("https://z.ai/manage-apikey/apikey-list"),
    note: "In China: https://open.bigmodel.cn/api/paas/v4. The coding plan: https://api.z.ai/api/coding/paas/v4.",
  },
  {
    id: "minimax",
    name: "MiniMax",
    upstream: { dialect: chat, alsoSpeaks: [responses], baseUrl: "https://api.minimax.io/v1" },
    ...hosted("https://platform.minimax.io/user-center/basic-information/interface-key"),
  },
  {
    id: "alibaba",
    name: "Alibaba (Qwen)",
    upstream: { dialect: chat, baseUrl: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1" },
    ...hosted("https://modelstudio.console.alibabacloud.com"),
    note: "A key belongs to one region: with the address of another one it is refused.",
  },
  {
    id: "cerebras",
    name: "Cerebras",
    upstream: { dialect: chat, baseUrl: "https://api.cerebras.ai/v1" },
    ...hosted("https://cloud.cerebras.ai"),
  },
  {
    id: "cohere",
    name: "Cohere",
    upstream: { dialect: chat, baseUrl: "https://api.cohere.ai/compatibility/v1" },
    ...hosted("https://dashboard.cohere.com/api-keys"),
  },
  {
    id: "vllm",
    name: "vLLM",
    upstream: { dialect: chat, alsoSpeaks: [responses, messages], baseUrl: "http://{host}/v1" },
    ...selfHosted("127.0.0.1:8000"),
    note: local,
  },
  {
    id: "sglang",
    name: "SGLang",
    upstream: { dialect: chat, alsoSpeaks: [messages], baseUrl: "http://{host}/v1" },
    ...selfHosted("127.0.0.1:30000"),
    note: local,
  },
  {
    id: "ollama",
    name: "Ollama",
    upstream: {
      dialect: chat,
      alsoSpeaks: [responses, messages],
      baseUrl: "http://{host}/v1",
      countsTokens: false,
      timeouts: loading,
    },
    ...selfHosted("127.0.0.1:11434"),
    note: `${local} The context that it runs with can be far below the model's.`,
  },
  {
    id: "llama-cpp",
    name: "llama.cpp",
    upstream: {
      dialect: chat,
      alsoSpeaks: [messages],
      baseUrl: "http://{host}/v1",
      tokenLimitField: "max_tokens",
      timeouts: loading,
    },
    ...selfHosted("127.0.0.1:8080"),
    note: local,
  },
  {
    id: "lm-studio",
    name: "LM Studio",
    upstream: {
      dialect: chat,
      alsoSpeaks: [responses, messages],
      baseUrl: "http://{host}/v1",
      countsTokens: false,
      timeouts: loading,
    },
    ...selfHosted("127.0.0.1:1234"),
    note: `${local} The first call of a model loads it.`,
  },
  {
    id: "compatible",
    name: "Another server",
    kind: "other",
    upstream: { dialect: chat, baseUrl: "{url}", tokenLimitField: "max_tokens" },
    placeholders: [{ name: "url", label: "Base URL", example: "https://models.example.com/v1" }],
    credential: "optional",
    note: "The address up to the path before /chat/completions.",
  },
];
