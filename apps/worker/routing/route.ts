/** Which targets may serve an attempt, in the order in which they are called. */
import type { Catalogue, CatalogueModel, CatalogueUpstream, Target, UpstreamTimeouts } from "#catalogue/catalogue.ts";

export interface Candidate {
  /** The model that this target serves: the requested one, or one of its fallbacks. */
  model: CatalogueModel;
  target: Target;
  upstream: CatalogueUpstream;
  /** Names the target in circuit breakers, cooldowns and logs; the same in every worker. */
  key: string;
  timeouts: UpstreamTimeouts;
}

/**
 * The model's own targets, then those of its fallbacks that are `allowed` and that the group may
 * use. `random` returns numbers from 0 to below 1.
 */
export function candidatesOf(
  catalogue: Catalogue,
  group: string,
  model: CatalogueModel,
  allowed: readonly string[],
  random: () => number,
): Candidate[] {
  const models = [
    model,
    ...model.fallbacks.filter((id) => allowed.includes(id)).flatMap((id) => catalogue.modelFor(group, id) ?? []),
  ];
  return models.flatMap((one) =>
    inTurn(one.route, random).flatMap((target): Candidate[] => {
      const upstream = catalogue.upstreams.get(target.upstream);
      if (upstream === undefined) return [];
      const timeouts = { ...upstream.timeouts, ...one.timeouts, ...target.timeouts };
      return [{ model: one, target, upstream, key: `${target.upstream}/${target.model}`, timeouts }];
    }),
  );
}

/**
 * The targets in the order of the catalogue. Neighbours with weights are shuffled by their weights.
 */
function inTurn(route: readonly Target[], random: () => number): Target[] {
  const ordered: Target[] = [];
  let weighted: Target[] = [];
  const shuffle = () => {
    while (weighted.length > 0) {
      const point = random() * weighted.reduce((sum, { weight = 0 }) => sum + weight, 0);
      let passed = 0;
      const index = weighted.findIndex(({ weight = 0 }) => {
        passed += weight;
        return point < passed;
      });
      ordered.push(...weighted.splice(Math.max(0, index), 1));
    }
  };
  for (const target of route) {
    if (target.weight !== undefined) {
      weighted.push(target);
      continue;
    }
    shuffle();
    ordered.push(target);
  }
  shuffle();
  weighted = [];
  return ordered;
}
