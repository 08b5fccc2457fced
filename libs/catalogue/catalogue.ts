/**
 * The catalogue as processes use it: immutable, and indexed for look-ups on every request.
 * schema.ts describes the settings.
 */
import type { UpstreamDialect } from "#dialects/dialect.ts";
import { cacheDomainOf, credentialNamesOf } from "./environment.ts";
import type { CatalogueFile } from "./schema.ts";
import { type DeclaredModels, modelOf, type PricedModel, wildcardOf } from "./wildcards.ts";

type FileUpstream = CatalogueFile["upstreams"][string];
type FileModel = CatalogueFile["models"][number];

/** In milliseconds. */
export type UpstreamTimeouts = FileUpstream["timeouts"];

/** One target of a model's route. */
export type Target = FileModel["route"][number];

/** An upstream whose `requires` is met, with the variables in its `baseUrl` replaced. */
export type CatalogueUpstream = Omit<FileUpstream, "requires"> &
  Required<Pick<FileUpstream, "authentication" | "betas" | "omits">> & { readonly name: string };

/**
 * The dialect to use with an upstream: the preferred one if the upstream speaks it, otherwise the
 * upstream's own.
 */
export const spokenWith = ({ dialect, alsoSpeaks }: CatalogueUpstream, preferred: UpstreamDialect): UpstreamDialect =>
  alsoSpeaks.includes(preferred) ? preferred : dialect;

/** Whether an upstream has the endpoints of a dialect. */
export const speaks = ({ dialect, alsoSpeaks }: CatalogueUpstream, wanted: UpstreamDialect): boolean =>
  dialect === wanted || alsoSpeaks.includes(wanted);

/**
 * A model with at least one target: its route contains only targets whose upstream is offered here.
 */
export type CatalogueModel = Omit<PricedModel, "name" | "created" | "route"> & {
  readonly name: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly route: readonly (Target & {
    /** With `*` in the place of the name that a wildcard passed through. */
    readonly pattern?: string;
  })[];
};

export interface Catalogue extends Pick<CatalogueFile, "currency" | "addresses" | "publicGroup"> {
  /** Identifies the file's content: the beginning of its SHA-256, in hex. */
  readonly version: string;
  readonly queues: ReadonlyMap<string, CatalogueFile["queues"][string]>;
  readonly groups: ReadonlyMap<string, CatalogueFile["groups"][string]>;
  /** Only those offered here. */
  readonly upstreams: ReadonlyMap<string, CatalogueUpstream>;
  /** Only those offered here, in the order of the file. */
  readonly models: readonly CatalogueModel[];
  /**
   * Wildcards with prices for all of their models, offered here, in the order of the file. Their
   * ids end in `*`.
   */
  readonly wildcards: readonly CatalogueModel[];
  readonly declaredModels: DeclaredModels;
  /**
   * Every environment variable that an upstream of the file names as a credential or in `requires`,
   * offered here or not, except those of addresses.
   */
  readonly credentialVariables: ReadonlySet<string>;
  /** Every one that the address of an upstream contains, offered here or not. */
  readonly addressVariables: ReadonlySet<string>;
  /** Undefined for an unknown model and for one outside the group. */
  modelFor(group: string, id: string): CatalogueModel | undefined;
  /** The same for every group. */
  modelWith(id: string): CatalogueModel | undefined;
  /**
   * Names a model where each name needs memory for long, as in metrics: a wildcard's id for all of
   * the models that it does not list.
   */
  labelOf(id: string): string;
  /** In the order of the file; empty for an unknown group. */
  modelsOf(group: string): readonly CatalogueModel[];
  /** The wildcards of which a group may use at least some models. */
  wildcardsOf(group: string): readonly CatalogueModel[];
}

/** Remembers what follows from a model, which does not change within a catalogue. */
export function oncePerModel<Value extends {}>(
  make: (catalogue: Catalogue, model: CatalogueModel) => Value,
): (catalogue: Catalogue, model: CatalogueModel) => Value {
  const catalogues = new WeakMap<Catalogue, WeakMap<CatalogueModel, Value>>();
  return (catalogue, model) => {
    let values = catalogues.get(catalogue);
    if (values === undefined) {
      values = new WeakMap();
      catalogues.set(catalogue, values);
    }
    let value = values.get(model);
    if (value === undefined) {
      value = make(catalogue, model);
      values.set(model, value);
    }
    return value;
  };
}

