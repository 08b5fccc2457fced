/** Checks what people decide about a key, and turns it into columns. */
import { changedLimits, type Limits, limitRows } from "#access/limits.ts";
import { type PriorityName, priorityNames } from "#access/priority.ts";
import type { keyOperations } from "#api/keys.ts";
import type { InputOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { suggestionOf } from "#service/nearest.ts";
import { isNetwork } from "#service/networks.ts";
import type { Actor } from "../api/actor.ts";
import { Fault } from "../api/faults.ts";
import type { FullRow } from "./key-rows.ts";

type KeyChange = InputOf<(typeof keyOperations)["updateKey"]>["body"];
/** An absent setting stays as it is. */
export type KeySettings = Omit<KeyChange, "limits"> & { limits?: Limits | null };

/** The settings of a change, with those limits of `before` that stay. */
export function changedSettings({ limits, ...settings }: KeyChange, before: Limits | null): KeySettings {
  if (limits === undefined) return settings;
  return { ...settings, limits: limits === null ? null : (changedLimits(before, limits) ?? null) };
}

/** Throws a Fault for a group that the catalogue does not have. */
export function checkGroup(group: string, { groups }: Pick<Catalogue, "groups">, field: string): void {
  if (!groups.has(group))
    throw new Fault(
      "invalid",
      `The catalogue has no group ${JSON.stringify(group)}${suggestionOf(group, groups.keys())}.`,
      { field },
    );
}

/**
 * Throws a Fault for settings that give a key more than it may have: a group that its account may
 * not use or, unless an operator decides, a limit above that of its group's keys or a priority
 * above that of its group. A key keeps the rights that it has already.
 */
export function checkGrant(
  { group, limits, priority }: KeySettings,
  before: Pick<FullRow, "group_name" | "limits" | "priority" | "account_groups">,
  { groups }: Pick<Catalogue, "groups">,
  { isOperator }: Pick<Actor, "isOperator">,
): void {
  const granted = group ?? before.group_name;
  const isMoved = granted !== before.group_name;
  if (isMoved && before.account_groups?.includes(granted) === false)
    throw new Fault(
      "invalid",
      `Keys of this account may not have the group ${JSON.stringify(granted)}. Those that they may have: ${before.account_groups.join(", ") || "none"}.`,
      { field: "group" },
    );
  if (isOperator) return;
  const own = priority === undefined ? before.priority : priority;
  const ofGroup = groups.get(granted)?.priority ?? "normal";
  const keepsPriority = !isMoved && own === before.priority;
  if (own !== null && placeOf(own) < placeOf(ofGroup) && !keepsPriority)
    throw new Fault(
      "invalid",
      `\`priority\` may be at most ${ofGroup}, the one of the group ${JSON.stringify(granted)}; only an operator may set a higher one.`,
      { field: "priority" },
    );
  for (const { name } of limitRows) {
    const bound = groups.get(granted)?.keyLimits?.[name];
    const limit = (limits === undefined ? before.limits : limits)?.[name];
    const isKept = !isMoved && limit === before.limits?.[name];
    if (bound !== undefined && limit !== undefined && limit > bound && !isKept)
      throw new Fault(
        "invalid",
        `\`limits.${name}\` may be at most ${bound}, the limit of each key of the group ${JSON.stringify(granted)}; only an operator may set more.`,
        { field: `limits.${name}` },
      );
  }
}

/**
 * Throws a Fault for a group or a model that the catalogue does not have, an address that is none,
 * and an expiry in the past.
 */
export function checkSettings(
  { group, models, addresses, expiresAt }: Omit<KeySettings, "limits">,
  { groups, declaredModels }: Pick<Catalogue, "groups" | "declaredModels">,
  now: Date,
): void {
  if (group !== undefined) checkGroup(group, { groups }, "group");
  const unknown = models?.find((model) => !model.endsWith("*") && !declaredModels.has(model));
  if (unknown !== undefined)
    throw new Fault(
      "invalid",
      `The catalogue has no model ${JSON.stringify(unknown)}${suggestionOf(unknown, declaredModels.ids)}.`,
      { field: "models" },
    );
  const wrong = addresses?.find((address) => !isNetwork(address));
  if (wrong !== undefined)
    throw new Fault("invalid", `${JSON.stringify(wrong)} is neither an IP address nor a network such as 10.0.0.0/8.`, {
      field: "addresses",
    });
  if (expiresAt != null && !(Date.parse(expiresAt) > now.getTime()))
    throw new Fault("invalid", "`expiresAt` must be in the future; to end a key now, revoke it.", {
      field: "expiresAt",
    });
}

const placeOf = (name: PriorityName): number => priorityNames.indexOf(name);

/** The columns of these settings, as a query takes them. */
export const columnsOf = (settings: KeySettings) => {
  const { name, group, models, expiresAt, limits, addresses, origins, priority, tags } = settings;
  return {
    ...(name !== undefined && { name }),
    ...(group !== undefined && { group_name: group }),
    ...(models !== undefined && { models: jsonOf(models) }),
    ...(expiresAt !== undefined && { expires_at: expiresAt === null ? null : new Date(expiresAt) }),
    ...(limits !== undefined && { limits: jsonOf(limits) }),
    ...(addresses !== undefined && { addresses: jsonOf(addresses) }),
    ...(origins !== undefined && { origins: jsonOf(origins) }),
    ...(priority !== undefined && { priority }),
    ...(tags !== undefined && { tags: JSON.stringify(tags) }),
  };
};

const jsonOf = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));
