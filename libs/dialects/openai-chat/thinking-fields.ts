/**
 * Thinking in requests of this format. Beside OpenAI's `reasoning_effort`, clients write the fields
 * of other servers of the format, whichever model answers:
 *
 * - `reasoning`: https://openrouter.ai/docs/use-cases/reasoning-tokens
 * - `thinking`: https://docs.litellm.ai/docs/reasoning_content,
 *   https://api-docs.deepseek.com/guides/thinking_mode
 * - `enable_thinking`: https://www.alibabacloud.com/help/en/model-studio/deep-thinking
 * - `chat_template_kwargs`: https://docs.vllm.ai/en/latest/features/reasoning_outputs.html
 * - `extra_body`: https://ai.google.dev/gemini-api/docs/openai#thinking
 */
import { isPresent, type JsonObject, objectOf, textOf } from "#wire/json/parse.ts";
import { oneOf } from "../neutral/caller-request.ts";
import { efforts, type Settings } from "../neutral/neutral.ts";
import { usualEffort } from "../neutral/reasoning.ts";

/** The request of one of the fields. Values of an unexpected type ask for nothing. */
interface Wish {
  path: string;
  isOn?: unknown;
  effort?: unknown;
  tokens?: unknown;
  /** Whether the answer has the thinking. */
  isShown?: unknown;
}

type Thinking = Pick<Settings, "effort" | "thinkingTokensMax" | "thinkingShown">;

const nothing: Thinking = {};

/**
 * The settings in all these fields. OpenAI's counts before the others; throws Refusal for an
 * unknown effort in it.
 */
export function thinkingIn(body: JsonObject): Thinking {
  const own = ownEffortOf(body.reasoning_effort);
  const wish = wishesIn(body).find(({ path: _path, ...values }) => Object.values(values).some(isPresent));
  if (wish === undefined) return own ?? {};
  const { path, isShown } = wish;
  const wished = amountOf(wish);
  const amount = own ?? wished;
  if (amount.effort?.value === "none") return amount;
  // Servers with such a field show what it asks for.
  const value = typeof isShown === "boolean" ? isShown : wished !== nothing || undefined;
  return value === undefined ? amount : { ...amount, thinkingShown: { value, path } };
}

/** LiteLLM has `disable` for `none`, and Groq `default`. */
function ownEffortOf(effort: unknown): Thinking | undefined {
  if (textOf(effort) === undefined || effort === "auto" || effort === "default") return undefined;
  return { effort: oneOf(efforts, effort === "disable" ? "none" : effort, "reasoning_effort") };
}

/** In the order in which they count. */
function wishesIn(body: JsonObject): Wish[] {
  const { enabled, effort, max_tokens: tokens, exclude } = objectOf(body.reasoning);
  const { type, budget_tokens: budget } = objectOf(body.thinking);
  const template = objectOf(body.chat_template_kwargs);
  const google = objectOf(objectOf(objectOf(body.extra_body).google).thinking_config);
  return [
    { path: "reasoning", isOn: enabled, effort, tokens, isShown: isPresent(exclude) ? exclude === false : undefined },
    { path: "thinking", isOn: switchOf(type), tokens: budget },
    { path: "enable_thinking", isOn: body.enable_thinking, tokens: body.thinking_budget },
    { path: "chat_template_kwargs", isOn: template.enable_thinking ?? template.thinking },
    {
      path: "extra_body.google.thinking_config",
      effort: google.thinking_level,
      tokens: google.thinking_budget,
      isShown:
        google.include_thoughts ?? (isPresent(google.thinking_budget ?? google.thinking_level) ? false : undefined),
    },
  ];
}

const switchOf = (type: unknown) =>
  type === "disabled" ? false : type === "enabled" || type === "adaptive" ? true : undefined;

function amountOf({ path, isOn, tokens, effort: written }: Wish): Thinking {
  const word = String(written).toLowerCase();
  const effort = efforts.find((value) => value === word);
  if (isOn === false || tokens === 0) return { effort: { value: "none", path } };
  if (effort !== undefined) return { effort: { value: effort, path } };
  if (typeof tokens === "number" && tokens > 0) return { thinkingTokensMax: { value: Math.ceil(tokens), path } };
  return isOn === true ? { effort: { value: usualEffort, path } } : nothing;
}
