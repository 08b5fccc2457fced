/** `sluice keys …`: creates, lists and revokes callers' keys. */
import { parseArgs } from "node:util";
import { originForm, originsMax } from "#access/origins.ts";
import { issueKey, readRecords, revokeRecord } from "#access/projection.ts";
import { accountForm, type KeyRecord, stateOf as keyStateOf } from "#access/record.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { loadCatalogue } from "#catalogue/load.ts";
import { serviceConfigOf } from "#service/config.ts";
import { type Keyspace, keyspaceOf } from "#service/keyspace.ts";
import { type Redis, withRedis } from "#service/redis.ts";
import { StartupFault } from "#service/startup.ts";
import { expiryOf, keyTableOf, limitHelp, limitOptions, limitsOf } from "./keys-text.ts";
import { readReady, stateOf } from "./state.ts";

/** A command that cannot be executed as given; the message is one line. */
class KeysFault extends Error {}

const usage = `Usage:
  sluice keys create --group <group> --name <name> [--expires <90d | date>] [--models <id,id>]
                     [--origins <origin,origin>] [--account <name>] [limits] [--json]
  sluice keys list [--json]
  sluice keys revoke <id, name or last four characters> [--json]

Limits of a key; each overrides the limit of its group's keys:
${limitHelp}`;

/** Where a command writes its result and its errors. */
interface Output {
  out(text: string): void;
  err(text: string): void;
}

const standardOutput: Output = {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
};

const commands = { create, list, revoke };

/** Runs the command in `args`, which follow `keys`. Resolves to the exit code: 0, 1 for a failed command, 2 for invalid arguments. Never rejects. */
export async function keysCommand(
  [command, ...rest]: string[],
  environment: Environment,
  output: Output = standardOutput,
): Promise<number> {
  if (command === undefined || !Object.hasOwn(commands, command)) {
    output.err(command === undefined ? usage : `sluice keys: there is no command "${command}"\n${usage}`);
    return 2;
  }
  try {
    output.out(await commands[command as keyof typeof commands](rest, environment));
    return 0;
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    const isInvalid = String(code).startsWith("ERR_PARSE_ARGS");
    const isExpected =
      isInvalid || error instanceof KeysFault || error instanceof StartupFault || error instanceof CatalogueFault;
    const text = isExpected
      ? message.split("\n", 1)[0]
      : `the result is unknown (${message}); "sluice keys list" shows the current keys`;
    output.err(`sluice keys ${command}: ${text}\n`);
    return isInvalid ? 2 : 1;
  }
}

async function create(args: string[], environment: Environment): Promise<string> {
  const { values } = parseArgs({
    args,
    options: {
      group: { type: "string" },
      name: { type: "string" },
      expires: { type: "string" },
      models: { type: "string" },
      origins: { type: "string" },
      account: { type: "string" },
      ...limitOptions,
      json: { type: "boolean" },
    },
  });
  const { name, group, account } = values;
  if (group === undefined || name === undefined) throw new KeysFault("--group and --name are required");
  if (!/^[^\p{Cc}]{1,100}$/u.test(name))
    throw new KeysFault("--name must be 1 to 100 characters without control characters");
  if (account !== undefined && !accountForm.test(account))
    throw new KeysFault("--account must be 1 to 100 of A-Z, a-z, 0-9 and ._@-");
  const origins = values.origins === undefined ? undefined : listIn(values.origins);
  if (origins !== undefined && (origins.length > originsMax || !origins.every((origin) => originForm.test(origin))))
    throw new KeysFault(`--origins must be up to ${originsMax} origins such as https://app.example, or *`);
  const limits = limitsOf(values);
  if (typeof limits === "string") throw new KeysFault(limits);
  const now = Date.now();
  const expiresAt = values.expires === undefined ? undefined : expiryOf(values.expires, now);
  if (expiresAt === "faulty")
    throw new KeysFault(
      "--expires must be in the future: a duration such as 12h, 90d or 4w, or a date such as 2030-12-31",
    );
  const catalogue = loadCatalogue(serviceConfigOf(environment).catalogueFile, environment);
  if (!catalogue.groups.has(group))
    throw new KeysFault(`no group is named "${group}"; the catalogue has ${[...catalogue.groups.keys()].join(", ")}`);
  const models = values.models === undefined ? undefined : modelsOf(values.models, catalogue);

  const { key, record } = await withStore(environment, (redis, keyspace) =>
    issueKey(redis, keyspace, {
      name,
      group,
      createdAt: now,
      ...(expiresAt !== undefined && { expiresAt }),
      ...(models && { models }),
      ...(origins && { origins }),
      ...(account !== undefined && { account }),
      ...(Object.keys(limits).length > 0 && { limits }),
    }),
  );
  return values.json
    ? `${JSON.stringify({ key, ...record })}\n`
    : `${key}\n\nStore this key now: it is never shown again.\n\n${keyTableOf([record], now)}`;
}

