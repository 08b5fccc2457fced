/** Vendors' list prices (list-prices.yaml), and how a catalogue's prices differ from them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Type from "typebox";
import { Value } from "typebox/value";
import { type UnitKind, unitKinds, unitNames } from "#dialects/usage.ts";
import { unitsOf } from "#ledger/money.ts";
import {
  type Priced,
  type Prices,
  pricesSchema,
  type UnitPrices,
  type unitPriceNames,
  unitPricesOf,
} from "#ledger/prices.ts";
import { readDocument } from "./document.ts";
import { type Environment, filledIn } from "./environment.ts";
import { CatalogueFault } from "./fault.ts";
import type { CatalogueFile } from "./schema.ts";
import { namedModelsOf } from "./wildcards.ts";

const prices = pricesSchema("List prices, by the vendor's name of the model.");

const modelLimits = Type.Object(
  {
    contextWindow: Type.Optional(Type.Integer()),
    outputTokensMax: Type.Optional(Type.Integer()),
    capabilities: Type.Optional(Type.Array(Type.String())),
  },
  { additionalProperties: false },
);

const listSchema = Type.Object(
  {
    date: Type.String({ pattern: "^\\d{4}-\\d{2}-\\d{2}$", description: "When the prices were last compared." }),
    currency: Type.String(),
    vendors: Type.Record(
      Type.String(),
      Type.Object(
        {
          source: Type.String({ description: "The vendor's page of prices." }),
          hosts: Type.Array(Type.String(), { description: "Of upstreams with these prices." }),
          models: Type.Record(Type.String(), prices),
          limits: Type.Optional(
            Type.Record(Type.String(), modelLimits, { description: "Limits and capabilities of models." }),
          ),
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);

export type ListPrices = Type.Static<typeof listSchema>;

/**
 * How one price of the catalogue compares with the list. `missing`: the catalogue has no such tier,
 * service tier or image.
 */
interface PriceDifference {
  /** The catalogue's name of the price, such as `inputPerMillion` or `serviceTiers.flex`. */
  readonly price: string;
  /** The bound of the tier that it belongs to; 0 for prices that apply to any prompt. */
  readonly aboveInputTokens: number;
  /** Decimal texts, exact. */
  readonly catalogue: string;
  readonly list: string;
  readonly difference: "cheaper" | "dearer" | "missing";
}

/** One target of a model. Without a list price its state is `unknown`. */
export interface CheckedPrices {
  readonly model: string;
  readonly upstream: string;
  readonly target: string;
  readonly state: "equal" | "different" | "unknown";
  /** Which prices were compared: the target's own if it has some, otherwise the model's. */
  readonly of: "target" | "model";
  readonly differences: readonly PriceDifference[];
}

/** The list as docs/list-models.ts makes it from public data. */
interface ListedModels {
  vendors: Record<string, { source: string; hosts: string[]; models: Record<string, ListedModel> }>;
}
type ListedModel = Type.Static<typeof modelLimits> & { prices?: object };

/**
 * The shipped list: prices that were compared with vendors' pages, completed by those of public
 * data, with limits and capabilities. Throws CatalogueFault if a file is damaged.
 */
export function readListPrices(): ListPrices {
  const compared = readComparedPrices();
  const file = join(import.meta.dirname, "list-models.json");
  const { vendors: listed } = JSON.parse(readFileSync(file, "utf8")) as ListedModels;
  const vendors = { ...compared.vendors };
  for (const [name, { models, source, hosts }] of Object.entries(listed)) {
    const own = vendors[name];
    const priced: Record<string, unknown> = {};
    const limits: Record<string, Type.Static<typeof modelLimits>> = {};
    for (const [id, { prices: publicPrices, ...rest }] of Object.entries(models)) {
      limits[id] = rest;
      const isCompared = undatedNames(id).some((each) => own !== undefined && Object.hasOwn(own.models, each));
      if (publicPrices !== undefined && !isCompared) priced[id] = Value.Default(prices, publicPrices);
    }
    const all = { ...(priced as ListPrices["vendors"][string]["models"]), ...own?.models };
    vendors[name] = { source: own?.source ?? source, hosts: own?.hosts ?? hosts, models: all, limits };
  }
  return { ...compared, vendors };
}

