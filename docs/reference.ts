/**
 * Generates docs/reference.md, the page of every setting, from the tables and schemas that the
 * programs read, and libs/service/variables.json, which every program reads because it cannot
 * import the tables of the others. `npm run reference` writes both.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { controlSettings } from "../apps/control/config.ts";
import { ingressSettings } from "../apps/ingress/common/config.ts";
import { simulatorSettings } from "../apps/simulator/config.ts";
import { settingTable } from "../apps/simulator/settings.ts";
import { workerArguments, workerSettings } from "../apps/worker/config.ts";
import { catalogueSchema } from "../libs/catalogue/schema.ts";
import { type Settings, serviceSettings } from "../libs/service/config.ts";
import { fileVariableOf } from "../libs/service/secret-files.ts";
import { exporterSecrets, tracingSettings } from "../libs/tracing/config.ts";
import { code, tableOf } from "./tables.ts";

const root = join(import.meta.dirname, "..");
export const referenceFile = join(import.meta.dirname, "reference.md");
export const variablesFile = join(root, "libs/service/variables.json");

/** The tables of settings, each with the roles that read it. */
const tables: [settings: Settings, ...roles: string[]][] = [
  [serviceSettings, "ingress", "worker", "control"],
  [tracingSettings, "ingress", "worker"],
  [ingressSettings, "ingress"],
  [workerSettings, "worker"],
  [controlSettings, "control"],
  [simulatorSettings, "simulator"],
];

const allSettings = tables.flatMap(([settings]) => Object.values(settings));

/** The roles that read each setting, secrets apart. */
export function variablesOf(): string {
  const rolesOf = (isSecret: boolean) =>
    Object.fromEntries(
      allSettings
        .filter(({ secret }) => (secret !== undefined) === isSecret)
        .map(({ variable }) => [
          variable,
          tables
            .filter(([settings]) => Object.values(settings).some((setting) => setting.variable === variable))
            .flatMap(([, ...roles]) => roles)
            .join(" "),
        ]),
    );
  return `${JSON.stringify({ settings: rolesOf(false), secrets: rolesOf(true) }, null, 2)}\n`;
}

function secretsTable(): string {
  const secrets = new Map([
    ...allSettings.flatMap(({ variable, secret }): [string, string][] => (secret ? [[variable, secret]] : [])),
    ...exporterSecrets.map((variable): [string, string] => [variable, "needs a restart"]),
  ]);
  const rows = [...secrets].map(([variable, secret]) => [
    code(variable),
    code(fileVariableOf(variable)),
    secret === "rotates" ? "used within 5 seconds" : "used after a restart",
  ]);
  rows.push(["each `credential` of the catalogue", "its name and `_FILE`", "used within 5 seconds"]);
  rows.push(["", "the files of an upstream's `tls`", "used within 5 seconds"]);
  return tableOf(["variable", "file", "a changed file is"], rows);
}

function environmentTable(settings: Settings): string {
  const rows = Object.values(settings).map(({ variable, default: fallback, bounds, description }) => [
    code(variable),
    code(fallback),
    bounds,
    description,
  ]);
  return tableOf(["variable", "default", "allowed", "meaning"], rows);
}

interface Schema {
  $ref?: string;
  type?: string;
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  enum?: unknown[];
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  items?: Schema;
  required?: string[];
  faultText?: string;
}

/**
 * A row for every setting of a schema. `<name>` is a name that the operator chooses, `[]` is each
 * item of a list.
 */
function schemaRows(schema: Schema, path: string): string[][] {
  const rows: string[][] = [];
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const at = path === "" ? name : `${path}.${name}`;
    const isRequired = schema.required?.includes(name) === true && member.default === undefined;
    rows.push(
      [code(at), isRequired ? "required" : defaultOf(member), allowedOf(member), member.description ?? ""],
      ...schemaRows(member, at),
    );
  }
  for (const member of Object.values(schema.patternProperties ?? {}))
    rows.push(...schemaRows(member, `${path}.<name>`));
  if (schema.items !== undefined) rows.push(...schemaRows(schema.items, `${path}[]`));
  return rows;
}

function defaultOf({ default: fallback }: Schema): string {
  const isEmptyObject = typeof fallback === "object" && fallback !== null && !Array.isArray(fallback);
  return fallback === undefined || isEmptyObject ? "" : code(JSON.stringify(fallback));
}

function allowedOf(schema: Schema): string {
  if (schema.enum !== undefined) return schema.enum.map((value) => code(String(value))).join(", ");
  if (schema.minimum !== undefined || schema.maximum !== undefined)
    return `${schema.type}, ${schema.minimum ?? ""} to ${schema.maximum ?? ""}`;
  if (schema.anyOf !== undefined) return schema.anyOf.map(({ type }) => type ?? "").join(" or ");
  return { object: "mapping", array: "list" }[schema.type ?? ""] ?? schema.type ?? "";
}

/**
 * The schema of the Helm chart's values with the defaults of its values.yaml. A member without a
 * description repeats one that has its own row.
 */
