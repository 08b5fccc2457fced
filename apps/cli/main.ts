/** The command line, which boot.js runs on Node 24. `help` shows the commands. */
import { resolve } from "node:path";
import { batchesCommand } from "./batches.ts";
import { catalogueCommand } from "./catalogue.ts";
import { exitCodeOf, standardOutput, wantsHelp } from "./command.ts";
import { databaseCommand } from "./database.ts";
import { keysCommand } from "./keys.ts";
import { operatorCommand } from "./operator.ts";
import { pricesCommand } from "./prices.ts";
import { isSecretFile } from "./roles.ts";
import { start } from "./start.ts";
import { checkout, openState } from "./state.ts";
import { onStopRequests } from "./stop-requests.ts";
import { ensureTestPrograms } from "./test-programs.ts";
import { topCommand } from "./top.ts";
import { webhooksCommand } from "./webhooks.ts";

const help = `Usage: sluice <command>

  start            run the gateway on this machine, with Redis and a simulated upstream; Ctrl-C stops it
  top              show queues, targets, processes and rates live; q ends it, --once prints them once
  keys create      create a key: --group <group> --name <name>
  keys list        list the keys, without their secrets
  keys update      change a key's name, group, models, limits, addresses, tags or expiry
  keys rotate      create a key in place of another one, which stays valid for a while
  keys revoke      revoke a key by its id, its name or its last four characters
  catalogue check  check a catalogue file: every mistake with its line, and the variables that it needs
  prices check     compare the catalogue's prices with vendors' list prices
  batches list     list batches; "batches show <id>", "cancel <id>" and "results <id>" concern one of them
  webhooks list    list webhooks, which get the ends of batches; "webhooks --help" shows how to make them
  db export        write the database of accounts, keys and usage to a file
  db import        read such a file into a database that nobody has used yet
  keys rebuild     write the keys of the database to Redis again
  operator link    print a link that signs the first operator in once
  help             show this text

Settings are environment variables:

  PORT               the port for callers (8080)
  HOST               the address for callers (127.0.0.1)
  OPERATIONS_PORT    health, readiness and metrics of the ingress; worker and control use the next ports (any free ports)
  CONTROL_PORT       the port of the API for accounts and keys (8090)
  DATABASE_URL       a Postgres to use instead of the embedded database (postgres://…)
  OPERATOR_PASSWORD  enables job inspection
  REDIS_URL          a Redis to use instead of a private one (redis://…, rediss://… or unix:///…)
  SLUICE_CATALOGUE   the catalogue file (catalogue.yaml)
  LOG_LEVEL          the lowest level in the logs under .sluice/log (info)
  OPENAI_API_KEY     a credential that the catalogue names, for its models; likewise ANTHROPIC_API_KEY, GEMINI_API_KEY, …
`;

/** The commands with arguments of their own. */
const commands: Record<string, (args: string[], environment: NodeJS.ProcessEnv) => number | Promise<number>> = {
  batches: batchesCommand,
  keys: keysCommand,
  prices: pricesCommand,
  operator: operatorCommand,
  top: topCommand,
  webhooks: webhooksCommand,
};

async function command([name, ...args]: string[]): Promise<number> {
  const directory = process.cwd();
  const run = name === undefined || !Object.hasOwn(commands, name) ? undefined : commands[name];
  if (run !== undefined) return run(args, environmentAtRoot());
  switch (name) {
    case "start":
      if (wantsHelp(args)) return showHelp();
      if (args.length > 0) return refuse(`start takes no arguments, only environment variables: ${args.join(" ")}`);
      return start(environmentAtRoot());
    case "db":
      return databaseCommand(args, environmentAtRoot(), directory);
    case "catalogue":
      return catalogueCommand(args, environmentAtRoot(), directory);
    case "test-programs":
      return findTestPrograms();
    case "help":
    case "--help":
    case "-h":
      return showHelp();
    default:
      return refuse(name === undefined ? "a command is required" : `there is no command "${name}"`);
  }
}

function showHelp(): number {
  standardOutput.out(help);
  return 0;
}

function refuse(reason: string): number {
  process.stderr.write(`sluice: ${reason}\n\n${help}`);
  return 2;
}

/**
 * Changes the working directory to the checkout. A relative SLUICE_CATALOGUE and the relative path
 * of a secret's file still start at the previous directory.
 */
function environmentAtRoot(): NodeJS.ProcessEnv {
  const environment = { ...process.env };
  for (const [name, value] of Object.entries(environment))
    if (value && (name === "SLUICE_CATALOGUE" || isSecretFile(name))) environment[name] = resolve(value);
  process.chdir(checkout);
  return environment;
}

/** Finds or installs the programs that the tests start. */
async function findTestPrograms(): Promise<number> {
  try {
    await ensureTestPrograms(process.env, openState(checkout), onStopRequests().stop);
    return 0;
  } catch (error) {
    return exitCodeOf("sluice", error, standardOutput);
  }
}

for (const output of [process.stdout, process.stderr]) output.on("error", () => {});
process.exitCode = await command(process.argv.slice(2));
if (process.connected) process.disconnect();
