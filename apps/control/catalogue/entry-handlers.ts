/** The operations on the catalogue's entries. */
import type { catalogueEntryOperations } from "#api/catalogue-entries.ts";
import { type Entry, type EntryKind, type Section, sectionOf } from "#catalogue/stored.ts";
import type { CatalogueWatch } from "#catalogue/watch.ts";
import { Fault } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import type { StoredCatalogue } from "./stored-catalogue.ts";

export interface EntryHandlerOptions {
  /** The path of the catalogue's file. */
  file: string;
  watch: CatalogueWatch;
  stored: StoredCatalogue;
}

interface ChangeInput<Kind extends EntryKind> {
  params: Record<Kind, string>;
  query: { comment?: string; dryRun?: boolean };
}

export function catalogueEntryHandlers({
  file,
  watch,
  stored,
}: EntryHandlerOptions): Handlers<typeof catalogueEntryOperations> {
  const changeOf = (action: string, { query }: Pick<ChangeInput<EntryKind>, "query">) => ({
    action,
    comment: query.comment ?? "",
    isDryRun: query.dryRun ?? false,
  });
  const put =
    <Kind extends EntryKind>(kind: Kind, action: string) =>
    async (input: ChangeInput<Kind> & { body: Entry }, context: Context) => {
      const name = input.params[kind];
      const section = sectionOf[kind];
      const body = await stored.change(context, {
        ...changeOf(action, input),
        edit: (document) => ({ ...document, [section]: { ...document[section], [name]: input.body } }),
      });
      return { body, version: body.revision };
    };
  const remove =
    <Kind extends EntryKind>(kind: Kind, action: string) =>
    async (input: ChangeInput<Kind>, context: Context) => {
      const name = input.params[kind];
      const section = sectionOf[kind];
      if (Object.hasOwn(stored.fileEntries()[section], name))
        throw new Fault("conflict", `The ${kind} ${JSON.stringify(name)} is in ${file}: remove it there.`);
      const body = await stored.change(context, {
        ...changeOf(action, input),
        edit(document) {
          if (!Object.hasOwn(document[section], name))
            throw new Fault("not_found", `The catalogue has no ${kind} ${JSON.stringify(name)}.`);
          const { [name]: _, ...others } = document[section];
          return { ...document, [section]: others };
        },
      });
      return { body, version: body.revision };
    };
  return {
    async listCatalogueEntries() {
      const [own, { number, document }] = [stored.fileEntries(), stored.active];
      const list = (section: Section) => [
        ...Object.entries(own[section]).map(([name, entry]) => ({ name, source: "file" as const, entry })),
        ...Object.entries(document[section]).map(([name, entry]) => ({ name, source: "database" as const, entry })),
      ];
      return {
        body: {
          revision: number,
          version: watch.current().version,
          isReadOnly: stored.isReadOnly,
          file,
          fault: watch.fault() ?? null,
          upstreams: list("upstreams"),
          models: list("models"),
          groups: list("groups"),
          queues: list("queues"),
        },
        version: number,
      };
    },
    putUpstream: put("upstream", "putUpstream"),
    deleteUpstream: remove("upstream", "deleteUpstream"),
    putModel: put("model", "putModel"),
    deleteModel: remove("model", "deleteModel"),
    putGroup: put("group", "putGroup"),
    deleteGroup: remove("group", "deleteGroup"),
    putQueue: put("queue", "putQueue"),
    deleteQueue: remove("queue", "deleteQueue"),
  };
}
