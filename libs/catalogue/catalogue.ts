/** The catalogue as processes use it: frozen, and indexed for the path of every request. */
import type { ConversationDialect, UpstreamDialect } from "#dialects/dialect.ts";
import type { ModelTraits } from "#dialects/model-traits.ts";

/** Times in milliseconds; what each covers stands in schema.ts. */
export interface UpstreamTimeouts {
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly firstTokenTimeoutMs: number;
  readonly firstContentTimeoutMs: number;
  readonly betweenTokensTimeoutMs: number;
  readonly totalTimeoutMs: number;
}

/** How a request proves to an upstream that it may. */
export const authentications = ["bearer", "x-api-key", "api-key", "x-goog-api-key", "google", "aws"] as const;
type Authentication = (typeof authentications)[number];

export interface CatalogueUpstream {
  readonly name: string;
  readonly dialect: UpstreamDialect;
  readonly alsoSpeaks: readonly UpstreamDialect[];
  /** Without a trailing slash; may have a query. */
  readonly baseUrl: string;
  /** Paths of PEM files, which only workers read. */
  readonly tls?: {
    readonly caFile?: string;
    readonly certificateFile?: string;
    readonly keyFile?: string;
    readonly serverName?: string;
  };
  /** The name of an environment variable; `credentialOf` reads it. */
  readonly credential?: string;
  /** Further ones. */
  readonly credentials: readonly string[];
  /** It goes on from an assistant's turn that a request ends in. */
  readonly prefill: boolean;
  /** Failures in a row after which a target is left alone for a while; 0 is never. */
  readonly circuitBreakerFailuresMax: number;
  /** Requests at once, over all workers. */
  readonly concurrencyMax?: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly streamUsage: boolean;
  readonly tokenLimitField: "max_completion_tokens" | "max_tokens";
  /** It fetches images and documents by their address itself. */
  readonly fetchesAttachments: boolean;
  readonly countsTokens: boolean;
  readonly authentication: Authentication;
  /** For `aws`: where the upstream is, and as which service its requests are signed. */
  readonly region?: string;
  readonly service: string;
  /** Names of betas, or beginnings followed by `*`, that it is told of when a caller asks for them. */
  readonly betas: readonly string[];
  readonly timeouts: UpstreamTimeouts;
  /** Connections that one worker process opens to it. */
  readonly connectionsMax: number;
}

/** The dialect to speak with an upstream: the wanted one if it speaks it, else its own. */
export const spokenWith = ({ dialect, alsoSpeaks }: CatalogueUpstream, wanted: UpstreamDialect): UpstreamDialect =>
  alsoSpeaks.includes(wanted) ? wanted : dialect;

/** In the catalogue's currency, for a million tokens. */
interface Prices {
  readonly inputPerMillion: number;
  readonly outputPerMillion: number;
  readonly cachedInputPerMillion: number;
}

/** One place that serves a model. */
export interface Target {
  /** A name in `upstreams`. */
  readonly upstream: string;
  /** What that upstream calls the model. */
  readonly model: string;
  readonly weight?: number;
  readonly timeouts?: Partial<UpstreamTimeouts>;
}

export interface CatalogueModel {
  readonly id: string;
  readonly name: string;
  readonly ownedBy: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly contextWindow?: number;
  readonly outputTokensMax?: number;
  /** A name in `queues`. */
  readonly queue: string;
  readonly recommendedDialect: ConversationDialect;
  readonly capabilities: readonly string[];
  readonly prices: Prices;
  /** In order, never empty; only targets whose upstream is offered here. */
  readonly route: readonly Target[];
  /** A streamed answer may go on from another target. */
  readonly resume: boolean;
  /** All targets give the same answer to the same request. */
  readonly deterministic: boolean;
  readonly retries: number;
  /** What the catalogue sets; the rest has defaults. */
  readonly traits?: Partial<ModelTraits>;
  /** Ids of other models. */
  readonly fallbacks: readonly string[];
  readonly timeouts?: Partial<UpstreamTimeouts>;
}

export type PublishedModel = Omit<CatalogueModel, "route">;

interface QueueSettings {
  readonly waitingMax: number;
  readonly waitMs: number;
}

/** Of callers; what each means stands in schema.ts. */
interface RateLimits {
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly generationsMax?: number;
  readonly budgetPerDay?: number;
  readonly budgetPerMonth?: number;
}

interface Group {
  readonly weight: number;
  /** Ids, or beginnings of ids followed by `*`. */
  readonly models: readonly string[];
  readonly limits?: RateLimits;
  readonly keyLimits?: RateLimits;
  readonly accountLimits?: RateLimits;
}

interface Addresses {
  readonly baseUrl: string;
  readonly alternatives: Readonly<Record<string, string>>;
}

export interface CatalogueParts {
  /** Changes with every byte of the file: the beginning of its SHA-256, in hex. */
  readonly version: string;
  readonly currency: string;
  readonly addresses?: Addresses;
  readonly queues: ReadonlyMap<string, QueueSettings>;
  readonly groups: ReadonlyMap<string, Group>;
  /** Those offered here. */
  readonly upstreams: ReadonlyMap<string, CatalogueUpstream>;
  /** Those offered here, in the order of the file. */
  readonly models: readonly CatalogueModel[];
  /** Every id in the file, also of models that are not offered here. */
  readonly declaredModelIds: ReadonlySet<string>;
}

export interface Catalogue extends CatalogueParts {
  /** In constant time; undefined alike for a model that does not exist and for one outside the group. */
  modelFor(group: string, id: string): CatalogueModel | undefined;
  /** In the order of the file; nothing for a group that does not exist. */
  modelsOf(group: string): readonly CatalogueModel[];
}

/** Freezes the parts, deeply but for the maps, which TypeScript keeps from being written. */
export function createCatalogue(parts: CatalogueParts): Catalogue {
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
    const isMeant = matcherOf(group.models);
    offers.set(name, new Map(parts.models.filter(({ id }) => isMeant(id)).map((model) => [model.id, model])));
  }
  const lists = new Map([...offers].map(([name, models]) => [name, Object.freeze([...models.values()])]));
  const none: readonly CatalogueModel[] = Object.freeze([]);
  return Object.freeze({
    ...parts,
    modelFor: (group: string, id: string) => offers.get(group)?.get(id),
    modelsOf: (group: string) => lists.get(group) ?? none,
  });
}

/** Whether a text is among these or begins as one of these patterns with a trailing `*`. */
export function matcherOf(patterns: readonly string[]): (id: string) => boolean {
  const ids = new Set(patterns);
  const beginnings = patterns.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1));
  return (id) => ids.has(id) || beginnings.some((beginning) => id.startsWith(beginning));
}

/** What callers may know of a model: all but where it is served. */
export function publishedModelOf({ route: _, ...published }: CatalogueModel): PublishedModel {
  return published;
}

function freezeDeep(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  for (const part of Object.values(value)) freezeDeep(part);
}
