/** The differences between two catalogues. */
import type { catalogueFileOperations } from "#api/catalogue-file.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";

export type Changes = NonNullable<AnswerOf<(typeof catalogueFileOperations)["checkCatalogue"]>["changes"]>;

export function changesBetween(before: Catalogue, after: Catalogue): Changes {
  const models = ({ models: listed, wildcards }: Catalogue) =>
    new Map([...listed, ...wildcards].map((model) => [model.id, model]));
  return {
    models: namesOf(models(before), models(after)),
    groups: namesOf(before.groups, after.groups),
    upstreams: namesOf(before.upstreams, after.upstreams),
    queues: namesOf(before.queues, after.queues),
  };
}

function namesOf(before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>): Changes["models"] {
  return {
    added: [...after.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !after.has(name)),
    changed: [...after].flatMap(([name, value]) =>
      before.has(name) && JSON.stringify(before.get(name)) !== JSON.stringify(value) ? [name] : [],
    ),
  };
}

const idsOf = (catalogue: Catalogue, group: string) =>
  [...catalogue.modelsOf(group), ...catalogue.wildcardsOf(group)].map(({ id }) => id);

/** The models that callers of each group would lose; groups that lose nothing are absent. */
export function lossesBetween(
  before: Catalogue,
  after: Catalogue,
): { group: string; isRemoved: boolean; modelsLost: string[] }[] {
  return [...before.groups.keys()].flatMap((group) => {
    const isRemoved = !after.groups.has(group);
    const kept = new Set(isRemoved ? [] : idsOf(after, group));
    const modelsLost = idsOf(before, group).filter((id) => !kept.has(id));
    return isRemoved || modelsLost.length > 0 ? [{ group, isRemoved, modelsLost }] : [];
  });
}
