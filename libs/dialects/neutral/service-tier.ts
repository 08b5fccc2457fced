/**
 * Service tiers: how the dialects name them. `auto` and the like, and tiers that one vendor alone
 * has, leave the choice to the upstream; values of no vendor are refused. Anthropic sells no tier
 * but the standard one: https://docs.anthropic.com/en/api/service-tiers. OpenAI:
 * https://platform.openai.com/docs/guides/flex-processing. Google's `serviceTier`:
 * https://ai.google.dev/api/generate-content.
 */
import { textOf } from "#wire/json/parse.ts";
import { Refusal } from "./field-support.ts";
import type { ServiceTier, Setting } from "./neutral.ts";

/** By the callers' values in lower case. Google's old values begin with `SERVICE_TIER_`. */
const tiers: Readonly<Record<string, ServiceTier>> = {
  default: "standard",
  standard: "standard",
  standard_only: "standard",
  flex: "flex",
  priority: "priority",
};

/**
 * Values that leave the choice to the upstream. `scale`: OpenAI; `on_demand` and `performance`:
 * Groq (https://console.groq.com/docs/service-tiers); `fast` and `ultrafast`: OpenAI's newer ones
 * (https://platform.openai.com/docs/api-reference/responses/create), which Codex sends.
 */
const openTiers = ["", "auto", "unspecified", "scale", "on_demand", "performance", "fast", "ultrafast"];

/** How the vendor of a dialect refuses another value. */
type TierRefusal = (value: string) => string;
export const openaiTierRefusal: TierRefusal = (value) =>
  `Invalid value: '${value}'. Supported values are: 'auto', 'default', 'flex', and 'priority'.`;
export const anthropicTierRefusal: TierRefusal = () => "service_tier: Input should be 'auto' or 'standard_only'";
export const geminiTierRefusal: TierRefusal = (value) =>
  `Invalid value at 'service_tier' (TYPE_ENUM), ${JSON.stringify(value)}`;
const valueLengthMax = 100;

/** The tier that a value of any dialect names. */
export function tierOf(value: unknown): ServiceTier | undefined {
  const name = nameOf(value);
  return Object.hasOwn(tiers, name) ? tiers[name] : undefined;
}

const nameOf = (value: unknown): string => (textOf(value) ?? "").toLowerCase().replace(/^service_tier_/, "");

/**
 * The setting in this field of a caller's request, if it names a tier. Throws Refusal for a value
 * that no vendor knows.
 */
export function serviceTierIn(
  value: unknown,
  path: string,
  refusalOf: TierRefusal,
): { serviceTier?: Setting<ServiceTier> } {
  const tier = tierOf(value);
  if (tier !== undefined) return { serviceTier: { value: tier, path } };
  if (openTiers.includes(nameOf(value))) return {};
  throw new Refusal(path, refusalOf(String(value).slice(0, valueLengthMax)));
}

/** As OpenAI's dialects name it. */
export const openaiTierOf = (setting: Setting<ServiceTier> | undefined): string | undefined =>
  openaiTierNamed(setting?.value);

/** The tier that a value of any dialect names, as OpenAI's dialects name it. */
export function openaiTierNamed(value: unknown): string | undefined {
  const tier = tierOf(value);
  return tier === "standard" ? "default" : tier;
}

const flexFields = ['"service_tier":"flex"', '"service_tier": "flex"', '"serviceTier":"flex"', '"serviceTier": "flex"'];

/**
 * Whether a request to an upstream is for flex. In a text of the request the quotes are escaped.
 */
export const isFlexIn = (body: Buffer): boolean => flexFields.some((field) => body.includes(field));
