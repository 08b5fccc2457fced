/**
 * A model in Anthropic's format: https://platform.claude.com/docs/en/api/models/list (type
 * `ModelInfo` of `@anthropic-ai/sdk`). A capability is what a request to this gateway may use; some
 * pass only to an upstream of this dialect.
 */
import { versionOf } from "../neutral/model-traits.ts";
import { type ListedModel, type ListedTarget, timeTextOf } from "../profile.ts";

/**
 * Claude Opus 4.6 and Sonnet 4.6 are the last that accept a budget:
 * https://platform.claude.com/docs/en/build-with-claude/thinking
 */
const budgetVersionMax = 406;
const lines = /(?:^|[/:.@-])claude-(?:[\d.-]+-)?(haiku|sonnet|opus|fable|mythos)/;

const is = (supported: boolean) => ({ supported });

/**
 * All members of the vendor's object are always present: clients read them without a check. The
 * gateway's catalogue has only models in service.
 */
export function modelInfoOf(model: ListedModel): object {
  const { id, name, created, contextWindow, outputTokensMax } = model;
  const target = model.targetOf?.("anthropic-messages");
  return {
    type: "model",
    id,
    display_name: name,
    created_at: timeTextOf(created),
    lifecycle: "active",
    deprecated_at: null,
    retires_at: null,
    line: lines.exec(target?.model.toLowerCase() ?? "")?.[1] ?? null,
    max_input_tokens: contextWindow ?? null,
    max_tokens: outputTokensMax ?? null,
    capabilities: target === undefined || model.capabilities.length === 0 ? null : capabilitiesOf(model, target),
  };
}

/**
 * Requests to an upstream of another dialect are translated, with every kind of thinking and
 * effort.
 */
function capabilitiesOf({ capabilities }: ListedModel, { dialect, model, traits }: ListedTarget): object {
  const has = (name: string) => capabilities.includes(name);
  const isNative = dialect === "anthropic-messages";
  const isClaude = isNative && /claude/i.test(model);
  const thinks = has("reasoning") && traits.thinking !== "none";
  const hasEffort = thinks && (!isNative || traits.thinking === "effort");
  const effort = (level: (typeof traits.efforts)[number]) =>
    is(hasEffort && (!isNative || traits.efforts.includes(level)));
  return {
    batch: is(false),
    citations: is(isClaude),
    code_execution: is(isClaude),
    context_management: {
      ...is(isClaude),
      clear_thinking_20251015: is(isClaude && thinks),
      clear_tool_uses_20250919: is(isClaude),
      compact_20260112: is(isClaude && traits.thinking === "effort"),
    },
    effort: {
      ...is(hasEffort),
      low: effort("low"),
      medium: effort("medium"),
      high: effort("high"),
      xhigh: effort("xhigh"),
      max: effort("max"),
    },
    image_input: is(has("vision")),
    pdf_input: is(has("vision")),
    server_tools: { ...is(isClaude), code_execution: is(isClaude), web_search: is(isClaude) },
    structured_outputs: is(has("json") && traits.jsonSchemas),
    thinking: {
      ...is(thinks),
      types: {
        adaptive: is(hasEffort),
        between_tools: is(!isNative),
        disabled: is(!isNative || !traits.thinksAlways),
        enabled: is(
          thinks && (!isClaude || traits.thinking === "budget" || versionOf(model.toLowerCase()) <= budgetVersionMax),
        ),
      },
    },
  };
}
