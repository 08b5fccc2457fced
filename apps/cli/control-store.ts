/** Keys at control, through its API. */
import { changedLimits } from "#access/limits.ts";
import type { KeyRecord } from "#access/record.ts";
import { type ApiAddress, callOperation } from "#api/client.ts";
import type { keyOperations } from "#api/keys.ts";
import type { AnswerOf } from "#api/operation.ts";
import { ApiFault } from "#api/request.ts";
import { CommandFault } from "./command.ts";
import type { KeyFields, KeyStore } from "./key-store.ts";

type ApiKey = AnswerOf<(typeof keyOperations)["getKey"]>;

/** The account of a key that names none. */
const defaultAccount = "default";

export function controlStore(api: ApiAddress): KeyStore {
  const call = ((...args: Parameters<typeof callOperation>) =>
    callOperation(...args).catch((error: unknown) => {
      throw expected(error, api);
    })) as typeof callOperation;
  return {
    async create({ name, group, account = defaultAccount, limits = {}, ...fields }) {
      await ensureAccount(api, account);
      const ownLimits = changedLimits(null, limits);
      const { key, ...created } = await call(api, "createKey", {
        body: {
          account,
          name,
          group,
          ...settingsOf(fields),
          ...(ownLimits && { limits: ownLimits }),
        },
      });
      return { key, record: recordOf(created) };
    },
    async list() {
      const keys: ApiKey[] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page: { items: ApiKey[]; nextCursor: string | null } = await call(api, "listKeys", {
          query: { limit: 500, ...(cursor !== undefined && { cursor }) },
        });
        keys.push(...page.items);
        cursor = page.nextCursor;
      }
      return keys.reverse().map(recordOf);
    },
    async revoke(id) {
      return recordOf(await call(api, "revokeKey", { params: { key: id } }));
    },
    async update(id, { account, limits, ...fields }) {
      if (account !== undefined) throw new CommandFault("the account of a key cannot be changed");
      const body = { ...settingsOf(fields), ...(limits && { limits }) };
      return recordOf(await call(api, "updateKey", { params: { key: id }, body }));
    },
    async rotate(id, overlapMs) {
      const body = { overlapSeconds: Math.round(overlapMs / 1_000) };
      const { key, ...created } = await call(api, "rotateKey", { params: { key: id }, body });
      return { key, record: recordOf(created) };
    },
    async rebuild() {
      const { keys, written, imported } = await call(api, "rebuildKeys");
      return `${keys} keys compared, ${written} written to Redis, ${imported} imported from Redis.\n`;
    },
  };
}

/** Creates the account unless it exists. */
async function ensureAccount(api: ApiAddress, account: string): Promise<void> {
  await callOperation(api, "createAccount", { body: { id: account, name: account } }).catch((error: unknown) => {
    if (!(error instanceof ApiFault && error.status === 409)) throw expected(error, api);
  });
}

/** A CommandFault for a control that cannot be reached; any other error as it is. */
function expected(error: unknown, { url }: ApiAddress): unknown {
  const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  return code === "ECONNREFUSED" || code === "ENOTFOUND" ? new CommandFault(`no control at ${url}: ${code}`) : error;
}

/** The fields as the API takes them, apart from limits. */
function settingsOf({ expiresAt, tags, ...fields }: Omit<KeyFields, "limits">) {
  return {
    ...fields,
    ...(expiresAt !== undefined && { expiresAt: expiresAt === null ? null : new Date(expiresAt).toISOString() }),
    ...(tags !== undefined && { tags: tags ?? [] }),
  };
}

/** A key of the API as the record that it is in Redis. */
function recordOf(key: ApiKey): KeyRecord {
  const { expiresAt, revokedAt, models, origins, priority, limits, addresses } = key;
  return {
    id: key.id,
    hint: key.hint,
    name: key.name,
    group: key.group,
    createdAt: Date.parse(key.createdAt),
    ...(expiresAt !== null && { expiresAt: Date.parse(expiresAt) }),
    ...(models && { models }),
    ...(origins && { origins }),
    ...(priority && { priority }),
    ...(addresses && { addresses }),
    ...(key.tags.length > 0 && { tags: key.tags }),
    account: key.account,
    ...(limits && { limits }),
    ...(key.state === "disabled" && { disabledAt: 0 }),
    ...(revokedAt !== null && { revokedAt: Date.parse(revokedAt) }),
  };
}