/** Only the prices that were compared with vendors' pages. */
export function readComparedPrices(file = join(import.meta.dirname, "list-prices.yaml")): ListPrices {
  const { value } = readDocument(readFileSync(file), file);
  // typebox fills in no defaults in the values of a record.
  for (const { models } of Object.values(Object(Object(value).vendors)) as { models?: object }[])
    for (const model of Object.values(models ?? {})) Value.Default(prices, model);
  if (Value.Check(listSchema, value)) return value;
  const [error] = Value.Errors(listSchema, value);
  throw new CatalogueFault(`${file}: ${error?.instancePath} ${error?.message}`);
}

/** Compares every target of every model, offered here or not. */
export const checkPrices = (file: CatalogueFile, list: ListPrices, environment: Environment): CheckedPrices[] =>
  namedModelsOf(file.models).flatMap(({ id: model, prices, route }) =>
    route.map(({ upstream, model: target, prices: own }): CheckedPrices => {
      const listed = listedFor(list, file.upstreams[upstream]?.baseUrl ?? "", target, environment);
      const differences = listed ? differencesOf(own ?? prices, listed) : [];
      const comparison = differences.length === 0 ? "equal" : "different";
      const of = own ? "target" : "model";
      return { model, upstream, target, state: listed ? comparison : "unknown", of, differences };
    }),
  );

/** The prices and limits that the list has of a model, by the address of its upstream. */
export function listedModelOf(
  list: ListPrices,
  { baseUrl, name, environment }: { baseUrl: string; name: string; environment: Environment },
): { prices?: Prices | undefined } & Type.Static<typeof modelLimits> {
  const vendor = vendorOf(list, baseUrl, environment);
  const limits = undatedNames(name).map((each) =>
    vendor?.limits !== undefined && Object.hasOwn(vendor.limits, each) ? vendor.limits[each] : undefined,
  );
  return { prices: vendor && pricesIn(vendor, name), ...limits.find((each) => each !== undefined) };
}

function listedFor(list: ListPrices, baseUrl: string, name: string, environment: Environment) {
  const vendor = vendorOf(list, baseUrl, environment);
  return vendor && pricesIn(vendor, name);
}

const pricesIn = ({ models }: ListPrices["vendors"][string], name: string) =>
  undatedNames(name)
    .map((each) => (Object.hasOwn(models, each) ? models[each] : undefined))
    .find((prices) => prices !== undefined);

/** A dated snapshot has the prices of its model, unless it is listed itself. */
const undatedNames = (name: string) => [name, name.replace(/-(\d{8}|\d{4}-\d{2}-\d{2})$/, "")];

function vendorOf({ vendors }: ListPrices, baseUrl: string, environment: Environment) {
  const address = filledIn(baseUrl, environment);
  if (address.kind === "faulty" || !URL.canParse(address.text)) return undefined;
  const { hostname } = new URL(address.text);
  return Object.values(vendors).find(({ hosts }) => hosts.includes(hostname));
}

/** The catalogue's names of the prices of tokens and requests. */
const names: readonly (readonly [
  price: Exclude<keyof Prices, "images" | "tiers" | "serviceTiers" | "periods">,
  unit: (typeof unitPriceNames)[number] | UnitKind,
])[] = [
  ["inputPerMillion", "input"],
  ["cachedInputPerMillion", "cacheRead"],
  ["cacheWritePerMillion", "cacheWrite"],
  ["audioInputPerMillion", "audioInput"],
  ["outputPerMillion", "output"],
  ["reasoningPerMillion", "reasoning"],
  ["audioOutputPerMillion", "audioOutput"],
  ["perRequest", "request"],
  ["cacheWrite1hPerMillion", "cacheWrite1hTokens"],
  ["cachedAudioPerMillion", "cachedAudioTokens"],
  ["imageInputPerMillion", "imageInputTokens"],
  ["imageOutputPerMillion", "imageOutputTokens"],
  ["perWebSearch", "webSearches"],
  ["perMapSearch", "mapSearches"],
  ["perFileSearch", "fileSearches"],
  ["perCodeSession", "codeSessions"],
  ["perSearchUnit", "searchUnits"],
  ["perAudioSecond", "audioSeconds"],
];

