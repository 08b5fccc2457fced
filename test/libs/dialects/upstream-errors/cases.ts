/**
 * Error bodies of real upstreams, and what each of them means. `source` is where a body was
 * published; identifiers of accounts and keys in them are replaced by made-up ones of the same
 * form. `partial` marks those where only a part, usually the message, was published there: the
 * rest, usually the object around it, has the vendor's usual form.
 */
import type { Failure, OperatorFault } from "#dialects/errors.ts";

export interface UpstreamErrorCase {
  upstream: string;
  status: number;
  body: unknown;
  source: string;
  partial?: true;
  /** Parts of it that a caller must not see. */
  hidden?: RegExp;
}

const issue = (repository: string, number: number) => `https://github.com/${repository}/issues/${number}`;

/**
 * The prompt, alone or with the output that was asked for, does not fit into the model's context
 * window.
 */
export const tooLong: UpstreamErrorCase[] = [
  {
    upstream: "OpenAI chat",
    status: 400,
    source: issue("crewAIInc/crewAI", 701),
    body: {
      error: {
        message:
          "This model's maximum context length is 4096 tokens. However, your messages resulted in 4777 tokens. Please reduce the length of the messages.",
        type: "invalid_request_error",
        param: "messages",
        code: "context_length_exceeded",
      },
    },
  },
  {
    upstream: "OpenAI, without a code",
    status: 400,
    source: issue("lm-sys/RouteLLM", 34),
    body: {
      error: {
        message:
          "This model's maximum context length is 8192 tokens, however you requested 8977 tokens (8977 in your prompt; 0 for the completion). Please reduce your prompt; or completion length.",
        type: "invalid_request_error",
        param: null,
        code: null,
      },
    },
  },
  {
    upstream: "OpenAI responses, in a stream",
    status: 400,
    source: issue("dyad-sh/dyad", 1672),
    body: {
      type: "error",
      sequence_number: 2,
      error: {
        type: "invalid_request_error",
        code: "context_length_exceeded",
        message: "Your input exceeds the context window of this model. Please adjust your input and try again.",
        param: "input",
      },
    },
  },
  {
    upstream: "OpenAI behind a proxy that keeps the message only",
    status: 400,
    source: issue("james-6-23/codex2api", 415),
    partial: true,
    body: { message: "Your input exceeds the context window of this model. Please adjust your input and try again." },
  },
  {
    upstream: "Azure OpenAI",
    status: 400,
    source: issue("BerriAI/litellm", 15968),
    partial: true,
    body: {
      error: {
        message:
          "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages.",
        type: "invalid_request_error",
        param: "messages",
      },
    },
  },
  {
    upstream: "Anthropic",
    status: 400,
    source: issue("earendil-works/pi", 102),
    body: {
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 219898 tokens > 200000 maximum" },
      request_id: "req_011CVjxiYzEFcAQC4Fk87zw2",
    },
  },
  {
    upstream: "Anthropic, with the output",
    status: 400,
    source: issue("continuedev/continue", 8454),
    body: {
      type: "error",
      error: {
        type: "invalid_request_error",
        message:
          "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease input length or `max_tokens` and try again",
      },
      request_id: "req_011CUWu7a8bGeMSvA9d7DRLa",
    },
  },
  {
    upstream: "Bedrock",
    status: 400,
    source: issue("aws-samples/assessment-generator", 2),
    partial: true,
    body: { message: "Input is too long for requested model." },
  },
  {
    upstream: "Bedrock, a model's own words",
    status: 400,
    source: "https://github.com/aaif-goose/goose/pull/7504",
    partial: true,
    body: { message: "The model returned the following errors: prompt is too long: 227255 tokens > 200000 maximum" },
  },
  {
    upstream: "Google AI Studio",
    status: 400,
    source: issue("logancyang/obsidian-copilot", 2094),
    body: {
      error: {
        code: 400,
        message: "The input token count (9727975) exceeds the maximum number of tokens allowed (1048576).",
        status: "INVALID_ARGUMENT",
      },
    },
  },
  {
    upstream: "Google AI Studio, without the count",
    status: 400,
    source: issue("BerriAI/litellm", 18282),
    partial: true,
    body: {
      error: {
        code: 400,
        message: "The input token count exceeds the maximum number of tokens allowed (1048576).",
        status: "INVALID_ARGUMENT",
      },
    },
  },
  {
    upstream: "Google Cloud, in a list",
    status: 400,
    source: issue("google-gemini/gemini-cli", 6678),
    body: [
      {
        error: {
          code: 400,
          message: "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
          errors: [
            {
              message: "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
              domain: "global",
              reason: "badRequest",
            },
          ],
          status: "INVALID_ARGUMENT",
        },
      },
    ],
  },
  {
    upstream: "vLLM, old",
    status: 400,
    source: issue("vllm-project/vllm", 20409),
    body: {
      object: "error",
      message:
        "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the messages, 10000 in the completion). Please reduce the length of the messages or completion. None",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  },
  {
    upstream: "vLLM 0.16",
    status: 400,
    source: "https://github.com/vllm-project/vllm/pull/33425",
    body: {
      error: {
        message:
          "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 'max_tokens'. Please reduce one or the other. (parameter=input_tokens, max_tokens, value=(8, 2045))",
        type: "BadRequestError",
        param: "input_tokens, max_tokens",
        code: 400,
      },
    },
  },
  {
    upstream: "vLLM, new",
    status: 400,
    source: "https://github.com/vllm-project/vllm/pull/36197 rewords it; the text is from logs of its users",
    partial: true,
    body: {
      error: {
        message:
          "This model's maximum context length is 40960 tokens. However, you requested 0 output tokens and your prompt contains at least 40961 input tokens, for a total of at least 40961 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=40961)",
        type: "BadRequestError",
        param: "input_tokens",
        code: 400,
      },
    },
  },
  {
    upstream: "vLLM, its engine's words",
    status: 400,
    source: issue("xorbitsai/inference", 3785),
    partial: true,
    body: {
      object: "error",
      message: "The decoder prompt (length 17772) is longer than the maximum model length of 16384.",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  },
  {
    upstream: "vLLM, with pictures",
    status: 400,
    source: issue("vllm-project/vllm", 12165),
    partial: true,
    body: {
      object: "error",
      message:
        "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  },
  {
    upstream: "SGLang",
    status: 400,
    source: "https://github.com/anomalyco/opencode/pull/25230",
    partial: true,
    body: {
      object: "error",
      message:
        "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of 202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
      type: "BadRequest",
      param: null,
      code: 400,
    },
  },
  {
    upstream: "SGLang, the input alone",
    status: 400,
    source: "https://github.com/sgl-project/sglang, python/sglang/srt/managers/tokenizer_manager.py",
    partial: true,
    body: {
      object: "error",
      message: "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  },
  {
    upstream: "Text Generation Inference",
    status: 422,
    source:
      "https://github.com/huggingface/text-generation-inference, router/src/validation.rs and router/src/server.rs; wording as in stanford-crfm/helm#2079",
    body: {
      error:
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2019 `inputs` tokens and 30 `max_new_tokens`",
      error_type: "validation",
    },
  },
  {
    upstream: "Text Generation Inference, the input alone",
    status: 422,
    source:
      "https://github.com/huggingface/text-generation-inference, router/src/validation.rs and router/src/server.rs",
    body: {
      error: "Input validation error: `inputs` must have less than 1024 tokens. Given: 4099",
      error_type: "validation",
    },
  },
  {
    upstream: "llama.cpp, first with a type",
    status: 500,
    source: "https://github.com/ggml-org/llama.cpp/pull/15780",
    body: {
      error: {
        code: 500,
        message:
          "the request exceeds the available context size. try increasing the context size or enable context shift",
        type: "exceed_context_size_error",
        n_prompt_tokens: 1407,
        n_ctx: 256,
      },
    },
  },
  {
    upstream: "llama.cpp",
    status: 400,
    source: issue("oobabooga/textgen", 7257),
    body: {
      error: {
        code: 400,
        message:
          "the request exceeds the available context size. try increasing the context size or enable context shift",
        type: "exceed_context_size_error",
        n_prompt_tokens: 14429,
        n_ctx: 8192,
      },
    },
  },
  {
    upstream: "llama.cpp behind a gateway that puts its body into `detail`",
    status: 400,
    source:
      "no thread found: the message as public clients of llama.cpp quote it, wrapped as a FastAPI gateway does it",
    partial: true,
    body: {
      detail: JSON.stringify({
        error: {
          code: 400,
          message: "request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it",
          type: "other",
        },
      }),
    },
  },
  {
    upstream: "llama-cpp-python",
    status: 400,
    source: issue("abetlen/llama-cpp-python", 416),
    partial: true,
    body: {
      error: {
        message: "Requested tokens (2085) exceed context window of 2048",
        type: "internal_server_error",
        param: null,
        code: null,
      },
    },
  },
  {
    upstream: "ds4",
    status: 400,
    source: "https://github.com/antirez/ds4/pull/150",
    body: {
      error: {
        message: "Prompt tokens (9000) exceeds context size (8192)",
        type: "context_exceeded",
        n_prompt_tokens: 9000,
        n_ctx: 8192,
      },
    },
  },
  {
    upstream: "Ollama",
    status: 400,
    source: "https://github.com/ollama/ollama, llm/llama_server.go at fb3076099",
    body: {
      error: {
        message:
          "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the context length in settings, or use a model with a longer context length",
        type: "invalid_request_error",
        param: null,
        code: null,
      },
    },
  },
  {
    upstream: "Ollama, its native error",
    status: 400,
    source: "https://github.com/ollama/ollama, llm/llama_server.go at fb3076099",
    body: { error: "the input length exceeds the context length" },
  },
  {
    upstream: "LM Studio, old",
    status: 400,
    source: issue("lmstudio-ai/lmstudio-bug-tracker", 546),
    partial: true,
    body: {
      error:
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input",
    },
  },
  {
    upstream: "LM Studio",
    status: 400,
    source: issue("anomalyco/opencode", 11141),
    partial: true,
    body: { error: "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)" },
  },
  {
    upstream: "OpenRouter",
    status: 400,
    source: issue("topoteretes/cognee", 1061),
    body: {
      error: {
        message:
          'This endpoint\'s maximum context length is 16384 tokens. However, you requested about 94307 tokens (94307 of text input). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.',
        code: 400,
        metadata: { provider_name: null },
      },
    },
  },
  {
    upstream: "OpenRouter, the provider's words",
    status: 400,
    source: issue("cline/cline", 13194),
    body: {
      error: {
        message: "Provider returned error",
        code: 400,
        metadata: {
          raw: '{"error":{"message":"This model\'s maximum context length is 262144 tokens. However, your messages resulted in 262897 tokens. Please reduce the length of the messages.","type":"Bad Request","code":400}}',
          provider_name: "Nvidia",
          is_byok: false,
          provider_error_code: "400",
        },
      },
    },
  },
  {
    upstream: "OpenRouter behind a router that quotes it",
    status: 400,
    source: issue("musistudio/claude-code-router", 252),
    body: {
      error: {
        message:
          'Error from provider: {"error":{"message":"This endpoint\'s maximum context length is 65536 tokens. However, you requested about 92208 tokens (60833 of text input, 10042 of tool input, 21333 in the output). Please reduce the length of either one, or use the \\"middle-out\\" transform to compress your prompt automatically.","code":400,"metadata":{"provider_name":null}}}',
        type: "api_error",
        code: "provider_response_error",
      },
    },
  },
  {
    upstream: "DeepSeek",
    status: 400,
    source: issue("netease-youdao/LobsterAI", 60),
    body: {
      error: {
        message:
          "This model's maximum context length is 131072 tokens. However, you requested 141403 tokens (133211 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
        type: "invalid_request_error",
        param: null,
        code: "invalid_request_error",
      },
    },
  },
  {
    upstream: "Mistral",
    status: 400,
    source: "https://github.com/earendil-works/pi, packages/ai/src/utils/overflow.ts",
    partial: true,
    body: {
      object: "error",
      message: "Prompt contains 300000 tokens, too large for model with 131072 maximum context length",
      type: "invalid_request_error",
      param: null,
      code: "3051",
    },
  },
  {
    upstream: "Groq",
    status: 400,
    source: issue("thepersonalaicompany/amurex-backend", 51),
    body: {
      error: {
        message: "Please reduce the length of the messages or completion.",
        type: "invalid_request_error",
        param: "messages",
        code: "context_length_exceeded",
      },
    },
  },
  {
    upstream: "Together",
    status: 422,
    source: "https://github.com/stanford-crfm/helm/pull/2079",
    partial: true,
    body: {
      error: {
        message:
          "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2019 `inputs` tokens and 30 `max_new_tokens`",
        type: "invalid_request_error",
        param: null,
        code: null,
      },
    },
  },
  {
    upstream: "Fireworks",
    status: 400,
    source: issue("fw-ai/cookbook", 134),
    body: {
      error: {
        object: "error",
        type: "invalid_request_error",
        code: "invalid_request_error",
        message: "The prompt is too long: 40177, model maximum context length: 32767",
      },
    },
  },
  {
    upstream: "xAI",
    status: 400,
    source: issue("cline/cline", 3120),
    partial: true,
    body: {
      code: "Client specified an invalid argument",
      error: "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
    },
  },
  {
    upstream: "Cohere",
    status: 400,
    source: issue("cohere-ai/sandbox-topically", 4),
    partial: true,
    body: {
      message:
        "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try using a shorter prompt or a smaller max_tokens value.",
    },
  },
  {
    upstream: "Cerebras",
    status: 400,
    source: issue("cline/cline", 5140),
    partial: true,
    body: {
      message: "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000",
      type: "invalid_request_error",
    },
  },
  {
    upstream: "LiteLLM, around Anthropic",
    status: 400,
    source: issue("BrokkAi/brokk-app", 540),
    hidden: /Received Model Group|claude-sonnet-4-20250514/,
    body: {
      error: {
        message:
          'litellm.BadRequestError: AnthropicException - b\'{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 179413 + 32768 > 200000, decrease input length or `max_tokens` and try again"}}\'. Received Model Group=anthropic/claude-sonnet-4-20250514\nAvailable Model Group Fallbacks=None',
        type: null,
        param: null,
        code: "400",
      },
    },
  },
  {
    upstream: "LiteLLM, after its own fallback",
    status: 400,
    source: issue("OpenHands/OpenHands", 5350),
    hidden: /Received Model Group|claude-3-5-sonnet/,
    body: {
      error: {
        message:
          'litellm.BadRequestError: litellm.ContextWindowExceededError: AnthropicError - {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 209303 tokens > 200000 maximum"}}\nReceived Model Group=anthropic/claude-3-5-sonnet-20241022\nAvailable Model Group Fallbacks=None',
        type: null,
        param: null,
        code: "400",
      },
    },
  },
  {
    upstream: "mlx-serve",
    status: 400,
    source: issue("ddalcu/mlx-serve", 66),
    partial: true,
    body: { error: { message: "Prompt exceeds maximum context length", type: "invalid_request_error" } },
  },
];

/**
 * The output that was asked for is at fault, or something else is too long: no larger context
 * window would help.
 */
export const notTooLong: UpstreamErrorCase[] = [
  {
    upstream: "OpenAI",
    status: 400,
    source: issue("algorithmicsuperintelligence/optillm", 4),
    body: {
      error: {
        message:
          "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.",
        type: "invalid_request_error",
        param: "max_tokens",
        code: null,
      },
    },
  },
  {
    upstream: "Groq",
    status: 400,
    source: `${issue("anomalyco/opencode", 1000)}, its title; the second half is not in the thread`,
    partial: true,
    body: {
      error: {
        message:
          "`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens` is less than the `context_window` for this model",
        type: "invalid_request_error",
      },
    },
  },
  {
    upstream: "Groq, old",
    status: 400,
    source: issue("skapadia3214/groq-moa", 8),
    body: {
      error: {
        message: "max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000",
        type: "invalid_request_error",
      },
    },
  },
  {
    upstream: "Bedrock",
    status: 400,
    source: issue("charmbracelet/crush", 946),
    body: { message: "The maximum tokens you requested exceeds the model limit of 32768" },
  },
  {
    upstream: "Ollama Cloud",
    status: 400,
    source: issue("DaviRain-Su/hyper-grok-build", 44),
    partial: true,
    body: {
      error: {
        message: "max_tokens (384000) exceeds model's maximum output tokens (65536) for model deepseek-v4-flash:0731",
        type: "invalid_request_error",
      },
    },
  },
  {
    upstream: "vLLM, old",
    status: 400,
    source: issue("vllm-project/vllm", 4667),
    body: {
      object: "error",
      message: "max_tokens must be at least 1, got -186.",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  },
  {
    upstream: "Text Generation Inference",
    status: 422,
    source: "https://github.com/huggingface/text-generation-inference, router/src/validation.rs",
    body: { error: "Input validation error: `max_new_tokens` must be <= 512. Given: 4096", error_type: "validation" },
  },
  {
    upstream: "a caller's words, quoted",
    status: 400,
    source: "made up, in the form of OpenAI's message",
    body: {
      error: {
        message: "Invalid value: 'Your credit balance is too low'. Supported values are: 'system', 'user'.",
        type: "invalid_request_error",
        param: "messages[0].role",
        code: "invalid_value",
      },
    },
  },
  {
    upstream: "a caller's JSON, quoted",
    status: 400,
    source: "made up, in the form of pydantic's message",
    body: {
      error: {
        message:
          'Input should be a valid string, input_value={"error":{"code":"invalid_api_key","type":"insufficient_quota","message":"Incorrect API key provided"}}',
        type: "BadRequestError",
        param: null,
        code: 400,
      },
    },
  },
  {
    upstream: "a caller's JSON, as the key that a Python server misses",
    status: 400,
    source: "made up, in the form of Python's exceptions",
    body: {
      object: "error",
      message: `KeyError: '{"error":{"code":"invalid_api_key"}}'`,
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  },
  {
    upstream: "a caller's words, as the value that a Python server does not take",
    status: 400,
    source: "made up, in the form of Python's exceptions",
    body: {
      object: "error",
      message: "ValueError: Incorrect API key provided",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  },
];

const trouble: Record<OperatorFault, UpstreamErrorCase[]> = { credential: [], quota: [], model: [], unclear: [] };

trouble.quota.push(
  {
    upstream: "Zhipu, without a balance",
    status: 429,
    source: issue("zai-org/GLM-5", 148),
    body: { error: { code: "1113", message: "Insufficient balance or no resource package. Please recharge." } },
  },
  {
    upstream: "Zhipu, without a balance, in Chinese",
    status: 429,
    source: issue("continuedev/continue", 11823),
    partial: true,
    body: { error: { code: "1113", message: "余额不足或无可用资源包,请充值。" } },
  },
  {
    upstream: "Zhipu's Messages, without a balance",
    status: 429,
    source: issue("zai-org/feedback", 789),
    body: {
      type: "error",
      error: {
        type: "rate_limit_error",
        code: "1113",
        message:
          "[1113][Insufficient balance or no resource package. Please recharge.][20260922232915e8288c66f9ff4aaa]",
      },
      request_id: "20260922232915e8288c66f9ff4aaa",
    },
  },
  {
    upstream: "Zhipu, a plan whose five hours are used up",
    status: 429,
    source: "no thread found: the body as public clients of Zhipu quote it",
    body: {
      error: {
        code: "1308",
        message: "Usage limit reached for 5 hour. Your limit will reset at 2026-04-09 15:13:03",
      },
      request_id: "abc",
    },
  },
  {
    upstream: "Zhipu, a plan whose week is used up",
    status: 429,
    source: "no thread found: the body as public clients of Zhipu quote it",
    body: {
      error: {
        code: "1310",
        message: "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-08-27 12:05:49",
      },
    },
  },
  {
    upstream: "MiniMax",
    status: 500,
    source: issue("MiniMax-AI/MiniMax-M2", 62),
    body: {
      type: "error",
      error: { type: "api_error", message: "insufficient balance (1008)" },
      request_id: "05997465cd2ee4bd50b24b216c911b75",
    },
  },
  {
    upstream: "Ollama, a week",
    status: 429,
    source: "https://github.com/NousResearch/hermes-agent/pull/68832",
    hidden: /seppe/,
    body: {
      error:
        "you (seppe) have reached your weekly usage limit, upgrade for higher limits: https://ollama.com/upgrade or add extra usage: https://ollama.com/settings (ref: 8f5ae506)",
    },
  },
  {
    upstream: "Ollama, an hour",
    status: 429,
    source: issue("continuedev/continue", 9233),
    partial: true,
    body: { error: "you've reached your hourly usage limit, please wait or upgrade to continue" },
  },
  {
    upstream: "Volcengine, five hours of a plan",
    status: 429,
    source: "https://github.com/openclaw/openclaw/pull/58458",
    partial: true,
    body: { error: { message: "You have exceeded the 5-hour usage quota.", type: "TooManyRequests" } },
  },
  {
    upstream: "OpenAI, a subscription",
    status: 429,
    source: issue("router-for-me/CLIProxyAPI", 1666),
    body: {
      error: {
        type: "usage_limit_reached",
        message: "The usage limit has been reached",
        plan_type: "free",
        resets_at: 1_772_180_859,
        resets_in_seconds: 529_498,
      },
    },
  },
  {
    upstream: "a gateway to subscriptions",
    status: 403,
    source: "https://github.com/Wei-Shaw/sub2api/pull/2213",
    body: { error: { message: "usage limit reached", type: "forbidden_error" } },
  },
  {
    upstream: "OpenRouter, free models",
    status: 429,
    source: issue("Gitlawb/openclaude", 936),
    body: {
      error: {
        message: "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day",
        code: 429,
        metadata: {
          headers: { "X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1746489600000" },
          provider_name: null,
        },
      },
    },
  },
  {
    upstream: "Groq, over its spend limit",
    status: 400,
    source: "https://console.groq.com/docs/spend-limits",
    partial: true,
    body: { error: { message: "API access is blocked.", type: "invalid_request_error", code: "blocked_api_access" } },
  },
  {
    upstream: "Anthropic, out of credit",
    status: 400,
    source: issue("anthropics/claude-code", 66314),
    body: {
      type: "error",
      error: {
        type: "invalid_request_error",
        message:
          "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
      },
      request_id: "req_011CbrFTcXhtiMzr3s6EocF7",
    },
  },
  {
    upstream: "Anthropic, at the limit that its customer set",
    status: 400,
    source: issue("anthropics/claude-code", 38035),
    body: {
      type: "error",
      error: {
        type: "invalid_request_error",
        message: "You have reached your specified API usage limits. You will regain access on 2026-04-01 at 00:00 UTC.",
      },
      request_id: "req_011CZLrUfBVkVHn5T6EqQaf7",
    },
  },
  {
    upstream: "OpenAI, without quota",
    status: 429,
    source: issue("openai/openai-cookbook", 844),
    body: {
      error: {
        message: "You exceeded your current quota, please check your plan and billing details.",
        type: "insufficient_quota",
        param: null,
        code: "insufficient_quota",
      },
    },
  },
  {
    upstream: "OpenAI, billing",
    status: 429,
    source: issue("lifan0127/ai-research-assistant", 174),
    body: {
      error: {
        message: "Your account is not active, please check your billing details on our website.",
        type: "billing_not_active",
        param: null,
        code: "billing_not_active",
      },
    },
  },
  {
    upstream: "xAI, 429",
    status: 429,
    source: issue("continuedev/continue", 10373),
    partial: true,
    hidden: /16f2151a/,
    body: {
      code: "Some resource has been exhausted",
      error:
        "Your team 16f2151a-40f4-4a80-8ad0-cae00c27e8dd has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit.",
    },
  },
  {
    upstream: "xAI, 403",
    status: 403,
    source: issue("warpdotdev/warp", 14863),
    partial: true,
    hidden: /8c268de0/,
    body: {
      code: "permission-denied",
      error:
        "Your team 8c268de0-42ec-4474-b4b6-4c92c1f97827 has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit.",
    },
  },
  {
    upstream: "DeepSeek",
    status: 402,
    source: issue("continuedev/continue", 10121),
    partial: true,
    body: {
      error: { message: "Insufficient Balance", type: "unknown_error", param: null, code: "invalid_request_error" },
    },
  },
  {
    upstream: "OpenRouter, wrapped twice by a proxy that answers 400",
    status: 400,
    source: issue("tailcallhq/forgecode", 571),
    body: {
      error: {
        error: {
          message:
            "More credits are required to run this request. 128000 token capacity required, 19484 available. To increase, visit https://openrouter.ai/settings/keys and create a key with a higher limit",
          code: 402,
        },
        code: 402,
      },
    },
  },
  {
    upstream: "Google AI Studio, nothing left for the day",
    status: 429,
    source: issue("google-gemini/gemini-cli", 8437),
    body: {
      error: {
        code: 429,
        message:
          "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.",
        status: "RESOURCE_EXHAUSTED",
        details: [
          {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            violations: [
              {
                quotaMetric: "generativelanguage.googleapis.com/generate_content_free_tier_requests",
                quotaId: "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
              },
            ],
          },
        ],
      },
    },
  },
);

trouble.credential.push(
  {
    upstream: "Google, no free tier in a country",
    status: 400,
    source: issue("u14app/neo-chat", 45),
    body: {
      error: {
        code: 400,
        message:
          "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.",
        status: "FAILED_PRECONDITION",
      },
    },
  },
  {
    upstream: "Anthropic, a disabled organisation",
    status: 400,
    source: issue("anthropics/claude-code", 54311),
    body: {
      type: "error",
      error: { type: "invalid_request_error", message: "This organization has been disabled." },
      request_id: "req_011CaWDzTjCygKryF7ETTuZk",
    },
  },
  {
    upstream: "Anthropic",
    status: 401,
    source: issue("Good-player/free-claude-api-and-anthropic", 14),
    body: {
      type: "error",
      error: { type: "authentication_error", message: "invalid x-api-key" },
      request_id: "req_011CXw8h8A796q3f74Ezmhav",
    },
  },
  {
    upstream: "xAI",
    status: 400,
    source: issue("continuedev/continue", 10778),
    partial: true,
    hidden: /na\*\*\*ys/,
    body: {
      code: "Client specified an invalid argument",
      error: "Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai.",
    },
  },
  {
    upstream: "xAI, with escapes in its words",
    status: 400,
    source: issue("i-am-bee/beeai-framework", 447),
    hidden: /ba\*\*\*na/,
    body: {
      code: "Client specified an invalid argument",
      error:
        "Incorrect%20API%20key%20provided:%20ba***na.%20You%20can%20obtain%20an%20API%20key%20from%20https://console.x.ai.",
    },
  },
  {
    upstream: "OpenAI",
    status: 401,
    source: issue("dKosarevsky/AI-Talks", 32),
    partial: true,
    hidden: /xQBt/,
    body: {
      error: {
        message:
          "Incorrect API key provided: sk-WRQsP***************************************xQBt. You can find your API key at https://platform.openai.com/account/api-keys.",
        type: "invalid_request_error",
        param: null,
        code: "invalid_api_key",
      },
    },
  },
  {
    upstream: "OpenAI, a deactivated account",
    status: 401,
    source: "https://platform.openai.com/docs/guides/error-codes",
    partial: true,
    body: {
      error: {
        message: "The OpenAI account associated with this API key has been deactivated.",
        type: "invalid_request_error",
        param: null,
        code: "account_deactivated",
      },
    },
  },
  {
    upstream: "Google AI Studio, expired",
    status: 400,
    source: issue("continuedev/continue", 11336),
    body: {
      error: {
        code: 400,
        message: "API key expired. Please renew the API key.",
        status: "INVALID_ARGUMENT",
        details: [
          {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            reason: "API_KEY_INVALID",
            domain: "googleapis.com",
            metadata: { service: "generativelanguage.googleapis.com" },
          },
        ],
      },
    },
  },
  {
    upstream: "Google AI Studio, through a client's own error",
    status: 400,
    source: issue("google-gemini/gemini-cli", 24641),
    body: {
      error: {
        message:
          '{\n  "error": {\n    "code": 400,\n    "message": "User location is not supported for the API use.",\n    "status": "FAILED_PRECONDITION"\n  }\n}\n',
        code: 400,
        status: "Bad Request",
      },
    },
  },
  {
    upstream: "Google AI Studio, a blocked service",
    status: 403,
    source: issue("continuedev/continue", 12781),
    hidden: /177838813423/,
    body: {
      error: {
        code: 403,
        message:
          "Requests to this API generativelanguage.googleapis.com method google.ai.generativelanguage.v1beta.GenerativeService.StreamGenerateContent are blocked.",
        status: "PERMISSION_DENIED",
        details: [
          {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            reason: "API_KEY_SERVICE_BLOCKED",
            domain: "googleapis.com",
            metadata: { consumer: "projects/177838813423" },
          },
        ],
      },
    },
  },
  {
    upstream: "Google AI Studio, suspended",
    status: 403,
    source: issue("google/generative-ai-docs", 356),
    hidden: /AIza|578829824020/,
    body: {
      error: {
        code: 403,
        message: "Permission denied: Consumer 'api_key:AIzaSyA0000000000000000000000000000000X' has been suspended.",
        status: "PERMISSION_DENIED",
        details: [
          {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            reason: "CONSUMER_SUSPENDED",
            domain: "googleapis.com",
            metadata: { service: "generativelanguage.googleapis.com", consumer: "projects/578829824020" },
          },
        ],
      },
    },
  },
  {
    upstream: "Google Cloud, an unknown project",
    status: 403,
    source: issue("google-gemini/gemini-cli", 1808),
    hidden: /jizu_personal/,
    body: [
      {
        error: {
          code: 403,
          message: "Permission denied on resource project jizu_personal.",
          status: "PERMISSION_DENIED",
          details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "CONSUMER_INVALID" }],
        },
      },
    ],
  },
  {
    upstream: "Bedrock",
    status: 403,
    source: issue("anthropics/claude-code", 2260),
    partial: true,
    body: { message: "The security token included in the request is invalid." },
  },
  {
    upstream: "Bedrock behind LiteLLM, which answers 500",
    status: 500,
    source: "https://github.com/ministryofjustice/modernisation-platform-environments/pull/18323",
    hidden: /Marketplace/,
    body: {
      error: {
        message:
          'litellm.APIConnectionError: BedrockException - {"message":"Model access is denied due to IAM user or service role is not authorized to perform the required AWS Marketplace actions (aws-marketplace:ViewSubscriptions, aws-marketplace:Subscribe) to enable access to this model. Refer to the Amazon Bedrock documentation for further details."}.',
      },
    },
  },
  {
    upstream: "Azure OpenAI",
    status: 401,
    source: issue("Azure-Samples/azure-search-openai-demo", 1870),
    body: { error: { code: "PermissionDenied", message: "Principal does not have access to API/Operation." } },
  },
  {
    upstream: "Mistral",
    status: 401,
    source: "https://docs.mistral.ai/api",
    partial: true,
    body: { detail: "Unauthorized" },
  },
);

trouble.unclear.push(
  {
    upstream: "OpenRouter, 402",
    status: 402,
    source: issue("Gitlawb/openclaude", 1125),
    hidden: /user_3D0IV/,
    body: {
      error: {
        message:
          "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 27342. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account",
        code: 402,
        metadata: { provider_name: null },
      },
      user_id: "user_3D0IVsejFIV6kOYwkxFE9nKiq0g",
    },
  },
  {
    upstream: "OpenAI, reasoning summaries of an organization that is not verified",
    status: 400,
    source: issue("openai/openai-cookbook", 2271),
    body: {
      error: {
        message:
          "Your organization must be verified to generate reasoning summaries. Please go to: https://platform.openai.com/settings/organization/general and click on Verify Organization.",
        type: "invalid_request_error",
        param: "reasoning.summary",
        code: "unsupported_value",
      },
    },
  },
  {
    upstream: "Azure, a model without this operation",
    status: 400,
    source: "https://learn.microsoft.com/azure/ai-services/openai/how-to/responses",
    partial: true,
    body: {
      error: {
        code: "OperationNotSupported",
        message:
          "The chatCompletion operation does not work with the specified model, o3-pro. Please choose different model and try again.",
      },
    },
  },
  { upstream: "an upstream that says nothing", status: 403, source: "made up", body: {} },
  {
    upstream: "an upstream that knows no such path",
    status: 404,
    source: "FastAPI's answer to an unknown path",
    body: { detail: "Not Found" },
  },
);

trouble.model.push(
  {
    upstream: "NVIDIA, a retired model",
    status: 410,
    source: issue("NVIDIA/NemoClaw", 11902),
    body: {
      type: "about:blank",
      title: "Gone",
      status: 410,
      detail:
        "The model 'deepseek-ai/deepseek-v4-pro' has reached its end of life on 2026-08-07T09:00:00Z and is no longer available.",
    },
  },
  {
    upstream: "NVIDIA behind another gateway",
    status: 410,
    source: issue("caidaoli/ccLoad", 107),
    body: {
      error: {
        type: "bad_response_status_code",
        message:
          "The model 'deepseek-ai/deepseek-v4-flash' has reached its end of life on 2026-08-07T09:00:00Z and is no longer available. (request id: 202608071330352510964138268d9d6byDZNv9y)",
      },
      type: "error",
    },
  },
  {
    upstream: "Azure OpenAI, a retired deployment",
    status: 410,
    source: issue("epam/ai-dial-chat", 4403),
    body: {
      error: {
        code: "ModelDeprecated",
        message:
          "The model associated with the deployment is deprecated and no longer available for use. Please refer to the Azure OpenAI service documentation for more information.",
      },
    },
  },
  {
    upstream: "CAST AI, a retired model",
    status: 410,
    source: "https://github.com/getkimchi/kimchi/pull/1176",
    body: {
      error: {
        code: 410,
        type: "model_gone",
        message: "Model kimi-k2.5 has been retired.",
        replacement: "kimi-k3",
        docs: "https://wiki.cast.ai/deprecations/kimi-k2.5",
      },
    },
  },
  {
    upstream: "Groq, a decommissioned model",
    status: 400,
    source: issue("RightNow-AI/openfang", 60),
    body: {
      request_id: "req_01kjf0gsxyej1syt7a6t1dptd1",
      created_at: "2026-02-27T07:37:56.926Z",
      error: {
        message:
          "The model `deepseek-r1-distill-llama-70b` has been decommissioned and is no longer supported. Please refer to https://console.groq.com/docs/deprecations for a recommendation on which model to use instead.",
        type: "invalid_request_error",
        param: "",
        code: "model_decommissioned",
      },
    },
  },
  {
    upstream: "OpenAI, a deprecated model",
    status: 404,
    source: issue("boxblinkracer/shopware-ai-demodata", 6),
    body: {
      error: {
        message:
          "The model `text-davinci-003` has been deprecated, learn more here: https://platform.openai.com/docs/deprecations",
        type: "invalid_request_error",
        param: null,
        code: "model_not_found",
      },
    },
  },
  {
    upstream: "OpenAI, a project without the model",
    status: 403,
    source: issue("cursor/cursor", 2953),
    hidden: /proj_/,
    body: {
      error: {
        message: "Project `proj_QRf115YMnQwMUdTI9cu2sWQ8` does not have access to model `gpt-4o-mini`",
        type: "invalid_request_error",
        param: null,
        code: "model_not_found",
      },
    },
  },
  {
    upstream: "Azure OpenAI",
    status: 404,
    source: issue("chatboxai/chatbox", 861),
    body: {
      error: {
        code: "DeploymentNotFound",
        message:
          "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.",
      },
    },
  },
  {
    upstream: "Google AI Studio",
    status: 404,
    source: issue("wwardaww/gnome-gemini-ai", 21),
    body: {
      error: {
        code: 404,
        message:
          "models/gemini-1.0-pro is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.",
        status: "NOT_FOUND",
      },
    },
  },
  {
    upstream: "DeepSeek",
    status: 400,
    source: issue("ConardLi/easy-dataset", 9),
    body: {
      error: { message: "Model Not Exist", type: "invalid_request_error", param: null, code: "invalid_request_error" },
    },
  },
  {
    upstream: "Bedrock, an unknown model",
    status: 400,
    source: "https://github.com/MattJColes/lgtmaybe/pull/70",
    body: { message: "The provided model identifier is invalid." },
  },
  {
    upstream: "Bedrock, a model that wants an inference profile",
    status: 400,
    source: issue("terricain/aioboto3", 352),
    partial: true,
    body: {
      message:
        "Invocation of model ID anthropic.claude-3-5-sonnet-20241022-v2:0 with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.",
    },
  },
  {
    upstream: "Bedrock, a model that the account may not use",
    status: 403,
    source: issue("langgenius/dify", 2829),
    partial: true,
    body: { message: "You don't have access to the model with the specified model ID." },
  },
  {
    upstream: "Mistral",
    status: 400,
    source: "https://github.com/jeremylongshore/claude-code-plugins-plus-skills, mistral-common-errors",
    body: { message: "Invalid model: mistral-ultra" },
  },
);

/** Faults that the gateway's operator has to put right, by the cooldown that each calls for. */
export const operatorFaults: Readonly<Record<OperatorFault, UpstreamErrorCase[]>> = trouble;

/** The caller's content was refused, whatever the status. */
export const refusedContent: UpstreamErrorCase[] = [
  {
    upstream: "OpenRouter, moderation",
    status: 403,
    source:
      "https://openrouter.ai/docs/api/reference/errors-and-debugging (the metadata); the message as test fixtures of its clients quote it",
    hidden: /the caller's own words/,
    body: {
      error: {
        code: 403,
        message: 'openai/gpt-x requires moderation on OpenRouter. Your input was flagged for "harassment".',
        metadata: {
          reasons: ["harassment"],
          flagged_input: "the caller's own words",
          provider_name: "OpenAI",
          model_slug: "openai/gpt-x",
        },
      },
    },
  },
  {
    upstream: "OpenRouter, moderation in words that are new",
    status: 403,
    source: "https://openrouter.ai/docs/api/reference/errors-and-debugging",
    body: {
      error: {
        code: 403,
        message: "No.",
        metadata: { reasons: ["violence"], flagged_input: "x", provider_name: "OpenAI", model_slug: "x" },
      },
    },
  },
  {
    upstream: "Azure OpenAI",
    status: 400,
    source: issue("compl-ai/compl-ai", 20),
    body: {
      error: {
        message:
          "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry. To learn more about our content filtering policies please read our documentation: https://go.microsoft.com/fwlink/?linkid=2198766",
        type: null,
        param: "prompt",
        code: "content_filter",
        status: 400,
        innererror: {
          code: "ResponsibleAIPolicyViolation",
          content_filter_result: { violence: { filtered: true, severity: "medium" } },
        },
      },
    },
  },
  {
    upstream: "Azure OpenAI behind LiteLLM",
    status: 400,
    source: "https://github.com/BerriAI/litellm/pull/16231",
    hidden: /gpt-4o-new-test/,
    body: {
      error: {
        message:
          "litellm.BadRequestError: litellm.ContentPolicyViolationError: litellm.ContentPolicyViolationError: AzureException - The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry. To learn more about our content filtering policies please read our documentation: https://go.microsoft.com/fwlink/?linkid=2198766\nmodel=azure/gpt-4o-new-test. content_policy_fallback=None. fallbacks=None.\n\nSet 'content_policy_fallback' - https://docs.litellm.ai/docs/routing#fallbacks. Received Model Group=azure/gpt-4o-new-test\nAvailable Model Group Fallbacks=None",
        type: null,
        param: null,
        code: "400",
      },
    },
  },
  {
    upstream: "Anthropic",
    status: 400,
    source: issue("anthropics/claude-code", 58367),
    body: {
      type: "error",
      error: { type: "invalid_request_error", message: "Output blocked by content filtering policy" },
      request_id: "req_011CaxpBxEpLvE6AvvuDD5BW",
    },
  },
  {
    upstream: "xAI",
    status: 403,
    source: "https://github.com/UKGovernmentBEIS/inspect_ai/pull/2267",
    hidden: /7c3fd1f0|9a1b2c3d/,
    body: {
      code: "The caller does not have permission to execute the specified operation",
      error:
        "Content violates usage guidelines. Team: 7c3fd1f0-8f0e-4c1d-9d0a-0123456789ab, API key ID: 9a1b2c3d-8f0e-4c1d-9d0a-0123456789ab, Model: grok-4-0709, Failed check: SAFETY_CHECK_TYPE_BIO",
    },
  },
  {
    upstream: "xAI, new",
    status: 403,
    source: "https://github.com/Wei-Shaw/sub2api/pull/5359",
    body: { code: "permission-denied", error: "Content violates usage guidelines. " },
  },
  {
    upstream: "DeepSeek",
    status: 400,
    source: issue("666ghj/BettaFish", 108),
    body: {
      error: {
        message: "Content Exists Risk",
        type: "invalid_request_error",
        param: null,
        code: "invalid_request_error",
      },
    },
  },
  {
    upstream: "DeepSeek, old",
    status: 400,
    source: issue("deepseek-ai/DeepSeek-V2", 30),
    body: { detail: "Content Exists Risk" },
  },
  {
    upstream: "Vertex AI, as an error",
    status: 400,
    source: "https://ai.google.dev/api/generate-content#BlockReason",
    partial: true,
    body: {
      error: {
        code: 400,
        message: "The prompt was blocked.",
        status: "INVALID_ARGUMENT",
        details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "PROHIBITED_CONTENT" }],
      },
    },
  },
];

/**
 * This account may not have so much at the moment, whatever the status: another target may serve
 * it, and nobody is to be blamed.
 */
export const rateLimits: UpstreamErrorCase[] = [
  {
    upstream: "Groq, as 413",
    status: 413,
    source: issue("HunorLaczko/ha-groq-cloud-api", 27),
    hidden: /org_01j2g5d88h/,
    body: {
      error: {
        message:
          "Request too large for model `llama-3.1-8b-instant` in organization `org_01j2g5d88hfvjrgw64hnapqk8y` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 12328, please reduce your message size and try again. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing",
        type: "tokens",
        code: "rate_limit_exceeded",
      },
    },
  },
  {
    upstream: "OpenAI, a request above the limit of a minute",
    status: 429,
    source: issue("vanna-ai/vanna-flask", 11),
    partial: true,
    body: {
      error: {
        message:
          "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced in order to run successfully.",
        type: "tokens",
        param: null,
        code: "rate_limit_exceeded",
      },
    },
  },
  {
    upstream: "a proxy of OpenAI's that answers 400 and drops the code",
    status: 400,
    source: issue("vanna-ai/vanna-flask", 11),
    partial: true,
    body: {
      message:
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced in order to run successfully.",
    },
  },
  {
    upstream: "Google AI Studio, too much in a minute",
    status: 429,
    source: issue("RooCodeInc/Roo-Code", 3883),
    body: {
      error: {
        code: 429,
        message:
          "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.",
        status: "RESOURCE_EXHAUSTED",
        details: [
          {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            violations: [
              {
                quotaMetric: "generativelanguage.googleapis.com/generate_content_free_tier_input_token_count",
                quotaId: "GenerateContentInputTokensPerModelPerMinute-FreeTier",
              },
            ],
          },
          { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "26s" },
        ],
      },
    },
  },
];

/** Error pages that a proxy in front of an upstream sends in its own name, in HTML. */
export const pages: (UpstreamErrorCase & { code: Failure["code"] })[] = [
  {
    upstream: "nginx, HTTP at its HTTPS port",
    status: 400,
    code: "upstream_failed",
    source: issue("Hubs-Foundation/hubs-cloud", 376),
    hidden: /nginx|html|HTTPS/,
    body: "<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>The plain HTTP request was sent to HTTPS port</center>\r\n<hr><center>nginx/1.27.4</center>\r\n</body>\r\n</html>\r\n",
  },
  {
    upstream: "nginx, headers",
    status: 400,
    code: "upstream_failed",
    source: issue("pulibrary/princeton_ansible", 2135),
    partial: true,
    hidden: /nginx|html|Cookie/,
    body: "<html>\r\n<head><title>400 Request Header Or Cookie Too Large</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>Request Header Or Cookie Too Large</center>\r\n<hr><center>nginx/1.14.0 (Ubuntu)</center>\r\n</body>\r\n</html>\r\n",
  },
  {
    upstream: "nginx, the body",
    status: 413,
    code: "body_too_large",
    source: "https://github.com/nginx/nginx, src/http/ngx_http_special_response.c",
    hidden: /nginx|html|Entity/,
    body: "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx/1.27.4</center>\r\n</body>\r\n</html>\r\n",
  },
  {
    upstream: "a firewall",
    status: 403,
    code: "upstream_failed",
    source: issue("dairoot/Grok-Mirror", 28),
    hidden: /nginx|html|Forbidden/,
    body: "<html>\n<head><title>403 Forbidden</title></head>\n<body>\n<center><h1>403 Forbidden</h1></center>\n<hr><center>nginx</center>\n</body></html>",
  },
  {
    upstream: "nginx, no upstream",
    status: 502,
    code: "upstream_failed",
    source: "https://github.com/nginx/nginx, src/http/ngx_http_special_response.c",
    hidden: /nginx|html|Gateway/,
    body: "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body></html>",
  },
];

/**
 * A caller writes these fields; the upstream quotes them in the words of its own validation.
 * `field` stands in the caller's request.
 */
export const quoted: (UpstreamErrorCase & { field: string })[] = [
  {
    upstream: "Anthropic, an unknown field",
    field: "your credit balance is too low",
    status: 400,
    source: "https://platform.claude.com/docs/en/api/errors",
    body: {
      type: "error",
      error: {
        type: "invalid_request_error",
        message: "your credit balance is too low: Extra inputs are not permitted",
      },
    },
  },
  {
    upstream: "FastAPI, an unknown field",
    field: "invalid api key",
    status: 422,
    source: "https://fastapi.tiangolo.com/tutorial/handling-errors/",
    body: {
      detail: [{ type: "extra_forbidden", loc: ["body", "invalid api key"], msg: "Extra inputs are not permitted" }],
    },
  },
  {
    upstream: "Anthropic, a field that looks like an error",
    field: '{"code":"insufficient_quota"}',
    status: 400,
    source: "https://platform.claude.com/docs/en/api/errors",
    body: {
      type: "error",
      error: {
        type: "invalid_request_error",
        message: '{"code":"insufficient_quota"}: Extra inputs are not permitted',
      },
    },
  },
];
