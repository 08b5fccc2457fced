/** The catalogue's file for operators: what it says now, and what a change would do. */

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { catalogueFileOperations } from "#api/catalogue-file.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { parseCatalogue } from "#catalogue/load.ts";
import type { StoredRevision } from "#catalogue/stored.ts";
import type { CatalogueWatch } from "#catalogue/watch.ts";
import type { Clock } from "#service/clock.ts";
import { unreadableText } from "#service/followed-file.ts";
import type { Handlers } from "../api/handlers.ts";
import { affectedBy, changesBetween } from "./changes.ts";
import { diffOf } from "./diff.ts";

export interface CatalogueFileOptions {
  file: string;
  environment: Environment;
  watch: CatalogueWatch;
  lastChange: LastChange;
  /** The entries of the database. */
  stored(): StoredRevision;
}

/** Remembers what the last change of the catalogue changed. */
export class LastChange {
  readonly #file: string;
  readonly #clock: Clock;
  #of: { catalogue: Catalogue; text: string | undefined } | undefined;
  #last: Last | undefined;

  constructor(file: string, clock: Clock) {
    this.#file = file;
    this.#clock = clock;
  }

  /** Call it with the catalogue at the start, and with each later one. */
  follow(catalogue: Catalogue): void {
    const [before, text] = [this.#of, textOf(this.#file)];
    if (before !== undefined)
      this.#last = {
        at: new Date(this.#clock.epoch()).toISOString(),
        changes: changesBetween(before.catalogue, catalogue),
        diff: before.text === undefined || text === undefined ? null : diffOf(before.text, text),
      };
    this.#of = { catalogue, text };
  }

  get value(): Last | null {
    return this.#last ?? null;
  }
}

type Last = NonNullable<AnswerOf<(typeof catalogueFileOperations)["readCatalogueFile"]>["lastChange"]>;

/** Undefined if it cannot be read any more. */
function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

export function catalogueFileHandlers({
  file,
  environment,
  watch,
  lastChange,
  stored,
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
        const proposed = parseCatalogue(Buffer.from(text), file, environment, stored());
        const affected = await affectedBy(database, current, proposed);
        const now = textOf(file);
        const diff = now === undefined ? null : diffOf(now, text);
        return { body: { fault: null, changes: changesBetween(current, proposed), diff, affected } };
      } catch (error) {
        if (!(error instanceof CatalogueFault)) throw error;
        return { body: { fault: error.message, changes: null, diff: null, affected: [] } };
      }
    },
  };
}
