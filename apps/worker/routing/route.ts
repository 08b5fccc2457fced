/** Which targets may serve an attempt, in the order in which they are called. */
import {
  type Catalogue,
  type CatalogueModel,
  type CatalogueUpstream,
  oncePerModel,
  type Target,
  type UpstreamTimeouts,
} from "#catalogue/catalogue.ts";
import { isLimit } from "./slots.ts";
import { drawnByWeight } from "./strategies.ts";

export interface Candidate {
  /** The model that this target serves: the requested one, or one of its fallbacks. */
  model: CatalogueModel;
  target: Target;
  upstream: CatalogueUpstream;
  /** Names the upstream and the model there; the same in every worker. */
  key: string;
  /**
   * The same where each name needs memory for long, as in circuit breakers, logs and metrics: one
   * for all models that a wildcard passes through.
   */
  name: string;
  timeouts: UpstreamTimeouts;
  /** The vendor's. */
  host: string;
  /** The catalogue limits the calls of the target, its credential or its upstream. */
  isLimited: boolean;
}

/**
 * The order of targets of one model: neighbours with weights are ranked, and all of them are then
 * arranged.
 */
export interface TargetOrder {
  ranked(neighbours: readonly Candidate[]): Candidate[];
  arranged(candidates: Candidate[]): Candidate[];
}

/** An order by weights, drawn anew each time. `random` returns numbers from 0 to below 1. */
export const drawnOrder = (random: () => number): TargetOrder => ({
  ranked: (neighbours) =>
    drawnByWeight(
      neighbours.map((candidate) => ({ candidate, weight: candidate.target.weight ?? 1 })),
      random,
    ).map(({ candidate }) => candidate),
  arranged: (candidates) => candidates,
});

/** The same, but neighbours of a model with another strategy than weights are in that order. */
export const orderWithStrategies = (order: TargetOrder, byStrategy: TargetOrder["ranked"]): TargetOrder => ({
  ranked: (neighbours) => (hasStrategy(neighbours) ? byStrategy(neighbours) : order.ranked(neighbours)),
  arranged: (candidates) => order.arranged(candidates),
});

const hasStrategy = ([first]: readonly Candidate[]): boolean =>
  first !== undefined && first.model.strategy !== "weights";

/**
 * The model's own targets, then those of its fallbacks that are `allowed` and that the group may
 * use.
 */
export function candidatesOf(
  catalogue: Catalogue,
  { group, model, allowed }: { group: string; model: CatalogueModel; allowed: readonly string[] },
  order: TargetOrder,
): Candidate[] {
  const own = inTurn(routeOf(catalogue, model), order);
  const fallbacks = model.fallbacks.filter((id) => allowed.includes(id));
  if (fallbacks.length === 0) return own;
  const others = fallbacks.flatMap((id) => catalogue.modelFor(group, id) ?? []);
  return [...own, ...others.flatMap((other) => inTurn(routeOf(catalogue, other), order))];
}

/** The model's targets in the order of the catalogue. */
const routeOf = oncePerModel((catalogue, model): readonly Candidate[] =>
  model.route.flatMap((target) => candidateOf(catalogue, model, target)),
);

/** The target of copies of the model's requests. */
export const mirrorOf = oncePerModel((catalogue, model): Candidate[] =>
  model.mirror === undefined ? [] : candidateOf(catalogue, model, model.mirror),
);

function candidateOf(
  { upstreams }: Catalogue,
  model: CatalogueModel,
  target: CatalogueModel["route"][number],
): Candidate[] {
  const upstream = upstreams.get(target.upstream);
  if (upstream === undefined) return [];
  const timeouts = { ...upstream.timeouts, ...model.timeouts, ...target.timeouts };
  const { model: targetModel, pattern = targetModel } = target;
  const [key, name] = [targetModel, pattern].map((text) => `${target.upstream}/${text}`) as [string, string];
  const host = URL.parse(upstream.baseUrl)?.hostname ?? "";
  const isLimited = [upstream, upstream.credentialLimits, target].some((limits) => limits && isLimit(limits));
  return [{ model, target, upstream, key, name, timeouts, host, isLimited }];
}

/** The targets in the order of the catalogue, neighbours with weights in theirs. */
function inTurn(route: readonly Candidate[], order: TargetOrder): Candidate[] {
  const ordered: Candidate[] = [];
  let weighted: Candidate[] = [];
  const ranked = (neighbours: Candidate[]) => (neighbours.length < 2 ? neighbours : order.ranked(neighbours));
  for (const candidate of route) {
    if (candidate.target.weight !== undefined) {
      weighted.push(candidate);
      continue;
    }
    ordered.push(...ranked(weighted), candidate);
    weighted = [];
  }
  ordered.push(...ranked(weighted));
  return order.arranged(ordered);
}
