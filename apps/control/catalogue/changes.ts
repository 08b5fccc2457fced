/** The differences between two catalogues. */
import type { catalogueFileOperations } from "#api/catalogue-file.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Database } from "../database/database.ts";

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

/** Groups with keys that would lose something. */
export async function affectedBy(database: Database, before: Catalogue, after: Catalogue) {
  const losses = lossesBetween(before, after);
  const keys = losses.length === 0 ? new Map<string, number>() : await keysByGroup(database);
  return losses.flatMap((loss) => {
    const count = keys.get(loss.group) ?? 0;
    return count === 0 ? [] : [{ ...loss, keys: count }];
  });
}

async function keysByGroup(database: Database): Promise<Map<string, number>> {
  const rows = await database
    .selectFrom("keys")
    .select((keys) => ["group_name", keys.fn.countAll<bigint>().as("count")])
    .where("revoked_at", "is", null)
    .groupBy("group_name")
    .execute();
  return new Map(rows.map(({ group_name, count }) => [group_name, Number(count)]));
}

/** The models that callers of each group would lose; groups that lose nothing are absent. */
function lossesBetween(
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
