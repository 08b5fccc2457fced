/** The catalogue's file for operators: what it says now, and what a change would do. */
import { readFile } from "node:fs/promises";
import type { catalogueFileOperations } from "#api/catalogue-file.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { parseCatalogue, unreadableText } from "#catalogue/load.ts";
import type { CatalogueWatch } from "#catalogue/watch.ts";
import type { Handlers } from "../api/handlers.ts";
import type { Database } from "../database/database.ts";
import { type Changes, changesBetween, lossesBetween } from "./changes.ts";

export interface CatalogueFileOptions {
  file: string;
  environment: Environment;
  watch: CatalogueWatch;
  lastChange: LastChange;
}

/** Remembers what the last change of the catalogue changed. */
export class LastChange {
  #of: Catalogue | undefined;
  #last: { at: string; changes: Changes } | undefined;

  /** Call it with the catalogue at the start, and with each later one. */
  follow(catalogue: Catalogue): void {
    if (this.#of !== undefined)
      this.#last = { at: new Date().toISOString(), changes: changesBetween(this.#of, catalogue) };
    this.#of = catalogue;
  }

  get value(): { at: string; changes: Changes } | null {
    return this.#last ?? null;
  }
}

export function catalogueFileHandlers({
  file,
  environment,
  watch,
  lastChange,
}: CatalogueFileOptions): Handlers<typeof catalogueFileOperations> {
  return {
    async readCatalogueFile() {
      const { version } = watch.current();
      const text = await readFile(file, "utf8").catch((error: unknown) => unreadableText(file, error));
      return { body: { file, text, version, fault: watch.fault() ?? null, lastChange: lastChange.value } };
    },
    async checkCatalogue({ body: { text } }, { database }) {
      const current = watch.current();
      try {
        const proposed = parseCatalogue(Buffer.from(text), file, environment);
        const keys = await keysByGroup(database);
        const affected = lossesBetween(current, proposed).flatMap((loss) => {
          const count = keys.get(loss.group) ?? 0;
          return count === 0 ? [] : [{ ...loss, keys: count }];
        });
        return { body: { fault: null, changes: changesBetween(current, proposed), affected } };
      } catch (error) {
        if (!(error instanceof CatalogueFault)) throw error;
        return { body: { fault: error.message, changes: null, affected: [] } };
      }
    },
  };
}

async function keysByGroup(database: Database): Promise<Map<string, number>> {
  const rows = await database
    .selectFrom("keys")
    .select((keys) => ["group_name", keys.fn.countAll<bigint>().as("count")])
    .where("revoked_at", "is", null)
    .groupBy("group_name")
    .execute();
  return new Map(rows.map(({ group_name, count }) => [group_name, Number(count)]));
}
