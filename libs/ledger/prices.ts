/**
 * Prices of a model as the catalogue states them, and the cost of an answer. A cost is computed in integers and rounded once, from values that its usage
 * record contains: the unit prices, the ratios and the counts.
 */
import Type from "typebox";
import type { Usage } from "#dialects/usage.ts";
import { dividedBy, nanoOf, ppmOf } from "./money.ts";

const priceMax = 1_000_000;
/** In nano-units. */
export const unitPriceMax = nanoOf(priceMax);
const price = (description: string) => Type.Number({ minimum: 0, maximum: priceMax, description });
const optionalPrice = (description: string) => Type.Optional(price(description));

const tokenPrices = {
  cachedInputPerMillion: optionalPrice("Per million input tokens from the upstream's cache. Default: inputPerMillion."),
  cacheWritePerMillion: optionalPrice(
    "Per million input tokens that the upstream wrote to its cache. Default: inputPerMillion.",
  ),
  audioInputPerMillion: optionalPrice("Per million input tokens of audio. Default: inputPerMillion."),
  audioOutputPerMillion: optionalPrice("Per million output tokens of audio. Default: outputPerMillion."),
  reasoningPerMillion: optionalPrice("Per million reasoning tokens. Default: outputPerMillion."),
};

const pricesFields = {
  inputPerMillion: price("Per million input tokens."),
  outputPerMillion: price("Per million output tokens, reasoning included."),
  ...tokenPrices,
  perRequest: optionalPrice("Per answered request, in addition."),
  images: Type.Array(
    Type.Object(
      {
        size: Type.Optional(Type.String({ maxLength: 20, description: "Such as 1024x1024. Default: any size." })),
        quality: Type.Optional(Type.String({ maxLength: 20, description: "Such as high. Default: any quality." })),
        price: price("Per image."),
      },
      { additionalProperties: false },
    ),
    {
      default: [],
      maxItems: 50,
      description: "Prices of generated images; the first that matches applies. They replace those of output tokens.",
    },
  ),
  tiers: Type.Array(
    Type.Object(
      {
        aboveInputTokens: Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: "Input tokens, all kinds." }),
        inputPerMillion: optionalPrice("As above."),
        outputPerMillion: optionalPrice("As above."),
        ...tokenPrices,
      },
      { additionalProperties: false },
    ),
    {
      default: [],
      maxItems: 10,
      description:
        "Prices for long prompts: of the tiers whose bound the input exceeds, the highest replaces the prices that it names, for the whole request.",
    },
  ),
  serviceTiers: Type.Record(Type.String({ pattern: "^[a-z_]{1,20}$" }), Type.Number({ minimum: 0, maximum: 100 }), {
    default: {},
    maxProperties: 10,
    description:
      "Factors for the `service_tier` with which the upstream answered, such as `flex: 0.5`. Default: 1 for each.",
  }),
};

/** The schema of a model's prices in the catalogue. */
export const pricesSchema = (description: string) =>
  Type.Object(pricesFields, { additionalProperties: false, description });

type FilePrices = Type.Static<ReturnType<typeof pricesSchema>>;

/** The prices of a model. Absent lists are empty. */
export type Prices = {
  readonly [Name in keyof FilePrices]: FilePrices[Name] extends readonly unknown[] | undefined
    ? readonly Readonly<NonNullable<FilePrices[Name]>[number]>[]
    : Readonly<FilePrices[Name]>;
};

/** The counts that bear a price: parts are included in their wholes, and do not overlap. */
export type Priced = Omit<Usage, "isCapped" | "isEstimated">;

/** The prices that apply to one answer: whole nano-units per million tokens, per request and per image. */
export interface UnitPrices {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
  readonly reasoning: number;
  readonly audioInput: number;
  readonly audioOutput: number;
  readonly request: number;
  readonly image: number;
  /** Parts per million, of the service tier. */
  readonly servicePpm: number;
}

/** The order in usage records. */
export const unitPriceNames = [
  "input",
  "cacheRead",
  "cacheWrite",
  "output",
  "reasoning",
  "audioInput",
  "audioOutput",
  "request",
  "image",
  "servicePpm",
] as const satisfies (keyof UnitPrices)[];

/** Chooses the tier, the image price and the service tier's factor. */
export function unitPricesOf(prices: Prices, { inputTokens, images, serviceTier = "" }: Priced): UnitPrices {
  const tier = prices.tiers
    .filter(({ aboveInputTokens }) => inputTokens > aboveInputTokens)
    .reduce<Prices["tiers"][number] | undefined>(
      (highest, other) => (highest && highest.aboveInputTokens > other.aboveInputTokens ? highest : other),
      undefined,
    );
  const chosen: Omit<Prices, "images" | "tiers" | "serviceTiers"> =
    tier === undefined ? prices : { ...prices, ...tier };
  const { inputPerMillion, outputPerMillion } = chosen;
  const imagePrice =
    images &&
    prices.images.find(
      ({ size = images.size, quality = images.quality }) => size === images.size && quality === images.quality,
    );
  const output = imagePrice === undefined ? outputPerMillion : 0;
  return {
    input: nanoOf(inputPerMillion),
    cacheRead: nanoOf(chosen.cachedInputPerMillion ?? inputPerMillion),
    cacheWrite: nanoOf(chosen.cacheWritePerMillion ?? inputPerMillion),
    output: nanoOf(output),
    reasoning: nanoOf(chosen.reasoningPerMillion ?? output),
    audioInput: nanoOf(chosen.audioInputPerMillion ?? inputPerMillion),
    audioOutput: nanoOf(chosen.audioOutputPerMillion ?? output),
    request: nanoOf(chosen.perRequest ?? 0),
    image: nanoOf(imagePrice?.price ?? 0),
    servicePpm: ppmOf(
      Object.hasOwn(prices.serviceTiers, serviceTier) ? (prices.serviceTiers[serviceTier] as number) : 1,
    ),
  };
}

const million = 1_000_000n;

/** The cost of an answer in nano-units, rounded half up once. `ratioPpm` is the caller's group's factor. */
export function costOf(unit: UnitPrices, used: Priced, ratioPpm: number): bigint {
  const { audioInputTokens = 0, audioOutputTokens = 0, images } = used;
  const plainInput = Math.max(0, used.inputTokens - used.cachedInputTokens - used.cacheWriteTokens - audioInputTokens);
  const plainOutput = Math.max(0, used.outputTokens - used.reasoningTokens - audioOutputTokens);
  const counts: [count: number, price: number][] = [
    [plainInput, unit.input],
    [used.cachedInputTokens, unit.cacheRead],
    [used.cacheWriteTokens, unit.cacheWrite],
    [audioInputTokens, unit.audioInput],
    [plainOutput, unit.output],
    [used.reasoningTokens, unit.reasoning],
    [audioOutputTokens, unit.audioOutput],
  ];
  let sum = (BigInt(unit.request) + BigInt(images?.count ?? 0) * BigInt(unit.image)) * million;
  for (const [count, price] of counts) if (count > 0 && price > 0) sum += BigInt(count) * BigInt(price);
  return dividedBy(sum * BigInt(unit.servicePpm) * BigInt(ratioPpm), million * million * million);
}
