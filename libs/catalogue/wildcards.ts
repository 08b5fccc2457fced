/**
 * Entries of the catalogue whose id ends in `*`. A model whose id begins with the rest of the
 * entry's is passed through: the part in the place of `*` is its name at the targets.
 */
import type { CatalogueFile } from "./schema.ts";

type FileModel = CatalogueFile["models"][number];

/** An entry with one model, as callers name it. */
export type PricedModel = Omit<FileModel, "prices" | "pricesByModel"> & Required<Pick<FileModel, "prices">>;

interface Entry {
  readonly id: string;
  readonly route: readonly { readonly model: string }[];
}

const idForm = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$/;
/** Steps that would lead to another path of an upstream, whose address may contain the name. */
const emptyStep = /(^|\/)\.{0,2}(\/|$)/;

export const isWildcard = (id: string): boolean => id.endsWith("*");

/** The part of an id in the place of an entry's `*`; undefined if it is none of its models. */
export function nameIn(entryId: string, id: string): string | undefined {
  const prefix = entryId.slice(0, -1);
  const name = id.slice(prefix.length);
  return id.startsWith(prefix) && idForm.test(id) && !emptyStep.test(name) ? name : undefined;
}

/** The most specific of these entries with this model; undefined if there is none. */
export const wildcardOf = <Wildcard extends Entry>(entries: readonly Wildcard[], id: string): Wildcard | undefined =>
  entries
    .filter((entry) => nameIn(entry.id, id) !== undefined)
    .reduce<Wildcard | undefined>(
      (best, entry) => (best && best.id.length > entry.id.length ? best : entry),
      undefined,
    );

/** The entry as one of its models. */
export const modelOf = <Wildcard extends Entry>(entry: Wildcard, id: string): Wildcard => ({
  ...entry,
  id,
  name: id,
  route: entry.route.map((target) => ({
    ...target,
    model: target.model.replace("*", () => nameIn(entry.id, id) ?? ""),
  })),
});

/** The models whose prices a wildcard lists, by their ids. */
export const listedPricesOf = ({ id, pricesByModel = {} }: Pick<FileModel, "id" | "pricesByModel">) =>
  Object.entries(pricesByModel).map(([name, prices]) => ({ id: `${id.slice(0, -1)}${name}`, name, prices }));

/** The ids of a file, and whether it has a model with an id, offered here or not. */
export interface DeclaredModels {
  /** A wildcard's ends in `*`. */
  readonly ids: ReadonlySet<string>;
  has(id: string): boolean;
}

export function declaredModelsOf(models: CatalogueFile["models"]): DeclaredModels {
  const ids = new Set(models.flatMap((model) => [model.id, ...listedPricesOf(model).map(({ id }) => id)]));
  const wildcards = models.filter(({ id, prices }) => isWildcard(id) && prices !== undefined);
  return { ids, has: (id) => ids.has(id) || wildcardOf(wildcards, id) !== undefined };
}

/** Every model that the file names: also those whose prices a wildcard lists. */
export const namedModelsOf = (models: CatalogueFile["models"]): PricedModel[] =>
  models.flatMap(({ pricesByModel, prices, ...entry }): PricedModel[] => {
    if (isWildcard(entry.id))
      return listedPricesOf({ id: entry.id, ...(pricesByModel && { pricesByModel }) }).map((listed) => ({
        ...modelOf(entry, listed.id),
        prices: listed.prices,
      }));
    return prices ? [{ ...entry, prices }] : [];
  });
