/** `sluice keys …`: makes, lists and revokes callers' keys. */
import { randomBytes } from "node:crypto";
import { parseArgs } from "node:util";
import { createKey } from "#access/key.ts";
import { addRecord, readRecords, revokeRecord } from "#access/projection.ts";
import { accountForm, type KeyRecord, stateOf as keyStateOf } from "#access/record.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { loadCatalogue } from "#catalogue/load.ts";
import { serviceConfigOf } from "#service/config.ts";
import { type Keyspace, keyspaceOf } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";
import { StartupFault } from "#service/startup.ts";
import { expiryOf, keyTableOf, limitOptions, limitsOf } from "./keys-text.ts";
import { readReady, stateOf } from "./state.ts";

type Environment = Record<string, string | undefined>;

/** What a person typed cannot be done; the message is one line. */
class KeysFault extends Error {}

const usage = `Usage:
  sluice keys create --group <group> --name <name> [--expires <90d | date>] [--models <id,id>]
                     [--requests-per-minute <n>] [--tokens-per-minute <n>] [--generations <n>]
                     [--budget-per-day <amount>] [--budget-per-month <amount>] [--account <name>] [--json]
  sluice keys list [--json]
  sluice keys revoke <id, name or last four characters> [--json]
`;

interface Store {
  redis: Redis;
  keyspace: Keyspace;
}

/** Where a command writes: what was asked for, and what went wrong. */
interface Output {
  out(text: string): void;
  err(text: string): void;
}

const standardOutput: Output = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
};

/** Runs one command on the arguments after `keys`; resolves to the exit code: 0, 1 failed, 2 not understood. Does not reject. */
export async function keysCommand(
  args: string[],
  environment: Environment,
  output: Output = standardOutput,
): Promise<number> {
  const [command, ...rest] = args;
  try {
    if (command === "create") return await create(rest, environment, output);
    if (command === "list") return await list(rest, environment, output);
    if (command === "revoke") return await revoke(rest, environment, output);
    output.err(command === undefined ? usage : `sluice keys: no command is named "${command}"\n${usage}`);
    return 2;
  } catch (error) {
    if (isParseFault(error)) {
      output.err(`sluice keys ${command}: ${error.message.split("\n", 1)[0]}\n`);
      return 2;
    }
    const isExpected = error instanceof KeysFault || error instanceof StartupFault || error instanceof CatalogueFault;
    const text = (error as Error).message;
    output.err(
      `sluice keys ${command}: ${isExpected ? text : `not confirmed (${text}); "sluice keys list" shows what is in force`}\n`,
    );
    return 1;
  }
}

async function create(args: string[], environment: Environment, output: Output): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      group: { type: "string" },
      name: { type: "string" },
      expires: { type: "string" },
      models: { type: "string" },
      account: { type: "string" },
      ...limitOptions,
      json: { type: "boolean" },
    },
  });
  const { name, group } = values;
  if (group === undefined || name === undefined) throw new KeysFault("--group and --name are needed");
  if (!/^[^\p{Cc}]{1,100}$/u.test(name))
    throw new KeysFault("--name must be 1 to 100 characters without control characters");
  const { account } = values;
  if (account !== undefined && !accountForm.test(account))
    throw new KeysFault("--account must be 1 to 100 of A-Z, a-z, 0-9 and ._@-");
  const limits = limitsOf(values);
  if (typeof limits === "string") throw new KeysFault(limits);
  const now = Date.now();
  const expiresAt = values.expires === undefined ? undefined : expiryOf(values.expires, now);
  if (expiresAt === "faulty")
    throw new KeysFault(
      "--expires must lie ahead: a time from now such as 12h, 90d or 4w, or a date such as 2030-12-31",
    );
  const catalogue = loadCatalogue(serviceConfigOf(environment).catalogueFile, environment);
  if (!catalogue.groups.has(group))
    throw new KeysFault(`no group is named "${group}"; the catalogue has ${[...catalogue.groups.keys()].join(", ")}`);
  const models = values.models === undefined ? undefined : modelsOf(values.models, catalogue);

  const { key, hash, hint } = createKey();
  const id = `key_${randomBytes(12).toString("hex")}`;
  const record: KeyRecord = {
    id,
    name,
    group,
    hint,
    createdAt: now,
    ...(expiresAt !== undefined && { expiresAt }),
    ...(models && { models }),
    ...(account !== undefined && { account }),
    ...(limits && { limits }),
  };
  await withStore(environment, ({ redis, keyspace }) => addRecord(redis, keyspace, hash, record));
  const text = `${key}\n\nThis is the only time the key is shown.\n\n${keyTableOf([record], now)}`;
  output.out(values.json ? `${JSON.stringify({ key, ...record })}\n` : text);
  return 0;
}

