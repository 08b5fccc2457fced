/**
 * The variables that hold secrets, from the tables of settings, for the chart: it refuses them as
 * plain values. `npm run reference` writes the file.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { controlSettings } from "../../apps/control/config.ts";
import { ingressSettings } from "../../apps/ingress/common/config.ts";
import { simulatorSettings } from "../../apps/simulator/config.ts";
import { workerSettings } from "../../apps/worker/config.ts";
import { type Setting, serviceSettings } from "../../libs/service/config.ts";
import { exporterSecrets, tracingSettings } from "../../libs/tracing/config.ts";

export const secretsFile = join(import.meta.dirname, "sluice/files/secrets.txt");

/** The text of the file: a name on each line. */
export function secretsText(): string {
  const tables = [serviceSettings, tracingSettings, ingressSettings, workerSettings, controlSettings];
  const settings = [...tables, simulatorSettings].flatMap((table): Setting<unknown>[] => Object.values(table));
  const names = settings.filter(({ secret }) => secret !== undefined).map(({ variable }) => variable);
  return [...new Set([...names, ...exporterSecrets])]
    .sort()
    .map((name) => `${name}\n`)
    .join("");
}

if (import.meta.main) writeFileSync(secretsFile, secretsText());
