/**
 * Service tiers: how the dialects name them. A caller's other values (`auto`, and tiers that one
 * vendor alone has) leave the choice to the upstream. Anthropic sells no tier but the standard one:
 * https://docs.anthropic.com/en/api/service-tiers. OpenAI:
 * https://platform.openai.com/docs/guides/flex-processing. Google's `serviceTier`:
 * https://ai.google.dev/api/generate-content.
 */
import { textOf } from "#wire/json/parse.ts";
import type { ServiceTier, Setting } from "./neutral.ts";

/** By the callers' values in lower case. Google's old values begin with `SERVICE_TIER_`. */
const tiers: Readonly<Record<string, ServiceTier>> = {
  default: "standard",
  standard: "standard",
  standard_only: "standard",
  flex: "flex",
  priority: "priority",
};

/** The setting in this field of a caller's request, if it names a tier. */
export function serviceTierIn(value: unknown, path: string): { serviceTier?: Setting<ServiceTier> } {
  const name =
    textOf(value)
      ?.toLowerCase()
      .replace(/^service_tier_/, "") ?? "";
  const tier = Object.hasOwn(tiers, name) ? tiers[name] : undefined;
  return tier === undefined ? {} : { serviceTier: { value: tier, path } };
}

/** As OpenAI's dialects name it. */
export const openaiTierOf = (setting: Setting<ServiceTier> | undefined): string | undefined =>
  setting?.value === "standard" ? "default" : setting?.value;

const flexFields = ['"service_tier":"flex"', '"service_tier": "flex"', '"serviceTier":"flex"', '"serviceTier": "flex"'];

/**
 * Whether a request to an upstream is for flex. In a text of the request the quotes are escaped.
 */
export const isFlexIn = (body: Buffer): boolean => flexFields.some((field) => body.includes(field));
