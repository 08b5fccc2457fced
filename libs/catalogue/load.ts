/**
 * Turns the bytes of a catalogue file into a catalogue, or into one line that names the mistake.
 */
import { createHash } from "node:crypto";
import { upstreamProfiles } from "#dialects/profiles.ts";
import { strictnessOf } from "#dialects/repairs/strict-upstreams.ts";
import { readBoundedSync } from "#service/followed-file.ts";
import { type Catalogue, type CatalogueModel, type CatalogueUpstream, createCatalogue } from "./catalogue.ts";
import { fileBytesMax, readDocument } from "./document.ts";
import { credentialNamesOf, type Environment, filledIn, isOffered, variablesIn } from "./environment.ts";
import { CatalogueFault } from "./fault.ts";
import { createdSecondsOf, meaningFindingsOf } from "./meaning.ts";
import type { CatalogueFile } from "./schema.ts";
import { shapeOf } from "./shape.ts";
import { declaredModelsOf, isWildcard, namedModelsOf, type PricedModel } from "./wildcards.ts";

/** Reads and checks the file synchronously. Throws only CatalogueFault. */
export const loadCatalogue = (file: string, environment: Environment): Catalogue =>
  parseCatalogue(bytesOf(file), file, environment);

/** The same, as the file has it: with the models and upstreams that are not offered here. */
export const loadCatalogueFile = (file: string, environment: Environment): CatalogueFile =>
  checkedFileOf(bytesOf(file), file, environment);

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
 * Parses and checks the content of a file; `file` is its name in messages. Throws only
 * CatalogueFault.
 */
export const parseCatalogue = (bytes: Uint8Array, file: string, environment: Environment): Catalogue =>
  catalogueOf(checkedFileOf(bytes, file, environment), versionOf(bytes), environment);

function checkedFileOf(bytes: Uint8Array, file: string, environment: Environment): CatalogueFile {
  const document = readDocument(bytes, file);
  const shape = shapeOf(document.value);
  if (shape.kind === "faulty") throw document.faultOf(shape.findings);
  const findings = meaningFindingsOf(shape.file, environment);
  if (findings.length > 0) throw document.faultOf(findings);
  return shape.file;
}

function catalogueOf(file: CatalogueFile, version: string, environment: Environment): Catalogue {
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

/** The environment variables that a file names. */
export function variablesOf(file: CatalogueFile): Pick<Catalogue, "credentialVariables" | "addressVariables"> {
  const upstreams = Object.values(file.upstreams);
  const addressVariables = new Set(upstreams.flatMap(({ baseUrl }) => variablesIn(baseUrl)));
  const conditions = upstreams.flatMap(({ requires }) => requires ?? []);
  const credentialVariables = new Set([
    ...upstreams.flatMap(credentialNamesOf),
    ...conditions.filter((variable) => !addressVariables.has(variable)),
  ]);
  return { credentialVariables, addressVariables };
}
