/** Checks a catalogue file for all of its mistakes, whatever the environment lacks. */
import { isDeepStrictEqual } from "node:util";
import { isConfigured } from "#service/secret-files.ts";
import { readDocument } from "./document.ts";
import type { Environment } from "./environment.ts";
import type { Finding, Path } from "./fault.ts";
import { bytesOf, variablesOf } from "./load.ts";
import { meaningFindingsOf } from "./meaning.ts";
import type { CatalogueFile } from "./schema.ts";
import { shapeOf } from "./shape.ts";

/**
 * In the place of variables that are not set: an address is good if it is good with one of them.
 */
const placeholders = ["http://host", "name", "1"];

/** Throws only CatalogueFault, which lists every mistake. */
export function checkedCatalogue(file: string, environment: Environment): CatalogueFile {
  const document = readDocument(bytesOf(file), file);
  const repaired: unknown = structuredClone(document.value);
  const shape = shapeOf(document.value);
  if (shape.kind === "faulty")
    throw document.faultOf([...shape.findings, ...findingsBeside(shape.findings, repaired, environment)]);
  const findings = findingsIn(shape.file, environment);
  if (findings.length > 0) throw document.faultOf(findings);
  return shape.file;
}

function findingsIn(file: CatalogueFile, environment: Environment): Finding[] {
  const { credentialVariables, addressVariables } = variablesOf(file);
  const unset = [...credentialVariables, ...addressVariables].filter(
    (variable) => !isConfigured(variable, environment),
  );
  const [first = [], ...others] = placeholders.map((placeholder) =>
    meaningFindingsOf(file, {
      ...environment,
      ...Object.fromEntries(unset.map((variable) => [variable, placeholder])),
    }),
  );
  return first.filter(({ path }) =>
    others.every((findings) => findings.some((finding) => isDeepStrictEqual(finding.path, path))),
  );
}

/** Entries whose settings replace faulty ones, so that the others can be checked. */
const standIns: Record<string, (key: string | number) => Record<string, unknown>> = {
  queues: () => ({}),
  groups: () => ({ models: ["*"] }),
  upstreams: () => ({ dialect: "openai-chat", baseUrl: "http://host" }),
  models: (key) => ({
    id: `model-${key}`,
    prices: { inputPerMillion: 0, outputPerMillion: 0 },
    route: [{ upstream: "unknown", model: "unknown" }],
  }),
};

/** The mistakes in the meaning of what has the right shape. Changes the value. */
function findingsBeside(faulty: readonly Finding[], value: unknown, environment: Environment): Finding[] {
  const replaced: Path[] = [];
  for (const { path } of faulty) {
    const [section, key, setting] = path;
    const standIn = typeof section === "string" ? standIns[section] : undefined;
    if (section === undefined || (standIn !== undefined && key === undefined)) return [];
    if (standIn === undefined || key === undefined) Reflect.deleteProperty(Object(value), section);
    else replaceIn(Object(Reflect.get(Object(value), section)), standIn(key), key, setting);
    replaced.push(path.slice(0, standIn === undefined ? 1 : 3));
  }
  const shape = shapeOf(value);
  if (shape.kind === "faulty") return [];
  return findingsIn(shape.file, environment).filter(
    ({ path }) => !replaced.some((start) => isDeepStrictEqual(path.slice(0, start.length), start)),
  );
}

/** Replaces a setting of an entry; without one, the whole entry. */
function replaceIn(
  entries: object,
  standIn: Record<string, unknown>,
  key: string | number,
  setting: string | number | undefined,
): void {
  const entry: unknown = Reflect.get(entries, key);
  if (setting === undefined) Reflect.set(entries, key, standIn);
  else if (Object.hasOwn(standIn, setting)) Reflect.set(Object(entry), setting, standIn[setting]);
  else Reflect.deleteProperty(Object(entry), setting);
}
