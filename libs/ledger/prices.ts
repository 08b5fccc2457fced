/**
 * Prices of a model as the catalogue states them, and the cost of an answer. A cost is computed in
 * integers and rounded once, from values that its usage record contains: the unit prices, the
 * ratios and the counts.
 */
import Type from "typebox";
import { tierSeparator, type UnitKind, type Usage, unitKinds } from "#dialects/usage.ts";
import { dividedBy, nanoOf, ppmOf, ppmPerUnit } from "./money.ts";

const priceMax = 1_000_000;
/** In nano-units. */
export const unitPriceMax = nanoOf(priceMax);
const price = (description: string) => Type.Number({ minimum: 0, maximum: priceMax, description });
const optionalPrice = (description: string) => Type.Optional(price(description));

const tokenPrices = {
  cachedInputPerMillion: optionalPrice("Per million input tokens from the upstream's cache. Default: inputPerMillion."),
  cachedAudioPerMillion: optionalPrice(
    "Per million input tokens of audio from the cache. Default: cachedInputPerMillion.",
  ),
  cacheWritePerMillion: optionalPrice(
    "Per million input tokens that the upstream wrote to its cache. Default: inputPerMillion.",
  ),
  cacheWrite1hPerMillion: optionalPrice(
    "Per million input tokens written to the cache for an hour. Default: 1.6 times cacheWritePerMillion, which is Anthropic's ratio; without that inputPerMillion.",
  ),
  imageInputPerMillion: optionalPrice("Per million input tokens of images. Default: inputPerMillion."),
  audioInputPerMillion: optionalPrice("Per million input tokens of audio. Default: inputPerMillion."),
  audioOutputPerMillion: optionalPrice("Per million output tokens of audio. Default: outputPerMillion."),
  imageOutputPerMillion: optionalPrice("Per million output tokens of images. Default: outputPerMillion."),
  reasoningPerMillion: optionalPrice("Per million reasoning tokens. Default: outputPerMillion."),
};

const unitPrices = {
  perRequest: optionalPrice("Per answered request, in addition."),
  perWebSearch: optionalPrice("Per search on the web that the upstream ran, or grounded prompt. Default: unknown."),
  perMapSearch: optionalPrice("Per prompt that the upstream answered with places of a map. Default: unknown."),
  perFileSearch: optionalPrice("Per search in files that the upstream stores. Default: unknown."),
  perCodeSession: optionalPrice("Per sandbox in which the upstream ran code. Default: unknown."),
  perSearchUnit: optionalPrice(
    "Per search unit that the upstream counted for a ranking, such as Cohere's of 100 documents. Default: 0 with a price per request, otherwise unknown.",
  ),
  perAudioSecond: optionalPrice(
    "Per second of recorded audio, where the upstream reports a duration and no tokens; it replaces inputPerMillion. Default: 25 input tokens per second.",
  ),
};

const singlePrices = {
  inputPerMillion: optionalPrice("As above."),
  outputPerMillion: optionalPrice("As above."),
  ...tokenPrices,
};

const instant = (description: string) =>
  Type.Optional(Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}(:\\d{2})?Z)?$", description }));

const pricesFields = {
  inputPerMillion: price("Per million input tokens."),
  outputPerMillion: price("Per million output tokens, reasoning included."),
  ...tokenPrices,
  ...unitPrices,
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
        ...singlePrices,
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
      "Factors for the `service_tier` with which the upstream answered, such as `flex: 0.5`; Anthropic's `speed` and `inference_geo` are `fast` and `us`. Several are multiplied. Default: 1 for each.",
  }),
  periods: Type.Optional(
    Type.Array(
      Type.Object(
        {
          from: instant("The first moment, such as 2026-12-31 or 2026-12-31T16:00:00Z, in UTC. Default: always."),
          until: instant("The first moment after it. Default: without end."),
          hours: Type.Optional(
            Type.String({
              pattern: "^([01]\\d|2[0-3]):[0-5]\\d-([01]\\d|2[0-3]):[0-5]\\d$",
              description: "Only between these times of every day, in UTC, such as 16:30-00:30.",
            }),
          ),
          ratio: Type.Optional(
            Type.Number({ minimum: 0, maximum: 100, description: "A factor of all prices, with up to six decimals." }),
          ),
          ...singlePrices,
          ...unitPrices,
        },
        { additionalProperties: false },
      ),
      {
        maxItems: 20,
        description:
          "Prices that begin, end, or apply at some hours. They replace the prices that they name, for requests received then; of several, the last one. Prices of tiers come after them.",
      },
    ),
  ),
};

