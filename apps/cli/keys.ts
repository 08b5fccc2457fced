/** `sluice keys …`: creates, lists, changes and revokes callers' keys. */
import { parseArgs } from "node:util";
import { type KeyRecord, stateOf as keyStateOf } from "#access/record.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CommandFault, failureOf, type Output, standardOutput, wantsHelp, withNegativeNumbers } from "./command.ts";
import { fieldsOf, keyOptions, limitHelp } from "./key-options.ts";
import type { KeyStore, NewKey } from "./key-store.ts";
import { durationOf, keyTableOf } from "./keys-text.ts";
import { withKeyStore } from "./open-key-store.ts";

const usage = `Usage:
  sluice keys create --group <group> --name <name> [--account <name>] [settings] [limits] [--json]
  sluice keys list [--json]
  sluice keys update <key> [--group <group>] [--name <name>] [settings] [limits] [--json]
  sluice keys rotate <key> [--overlap <24h>] [--json]
  sluice keys revoke <key> [--json]
  sluice keys rebuild

<key> is an id, a name, or the last four characters of a key.

Settings of a key; "none" removes one:
  --expires <90d | date>      The key is valid until then.
  --models <id,id>            Only these models, or prefixes followed by *.
  --origins <origin,origin>   Web origins whose pages may use the key.
  --addresses <ip,network>    Only from these addresses and networks (CIDR).
  --tags <tag,tag>            In every usage record of the key.
  --priority <name>           interactive, normal or background, in place of that of its group.
  --on-limit <wait | refuse>  Requests over a limit wait for their turn, or get a 429 at once. Budgets never wait.
  --wait <30s>                With --on-limit wait: how long they wait at most.

Limits of a key; each overrides the limit of its group's keys:
${limitHelp}
The keys are those of control at SLUICE_CONTROL_URL (with OPERATOR_TOKEN), or in the Redis of REDIS_URL, or else of the gateway that
runs in this directory. Without control there are only create, list and revoke.
`;

const commands = { create, list, update, rotate, revoke, rebuild };

/**
 * Runs the command in `args`, which follow `keys`. Resolves to the exit code: 0, 1 for a failed
 * command, 2 for invalid arguments. Never rejects.
 */
export async function keysCommand(
  [command, ...rest]: string[],
  environment: Environment,
  output: Output = standardOutput,
): Promise<number> {
  if (wantsHelp([command, ...rest])) {
    output.out(usage);
    return 0;
  }
  if (command === undefined || !Object.hasOwn(commands, command)) {
    output.err(command === undefined ? usage : `sluice keys: there is no command "${command}"\n${usage}`);
    return 2;
  }
  try {
    output.out(await commands[command as keyof typeof commands](withNegativeNumbers(rest), environment));
    return 0;
  } catch (error) {
    const { line, exitCode } = failureOf(error) ?? {
      line: `the result is unknown (${(error as Error).message}); "sluice keys list" shows the current keys`,
      exitCode: 1,
    };
    output.err(`sluice keys ${command}: ${line}\n`);
    return exitCode;
  }
}

const textOf = (value: unknown): string => `${JSON.stringify(value)}\n`;

async function create(args: string[], environment: Environment): Promise<string> {
  const { values } = parseArgs({ args, options: keyOptions });
  const { name, group } = values;
  if (group === undefined || name === undefined) throw new CommandFault("--group and --name are required");
  const now = Date.now();
  const fields = { ...fieldsOf(values, now), name, group };
  return newKeyText(await withKeyStore(environment, (store) => store.create(fields, now)), values.json);
}

async function list(args: string[], environment: Environment): Promise<string> {
  const { values } = parseArgs({ args, options: { json: { type: "boolean" } } });
  const records = await withKeyStore(environment, (store) => store.list());
  const now = Date.now();
  return values.json
    ? textOf(records.map((record) => ({ ...record, state: keyStateOf(record, now) })))
    : keyTableOf(records, now);
}

async function update(args: string[], environment: Environment): Promise<string> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: keyOptions });
  const fields = fieldsOf(values, Date.now());
  if (Object.keys(fields).length === 0) throw new CommandFault("name at least one option to change");
  const record = await withKey(environment, positionals, (store, id) => store.update(id, fields));
  return values.json ? textOf(record) : keyTableOf([record], Date.now());
}

async function rotate(args: string[], environment: Environment): Promise<string> {
  const options = { json: { type: "boolean" }, overlap: { type: "string", default: "24h" } } as const;
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
  const overlapMs = durationOf(values.overlap);
  if (overlapMs === undefined) throw new CommandFault("--overlap must be a duration such as 0m, 12h or 7d");
  const created = await withKey(environment, positionals, (store, id) => store.rotate(id, overlapMs));
  return newKeyText(created, values.json);
}

async function revoke(args: string[], environment: Environment): Promise<string> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { json: { type: "boolean" } } });
  const revoked = await withKey(environment, positionals, (store, id) => store.revoke(id));
  if (!revoked) throw new CommandFault(`no key matches "${positionals[0]}"`);
  return values.json ? textOf(revoked) : `Revoked ${revoked.id}, named ${revoked.name}, ending in ${revoked.hint}.\n`;
}

async function rebuild(args: string[], environment: Environment): Promise<string> {
  parseArgs({ args, options: {} });
  return withKeyStore(environment, (store) => store.rebuild());
}

const newKeyText = ({ key, record }: NewKey, isJson: boolean | undefined): string =>
  isJson
    ? textOf({ key, ...record })
    : `${key}\n\nStore this key now: it is never shown again.\n\n${keyTableOf([record], Date.now())}`;

/** Calls `use` with the id of the one key that the arguments name. */
function withKey<Result>(
  environment: Environment,
  [reference, ...rest]: readonly string[],
  use: (store: KeyStore, id: string) => Promise<Result>,
): Promise<Result> {
  if (reference === undefined || rest.length > 0)
    throw new CommandFault("name one key: by its id, its name or its last four characters");
  return withKeyStore(environment, async (store) => use(store, findOne(await store.list(), reference).id));
}

/** The key with this id in any state, otherwise the only unrevoked key with this hint or name. */
function findOne(records: readonly KeyRecord[], reference: string): KeyRecord {
  const byId = records.find(({ id }) => id === reference);
  if (byId) return byId;
  const [match, ...others] = records.filter(
    ({ hint, name, revokedAt }) => revokedAt === undefined && (hint === reference || name === reference),
  );
  if (match === undefined) throw new CommandFault(`no key matches "${reference}"`);
  if (others.length === 0) return match;
  const ids = [match, ...others].slice(0, 10).map(({ id }) => id);
  throw new CommandFault(`${others.length + 1} keys match "${reference}"; use the id: ${ids.join(", ")}`);
}
