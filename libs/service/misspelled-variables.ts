/** Environment variables that nothing reads although their names look like those of settings. */
import type { Logger } from "pino";
import { nearestOf } from "./nearest.ts";
import { fileVariableOf } from "./secret-files.ts";
import variables from "./variables.json" with { type: "json" };

type Environment = Record<string, string | undefined>;

const warningsMax = 20;
const nameLengthMax = 100;
const editsMax = 2;

/** Every variable of the programs begins with it or is in the tables of settings. */
const prefix = "SLUICE_";

/** Read by the programs and their libraries, but in no table of settings. */
const otherVariables = [
  "SLUICE_CONTROL_URL",
  "SLUICE_KEY",
  "NO_COLOR",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "AWS_REGION",
  "OTEL_SERVICE_NAME",
  "OTEL_RESOURCE_ATTRIBUTES",
  ...["", "_TRACES"].flatMap((signal) =>
    ["HEADERS", "TIMEOUT", "COMPRESSION", "CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"].map(
      (name) => `OTEL_EXPORTER_OTLP${signal}_${name}`,
    ),
  ),
];

/** Whether it is a setting of the gateway or of its libraries, or the file of one. */
export const isOwnVariable = (variable: string): boolean =>
  isRead(variable, new Set(otherVariables)) ||
  Object.hasOwn(variables.settings, variable) ||
  Object.keys(variables.secrets).some((secret) => variable === secret || variable === fileVariableOf(secret));

/** The variables of a catalogue. */
interface CatalogueVariables {
  /** Each may be in a file. */
  readonly credentialVariables: Iterable<string>;
  readonly addressVariables: Iterable<string>;
}

export interface MisspelledVariable {
  variable: string;
  nearest: string;
}

/** The first of them, without their values. */
export function misspelledVariablesOf(
  environment: Environment,
  catalogue: CatalogueVariables = { credentialVariables: [], addressVariables: [] },
): MisspelledVariable[] {
  const secrets = [...Object.keys(variables.secrets), ...catalogue.credentialVariables];
  const names = new Set([
    ...Object.keys(variables.settings),
    ...secrets,
    ...secrets.map(fileVariableOf),
    ...catalogue.addressVariables,
    ...otherVariables,
  ]);
  return Object.keys(environment)
    .filter((name) => environment[name] && name.length <= nameLengthMax && !isRead(name, names))
    .flatMap((variable) => {
      const nearest = nearestVariableOf(variable, names);
      return nearest === undefined ? [] : [{ variable, nearest }];
    })
    .slice(0, warningsMax);
}

/** Proxies may be in small letters. */
const isRead = (name: string, names: ReadonlySet<string>): boolean =>
  names.has(name) || (name.endsWith("_proxy") && names.has(name.toUpperCase()));

/** Short names need fewer edits to become another one. */
function nearestVariableOf(variable: string, names: ReadonlySet<string>): string | undefined {
  const nearestTo = (name: string) => nearestOf(name, names, Math.min(editsMax, Math.floor(name.length / 4)));
  if (!variable.startsWith(prefix)) return nearestTo(variable);
  return nearestTo(variable) ?? nearestTo(variable.slice(prefix.length)) ?? nearestOf(variable, names, nameLengthMax);
}

/** A line for each. */
export function warnOfMisspelledVariables(log: Logger, ...parameters: Parameters<typeof misspelledVariablesOf>): void {
  for (const misspelled of misspelledVariablesOf(...parameters))
    log.warn(misspelled, "an environment variable is not read by anything; it looks like a misspelled setting");
}
