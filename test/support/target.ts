/** Targets for tests of codecs. */
import type { Target } from "#dialects/codec.ts";
import type { UpstreamDialect } from "#dialects/dialect.ts";
import { modelTraitsOf } from "#dialects/neutral/model-traits.ts";

/** A model with the default traits of its name. */
export const targetOf = (dialect: UpstreamDialect, model: string, more: Partial<Target> = {}): Target => ({
  model,
  traits: modelTraitsOf(dialect, model),
  outputTokensMax: undefined,
  streamUsage: true,
  tokenLimitField: "max_tokens",
  ...more,
});