async function list(args: string[], environment: Environment, output: Output): Promise<number> {
  const { values } = parseArgs({ args, options: { json: { type: "boolean" } } });
  const records = await withStore(environment, ({ redis, keyspace }) => readRecords(redis, keyspace));
  const now = Date.now();
  const ordered = [...records.values()].sort((a, b) => a.createdAt - b.createdAt);
  const json = () => JSON.stringify(ordered.map((record) => ({ ...record, state: keyStateOf(record, now) })));
  output.out(values.json ? `${json()}\n` : keyTableOf(ordered, now));
  return 0;
}

async function revoke(args: string[], environment: Environment, output: Output): Promise<number> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { json: { type: "boolean" } } });
  const [wanted] = positionals;
  if (wanted === undefined || positionals.length > 1)
    throw new KeysFault("say one key: by its id, its name or its last four characters");
  const revoked = await withStore(environment, async ({ redis, keyspace }) => {
    const [hash] = findOne([...(await readRecords(redis, keyspace))], wanted);
    return revokeRecord(redis, keyspace, hash, Date.now());
  });
  if (!revoked) throw new KeysFault(`no key is known by "${wanted}"`);
  output.out(
    values.json
      ? `${JSON.stringify(revoked)}\n`
      : `Revoked ${revoked.id}, named ${revoked.name}, ending in ${revoked.hint}.\n`,
  );
  return 0;
}

/** By id, of any state; else by hint or name, of those not yet revoked, if that is one only. */
function findOne(records: [hash: string, record: KeyRecord][], wanted: string): [hash: string, record: KeyRecord] {
  const byId = records.find(([, { id }]) => id === wanted);
  if (byId) return byId;
  const found = records.filter(
    ([, { hint, name, revokedAt }]) => revokedAt === undefined && (hint === wanted || name === wanted),
  );
  if (found.length > 1)
    throw new KeysFault(
      `${found.length} keys are known by "${wanted}"; say the id: ${found
        .slice(0, 10)
        .map(([, { id }]) => id)
        .join(", ")}`,
    );
  if (!found[0]) throw new KeysFault(`no key is known by "${wanted}"`);
  return found[0];
}

function modelsOf(text: string, { declaredModelIds }: Catalogue): string[] {
  const models = text
    .split(",")
    .map((id) => id.trim())
    .filter((id) => id !== "");
  const unknown = models.find((id) => !id.endsWith("*") && !declaredModelIds.has(id));
  if (unknown !== undefined) throw new KeysFault(`no model of the catalogue has the id "${unknown}"`);
  if (models.length === 0) throw new KeysFault("--models must name at least one model");
  return models;
}

async function withStore<Result>(environment: Environment, use: (store: Store) => Promise<Result>): Promise<Result> {
  const redis = environment.REDIS_URL
    ? await connectRedis(environment.REDIS_URL, "request")
    : await connectPrivateRedis();
  try {
    return await use({ redis, keyspace: keyspaceOf(serviceConfigOf(environment).namespace) });
  } finally {
    redis.disconnect();
  }
}

/** The Redis of the gateway that runs in this directory. */
async function connectPrivateRedis(): Promise<Redis> {
  const ready = readReady(stateOf(process.cwd()));
  const redis = ready && (await connectRedis(ready.redisUrl, "request").catch(() => undefined));
  if (!redis) throw new KeysFault('no gateway runs in this directory: start it with "npm start", or set REDIS_URL');
  return redis;
}

const isParseFault = (error: unknown): error is Error =>
  error instanceof Error && String((error as NodeJS.ErrnoException).code).startsWith("ERR_PARSE_ARGS");
