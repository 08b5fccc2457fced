/**
 * Operations on the catalogue's entries, for operators. Those of the file can only be read here;
 * those in the database are made by these operations, each of which makes a revision.
 */
import Type, { type TSchema, type TString } from "typebox";
import { catalogueSchema } from "#catalogue/schema.ts";
import { type EntryKind, sectionOf } from "#catalogue/stored.ts";
import { changes as changedNames, diff } from "./catalogue-file.ts";
import { flag, integer, listOf, object, oneOf, optional, orNull, strictObject, text } from "./common.ts";
import type { Operation } from "./operation.ts";

/** The schema of what operators write: what has a default may be absent. */
function writtenSchemaOf(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(writtenSchemaOf);
  if (typeof schema !== "object" || schema === null) return schema;
  const { faultText: _, nameFaultText: __, ...rest } = schema as Record<string, unknown>;
  const written = Object.fromEntries(Object.entries(rest).map(([name, part]) => [name, writtenSchemaOf(part)]));
  const { properties, required } = written as { properties?: Record<string, object>; required?: string[] };
  if (properties !== undefined && Array.isArray(required))
    written.required = required.filter((name) => !("default" in Object(properties[name])));
  return written;
}

const { upstreams, models, groups, queues } = catalogueSchema.properties;
const schemaIn = (record: TSchema) => Object.values(Object(record).patternProperties)[0];
const entryOf = (schema: unknown) => Type.Unsafe<Record<string, unknown>>(writtenSchemaOf(schema) as object);

/** A model's id is in its address. */
function modelEntry() {
  const { properties, ...schema } = models.items;
  const { id: _, ...others } = properties;
  return { ...schema, properties: others, required: schema.required.filter((name) => name !== "id") };
}

const entrySchemas = {
  upstream: entryOf(schemaIn(upstreams)),
  model: entryOf(modelEntry()),
  group: entryOf(schemaIn(groups)),
  queue: entryOf(schemaIn(queues)),
};

export const changeQuery = strictObject({
  comment: optional(Type.String({ maxLength: 500, description: "Why, for the list of revisions." })),
  dryRun: optional(
    Type.Boolean({ default: false, description: "Checks the change and tells what it would do; changes nothing." }),
  ),
});

export const catalogueChange = object({
  revision: integer("The active revision. It is the ETag, for `If-Match` of the next change."),
  isPublished: flag("Whether the change made this revision. Not with `dryRun`, and not if it changes nothing."),
  changes: changedNames,
  diff,
  affected: listOf(
    object({
      group: text(),
      isRemoved: flag("The keys of a removed group are refused."),
      modelsLost: listOf(text(), "Models that keys of the group could no longer use."),
      keys: integer("Keys of the group that are not revoked."),
    }),
    "Groups with keys that lose something.",
  ),
});

const params = <Kind extends EntryKind>(kind: Kind) =>
  strictObject({ [kind]: Type.String({ minLength: 1, maxLength: 129 }) } as Record<Kind, TString>);

const nounOf = (kind: EntryKind) => (kind === "upstream" ? "an upstream" : `a ${kind}`);

const stale =
  "Needs `If-Match` with the revision that the caller has read, else 428. 409 with what changed, if this entry has changed since then.";

const put = <Kind extends EntryKind>(kind: Kind) =>
  ({
    method: "PUT",
    path: `/catalogue/${sectionOf[kind]}/:${kind}`,
    summary: `Adds ${nounOf(kind)} to the catalogue, or replaces one that is not in the file. ${stale}`,
    access: "operator",
    params: params(kind),
    query: changeQuery,
    body: entrySchemas[kind],
    isBodyChecked: true,
    answer: catalogueChange,
  }) as const satisfies Operation;

const remove = <Kind extends EntryKind>(kind: Kind) =>
  ({
    method: "DELETE",
    path: `/catalogue/${sectionOf[kind]}/:${kind}`,
    summary: `Removes ${nounOf(kind)} that is not in the file. ${stale}`,
    access: "operator",
    params: params(kind),
    query: changeQuery,
    answer: catalogueChange,
  }) as const satisfies Operation;

const entries = (kind: keyof typeof entrySchemas) =>
  listOf(
    object({
      name: text(kind === "model" ? "Its id." : undefined),
      source: oneOf(["file", "database"], "Entries of the file cannot be changed here."),
      entry: Type.Record(Type.String(), Type.Unknown(), { description: "As in a catalogue file." }),
    }),
  );

export const catalogueEntryOperations = {
  listCatalogueEntries: {
    method: "GET",
    path: "/catalogue/entries",
    summary: "All entries of the catalogue as they were written, with their sources.",
    access: "operator",
    answer: object({
      revision: integer("The active revision of the entries in the database; 0 before the first change. The ETag."),
      version: text("Of the catalogue in force, of both sources."),
      isReadOnly: flag("CATALOGUE_READ_ONLY is set: changes are refused."),
      file: text("The path of the file at this control process."),
      fault: orNull(text("Why the file or the revision is not in force; null if both are.")),
      upstreams: entries("upstream"),
      models: entries("model"),
      groups: entries("group"),
      queues: entries("queue"),
    }),
  },
  putUpstream: put("upstream"),
  deleteUpstream: remove("upstream"),
  putModel: put("model"),
  deleteModel: remove("model"),
  putGroup: put("group"),
  deleteGroup: remove("group"),
  putQueue: put("queue"),
  deleteQueue: remove("queue"),
} as const satisfies Record<string, Operation>;
