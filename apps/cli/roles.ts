/** The processes of the service as `npm start` runs them: by what command, and with which part of the environment. */
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { drainSettings, readSettings } from "#service/config.ts";
import type { Plan, Urls } from "./supervise.ts";

export type Role = "simulator" | "worker" | "ingress";

/** What Node is given, from the checkout's directory. The containers use the same commands. */
export type RoleCommands = Readonly<Record<Role, readonly string[]>>;

export const roleCommands: RoleCommands = {
  simulator: ["apps/simulator/main.ts"],
  worker: ["apps/worker/main.ts"],
  ingress: ["apps/ingress/main.ts"],
};

/** What a role may take for its end beyond the time that it is given for draining. */
const stopMarginMs = 5_000;
const attemptsMax = 5;

type Environment = Readonly<Record<string, string | undefined>>;

export interface RolePlace {
  root: string;
  logs: string;
  commands: RoleCommands;
  /** Held open by every role. */
  lifeline: Writable | undefined;
}

/** How to run a role in this environment; after a restart it serves at the same ports as before. */
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
        child.on("message", (message) => {
          if (isListening(message)) resolve(message.urls);
        });
      }),
    attemptsMax,
    stopMsMax: drainMs + drainNoticeMs + stopMarginMs,
    logFile,
  };
}

const isListening = (message: unknown): message is { urls: Urls } =>
  typeof message === "object" &&
  message !== null &&
  "type" in message &&
  message.type === "listening" &&
  "urls" in message;

function portsOf(urls: Urls | undefined): Environment {
  const port = (url: string | undefined) => (url === undefined ? undefined : new URL(url).port);
  const [own, operations] = [port(urls?.api ?? urls?.simulator), port(urls?.operations)];
  return { ...(own && { PORT: own, SIMULATOR_PORT: own }), ...(operations && { OPERATIONS_PORT: operations }) };
}

/** Names that say that their value is a secret, beside those the catalogue mentions. */
const secretPattern = /(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$/i;

/**
 * What each role may know. Secrets of upstreams are the worker's alone: the ingress is told that there are such, for it depends on them which
 * models are offered; the simulator is told nothing. The operator's password is the ingress' alone.
 */
export function roleEnvironmentOf(
  role: Role,
  environment: Environment,
  credentialNames: ReadonlySet<string>,
): Environment {
  const known = Object.entries(environment).flatMap(([name, value]): [string, string | undefined][] => {
    if (value === undefined || /^(npm_|INIT_CWD$|NODE_CHANNEL_)/i.test(name)) return [];
    if (name === "OPERATOR_PASSWORD") return role === "ingress" ? [[name, value]] : [];
    if (name === "SIMULATOR_KEY") return role === "ingress" ? [] : [[name, value]];
    if (name === "REDIS_URL") return role === "simulator" ? [] : [[name, value]];
    if (role === "worker" || !(credentialNames.has(name) || secretPattern.test(name))) return [[name, value]];
    return role === "ingress" && value !== "" ? [[name, "configured"]] : [];
  });
  return Object.fromEntries(known);
}
