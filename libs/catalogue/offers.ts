/**
 * The public data of models and their prices. Ingresses add OpenRouter's fields to OpenAI's
 * list of models (https://openrouter.ai/docs/api-reference/list-available-models); control has the
 * whole price list.
 */
import type { UpstreamDialect } from "#dialects/dialect.ts";
import { modelTraitsOf } from "#dialects/neutral/model-traits.ts";
import type { ListedTarget } from "#dialects/profile.ts";
import { decimalOf, nanoOf, ppmOf } from "#ledger/money.ts";
import type { Prices } from "#ledger/prices.ts";
import { type Catalogue, type CatalogueModel, spokenWith } from "./catalogue.ts";

/** A model with the fields that its group's list adds to OpenAI's. */
export type OfferedModel = CatalogueModel & { readonly offer: object };

const offered = new WeakMap<Catalogue, Map<string, ReadonlyMap<string, OfferedModel>>>();

/**
 * The models of a group by their ids, in the order of the file, with OpenRouter's fields at the
 * group's prices.
 */
export function offersOf(catalogue: Catalogue, group: string): ReadonlyMap<string, OfferedModel> {
  const byGroup = offered.get(catalogue) ?? new Map<string, ReadonlyMap<string, OfferedModel>>();
  offered.set(catalogue, byGroup);
  const groupOffers = byGroup.get(group);
  if (groupOffers !== undefined) return groupOffers;
  const offers = new Map(catalogue.modelsOf(group).map((model) => [model.id, offerOf(catalogue, group, model)]));
  if (catalogue.groups.has(group)) byGroup.set(group, offers);
  return offers;
}

/** The same for a model that is in no list. */
export const offerOf = (catalogue: Catalogue, group: string, model: CatalogueModel): OfferedModel => ({
  ...model,
  offer: openRouterFieldsOf(catalogue, model, catalogue.groups.get(group)?.priceRatio ?? 1),
});

function openRouterFieldsOf(catalogue: Catalogue, model: CatalogueModel, ratio: number): object {
  const { name, description, contextWindow, outputTokensMax, capabilities, prices } = model;
  const input = inputModalitiesOf(capabilities);
  const output = outputModalitiesOf(capabilities);
  return {
    name,
    description: description ?? "",
    context_length: contextWindow ?? null,
    architecture: {
      modality: `${input.join("+")}->${output.join("+")}`,
      input_modalities: input,
      output_modalities: output,
    },
    pricing: pricingOf(prices, ratio),
    top_provider: {
      context_length: contextWindow ?? null,
      max_completion_tokens: outputTokensMax ?? null,
      is_moderated: false,
    },
    per_request_limits: null,
    supported_parameters: parametersOf(catalogue, model),
  };
}

/**
 * Prices of a token, a request and an image as exact decimal texts, for short prompts and the
 * default service tier.
 */
function pricingOf(prices: Prices, ratio: number): object {
  const perToken = (perMillion: number) => priced(perMillion, ratio, 6);
  const optional = (name: string, perMillion: number | undefined) =>
    perMillion !== undefined && { [name]: perToken(perMillion) };
  const image = Math.max(0, ...prices.images.map(({ price }) => price));
  return {
    prompt: perToken(prices.inputPerMillion),
    completion: perToken(prices.outputPerMillion),
    request: priced(prices.perRequest ?? 0, ratio),
    image: priced(image, ratio),
    ...optional("input_cache_read", prices.cachedInputPerMillion),
    ...optional("input_cache_write", prices.cacheWritePerMillion),
    ...optional("audio", prices.audioInputPerMillion),
    ...optional("audio_output", prices.audioOutputPerMillion),
    ...optional("internal_reasoning", prices.reasoningPerMillion),
    ...optional("image_token", prices.imageInputPerMillion),
    ...optional("image_output", prices.imageOutputPerMillion),
    ...(prices.perWebSearch !== undefined && { web_search: priced(prices.perWebSearch, ratio) }),
  };
}

/** A price times a group's ratio, divided by ten to the power of `shift`; exact. */
const priced = (price: number, ratio: number, shift = 0): string =>
  decimalOf(BigInt(nanoOf(price)) * BigInt(ppmOf(ratio)), 15 + shift);

