/** The processes that `npm start` runs: their commands and their parts of the environment. */
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import type { Writable } from "node:stream";
import type { Environment } from "#catalogue/environment.ts";
import { drainSettings, readSettings } from "#service/config.ts";
import variables from "#service/variables.json" with { type: "json" };
import type { Plan, Urls } from "./supervise.ts";

export type Role = "simulator" | "worker" | "ingress" | "control";

/** Node's arguments, in the checkout's directory. The containers use the same commands. */
export type RoleCommands = Readonly<Record<Role, readonly string[]>>;

export const roleCommands: RoleCommands = {
  simulator: ["apps/simulator/main.ts"],
  worker: ["apps/worker/main.ts"],
  ingress: ["apps/ingress/main.ts"],
  control: ["apps/control/main.ts"],
};

/** How long a role may take to end after its drain time. */
const stopMarginMs = 5_000;
const attemptsMax = 5;

export interface RolePlace {
  root: string;
  logs: string;
  commands: RoleCommands;
  /** Every role keeps it open. */
  lifeline: Writable | undefined;
}

/** The messages of a role; control sends a link while no operator can sign in otherwise. */
type RoleMessage = { type: "listening"; urls: Urls } | { type: "sign-in-link"; url: string };

/** How to run a role in this environment. After a restart it uses the same ports. */
export function rolePlan(role: Role, { root, logs, commands, lifeline }: RolePlace, environment: Environment): Plan {
  const logFile = join(logs, `${role}.log`);
  const { drainMs, drainNoticeMs } = readSettings(drainSettings, environment);
  return {
    name: role,
    spawn: (previous) => {
      const log = openSync(logFile, "a", 0o600);
      try {
        return spawn(process.execPath, commands[role], {
          cwd: root,
          env: { ...environment, ...portsOf(previous) },
          detached: true,
          stdio: ["ignore", log, "pipe", "ipc", lifeline ?? "ignore"],
        });
      } finally {
        closeSync(log);
      }
    },
    whenServing: (child) =>
      new Promise((resolve) => {
        child.on("message", (message: RoleMessage | null) => {
          if (message?.type === "sign-in-link") showLink(message.url);
          if (message?.type === "listening") resolve(message.urls);
        });
      }),
    attemptsMax,
    stopMsMax: drainMs + drainNoticeMs + stopMarginMs,
    logFile,
  };
}

/** On the terminal only: the link is a secret. */
const showLink = (url: string) =>
  void process.stdout.write(
    `Sign in as the first operator with this link, once and within 15 minutes:\n\n  ${url}\n\n`,
  );

function portsOf(urls: Urls | undefined): Environment {
  const port = (url: string | undefined) => (url === undefined ? undefined : new URL(url).port);
  const [own, operations] = [port(urls?.api ?? urls?.simulator ?? urls?.control), port(urls?.operations)];
  return {
    ...(own && { PORT: own, SIMULATOR_PORT: own, CONTROL_PORT: own }),
    ...(operations && { OPERATIONS_PORT: operations }),
  };
}

/** The roles that read a secret setting. */
const rolesOfSecrets: Readonly<Record<string, string>> = variables.secrets;

/** Variables whose names indicate a secret, in addition to those in the catalogue. */
const secretPattern = /(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$/i;

/** Whether a variable names the file of a secret, as far as its name tells. */
export const isSecretFile = (name: string): boolean => {
  const [, variable = ""] = /^(.+)_FILE$/.exec(name) ?? [];
  return rolesOfSecrets[variable] !== undefined || secretPattern.test(variable);
};

/**
 * The part of the environment that a role receives. Only the worker receives the secrets of
 * upstreams. Ingress and control see that they are set, because that decides which models are
 * offered; the simulator does not. A secret setting goes to the roles that read it. The same holds
 * for the variables that name a secret's file.
 */
export function roleEnvironmentOf(
  role: Role,
  environment: Environment,
  secretVariables: ReadonlySet<string>,
): Environment {
  const visible = Object.entries(environment).flatMap(([name, value]): [string, string | undefined][] => {
    if (value === undefined || /^(npm_|INIT_CWD$|NODE_CHANNEL_)/i.test(name)) return [];
    const variable = name.replace(/_FILE$/, "");
    const roles = rolesOfSecrets[variable];
    const isNamed = secretVariables.has(variable);
    if (roles?.split(" ").includes(role)) return [[name, value]];
    if (role === "worker" && (roles === undefined || isNamed)) return [[name, value]];
    if (roles !== undefined && !isNamed) return [];
    if (!(isNamed || secretPattern.test(variable))) return [[name, value]];
    return role !== "simulator" && value !== "" ? [[variable, "configured"]] : [];
  });
  return Object.fromEntries(visible);
}
