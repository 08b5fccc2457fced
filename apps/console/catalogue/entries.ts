/** The entries of the catalogue, and how those of the database are changed. */
import { type Answer, call } from "../app/call.ts";
import { useRead } from "../app/queries.ts";

export type Entries = Answer<"listCatalogueEntries">;
export type Entry = Entries["models"][number];
export type Change = Answer<"putModel">;

/** Checks a change, or makes it. Rejects with an ApiFault. */
export type EntryChange = (query: { dryRun: boolean; comment?: string }) => Promise<Change>;

export type EntryKind = "upstream" | "model" | "group" | "queue";

const everyMs = 5_000;
export const useEntries = () => useRead("listCatalogueEntries", {}, { everyMs });

/** A change is based on the version that the person has seen. */
export const basedOn = ({ revision }: Pick<Entries, "revision">) => ({ ifMatch: `"${revision}"` });

interface EntryName {
  kind: EntryKind;
  name: string;
}

export function putEntry(entries: Entries, { kind, name }: EntryName, body: Entry["entry"]): EntryChange {
  return (query) => {
    const options = basedOn(entries);
    switch (kind) {
      case "upstream":
        return call("putUpstream", { params: { upstream: name }, query, body }, options);
      case "model":
        return call("putModel", { params: { model: name }, query, body }, options);
      case "group":
        return call("putGroup", { params: { group: name }, query, body }, options);
      case "queue":
        return call("putQueue", { params: { queue: name }, query, body }, options);
    }
  };
}

export function deleteEntry(entries: Entries, { kind, name }: EntryName): EntryChange {
  return (query) => {
    const options = basedOn(entries);
    switch (kind) {
      case "upstream":
        return call("deleteUpstream", { params: { upstream: name }, query }, options);
      case "model":
        return call("deleteModel", { params: { model: name }, query }, options);
      case "group":
        return call("deleteGroup", { params: { group: name }, query }, options);
      case "queue":
        return call("deleteQueue", { params: { queue: name }, query }, options);
    }
  };
}

/** A target of a model's route, as it is written. */
export interface RouteTarget {
  upstream: string;
  model: string;
  weight?: number;
  prices?: Record<string, unknown>;
  [setting: string]: unknown;
}

export const routeOf = ({ entry: { route } }: Pick<Entry, "entry">): RouteTarget[] =>
  Array.isArray(route) ? (route as RouteTarget[]) : [];

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** The prices that are plain numbers, by their names. */
export const plainPricesOf = (prices: unknown): Record<string, number> =>
  Object.fromEntries(
    Object.entries(isObject(prices) ? prices : {}).filter(
      (pair): pair is [string, number] => typeof pair[1] === "number",
    ),
  );

interface PricedImage {
  size?: string;
  quality?: string;
  price: number;
}

/** The prices of images. */
export const imagesOf = (prices: unknown) =>
  isObject(prices) && Array.isArray(prices.images)
    ? (prices.images as PricedImage[]).map((image) => ({ ...image, price: String(image.price) }))
    : [];

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** Prices that replace others from a day on, until one, or at some hours, as they are written. */
export interface PricePeriod {
  from?: string;
  until?: string;
  hours?: string;
  ratio?: number;
  [price: string]: unknown;
}

export const periodsOf = (prices: unknown): PricePeriod[] =>
  isObject(prices) && Array.isArray(prices.periods) ? (prices.periods as PricePeriod[]) : [];

/** An entry's prices with those that are to come and have no end. */
export function pricesOnceInForce({ prices }: Entry["entry"]): Record<string, unknown> {
  const isToCome = ({ from = "", until, hours, ratio }: PricePeriod) =>
    Date.parse(from) > Date.now() && until === undefined && hours === undefined && ratio === undefined;
  const periods = periodsOf(prices);
  const planned = periods.filter(isToCome).map(({ from: _, ...values }) => values);
  return {
    ...(isObject(prices) ? prices : {}),
    ...(planned.length > 0 && { ...Object.assign({}, ...planned), periods: periods.filter((each) => !isToCome(each)) }),
  };
}