/**
 * How many prompt caches may serve a model's requests: its targets, times the cache domains of
 * their credentials.
 */
export function cachePlacesOf({ upstreams }: Pick<Catalogue, "upstreams">, { route }: CatalogueModel): number {
  let count = 0;
  for (const { upstream: name } of route) {
    const upstream = upstreams.get(name);
    if (upstream === undefined) continue;
    const names = credentialNamesOf(upstream);
    count += names.length < 2 ? 1 : new Set(names.map((credential) => cacheDomainOf(upstream, credential))).size;
  }
  return count;
}

/** Whether a model can match both a wildcard and a pattern of a group. */
function overlap(wildcard: string, pattern: string): boolean {
  const prefix = wildcard.slice(0, -1);
  const [start = ""] = pattern.split("*", 1);
  return start.startsWith(prefix) || (pattern.endsWith("*") && prefix.startsWith(start));
}

/** Models of wildcards that are kept for the next request. */
const passedModelsMax = 1_000;
/** The label of models that have left the catalogue. */
const otherModels = "other";

/** Freezes the parts deeply, except the maps and sets, which TypeScript protects. */
export function createCatalogue(
  parts: Omit<Catalogue, "modelFor" | "modelWith" | "labelOf" | "modelsOf" | "wildcardsOf">,
): Catalogue {
  for (const part of [
    parts.addresses,
    parts.models,
    parts.wildcards,
    ...parts.queues.values(),
    ...parts.groups.values(),
    ...parts.upstreams.values(),
  ])
    freezeDeep(part);
  const matchers = new Map([...parts.groups].map(([name, group]) => [name, matcherOf(group.models)]));
  const offers = new Map(
    [...matchers].map(([name, isAllowed]) => [
      name,
      new Map(parts.models.filter(({ id }) => isAllowed(id)).map((model) => [model.id, model])),
    ]),
  );
  const lists = new Map([...offers].map(([name, models]) => [name, Object.freeze([...models.values()])]));
  const byId = new Map(parts.models.map((model) => [model.id, model]));
  const passed = new Map<string, CatalogueModel>();
  const modelWith = (id: string) => byId.get(id) ?? passed.get(id) ?? passedModel(id);
  const passedModel = (id: string) => {
    const wildcard = wildcardOf(parts.wildcards, id);
    if (wildcard === undefined) return undefined;
    const { route, ...model } = modelOf(wildcard, id);
    const patterns = wildcard.route.map((target) => target.model);
    const whole = {
      ...model,
      route: route.map((target, place) => ({ ...target, pattern: patterns[place] as string })),
    };
    freezeDeep(whole);
    if (passed.size >= passedModelsMax) passed.clear();
    passed.set(id, whole);
    return whole;
  };
  const none: readonly CatalogueModel[] = Object.freeze([]);
  return Object.freeze({
    ...parts,
    modelFor(group: string, id: string) {
      const listed = offers.get(group)?.get(id);
      if (listed !== undefined || parts.wildcards.length === 0 || byId.has(id)) return listed;
      return matchers.get(group)?.(id) ? modelWith(id) : undefined;
    },
    modelWith,
    labelOf: (id: string) => (byId.has(id) ? id : (wildcardOf(parts.wildcards, id)?.id ?? otherModels)),
    modelsOf: (group: string) => lists.get(group) ?? none,
    wildcardsOf: (group: string) =>
      parts.wildcards.filter(({ id }) => parts.groups.get(group)?.models.some((pattern) => overlap(id, pattern))),
  });
}

/**
 * Tests whether a text equals one of these patterns, or starts with the prefix of a pattern with a
 * trailing `*`.
 */
export function matcherOf(patterns: readonly string[]): (id: string) => boolean {
  const ids = new Set(patterns);
  const prefixes = patterns.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1));
  return (id) => ids.has(id) || prefixes.some((prefix) => id.startsWith(prefix));
}

function freezeDeep(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const part of Object.values(value)) freezeDeep(part);
}
