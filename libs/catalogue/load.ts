/**
 * Turns the bytes of a catalogue file into a catalogue, or into one line that names the mistake.
 */
import { createHash } from "node:crypto";
import { upstreamProfiles } from "#dialects/profiles.ts";
import { strictnessOf } from "#dialects/repairs/strict-upstreams.ts";
import { readBoundedSync } from "#service/followed-file.ts";
import { type Catalogue, type CatalogueModel, type CatalogueUpstream, createCatalogue } from "./catalogue.ts";
import { isStoredReference } from "./credentials.ts";
import { type CatalogueDocument, fileBytesMax, readDocument } from "./document.ts";
import { cacheDomainOf, credentialNamesOf, type Environment, filledIn, isOffered, variablesIn } from "./environment.ts";
import { CatalogueClash, CatalogueFault, type Finding, pathTextOf } from "./fault.ts";
import { createdSecondsOf, meaningFindingsOf } from "./meaning.ts";
import type { CatalogueFile } from "./schema.ts";
import { shapeOf } from "./shape.ts";
import {
  clashesBetween,
  entriesOf,
  isEmptyDocument,
  mergedValueOf,
  plainValueOf,
  type StoredDocument,
  type StoredRevision,
  sectionOf,
  upstreamFindingsOf,
} from "./stored.ts";
import { declaredModelsOf, isWildcard, namedModelsOf, type PricedModel } from "./wildcards.ts";

/** Reads and checks the file synchronously. Throws only CatalogueFault. */
export const loadCatalogue = (file: string, environment: Environment): Catalogue =>
  parseCatalogue(bytesOf(file), file, environment);

/** The same, as the file has it: with the models and upstreams that are not offered here. */
export const loadCatalogueFile = (file: string, environment: Environment): CatalogueFile =>
  checkedFileOf(bytesOf(file), file, environment);

/** Entries that are in force, with their defaults, whatever the environment lacks. */
export function checkedEntriesOf(document: StoredDocument): CatalogueFile {
  const shape = shapeOf(structuredClone(plainValueOf(document)));
  if (shape.kind === "faulty") throw new TypeError("entries in force are valid");
  return shape.file;
}

/** The content of a file. Throws only CatalogueFault. */
export function bytesOf(file: string): Uint8Array {
  const reading = readBoundedSync(file, fileBytesMax);
  if (reading.kind === "unreadable") throw new CatalogueFault(reading.reason);
  return reading.bytes;
}

/** Identifies a content: the beginning of its SHA-256, in hex. */
export function versionOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex").slice(0, 16);
}

/**
 * Parses and checks the content of a file, with the stored entries if there are some; `file` is its
 * name in messages. Throws only CatalogueFault.
 */
export function parseCatalogue(
  bytes: Uint8Array,
  file: string,
  environment: Environment,
  stored?: StoredRevision,
): Catalogue {
  const own = versionOf(bytes);
  const { overlapping = {} } = stored ?? {};
  if (stored === undefined || isEmptyDocument(stored.document))
    return catalogueOf(checkedFileOf(bytes, file, environment), { version: own, overlapping }, environment);
  const merged = checkedFileOf(bytes, file, environment, stored);
  const version = versionOf(Buffer.from(`${own} ${stored.sha256}`));
  return catalogueOf(merged, { version, overlapping }, environment);
}

function checkedFileOf(
  bytes: Uint8Array,
  file: string,
  environment: Environment,
  stored?: StoredRevision,
): CatalogueFile {
  const document = readDocument(bytes, file);
  const value = stored && structuredClone(document.value);
  const own = checkedShapeOf(document.value, environment, document.faultOf);
  return stored === undefined ? own : mergedFileOf({ ...document, value }, stored, environment);
}

function checkedShapeOf(
  value: unknown,
  environment: Environment,
  faultOf: CatalogueDocument["faultOf"],
): CatalogueFile {
  const shape = shapeOf(value);
  if (shape.kind === "faulty") throw faultOf(shape.findings);
  const findings = meaningFindingsOf(shape.file, environment);
  if (findings.length > 0) throw faultOf(findings);
  return shape.file;
}

