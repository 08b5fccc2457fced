/** Keys in Redis, for a gateway without control. Control imports them when it starts. */
import { changedLimits } from "#access/limits.ts";
import { issueKey, readRecords, revokeRecord } from "#access/projection.ts";
import type { Environment } from "#catalogue/environment.ts";
import { loadCatalogue } from "#catalogue/load.ts";
import { serviceConfigOf } from "#service/config.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { CommandFault } from "./command.ts";
import type { KeyStore } from "./key-store.ts";

export function redisStore(redis: Redis, keyspace: Keyspace, environment: Environment): KeyStore {
  return {
    async create({ name, group, account, expiresAt, models, origins, priority, addresses, tags, limits = {} }, now) {
      checkNames(group, models ?? [], environment);
      const ownLimits = changedLimits(null, limits);
      return issueKey(redis, keyspace, {
        name,
        group,
        createdAt: now,
        ...(expiresAt != null && { expiresAt }),
        ...(models && { models }),
        ...(origins && { origins }),
        ...(priority && { priority }),
        ...(addresses && { addresses }),
        ...(tags && { tags }),
        ...(account !== undefined && { account }),
        ...(ownLimits && { limits: ownLimits }),
      });
    },
    async list() {
      const records = await readRecords(redis, keyspace);
      return [...records.values()].sort((a, b) => a.createdAt - b.createdAt);
    },
    async revoke(id) {
      const [hash] = [...(await readRecords(redis, keyspace))].find(([, record]) => record.id === id) ?? [];
      return hash === undefined ? undefined : revokeRecord(redis, keyspace, hash, Date.now());
    },
    update: needsControl,
    rotate: needsControl,
    rebuild: needsControl,
  };
}

async function needsControl(): Promise<never> {
  throw new CommandFault("this command needs control: set SLUICE_CONTROL_URL and OPERATOR_TOKEN");
}

/** Throws a CommandFault for a group or a model that the catalogue does not have. */
function checkNames(group: string, models: readonly string[], environment: Environment): void {
  const { groups, declaredModels } = loadCatalogue(serviceConfigOf(environment).catalogueFile, environment);
  if (!groups.has(group))
    throw new CommandFault(`no group is named "${group}"; the catalogue has ${[...groups.keys()].join(", ")}`);
  const unknown = models.find((id) => !id.endsWith("*") && !declaredModels.has(id));
  if (unknown !== undefined) throw new CommandFault(`no model of the catalogue has the id "${unknown}"`);
}