function chartSchema(): Schema {
  const textOf = (name: string) => readFileSync(join(root, "infra/kubernetes/sluice", name), "utf8");
  return withDefaults(JSON.parse(textOf("values.schema.json")) as Schema, parse(textOf("values.yaml")));
}

function withDefaults(schema: Schema, value: unknown): Schema {
  const isReference = schema.$ref !== undefined;
  const shown = Object.entries(schema.properties ?? {}).filter(([, { description }]) => description !== undefined);
  return {
    ...schema,
    ...(isReference && { type: "object" }),
    ...(value !== undefined && { default: value }),
    properties: Object.fromEntries(
      shown.map(([name, member]) => [
        name,
        withDefaults(member, (value as Record<string, unknown> | undefined)?.[name]),
      ]),
    ),
    patternProperties: Object.fromEntries(
      Object.entries(schema.patternProperties ?? {}).map(([name, member]) => [name, withDefaults(member, undefined)]),
    ),
  };
}

function simulatorRows(): string[][] {
  return Object.entries(settingTable).map(([name, setting]) => {
    const allowed =
      "min" in setting
        ? `${setting.kind}, ${setting.min} to ${setting.max}`
        : "of" in setting
          ? setting.of.map(code).join(", ")
          : setting.kind;
    return [code(name), allowed, setting.description];
  });
}

function helpOf(...args: string[]): string {
  const { stdout, stderr } = spawnSync(process.execPath, [join(root, "apps/cli/main.ts"), ...args], {
    encoding: "utf8",
    cwd: root,
  });
  return `\`\`\`\n${(stdout || stderr).trim()}\n\`\`\``;
}

/** The page's text. */
export function referenceOf(): string {
  return `# Settings

\`npm run reference\` generates this page from the programs' own tables, and a test keeps it current. An empty variable counts as unset. An invalid value ends a process at startup with a one-line error and exit code 78; \`npm start\` and \`sluice start\` then end with 1.

## Environment: every process

${environmentTable(serviceSettings)}

In addition: each variable that the catalogue names in \`credential\` or \`credentials\` (workers) or in \`requires\` (every process).

A variable that no program and no catalogue reads, but whose name is close to that of a setting or begins with \`SLUICE_\`, is a warning at startup with the nearest name.

## Environment: secrets

A secret is the value of its variable, or the content of the file that the variable with \`_FILE\` names, as Docker and Kubernetes mount secrets. Line breaks at the end of the file do not count. A relative path starts at the process's working directory. A variable and its file together are an error. At startup a missing, empty or invalid file is an error too, except for a credential of the catalogue, which is then a warning. Later the last value stays in force, and the log says so once. A file has at most 64 KiB. Only workers read credentials of the catalogue; an ingress and control look only at whether the variable or its file is set.

${secretsTable()}

## Environment: tracing, of ingresses and workers

${environmentTable(tracingSettings)}

The exporter also reads \`OTEL_SERVICE_NAME\`, \`OTEL_RESOURCE_ATTRIBUTES\` and, with their variants for traces, \`OTEL_EXPORTER_OTLP_HEADERS\`, \`_TIMEOUT\`, \`_COMPRESSION\`, \`_CERTIFICATE\`, \`_CLIENT_KEY\` and \`_CLIENT_CERTIFICATE\`, as [OpenTelemetry](https://opentelemetry.io/docs/specs/otel/protocol/exporter/) specifies them. [Traces](tracing.md) is the guide.

## Environment: ingress

${environmentTable(ingressSettings)}

## Environment: worker

${environmentTable(workerSettings)}

## Environment: control

${environmentTable(controlSettings)}

## Environment: simulator

${environmentTable(simulatorSettings)}

## Command line: worker

${tableOf(
  ["option", "default", "meaning"],
  Object.entries(workerArguments).map(([name, { default: fallback, description }]) => [
    code(`--${name}`),
    code(fallback),
    description,
  ]),
)}

## Command line: sluice

${helpOf("--help")}

${helpOf("keys")}

## Catalogue

\`<name>\` is a name that you choose, \`[]\` is each item of a list. An unknown setting is an error.

${tableOf(["setting", "default", "allowed", "meaning"], schemaRows(catalogueSchema as unknown as Schema, ""))}

## Helm chart

The values of [infra/kubernetes/sluice](../infra/kubernetes/sluice/values.yaml); [kubernetes.md](kubernetes.md) explains them. An unknown value is an error.

${tableOf(["value", "default", "allowed", "meaning"], schemaRows(chartSchema(), ""))}

## Simulator: its answers

In a model's name (\`sim-text;tokens=64;rate=50\`) or in the header \`x-simulate: tokens=64,rate=50\` of a request to it.

${tableOf(["setting", "allowed", "meaning"], simulatorRows())}
`;
}

if (import.meta.main) {
  writeFileSync(variablesFile, variablesOf());
  writeFileSync(referenceFile, referenceOf());
}