const oneOfEach = Object.fromEntries(unitNames.map((kind) => [kind, 1]));

/** The price of a unit, in nano-units; 0 if it is unknown. */
const amountOf = (prices: UnitPrices, unit: (typeof names)[number][1]): number =>
  unit in unitKinds ? (prices.units?.[unit as UnitKind] ?? 0) : prices[unit as (typeof unitPriceNames)[number]];

/** Compares the prices that callers would pay, so an absent price counts as its default. */
function differencesOf(prices: Prices, listed: Prices): PriceDifference[] {
  const boundsOf = ({ tiers }: Prices) => [0, ...tiers.map(({ aboveInputTokens }) => aboveInputTokens)];
  const bounds = new Set([...boundsOf(prices), ...boundsOf(listed)]);
  return [
    ...[...bounds].sort((a, b) => a - b).flatMap((bound) => tokenDifferencesOf(prices, listed, bound)),
    ...imageDifferencesOf(prices, listed),
    ...Object.entries(listed.serviceTiers).flatMap(([name, ratio]) => {
      const own = Object.hasOwn(prices.serviceTiers, name) ? prices.serviceTiers[name] : undefined;
      return differenceOf(`serviceTiers.${name}`, 0, String(own ?? 1), String(ratio), own === undefined);
    }),
  ];
}

function tokenDifferencesOf(prices: Prices, listed: Prices, bound: number): PriceDifference[] {
  const isTier = ({ tiers }: Prices) => bound === 0 || tiers.some(({ aboveInputTokens }) => aboveInputTokens === bound);
  // A price for seconds replaces that of input tokens in the same answer, so two answers are
  // priced.
  const [own, theirs] = [prices, listed].map((prices) => {
    const { units } = unitPricesOf(prices, { ...usageOf(bound + 1), units: oneOfEach });
    return { ...unitPricesOf(prices, usageOf(bound + 1)), ...(units && { units }) };
  }) as [UnitPrices, UnitPrices];
  const isNamed = (name: string) => [prices, listed].some((each) => [each, ...each.tiers].some((part) => name in part));
  const isMissing = (unit: (typeof names)[number][1]) =>
    (isTier(listed) && !isTier(prices)) || own.units?.[unit as UnitKind] === null;
  return names
    .filter(([name]) => isNamed(name) && (bound === 0 || !name.startsWith("per")))
    .flatMap(([name, unit]) =>
      differenceOf(name, bound, textOf(amountOf(own, unit)), textOf(amountOf(theirs, unit)), isMissing(unit)),
    );
}

const imageDifferencesOf = (prices: Prices, listed: Prices): PriceDifference[] =>
  listed.images.flatMap(({ size, quality, price }) => {
    const images = { count: 1, ...(size !== undefined && { size }), ...(quality !== undefined && { quality }) };
    const { image } = unitPricesOf(prices, { ...usageOf(0), images });
    const name = ["images", size, quality].filter((part) => part !== undefined).join(".");
    return differenceOf(name, 0, textOf(image), String(price), image === 0);
  });

function differenceOf(
  price: string,
  aboveInputTokens: number,
  catalogue: string,
  list: string,
  isMissing: boolean,
): PriceDifference[] {
  if (Number(catalogue) === Number(list)) return [];
  const difference = isMissing ? "missing" : Number(catalogue) < Number(list) ? "cheaper" : "dearer";
  return [{ price, aboveInputTokens, catalogue, list, difference }];
}

const textOf = (nano: number): string => unitsOf(BigInt(nano));

const usageOf = (inputTokens: number): Priced => ({
  inputTokens,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
});