const inputModalitiesOf = (capabilities: readonly string[]): string[] => [
  ...(capabilities.includes("transcription") ? [] : ["text"]),
  ...(capabilities.includes("vision") ? ["image"] : []),
  ...(capabilities.includes("transcription") || capabilities.includes("realtime") ? ["audio"] : []),
];

function outputModalitiesOf(capabilities: readonly string[]): string[] {
  const has = (...names: string[]) => names.some((name) => capabilities.includes(name));
  const media = [
    ...(has("image") ? ["image"] : []),
    ...(has("speech", "realtime") ? ["audio"] : []),
    ...(has("embedding") ? ["embeddings"] : []),
    ...(has("rerank") ? ["rerank"] : []),
  ];
  return media.length === 0 || has("text", "realtime", "transcription") ? ["text", ...media] : media;
}

/**
 * The model's first target for requests in a dialect (default: the upstream's own); undefined if
 * its upstream is not offered.
 */
export function firstTargetOf(
  { upstreams }: Catalogue,
  { route: [target], traits }: CatalogueModel,
  preferred?: UpstreamDialect,
): ListedTarget | undefined {
  const upstream = upstreams.get(target?.upstream ?? "");
  if (target === undefined || upstream === undefined) return undefined;
  const dialect = spokenWith(upstream, preferred ?? upstream.dialect);
  return { dialect, model: target.model, traits: modelTraitsOf(dialect, target.model, traits) };
}

/**
 * The parameters of a conversation that the first target of the model supports; none for other
 * operations.
 */
function parametersOf(catalogue: Catalogue, model: CatalogueModel): string[] {
  const { capabilities } = model;
  const target = firstTargetOf(catalogue, model);
  if (!capabilities.includes("text") || target === undefined) return [];
  const { sampling, jsonSchemas } = target.traits;
  const has = (name: string) => capabilities.includes(name);
  return [
    "max_tokens",
    "stop",
    ...(sampling === "none" ? [] : ["temperature", "top_p"]),
    ...(has("tools") ? ["tools", "tool_choice"] : []),
    ...(has("json") ? ["response_format", ...(jsonSchemas ? ["structured_outputs"] : [])] : []),
    ...(has("reasoning") ? ["reasoning", "include_reasoning", "reasoning_effort"] : []),
  ];
}

/** All prices of a model for a group, as exact decimal texts in the catalogue's currency. */
export interface GroupPrices {
  /**
   * Per million tokens, per request: by the catalogue's names. Absent names have the catalogue's
   * defaults.
   */
  readonly prices: Record<string, string>;
  readonly images: { size?: string; quality?: string; price: string }[];
  readonly tiers: { aboveInputTokens: number; prices: Record<string, string> }[];
  readonly serviceTiers: Record<string, number>;
  /** Prices that begin, end, or apply at some hours, in UTC. */
  readonly periods?: {
    from?: string;
    until?: string;
    hours?: string;
    ratio?: number;
    prices: Record<string, string>;
  }[];
}

export function groupPricesOf({ images, tiers, serviceTiers, periods, ...single }: Prices, ratio: number): GroupPrices {
  const textsOf = (amounts: object) =>
    Object.fromEntries(
      Object.entries(amounts).flatMap(([name, amount]: [string, unknown]) =>
        typeof amount === "number" ? [[name, priced(amount, ratio)]] : [],
      ),
    );
  return {
    prices: textsOf(single),
    images: images.map(({ price, ...look }) => ({ ...look, price: priced(price, ratio) })),
    tiers: tiers.map(({ aboveInputTokens, ...amounts }) => ({ aboveInputTokens, prices: textsOf(amounts) })),
    serviceTiers: { ...serviceTiers },
    ...(periods !== undefined && {
      periods: periods.map(({ from, until, hours, ratio: factor, ...amounts }) => ({
        ...(from !== undefined && { from }),
        ...(until !== undefined && { until }),
        ...(hours !== undefined && { hours }),
        ...(factor !== undefined && { ratio: factor }),
        prices: textsOf(amounts),
      })),
    }),
  };
}