/** The schema of a model's prices in the catalogue. */
export const pricesSchema = (description: string, more: object = {}) =>
  Type.Object(pricesFields, { additionalProperties: false, description, ...more });

type FilePrices = Type.Static<ReturnType<typeof pricesSchema>>;

/** The prices of a model. Absent lists are empty. */
export type Prices = {
  readonly [Name in keyof FilePrices]: FilePrices[Name] extends readonly unknown[] | undefined
    ? readonly Readonly<NonNullable<FilePrices[Name]>[number]>[]
    : Readonly<FilePrices[Name]>;
};

const priceName = /^(?:per[A-Z]\w*|\w+PerMillion|price)$/;

/** Whether no answer at these prices costs anything, whatever it uses and whenever it is made. */
export const isFree = (prices: object): boolean =>
  Object.entries(prices).every(([name, value]) =>
    typeof value === "object" ? isFree(value) : value === 0 || !priceName.test(name),
  );

/** The counts that bear a price: parts are included in their wholes, and do not overlap. */
export type Priced = Omit<Usage, "isCapped" | "isEstimated">;

/**
 * The prices that apply to one answer: whole nano-units per million tokens, per request and per
 * image.
 */
export interface UnitPrices {
  /**
   * Prices of the units that the answer used: per million tokens, or per unit. Null is unknown:
   * tokens then cost as much as their whole, other units nothing.
   */
  readonly units?: Readonly<Partial<Record<UnitKind, number | null>>>;
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
  readonly reasoning: number;
  readonly audioInput: number;
  readonly audioOutput: number;
  readonly request: number;
  readonly image: number;
  /** Parts per million, of the service tier and the period. */
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
] as const satisfies Exclude<keyof UnitPrices, "units">[];

/** The names of the prices of single units, which neither tiers nor the like replace as a whole. */
type SinglePrices = Omit<Prices, "images" | "tiers" | "serviceTiers" | "periods">;

/** The prices of most answers, by the catalogue's: nothing of the request changes them. */
const usualPrices = new WeakMap<Prices, UnitPrices>();

const isUsual = ({ tiers, periods = [] }: Prices, { inputTokens, images, serviceTier = "", units }: Priced): boolean =>
  images === undefined &&
  units === undefined &&
  serviceTier === "" &&
  periods.length === 0 &&
  !tiers.some(({ aboveInputTokens }) => inputTokens > aboveInputTokens);

/**
 * Chooses the period, the tier, the image price and the factors. `at` is when the request was
 * received, in epoch milliseconds; without it no period applies.
 */
export function unitPricesOf(prices: Prices, used: Priced, at?: number): UnitPrices {
  if (!isUsual(prices, used)) return chosenPricesOf(prices, used, at);
  const present = usualPrices.get(prices);
  if (present !== undefined) return present;
  const unitPrices = chosenPricesOf(prices, used, at);
  usualPrices.set(prices, unitPrices);
  return unitPrices;
}

