/**
 * The second source of a catalogue beside its file: entries that operators make through control's
 * API. Control keeps them in its database as numbered revisions. The file is complete without
 * them; they may refer to what the file has.
 */
import { isOwnVariable } from "#service/misspelled-variables.ts";
import { hasMetadataHost } from "#service/networks.ts";
import { storedNameOf } from "./credentials.ts";
import { credentialNamesOf, filledIn, variablesIn } from "./environment.ts";
import type { Finding } from "./fault.ts";
import type { CatalogueFile } from "./schema.ts";

export const entryKinds = ["upstream", "model", "group", "queue"] as const;
export type EntryKind = (typeof entryKinds)[number];

/** An entry as its operator wrote it, without defaults; a model's has no `id`. */
export type Entry = Readonly<Record<string, unknown>>;
export type Section = "upstreams" | "models" | "groups" | "queues";

export const sectionOf = {
  upstream: "upstreams",
  model: "models",
  group: "groups",
  queue: "queues",
} as const satisfies Record<EntryKind, Section>;
export const sections: readonly Section[] = Object.values(sectionOf);

/** The entries of each section by their names. */
export type StoredDocument = Readonly<Record<Section, Readonly<Record<string, Entry>>>>;

export interface StoredRevision {
  /** 0 is the state before the first change. */
  readonly number: number;
  /** SHA-256 of the document's canonical text, in hex. */
  readonly sha256: string;
  readonly document: StoredDocument;
  /**
   * Stored credentials with two values that are in use at once, and the name of the former one.
   * Only workers know them.
   */
  readonly overlapping?: Readonly<Record<string, string>>;
}

export const emptyDocument: StoredDocument = { upstreams: {}, models: {}, groups: {}, queues: {} };
export const noRevision: StoredRevision = { number: 0, sha256: "", document: emptyDocument };

export const isEmptyDocument = (document: StoredDocument): boolean =>
  sections.every((section) => Object.keys(document[section]).length === 0);

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The entries of a catalogue's plain value, as in a file. Parts without the form of a catalogue are
 * left out.
 */
export function entriesOf(value: unknown): StoredDocument {
  const whole = isMapping(value) ? value : {};
  const named = (section: Section) => {
    const entries = Object.entries(isMapping(whole[section]) ? whole[section] : {});
    return Object.fromEntries(entries.map(([name, entry]) => [name, isMapping(entry) ? entry : {}]));
  };
  const models = (Array.isArray(whole.models) ? whole.models : []).filter(isMapping);
  return {
    upstreams: named("upstreams"),
    models: Object.fromEntries(models.map(({ id, ...entry }) => [String(id), entry])),
    groups: named("groups"),
    queues: named("queues"),
  };
}

/** The value of a catalogue with these entries. */
export const plainValueOf = ({ models, ...named }: StoredDocument): Record<Section, unknown> => ({
  ...named,
  models: Object.entries(models).map(([id, entry]) => ({ id, ...entry })),
});

/** The names of the stored credentials that an upstream names, as it was written. */
export const storedCredentialsOf = ({ credential, credentials }: Entry): string[] =>
  [credential, ...(Array.isArray(credentials) ? credentials : [])].flatMap((each) =>
    typeof each === "string" ? (storedNameOf(each) ?? []) : [],
  );

/** The names that both documents have. */
export const clashesBetween = (left: StoredDocument, right: StoredDocument): { kind: EntryKind; name: string }[] =>
  entryKinds.flatMap((kind) =>
    Object.keys(right[sectionOf[kind]]).flatMap((name) =>
      Object.hasOwn(left[sectionOf[kind]], name) ? [{ kind, name }] : [],
    ),
  );

/**
 * The value of a file with copies of stored entries added, whose names must be others. It shares
 * the rest with the file's.
 */
export function mergedValueOf(value: object, document: StoredDocument): Record<string, unknown> {
  const own: Record<string, unknown> = { ...value };
  const stored = plainValueOf(structuredClone(document));
  for (const section of ["upstreams", "groups", "queues"] as const)
    own[section] = { ...Object(own[section]), ...Object(stored[section]) };
  own.models = [...(own.models as unknown[]), ...(stored.models as unknown[])];
  return own;
}

/**
 * What upstreams of the API may not have: variables that are settings of the gateway itself, whose
 * values they would be sent, and addresses at which clouds serve credentials.
 */
export function upstreamFindingsOf({ upstreams }: CatalogueFile, names: ReadonlySet<string>): Finding[] {
  return Object.entries(upstreams).flatMap(([name, upstream]): Finding[] => {
    if (!names.has(name)) return [];
    const named = variablesIn(upstream.baseUrl);
    // Each process has its own environment, so none of them is asked.
    const environments = [{}, ...["", "254"].map((value) => Object.fromEntries(named.map((each) => [each, value])))];
    const isMetadata = environments.some((environment) => {
      const address = filledIn(upstream.baseUrl, environment);
      return address.kind === "filled" && URL.canParse(address.text) && hasMetadataHost(address.text);
    });
    if (isMetadata) {
      const text = "is a link-local address, as those of clouds' metadata servers are";
      return [{ path: ["upstreams", name, "baseUrl"], text }];
    }
    const variables = [...credentialNamesOf(upstream), upstream.requires ?? "", ...named];
    return variables
      .filter(isOwnVariable)
      .map((variable) => ({ path: ["upstreams", name], text: `${variable} is a setting of the gateway itself` }));
  });
}
