/**
 * Operations on the revisions of the catalogue's entries, and on all entries at once, for
 * operators.
 */
import Type from "typebox";
import { catalogueChange, changeQuery } from "./catalogue-entries.ts";
import { catalogueBodyBytesMax, catalogueText, diff } from "./catalogue-file.ts";
import {
  flag,
  integer,
  listOf,
  object,
  oneOf,
  optional,
  pageOf,
  pageQuery,
  strictObject,
  text,
  time,
} from "./common.ts";
import type { Operation } from "./operation.ts";

const number = (description: string) => Type.Integer({ minimum: 0, maximum: 2_000_000_000, description });
const params = strictObject({ revision: number("The number of a revision; 0 is the state before the first change.") });

const changedEntries = listOf(
  object({
    kind: oneOf(["upstream", "model", "group", "queue"]),
    name: text(),
    change: oneOf(["added", "removed", "changed"]),
  }),
);

export const catalogueRevisionOperations = {
  listCatalogueRevisions: {
    method: "GET",
    path: "/catalogue/revisions",
    summary: "The revisions of the entries in the database, newest first. The last 200 are kept.",
    access: "operator",
    query: strictObject(pageQuery),
    answer: pageOf(
      object({
        number: integer(),
        parent: integer("The revision that was active before."),
        isActive: flag(),
        summary: text("Such as `added upstream groq`."),
        comment: text(),
        author: text(),
        createdAt: time("When it became active."),
      }),
    ),
  },
  compareCatalogueRevision: {
    method: "GET",
    path: "/catalogue/revisions/:revision/changes",
    summary: "What changed from a revision to another one.",
    access: "operator",
    params,
    query: strictObject({ to: optional(number("Default: the active one.")) }),
    answer: object({ from: integer(), to: integer(), changes: changedEntries, diff }),
  },
  restoreCatalogueRevision: {
    method: "POST",
    path: "/catalogue/revisions/:revision/restore",
    summary:
      "Makes a new revision with the entries of an earlier one, which is checked again. Credentials stay as they are. Needs `If-Match` with the active revision.",
    access: "operator",
    params,
    query: changeQuery,
    answer: catalogueChange,
  },
  exportCatalogue: {
    method: "GET",
    path: "/catalogue/export",
    summary: "The catalogue as YAML, in the form of a file. Credentials are names, never values.",
    access: "operator",
    query: strictObject({
      source: optional(
        Type.Enum(["all", "database"] as const, { default: "all", description: "all: the file's entries, too." }),
      ),
    }),
    answer: Type.String(),
    mediaType: "application/yaml",
  },
  importCatalogue: {
    method: "POST",
    path: "/catalogue/import",
    summary:
      "Makes the entries of a YAML text those of the database, as one revision. Entries that the file has equally are left out. Needs `If-Match` with the active revision.",
    access: "operator",
    query: changeQuery,
    body: strictObject({
      text: catalogueText("In the form of a catalogue file."),
      mode: optional(
        Type.Enum(["replace", "merge"] as const, {
          default: "replace",
          description: "replace: entries of the database that the text lacks are removed. merge: they stay.",
        }),
      ),
    }),
    bodyBytesMax: catalogueBodyBytesMax,
    answer: catalogueChange,
  },
} as const satisfies Record<string, Operation>;
