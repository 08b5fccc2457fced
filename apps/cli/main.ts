/** The command line: `sluice start | keys | help`. Runs on Node 24; boot.js sees to it that it does. */
import { resolve } from "node:path";
import { StartupFault } from "#service/startup.ts";
import { keysCommand } from "./keys.ts";
import { ensureRedisProgram } from "./redis-program.ts";
import { start } from "./start.ts";
import { checkout, openState } from "./state.ts";
import { onStopRequests } from "./stop-requests.ts";

const help = `Usage: sluice <command>

  start          run the gateway on this machine, with Redis and a simulated upstream; Ctrl-C stops it
  keys create    make a key: --group <group> --name <name>
  keys list      show the keys, without their secrets
  keys revoke    revoke a key: by its id, its name or its last four characters
  help           this text

Settings are environment variables:

  PORT               where callers reach the gateway (8080)
  HOST               the address it listens at (127.0.0.1)
  OPERATIONS_PORT    health, readiness and metrics of the ingress; the worker takes the next one (any free ports)
  OPERATOR_PASSWORD  switches job inspection on
  REDIS_URL          a Redis to use instead of a private one (redis://…, rediss://… or unix:///…)
  SLUICE_CATALOGUE   the catalogue file (catalogue.yaml)
  LOG_LEVEL          of the logs under .sluice/log (info)
  OPENAI_API_KEY     any credential that the catalogue names (ANTHROPIC_API_KEY, GEMINI_API_KEY, …), for the models it pays for
`;

async function command([name, ...args]: string[]): Promise<number> {
  switch (name) {
    case "start":
      if (args.includes("--help") || args.includes("-h")) return showHelp();
      if (args.length > 0)
        return misunderstood(`start takes no arguments, only settings from the environment: ${args.join(" ")}`);
      return start(environmentAtRoot());
    case "keys":
      return keysCommand(args, environmentAtRoot());
    case "redis":
      return findRedis();
    case "help":
    case "--help":
    case "-h":
      return showHelp();
    default:
      return misunderstood(name === undefined ? "which command?" : `there is no command "${name}"`);
  }
}

function showHelp(): number {
  process.stdout.write(help);
  return 0;
}

function misunderstood(what: string): number {
  process.stderr.write(`sluice: ${what}\n\n${help}`);
  return 2;
}

/** Makes the checkout the working directory; a catalogue is still looked for where the command was given. */
function environmentAtRoot(): NodeJS.ProcessEnv {
  const { SLUICE_CATALOGUE: catalogue } = process.env;
  const environment = { ...process.env, ...(catalogue && { SLUICE_CATALOGUE: resolve(catalogue) }) };
  process.chdir(checkout);
  return environment;
}

/** For the tests, which start servers of their own: makes sure that there is a program for them. */
async function findRedis(): Promise<number> {
  try {
    await ensureRedisProgram(process.env, openState(checkout), onStopRequests().stop);
    return 0;
  } catch (error) {
    if (!(error instanceof StartupFault)) throw error;
    process.stderr.write(`sluice: ${error.message}\n`);
    return 1;
  }
}

for (const output of [process.stdout, process.stderr]) output.on("error", () => {});
process.exitCode = await command(process.argv.slice(2));
if (process.connected) process.disconnect();