function chosenPricesOf(
  prices: Prices,
  { inputTokens, images, serviceTier = "", units }: Priced,
  at: number | undefined,
): UnitPrices {
  const periods = at === undefined ? [] : (prices.periods ?? []).filter((period) => isWithin(period, at));
  const tier = prices.tiers
    .filter(({ aboveInputTokens }) => inputTokens > aboveInputTokens)
    .reduce<Prices["tiers"][number] | undefined>(
      (highest, other) => (highest && highest.aboveInputTokens > other.aboveInputTokens ? highest : other),
      undefined,
    );
  const imagePrice =
    images &&
    prices.images.find(
      ({ size = images.size, quality = images.quality }) => size === images.size && quality === images.quality,
    );
  const bySize = imagePrice && { outputPerMillion: 0, imageOutputPerMillion: 0 };
  const chosen: SinglePrices = Object.assign({}, prices, ...periods, tier, bySize);
  const { outputPerMillion: output } = chosen;
  const isTimed = (units?.audioSeconds ?? 0) > 0 && chosen.perAudioSecond !== undefined;
  const inputPerMillion = isTimed ? 0 : chosen.inputPerMillion;
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
      [
        ...serviceTier
          .split(tierSeparator)
          .map((name) => (Object.hasOwn(prices.serviceTiers, name) ? (prices.serviceTiers[name] as number) : 1)),
        ...periods.map(({ ratio = 1 }) => ratio),
      ].reduce((product, ratio) => product * ratio, 1),
    ),
    ...(units !== undefined && {
      units: Object.fromEntries(
        (Object.keys(units) as UnitKind[]).map((kind) => {
          const amount = unitPriceOf[kind](chosen);
          return [kind, amount === undefined ? null : nanoOf(amount)];
        }),
      ),
    }),
  };
}

/**
 * Anthropic's price of a cache write for an hour, as a multiple of one for five minutes:
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing
 */
const hourRatio = 2 / 1.25;

/** The price of each unit, in the catalogue's currency; undefined if it is unknown. */
const unitPriceOf: Record<UnitKind, (prices: SinglePrices) => number | undefined> = {
  cacheWrite1hTokens: ({ cacheWrite1hPerMillion: own, cacheWritePerMillion: short, inputPerMillion }) =>
    own ?? (short === undefined ? inputPerMillion : short * hourRatio),
  cachedAudioTokens: ({ cachedAudioPerMillion: own, cachedInputPerMillion: cached, inputPerMillion }) =>
    own ?? cached ?? inputPerMillion,
  imageInputTokens: ({ imageInputPerMillion: own, inputPerMillion }) => own ?? inputPerMillion,
  imageOutputTokens: ({ imageOutputPerMillion: own, outputPerMillion }) => own ?? outputPerMillion,
  webSearches: ({ perWebSearch }) => perWebSearch,
  mapSearches: ({ perMapSearch }) => perMapSearch,
  fileSearches: ({ perFileSearch }) => perFileSearch,
  codeSessions: ({ perCodeSession }) => perCodeSession,
  searchUnits: ({ perSearchUnit: own, perRequest }) => own ?? (perRequest === undefined ? undefined : 0),
  // Without a price the seconds are billed as tokens.
  audioSeconds: ({ perAudioSecond }) => perAudioSecond ?? 0,
};

const dayMinutes = 1_440;

/** Does the period contain this moment? A span of hours may cross midnight. */
function isWithin({ from, until, hours }: NonNullable<Prices["periods"]>[number], at: number): boolean {
  if (from !== undefined && at < Date.parse(from)) return false;
  if (until !== undefined && at >= Date.parse(until)) return false;
  if (hours === undefined) return true;
  const [first = 0, last = 0] = hours.split("-").map((time) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3)));
  const minute = Math.floor(at / 60_000) % dayMinutes;
  return first <= last ? minute >= first && minute < last : minute >= first || minute < last;
}

/** The count that contains tokens of this kind; undefined for other units. */
export const wholeOf = (kind: UnitKind): Wholes[UnitKind] => unitKinds[kind];
type Wholes = typeof unitKinds;

/** The units of an answer whose prices the catalogue does not know. */
export const unpricedUnitsOf = ({ units = {} }: UnitPrices): UnitKind[] =>
  (Object.keys(units) as UnitKind[]).filter((kind) => units[kind] === null);

/**
 * Whether a cost leaves out units without a price, by a record's kinds, counts and prices: tokens
 * without one cost as much as those that contain them.
 */
export const isPartial = (units: readonly (readonly [kind: string, count: number, price: number | null])[] | null) =>
  units?.some(
    ([kind, , price]) => price === null && Object.hasOwn(unitKinds, kind) && wholeOf(kind as UnitKind) === undefined,
  ) ?? false;

