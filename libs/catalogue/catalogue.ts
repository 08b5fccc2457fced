/**
 * The catalogue as processes use it: immutable, and indexed for look-ups on every request.
 * schema.ts describes the settings.
 */
import type { UpstreamDialect } from "#dialects/dialect.ts";
import type { CatalogueFile } from "./schema.ts";

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
export type CatalogueModel = Omit<FileModel, "name" | "created"> & {
  readonly name: string;
  /** Seconds since 1970. */
  readonly created: number;
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
  /** Every id in the file, including models that are not offered here. */
  readonly declaredModelIds: ReadonlySet<string>;
  /**
   * Every environment variable that an upstream of the file names as a credential or in `requires`,
   * offered here or not, except those of addresses.
   */
  readonly credentialVariables: ReadonlySet<string>;
  /** Every one that the address of an upstream contains, offered here or not. */
  readonly addressVariables: ReadonlySet<string>;
  /** In constant time; undefined for an unknown model and for one outside the group. */
  modelFor(group: string, id: string): CatalogueModel | undefined;
  /** In the order of the file; empty for an unknown group. */
  modelsOf(group: string): readonly CatalogueModel[];
}

/** Freezes the parts deeply, except the maps and sets, which TypeScript protects. */
export function createCatalogue(parts: Omit<Catalogue, "modelFor" | "modelsOf">): Catalogue {
  for (const part of [
    parts.addresses,
    parts.models,
    ...parts.queues.values(),
    ...parts.groups.values(),
    ...parts.upstreams.values(),
  ])
    freezeDeep(part);
  const offers = new Map<string, ReadonlyMap<string, CatalogueModel>>();
  for (const [name, group] of parts.groups) {
    const isAllowed = matcherOf(group.models);
    offers.set(name, new Map(parts.models.filter(({ id }) => isAllowed(id)).map((model) => [model.id, model])));
  }
  const lists = new Map([...offers].map(([name, models]) => [name, Object.freeze([...models.values()])]));
  const none: readonly CatalogueModel[] = Object.freeze([]);
  return Object.freeze({
    ...parts,
    modelFor: (group: string, id: string) => offers.get(group)?.get(id),
    modelsOf: (group: string) => lists.get(group) ?? none,
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
