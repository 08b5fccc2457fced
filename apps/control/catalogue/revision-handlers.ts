/** The operations on revisions of the catalogue's entries, and on all entries at once. */
import { isDeepStrictEqual } from "node:util";
import type { catalogueRevisionOperations } from "#api/catalogue-revisions.ts";
import { fileBytesMax, readDocument } from "#catalogue/document.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { type Entry, emptyDocument, entriesOf, type StoredDocument, sections } from "#catalogue/stored.ts";
import type { CatalogueWatch } from "#catalogue/watch.ts";
import { yamlOf } from "#catalogue/yaml-text.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import type { Database } from "../database/database.ts";
import { changedEntries, differenceOf, revisionWith, type StoredCatalogue } from "./stored-catalogue.ts";

export interface RevisionHandlerOptions {
  /** The path of the catalogue's file. */
  file: string;
  watch: CatalogueWatch;
  stored: StoredCatalogue;
}

export function catalogueRevisionHandlers({
  file,
  watch,
  stored,
}: RevisionHandlerOptions): Handlers<typeof catalogueRevisionOperations> {
  const documentOf = async (database: Database, number: number): Promise<StoredDocument> => {
    const revision = await revisionWith(database, number);
    if (revision === undefined) throw notFound("revision", String(number));
    return revision.document;
  };
  /** The settings of the file that are no entries. */
  const fileSettings = () => {
    const {
      queues: _,
      groups: __,
      upstreams: ___,
      models: ____,
      ...settings
    } = Object(readDocument(watch.file(), file).value) as Record<string, unknown>;
    return settings;
  };
  return {
    async listCatalogueRevisions({ query }, { database }) {
      const listed = database
        .selectFrom("catalogue_revisions")
        .select(["number", "parent", "summary", "comment", "author_name", "created_at", "sha256"]);
      const { rows, nextCursor } = await readPage(listed, query, ["created_at", "sha256"]);
      const items = rows.map(({ author_name: author, created_at, sha256: _, ...row }) => ({
        ...row,
        author,
        isActive: row.number === stored.active.number,
        createdAt: created_at.toISOString(),
      }));
      return { body: { items, nextCursor } };
    },
    async compareCatalogueRevision({ params: { revision: from }, query: { to = stored.active.number } }, { database }) {
      const [before, after] = [await documentOf(database, from), await documentOf(database, to)];
      const changes = changedEntries(before, after);
      return { body: { from, to, changes, diff: differenceOf(before, after, changes) } };
    },
    async restoreCatalogueRevision({ params: { revision }, query }, context) {
      const document = await documentOf(context.database, revision);
      const body = await stored.change(context, {
        action: "restoreCatalogueRevision",
        comment: query.comment ?? `restores revision ${revision}`,
        isDryRun: query.dryRun ?? false,
        edit: () => document,
      });
      return { body, version: body.revision };
    },
    async exportCatalogue({ query: { source = "all" } }) {
      const text =
        source === "database" ? yamlOf(stored.active.document) : yamlOf(stored.entries(), { before: fileSettings() });
      if (Buffer.byteLength(text) > fileBytesMax)
        throw new Fault(
          "too_large",
          `Both sources together are longer than ${fileBytesMax} bytes, so no import would take them: export those of the database alone (\`source=database\`).`,
        );
      return { body: text };
    },
    async importCatalogue({ query, body: { text, mode = "replace" } }, context) {
      const imported = importedEntriesOf(text, { own: stored.fileEntries(), settings: fileSettings() });
      const body = await stored.change(context, {
        action: "importCatalogue",
        comment: query.comment ?? "",
        isDryRun: query.dryRun ?? false,
        edit: (document) => (mode === "replace" ? imported : mergedWith(document, imported)),
      });
      return { body, version: body.revision };
    },
  };
}

const mergedWith = (document: StoredDocument, added: StoredDocument): StoredDocument => ({
  upstreams: { ...document.upstreams, ...added.upstreams },
  models: { ...document.models, ...added.models },
  groups: { ...document.groups, ...added.groups },
  queues: { ...document.queues, ...added.queues },
});

/**
 * The entries of a text that the file does not have equally. Throws a Fault for a text that is no
 * catalogue, and for another currency, in which the prices would mean something else.
 */
function importedEntriesOf(
  text: string,
  { own, settings }: { own: StoredDocument; settings: Record<string, unknown> },
): StoredDocument {
  let value: unknown;
  try {
    value = readDocument(Buffer.from(text), "the text").value;
  } catch (error) {
    if (!(error instanceof CatalogueFault)) throw error;
    throw new Fault("invalid", error.message, { field: "text", members: { faults: error.lines } });
  }
  const isMapping = typeof value === "object" && value !== null && !Array.isArray(value);
  const names = isMapping ? Object.keys(value as object) : [];
  const unknown = names.find((name) => ![...sections, "currency", "addresses", "publicGroup"].includes(name as never));
  if (!isMapping || unknown !== undefined)
    throw new Fault("invalid", `The text is no catalogue: ${unknown ?? "it has no sections"} is no setting of one.`, {
      field: "text",
    });
  const { currency = "USD" } = value as { currency?: unknown };
  const { currency: fileCurrency = "USD" } = settings;
  if (currency !== fileCurrency)
    throw new Fault(
      "conflict",
      `The text's prices are in ${String(currency)}, those of ${String(fileCurrency)} are in force.`,
      { field: "text" },
    );
  const faults = formFaultsOf(value as Record<string, unknown>);
  const [fault] = faults;
  if (fault !== undefined) throw new Fault("invalid", fault, { field: "text", members: { faults } });
  const entries = entriesOf(value);
  const document: Record<string, Record<string, Entry>> = { ...emptyDocument };
  for (const section of sections)
    document[section] = Object.fromEntries(
      Object.entries(entries[section]).filter(([name, entry]) => !isDeepStrictEqual(own[section][name], entry)),
    );
  return document as StoredDocument;
}

const isMappingValue = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Mistakes that would make entries disappear silently. An empty section is none. */
function formFaultsOf({ models, ...value }: Record<string, unknown>): string[] {
  const named = sections.flatMap((section) => {
    const entries = section === "models" ? undefined : (value[section] ?? undefined);
    if (entries === undefined) return [];
    if (!isMappingValue(entries)) return [`${section} must be a mapping of names to settings`];
    return Object.entries(entries).flatMap(([name, entry]) =>
      isMappingValue(entry) ? [] : [`${section}.${name} must be a mapping of settings`],
    );
  });
  if (models === undefined || models === null) return named;
  if (!Array.isArray(models)) return [...named, "models must be a list"];
  const ids = new Set<string>();
  return named.concat(
    models.flatMap((model: unknown, index) => {
      if (!isMappingValue(model) || typeof model.id !== "string")
        return [`models[${index}] must be a mapping with an id, which is a text`];
      if (ids.has(model.id)) return [`models[${index}]: the id ${JSON.stringify(model.id)} is there twice`];
      ids.add(model.id);
      return [];
    }),
  );
}