/** The file alone is good, so mistakes are in the stored entries, or between the two. */
function mergedFileOf(document: CatalogueDocument, stored: StoredRevision, environment: Environment): CatalogueFile {
  const own = entriesOf(document.value);
  const place = `revision ${stored.number}`;
  const [clash, ...clashes] = clashesBetween(own, stored.document).map(({ kind, name }) => {
    const path = kind === "model" ? ["models", Object.keys(own.models).indexOf(name)] : [sectionOf[kind], name];
    return document.faultOf([{ path, atKey: true, text: `${kind} "${name}" is also in ${place}; remove one` }]).message;
  });
  if (clash !== undefined) throw new CatalogueClash(clash, ...clashes);
  const ownModels = Object.keys(own.models).length;
  const names = Object.keys(stored.document.models);
  const lineOf = ({ path, text }: Finding) => {
    const [section, key, ...rest] = path;
    const isModel = section === "models" && typeof key === "number";
    const id = isModel ? names[key - ownModels] : undefined;
    if (isModel && id === undefined) return document.faultOf([{ path, text }]).message;
    return `${place}: ${pathTextOf(id === undefined ? path : ["models", id, ...rest])}: ${text}`;
  };
  const faultOf = (findings: readonly Finding[]) =>
    new CatalogueFault(...(findings.map(lineOf) as [string, ...string[]]));
  const merged = mergedValueOf(Object(document.value), stored.document);
  const file = checkedShapeOf(merged, environment, faultOf);
  const findings = upstreamFindingsOf(file, new Set(Object.keys(stored.document.upstreams)));
  if (findings.length > 0) throw faultOf(findings);
  return file;
}

function catalogueOf(
  file: CatalogueFile,
  { version, overlapping }: { version: string } & Required<Pick<StoredRevision, "overlapping">>,
  environment: Environment,
): Catalogue {
  const upstreams = new Map<string, CatalogueUpstream>();
  for (const [name, { requires, baseUrl, ...rest }] of Object.entries(file.upstreams)) {
    if (!isOffered({ requires }, environment)) continue;
    const address = filledIn(baseUrl, environment);
    if (address.kind === "filled") {
      upstreams.set(name, {
        name,
        baseUrl: address.text,
        authentication: upstreamProfiles[rest.dialect].authentication,
        ...strictnessOf(address.text),
        ...rest,
        ...overlapOf(rest, overlapping),
      });
    }
  }
  const offered = ({ mirror, ...model }: PricedModel): CatalogueModel[] => {
    const mirrored = mirror !== undefined && upstreams.has(mirror.upstream) ? { mirror } : {};
    const route = model.route.filter((target) => upstreams.has(target.upstream));
    return route.length === 0
      ? []
      : [{ ...model, name: model.name ?? model.id, created: createdSecondsOf(model.created) ?? 0, route, ...mirrored }];
  };
  return createCatalogue({
    version,
    currency: file.currency,
    ...(file.addresses && { addresses: file.addresses }),
    ...(file.publicGroup !== undefined && { publicGroup: file.publicGroup }),
    queues: new Map(Object.entries(file.queues)),
    groups: new Map(Object.entries(file.groups)),
    upstreams,
    models: namedModelsOf(file.models).flatMap(offered),
    wildcards: file.models.flatMap(({ pricesByModel: _, prices, ...model }) =>
      isWildcard(model.id) && prices ? offered({ ...model, prices }) : [],
    ),
    declaredModels: declaredModelsOf(file.models),
    ...variablesOf(file),
  });
}

/** Two values of a stored credential that are in use take turns. They share a prompt cache. */
function overlapOf(
  upstream: Pick<CatalogueUpstream, "credential" | "credentials" | "cacheDomain">,
  overlapping: Required<StoredRevision>["overlapping"],
): Partial<Pick<CatalogueUpstream, "credentials" | "cacheDomain">> {
  const pairs = credentialNamesOf(upstream).flatMap((name) => {
    const former = Object.hasOwn(overlapping, name) ? overlapping[name] : undefined;
    return former === undefined ? [] : [[former, cacheDomainOf(upstream, name)] as const];
  });
  if (pairs.length === 0) return {};
  const { credentials, cacheDomain } = upstream;
  return {
    credentials: [...credentials, ...pairs.map(([former]) => former)],
    cacheDomain: typeof cacheDomain === "string" ? cacheDomain : { ...cacheDomain, ...Object.fromEntries(pairs) },
  };
}

/** The environment variables that a file names. */
export function variablesOf(file: CatalogueFile): Pick<Catalogue, "credentialVariables" | "addressVariables"> {
  const upstreams = Object.values(file.upstreams);
  const addressVariables = new Set(upstreams.flatMap(({ baseUrl }) => variablesIn(baseUrl)));
  const conditions = upstreams.flatMap(({ requires }) => requires ?? []);
  const credentialVariables = new Set([
    ...upstreams.flatMap(credentialNamesOf).filter((credential) => !isStoredReference(credential)),
    ...conditions.filter((variable) => !addressVariables.has(variable)),
  ]);
  return { credentialVariables, addressVariables };
}
