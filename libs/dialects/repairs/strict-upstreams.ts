/**
 * Fields and betas that known upstreams refuse although their dialect has them, and that only
 * optimise. An upstream's `omits` and `betas` in the catalogue replace these defaults. One vendor's
 * betas mean nothing to another.
 */
import { callIds, reasoningBeside } from "./omitted-fields.ts";

export interface UpstreamRule {
  /** Matches the host of the base URL. */
  host: RegExp;
  name: string;
  /** Paths as in omitted-fields.ts. */
  omits: readonly string[];
  /** The betas that are forwarded: names, or prefixes followed by `*`. Absent for all. */
  betas?: readonly string[];
  /** The public document with the fields that the upstream takes. */
  source: string;
}

/** Members that Anthropic added and that other servers of its format refuse as extra inputs. */
const newerFields = [
  "context_management",
  "cache_control.ttl",
  "cache_control.scope",
  "tools.eager_input_streaming",
  "tools.defer_loading",
  "tools.allowed_callers",
  "tools.input_examples",
  "tools.strict",
  "speed",
  "inference_geo",
  "diagnostics",
  "service_tier",
  "fallbacks",
  "fallback_credit_token",
];
/**
 * Vertex AI matches results with calls by name and order: "Unknown name "id" at
 * 'contents[1].parts[0].function_call'".
 */
export const vertexCallIds = ["functionCall", "functionResponse", "function_call", "function_response"].map(
  (part) => `contents.parts.${part}.id`,
);
const cacheOptions = ["prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "prompt_cache_breakpoint"];

export const upstreamRules: readonly UpstreamRule[] = [
  {
    host: /(?:^|\.)(?:bedrock[\w-]*\.[\w-]+\.(?:vpce\.)?amazonaws\.com|bedrock[\w-]*\.[\w-]+\.api\.aws)$/,
    name: "Amazon Bedrock",
    omits: [
      "cache_control.scope",
      "cache_control",
      "tools.eager_input_streaming",
      "tools.defer_loading",
      "speed",
      "inference_geo",
      "diagnostics",
      "service_tier",
      "fallbacks",
      "fallback_credit_token",
    ],
    betas: [
      "compact-*",
      "computer-use-2025-*",
      "context-1m-*",
      "context-management-*",
      "effort-*",
      "fine-grained-tool-streaming-*",
      "interleaved-thinking-*",
      "tool-search-tool-2025-10-19",
      "thinking-binding-controls-*",
      "thinking-display-updates-*",
      "mid-conversation-output-config-*",
      "mid-conversation-tool-changes-*",
    ],
    source: "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html",
  },
  {
    host: /(?:^|[.-])aiplatform\.googleapis\.com$/,
    name: "Vertex AI",
    omits: [
      "context_management",
      "cache_control.scope",
      "output_format",
      "tools.eager_input_streaming",
      "speed",
      "inference_geo",
      "diagnostics",
      "service_tier",
      ...cacheOptions,
      "safety_identifier",
      "store",
      ...vertexCallIds,
    ],
    betas: [
      "context-1m-*",
      "interleaved-thinking-*",
      "computer-use-*",
      "fine-grained-tool-streaming-*",
      "web-search-*",
    ],
    source: "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude",
  },
  {
    host: /(?:^|\.)(?:moonshot\.(?:ai|cn)|kimi\.(?:com|ai))$/,
    name: "Kimi",
    omits: [...newerFields, "tools.function.strict", "prompt_cache_options", "prompt_cache_breakpoint"],
    betas: [],
    source: "https://platform.moonshot.ai/docs/guide/agent-support",
  },
  {
    host: /(?:^|\.)(?:z\.ai|bigmodel\.cn)$/,
    name: "z.ai",
    omits: [...newerFields, "tools.function.strict", "messages.name", ...cacheOptions],
    betas: [],
    source: "https://docs.z.ai/api-reference/llm/chat-completion",
  },
  {
    host: /(?:^|\.)(?:minimax\.io|minimaxi\.com|minimax\.chat)$/,
    name: "MiniMax",
    omits: [...newerFields, ...cacheOptions],
    betas: [],
    source: "https://platform.minimax.io/docs/api-reference/text-anthropic-api",
  },
  {
    host: /(?:^|\.)deepseek\.com$/,
    name: "DeepSeek",
    omits: [...newerFields, "metadata.user_id", "tools.type=custom"],
    betas: [],
    source: "https://api-docs.deepseek.com/guides/anthropic_api",
  },
  {
    host: /(?:^|\.)groq\.com$/,
    name: "Groq",
    omits: [...cacheOptions, "verbosity", "messages.name"],
    source: "https://console.groq.com/docs/openai",
  },
  {
    host: /(?:^|\.)cerebras\.ai$/,
    name: "Cerebras",
    omits: [...cacheOptions, "verbosity"],
    source: "https://inference-docs.cerebras.ai/api-reference/chat-completions",
  },
  {
    host: /(?:^|\.)generativelanguage\.googleapis\.com$/,
    name: "Google AI Studio",
    omits: [...cacheOptions, "safety_identifier", "store"],
    source: "https://ai.google.dev/gemini-api/docs/openai",
  },
  {
    host: /(?:^|\.)mistral\.ai$/,
    name: "Mistral",
    omits: [
      "user",
      "seed",
      "store",
      "service_tier",
      "safety_identifier",
      "verbosity",
      "prompt_cache_options",
      "prompt_cache_retention",
      "prompt_cache_breakpoint",
      "messages.name",
      reasoningBeside,
      callIds.nine,
    ],
    source: "https://docs.mistral.ai/api",
  },
  {
    host: /(?:^|\.)api\.nvidia\.com$/,
    name: "NVIDIA",
    omits: cacheOptions,
    source: "https://docs.api.nvidia.com/nim/reference/llm-apis",
  },
  {
    host: /(?:^|\.)x\.ai$/,
    name: "xAI",
    omits: ["messages.name", "tools.function.strict", "prompt_cache_options", "prompt_cache_breakpoint"],
    source: "https://docs.x.ai/docs/api-reference",
  },
];

/** The fields that the upstream at this address refuses; none for an unknown upstream. */
export function strictnessOf(baseUrl: string): { omits: string[]; betas: string[] } {
  const host = URL.parse(baseUrl)?.hostname ?? "";
  const rule = upstreamRules.find((one) => one.host.test(host));
  return { omits: [...(rule?.omits ?? [])], betas: [...(rule?.betas ?? ["*"])] };
}
