/** Checks a value against the schema of a catalogue file and fills in the defaults. */
import { Settings } from "typebox/system";
import { Pointer, Value } from "typebox/value";
import { suggestionOf } from "#service/nearest.ts";
import type { Finding, Path } from "./fault.ts";
import { type CatalogueFile, catalogueSchema } from "./schema.ts";

/**
 * Enough to include the error that names the position: typebox reports it after less specific ones.
 */
Settings.Set({ maxErrors: 10_000 });

/** Queues that exist in every catalogue, with the defaults that differ from the schema's. */
const builtInQueues: Record<string, object> = {
  chat: {},
  image: { waitMs: 600_000 },
  audio: {},
  background: { waitMs: 3_600_000 },
  realtime: {},
};

/** The file with its defaults, or its mistakes. Changes the given value. */
export function shapeOf(
  value: unknown,
): { kind: "well"; file: CatalogueFile } | { kind: "faulty"; findings: Finding[] } {
  if (isRecord(value)) addBuiltInQueues(value);
  const whole: unknown = Value.Default(catalogueSchema, value);
  if (Value.Check(catalogueSchema, whole)) return { kind: "well", file: whole };
  return { kind: "faulty", findings: findingsOf(whole) };
}

function addBuiltInQueues(file: Record<string, unknown>): void {
  file.queues ??= {};
  const { queues } = file;
  if (!isRecord(queues)) return;
  for (const [name, defaults] of Object.entries(builtInQueues)) {
    const settings = queues[name] ?? {};
    queues[name] = isRecord(settings) ? { ...defaults, ...settings } : settings;
  }
}

/** Settings that 0.2.0 renamed: the old name and the new one. */
const renamedSettings: Record<string, string> = {
  lanes: "queues",
  lane: "queue",
  limits: "timeouts",
  splice: "resume",
  circuitFailuresMax: "circuitBreakerFailuresMax",
  fetchesSources: "fetchesAttachments",
};

type Schema = Record<string, unknown>;
type SchemaError = ReturnType<typeof Value.Errors>[number];

function findingsOf(value: unknown): Finding[] {
  const errors = Value.Errors(catalogueSchema, value);
  const alternatives = new Set(
    errors.filter(({ keyword }) => keyword === "anyOf").map(({ instancePath }) => instancePath),
  );
  return errors.flatMap((error) => {
    const isPartOfAlternative = alternatives.has(error.instancePath) && error.keyword !== "anyOf";
    return isPartOfAlternative ? [] : findingsOfError(error, value);
  });
}

function findingsOfError(error: SchemaError, value: unknown): Finding[] {
  const path = pathOf(value, error.instancePath);
  const actual = Pointer.Get(value, error.instancePath);
  const schema = Pointer.Get(catalogueSchema, error.schemaPath.slice(1)) as Schema;
  const faultText = typeof schema.faultText === "string" ? schema.faultText : undefined;
  const at = (text: string): Finding[] => [{ path, text }];
  switch (error.keyword) {
    case "boolean":
      return [];
    case "additionalProperties": {
      const settingNames = Object.keys(isRecord(schema.properties) ? schema.properties : {});
      return error.params.additionalProperties.map((name) => ({
        path: [...path, name],
        atKey: true,
        text: unknownSettingText(name, settingNames),
      }));
    }
    case "propertyNames":
      return error.params.propertyNames.map((name) => ({
        path: [...path, name],
        atKey: true,
        text: String(schema.nameFaultText),
      }));
    case "required":
      return error.params.requiredProperties.map((name) => ({ path: [...path, name], text: "missing" }));
    case "type":
      return at(typeText(error.params.type, actual));
    case "enum":
      return at(enumText(error.params.allowedValues.map(String), actual));
    default:
      if (error.schemaPath.endsWith("/propertyNames")) return [];
      return at(faultText ?? error.message);
  }
}

function unknownSettingText(name: string, settingNames: string[]): string {
  const renamed = renamedSettings[name];
  if (renamed !== undefined && settingNames.includes(renamed)) return `was renamed to ${renamed} in version 0.2.0`;
  if (name === "connectionsMax") return "is set on the upstream itself since version 0.2.0";
  return `no such setting${suggestionOf(name, settingNames)}; known here: ${settingNames.join(", ")}`;
}

function typeText(expected: string | string[], value: unknown): string {
  const wanted = [expected]
    .flat()
    .map((type) =>
      type === "object" ? "a mapping" : type === "array" ? "a list" : `${/^[aeio]/.test(type) ? "an" : "a"} ${type}`,
    );
  const actualType =
    value === null ? "empty" : Array.isArray(value) ? "a list" : isRecord(value) ? "a mapping" : JSON.stringify(value);
  const hint = expected === "string" && ["number", "boolean"].includes(typeof value) ? " (put it in quotes)" : "";
  return `must be ${wanted.join(" or ")}, not ${actualType}${hint}`;
}

const enumText = (allowed: string[], value: unknown) =>
  `must be ${allowed.map((name) => `"${name}"`).join(" or ")}, not ${JSON.stringify(value)}${suggestionOf(String(value), allowed)}`;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The path of a JSON pointer, with numbers for the items of lists. */
function pathOf(value: unknown, pointer: string): Path {
  let at = value;
  return Pointer.Indices(pointer).map((step) => {
    const isItem = Array.isArray(at);
    at = Reflect.get(Object(at), step);
    return isItem ? Number(step) : step;
  });
}