async function list(args: string[], environment: Environment): Promise<string> {
  const { values } = parseArgs({ args, options: { json: { type: "boolean" } } });
  const records = await withStore(environment, (redis, keyspace) => readRecords(redis, keyspace));
  const now = Date.now();
  const ordered = [...records.values()].sort((a, b) => a.createdAt - b.createdAt);
  return values.json
    ? `${JSON.stringify(ordered.map((record) => ({ ...record, state: keyStateOf(record, now) })))}\n`
    : keyTableOf(ordered, now);
}

async function revoke(args: string[], environment: Environment): Promise<string> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { json: { type: "boolean" } } });
  const [wanted] = positionals;
  if (wanted === undefined || positionals.length > 1)
    throw new KeysFault("name one key: by its id, its name or its last four characters");
  const revoked = await withStore(environment, async (redis, keyspace) => {
    const [hash] = findOne([...(await readRecords(redis, keyspace))], wanted);
    return revokeRecord(redis, keyspace, hash, Date.now());
  });
  if (!revoked) throw new KeysFault(`no key matches "${wanted}"`);
  return values.json
    ? `${JSON.stringify(revoked)}\n`
    : `Revoked ${revoked.id}, named ${revoked.name}, ending in ${revoked.hint}.\n`;
}

/** The key with this id in any state, otherwise the only unrevoked key with this hint or name. */
function findOne(records: [hash: string, record: KeyRecord][], wanted: string): [hash: string, record: KeyRecord] {
  const byId = records.find(([, { id }]) => id === wanted);
  if (byId) return byId;
  const found = records.filter(
    ([, { hint, name, revokedAt }]) => revokedAt === undefined && (hint === wanted || name === wanted),
  );
  if (found.length > 1)
    throw new KeysFault(
      `${found.length} keys match "${wanted}"; use the id: ${found
        .slice(0, 10)
        .map(([, { id }]) => id)
        .join(", ")}`,
    );
  if (!found[0]) throw new KeysFault(`no key matches "${wanted}"`);
  return found[0];
}

const listIn = (text: string): string[] =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");

function modelsOf(text: string, { declaredModelIds }: Catalogue): string[] {
  const models = listIn(text);
  const unknown = models.find((id) => !id.endsWith("*") && !declaredModelIds.has(id));
  if (unknown !== undefined) throw new KeysFault(`no model of the catalogue has the id "${unknown}"`);
  if (models.length === 0) throw new KeysFault("--models must name at least one model");
  return models;
}

/** Uses the Redis of REDIS_URL, or of the gateway that runs in this directory. */
async function withStore<Result>(
  environment: Environment,
  use: (redis: Redis, keyspace: Keyspace) => Promise<Result>,
): Promise<Result> {
  const { REDIS_URL } = environment;
  const noGateway = new KeysFault('no gateway runs in this directory; start it with "npm start", or set REDIS_URL');
  const url = REDIS_URL || readReady(stateOf(process.cwd()))?.redisUrl;
  if (!url) throw noGateway;
  const keyspace = keyspaceOf(serviceConfigOf(environment).namespace);
  return withRedis(url, (redis) => use(redis, keyspace)).catch((error) => {
    // Without REDIS_URL, ready.json is left over from a gateway that was killed.
    throw !REDIS_URL && error instanceof StartupFault ? noGateway : error;
  });
}