const million = 1_000_000n;

/**
 * The cost of an answer in nano-units, rounded half up once. `ratioPpm` is the caller's group's
 * factor.
 */
export function costOf(unit: UnitPrices, used: Priced, ratioPpm: number): bigint {
  const imageCount = used.images?.count ?? 0;
  let plainSum = (unit.request + imageCount * unit.image) * ppmPerUnit;
  eachTokens(unit, used, (count, price) => {
    plainSum += count * price;
  });
  const isPlain = used.units === undefined && unit.servicePpm === ppmPerUnit && ratioPpm === ppmPerUnit;
  const roundedUp = plainSum + ppmPerUnit / 2;
  // Exact as well, and without the cost of big integers.
  if (isPlain && Number.isSafeInteger(roundedUp)) return BigInt((roundedUp - (roundedUp % ppmPerUnit)) / ppmPerUnit);
  let sum = (BigInt(unit.request) + BigInt(imageCount) * BigInt(unit.image)) * million;
  eachTokens(unit, used, (count, price) => {
    if (price > 0) sum += BigInt(count) * BigInt(price);
  });
  if (used.units !== undefined && unit.units !== undefined) sum += unitsCostOf(unit, used.units);
  return dividedBy(sum * BigInt(unit.servicePpm) * BigInt(ratioPpm), million * million * million);
}

/** Calls back with each kind of tokens: its count, which is not below zero, and its price. */
function eachTokens(unit: UnitPrices, used: Priced, add: (count: number, price: number) => void): void {
  const { audioInputTokens = 0, audioOutputTokens = 0 } = used;
  add(Math.max(0, used.inputTokens - used.cachedInputTokens - used.cacheWriteTokens - audioInputTokens), unit.input);
  add(Math.max(0, used.cachedInputTokens), unit.cacheRead);
  add(Math.max(0, used.cacheWriteTokens), unit.cacheWrite);
  add(Math.max(0, audioInputTokens), unit.audioInput);
  add(Math.max(0, used.outputTokens - used.reasoningTokens - audioOutputTokens), unit.output);
  add(Math.max(0, used.reasoningTokens), unit.reasoning);
  add(Math.max(0, audioOutputTokens), unit.audioOutput);
}

/**
 * The saving by the vendor's prompt cache in nano-units: the cost of the same tokens as plain
 * input, less the cost. It is below zero where writing cost more than reading saved.
 */
export function cacheSavingOf(unit: UnitPrices, used: Priced, ratioPpm: number): bigint {
  if (used.cachedInputTokens === 0 && used.cacheWriteTokens === 0) return 0n;
  const { cacheWrite1hTokens: hour, cachedAudioTokens: audio } = unit.units ?? {};
  const uncached: UnitPrices = {
    ...unit,
    cacheRead: unit.input,
    cacheWrite: unit.input,
    units: {
      ...unit.units,
      ...(typeof hour === "number" && { cacheWrite1hTokens: unit.input }),
      ...(typeof audio === "number" && { cachedAudioTokens: unit.audioInput }),
    },
  };
  return costOf(uncached, used, ratioPpm) - costOf(unit, used, ratioPpm);
}

/**
 * The cost that units add, times a million. Tokens of a kind are counted in their whole already,
 * so only the difference of the prices is added.
 */
function unitsCostOf(unit: UnitPrices, units: NonNullable<Priced["units"]>): bigint {
  const wholes = {
    inputTokens: unit.input,
    cachedInputTokens: unit.cacheRead,
    cacheWriteTokens: unit.cacheWrite,
    outputTokens: unit.output,
  };
  let sum = 0n;
  for (const [kind, count] of Object.entries(units) as [UnitKind, number][]) {
    const price = unit.units?.[kind];
    const whole = unitKinds[kind];
    if (price === undefined || price === null) continue;
    sum += BigInt(count) * (whole === undefined ? BigInt(price) * million : BigInt(price) - BigInt(wholes[whole]));
  }
  return sum;
}
