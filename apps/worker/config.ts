/** The worker's settings and its command line. */

import { parseArgs } from "node:util";
import { credentialsSecretSetting } from "#catalogue/credentials.ts";
import type { Environment } from "#catalogue/environment.ts";
import {
  drainSettings,
  integerSetting,
  memoryShare,
  readSettings,
  type ServiceConfig,
  serviceConfigOf,
} from "#service/config.ts";
import { networksSetting } from "#service/public-agent.ts";
import { StartupFault } from "#service/startup.ts";
import { capacityMax } from "./bounds.ts";

const mebibyte = 1 << 20;

export const workerSettings = {
  credentialsSecrets: credentialsSecretSetting,
  drainMs: drainSettings.drainMs,
  sharePercent: integerSetting(
    "WORKER_SHARE_PERCENT",
    140,
    110,
    100_000,
    "The most generations of a queue that this worker takes while others have free slots, in percent of what the workers with free slots have on average; 16 at least. More gathers them on fewer workers, which costs Redis less, but a worker that dies ends more of them.",
  ),
  attachmentNetworks: {
    formerVariable: "SOURCE_NETWORKS",
    ...networksSetting(
      "ATTACHMENT_NETWORKS",
      "Private networks from which the worker may fetch images and documents that requests name by address, such as 10.0.0.0/8,fd00::/8. None by default.",
    ),
  },
  answerBytesMax: integerSetting(
    "ANSWER_BYTES_MAX",
    memoryShare(8, 512 * mebibyte),
    mebibyte,
    64 * 1024 * mebibyte,
    "Bytes of the answers above 1 MiB that one worker holds until they are complete and sent, such as images. An answer that finds no space is read on once there is some; if all wait, the oldest goes on. One key alone gets 4/5 of it. In memory an answer takes two to five times its size while it is read.",
  ),
  attachmentBytesMax: {
    formerVariable: "SOURCE_BYTES_MAX",
    ...integerSetting(
      "ATTACHMENT_BYTES_MAX",
      memoryShare(8, 512 * mebibyte),
      mebibyte,
      64 * 1024 * mebibyte,
      "Bytes of fetched images and documents (as base64) that one worker keeps until they are sent. Requests beyond that wait. One key gets at most half of it. A request that needs more than all of it is refused.",
    ),
  },
};

export const workerArguments = {
  queues: {
    default: "chat=10000,image=8,audio=32,background=64,realtime=256,*=8",
    description: `The queues to serve, each with the most concurrent generations (1 to ${capacityMax}); the process takes fewer when its event loop, its memory or its open files are used up. \`*\` means every other queue of the catalogue, including queues that are added later.`,
  },
};

export const workerConfigOf = (environment: Record<string, string | undefined>) =>
  readSettings(workerSettings, environment);

export interface WorkerConfig extends ServiceConfig, ReturnType<typeof workerConfigOf> {
  /** Queues and their capacities, with `*` for every other one. */
  queues: ReadonlyMap<string, number>;
  /** Contains credentials and proxies. */
  environment: Environment;
}

/** Reads all settings from the environment and the command line. Throws StartupFault. */
export const loadWorkerConfig = (environment: Record<string, string | undefined>, args: string[]): WorkerConfig => ({
  ...serviceConfigOf(environment),
  ...workerConfigOf(environment),
  queues: queuesOf(args),
  environment,
});

/** Means every queue of the catalogue that the command line does not name. */
const everyOther = "*";

/** Queues and their capacities, from the command line. Throws StartupFault. */
export function queuesOf(args: string[]): Map<string, number> {
  if (args.some((argument) => /^--lanes(=|$)/.test(argument)))
    throw new StartupFault("--lanes was renamed to --queues in version 0.2.0");
  let text: string;
  try {
    text = parseArgs({
      args,
      options: { queues: { type: "string", multiple: true, default: [workerArguments.queues.default] } },
    }).values.queues.join(",");
  } catch (error) {
    throw new StartupFault((error as Error).message);
  }
  const queues = new Map<string, number>();
  for (const part of text.split(",")) {
    const [, name, count] = /^([a-z0-9][a-z0-9._-]{0,39}|\*)=(\d+)$/.exec(part.trim()) ?? [];
    const capacity = Number(count);
    if (name === undefined || !(capacity >= 1 && capacity <= capacityMax) || queues.has(name))
      throw new StartupFault(
        `--queues must be like ${workerArguments.queues.default}, each queue once with 1 to ${capacityMax} generations, not "${text}"`,
      );
    queues.set(name, capacity);
  }
  return queues;
}

/** The queues to serve when the catalogue names these, each with its capacity. */
export function capacitiesOf(
  configured: ReadonlyMap<string, number>,
  catalogued: Iterable<string>,
): Map<string, number> {
  const others = configured.get(everyOther);
  const capacities = new Map(others === undefined ? [] : [...catalogued].map((name) => [name, others]));
  for (const [name, capacity] of configured) if (name !== everyOther) capacities.set(name, capacity);
  return capacities;
}
