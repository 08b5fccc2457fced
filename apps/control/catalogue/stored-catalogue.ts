/**
 * The catalogue's entries in the database, as revisions: each change makes one and activates it in
 * the same transaction. Every control process puts the active one into its own catalogue and into
 * Redis, for ingresses and workers.
 */
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Logger } from "pino";
import type { catalogueEntryOperations } from "#api/catalogue-entries.ts";
import type { AnswerOf } from "#api/operation.ts";
import { referenceOf } from "#catalogue/credentials.ts";
import { fileBytesMax, readDocument } from "#catalogue/document.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CatalogueClash, CatalogueFault } from "#catalogue/fault.ts";
import { parseCatalogue } from "#catalogue/load.ts";
import { publishedId, publishRevision, revisionIdOf } from "#catalogue/publication.ts";
import {
  type Entry,
  type EntryKind,
  emptyDocument,
  entriesOf,
  entryKinds,
  type StoredDocument,
  type StoredRevision,
  sectionOf,
  sections,
  storedCredentialsOf,
} from "#catalogue/stored.ts";
import type { CatalogueWatch } from "#catalogue/watch.ts";
import { yamlOf } from "#catalogue/yaml-text.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import type { Redis } from "#service/redis.ts";
import { Fault } from "../api/faults.ts";
import type { Context } from "../api/handlers.ts";
import { catalogueEveryMs, documentLengthMax, revisionsMax } from "../bounds.ts";
import { transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { CatalogueRevisionRow } from "../database/tables.ts";
import { affectedBy, changesBetween } from "./changes.ts";
import { type CredentialStore, lockCatalogue } from "./credentials.ts";
import { diffOf } from "./diff.ts";

export interface StoredCatalogueOptions {
  database: Database;
  /** For the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  watch: CatalogueWatch;
  /** The path of the file. */
  file: string;
  environment: Environment;
  isReadOnly: boolean;
  credentials: Pick<CredentialStore, "refresh">;
  log: Logger;
}

/** One change of the entries, by an operation of the API. */
export interface EntriesChange {
  /** The name of the operation. */
  action: string;
  comment: string;
  /** Checks the change and describes it; changes nothing. */
  isDryRun: boolean;
  edit(document: StoredDocument): StoredDocument;
}

type Answer = AnswerOf<(typeof catalogueEntryOperations)["putUpstream"]>;
type ActiveRevision = Pick<CatalogueRevisionRow, "number" | "sha256" | "document" | "author_name">;

/** An entry that two documents have differently. */
interface ChangedEntry {
  kind: EntryKind;
  name: string;
  change: "added" | "removed" | "changed";
}

export class StoredCatalogue {
  readonly #options: StoredCatalogueOptions;
  #active: StoredRevision = revisionOf(nothing);
  #task: PeriodicTask | undefined;

  constructor(options: StoredCatalogueOptions) {
    this.#options = options;
  }

  /** Reads the active revision, and follows it. Rejects if the database does not answer. */
  async start(): Promise<void> {
    await this.#read();
    this.#task = new PeriodicTask({
      everyMs: catalogueEveryMs,
      isImmediate: true,
      run: () => this.refresh(),
      log: this.#options.log,
      level: "warn",
      failed: "the catalogue's entries of the database do not reach Redis",
      works: "the catalogue's entries of the database reach Redis again",
    });
  }

  close(): void {
    this.#task?.close();
  }

  get active(): StoredRevision {
    return this.#active;
  }

  /** The entries of the file in force. */
  fileEntries(): StoredDocument {
    const { watch, file } = this.#options;
    return entriesOf(readDocument(watch.file(), file).value);
  }

  /** The entries of both sources. */
  entries(): StoredDocument {
    const [own, { document }] = [this.fileEntries(), this.#active];
    const merged = sections.map((section) => [section, { ...own[section], ...document[section] }]);
    return Object.fromEntries(merged) as StoredDocument;
  }

  /** The upstreams of both sources that name stored credentials, by reference. */
  async credentialUsers(database: Database): Promise<Map<string, string[]>> {
    const { document } = revisionOf(await activeOf(database));
    const users = new Map<string, string[]>();
    for (const [name, entry] of Object.entries({ ...this.fileEntries().upstreams, ...document.upstreams }))
      for (const reference of new Set(storedCredentialsOf(entry).map(referenceOf)))
        users.set(reference, [...(users.get(reference) ?? []), name]);
    return users;
  }

  get isReadOnly(): boolean {
    return this.#options.isReadOnly;
  }

  /** Applies what the database has, and puts it into Redis if that has something else. */
  async refresh(): Promise<void> {
    const { redis, keyspace, credentials } = this.#options;
    await this.#read();
    await credentials.refresh();
    const published = await publishedId(redis, keyspace);
    const isUnused = published === null && this.#active.number === 0;
    if (!isUnused && published !== revisionIdOf(this.#active)) await publishRevision(redis, keyspace, this.#active);
  }

  /** Makes a revision and activates it. Throws a Fault for a change that is not valid. */
  async change(context: Context, { action, comment, isDryRun, edit }: EntriesChange): Promise<Answer> {
    if (this.isReadOnly)
      throw new Fault("forbidden", "CATALOGUE_READ_ONLY is set: change the catalogue's file instead.");
    const { ifMatch } = context;
    if (ifMatch === undefined)
      throw new Fault(
        "precondition_required",
        'Send `If-Match` with the revision that you have read, such as "3", so that no change of somebody else is lost.',
      );
    const answer = await transact(context, action, async (inside) => {
      await lockCatalogue(inside.database);
      const active = await activeOf(inside.database);
      const before = revisionOf(active);
      const document = edit(before.document);
      const changed = changedEntries(before.document, document);
      await checkFresh(inside.database, { active, ifMatch, changed });
      const text = canonicalText(document);
      if (Buffer.byteLength(yamlOf(document)) > fileBytesMax) throw tooLong();
      const number = before.number + 1;
      const after: StoredRevision = { number, sha256: sha256Of(text), document };
      await checkCredentials(inside.database, document, changed);
      const described = await this.#described(inside.database, before, after, changed);
      if (isDryRun || changed.length === 0) return { ...described, revision: before.number, isPublished: false };
      const { actor, now } = context;
      await inside.database
        .insertInto("catalogue_revisions")
        .values({
          number,
          parent: before.number,
          document: text,
          sha256: after.sha256,
          summary: summaryOf(changed),
          comment,
          author_kind: actor.kind,
          author_id: actor.id,
          author_name: actor.name,
          created_at: now,
        })
        .execute();
      await inside.database.updateTable("catalogue_active").set({ revision: number }).execute();
      await inside.database
        .deleteFrom("catalogue_revisions")
        .where("number", "<=", number - revisionsMax)
        .execute();
      await inside.record({
        subject: `catalogue revision ${number}`,
        before: only(before.document, changed),
        after: only(document, changed),
      });
      return { ...described, revision: number, isPublished: true };
    });
    if (answer.isPublished) {
      // A run of the task may be under way that began before the change.
      await this.#read();
      await this.#task?.run();
    }
    return answer;
  }

  /** Checks the revision like any catalogue. Throws a Fault. */
  async #described(
    database: Database,
    before: StoredRevision,
    after: StoredRevision,
    changed: readonly ChangedEntry[],
  ): Promise<Omit<Answer, "revision" | "isPublished">> {
    const { watch, file, environment } = this.#options;
    try {
      const current = watch.current();
      const proposed = parseCatalogue(watch.file(), file, environment, after);
      return {
        changes: changesBetween(current, proposed),
        diff: differenceOf(before.document, after.document, changed),
        affected: await affectedBy(database, current, proposed),
      };
    } catch (error) {
      if (!(error instanceof CatalogueFault)) throw error;
      throw new Fault(error instanceof CatalogueClash ? "conflict" : "invalid", error.message, {
        members: { faults: error.lines },
      });
    }
  }

  async #read(): Promise<void> {
    const { database, watch } = this.#options;
    const pointer = await database.selectFrom("catalogue_active").select("revision").executeTakeFirst();
    if ((pointer?.revision ?? 0) !== this.#active.number) this.#active = revisionOf(await activeOf(database));
    if (watch.revision() !== this.#active.number) watch.put(this.#active);
  }
}

/** Throws a Fault if a changed upstream names a credential that is not stored. */
async function checkCredentials(
  database: Database,
  { upstreams }: StoredDocument,
  changed: readonly ChangedEntry[],
): Promise<void> {
  const faults: string[] = [];
  for (const { kind, name } of changed) {
    const entry = kind === "upstream" ? upstreams[name] : undefined;
    for (const credential of entry === undefined ? [] : storedCredentialsOf(entry)) {
      const row = await database
        .selectFrom("credentials")
        .select("name")
        .where("name", "=", credential)
        .executeTakeFirst();
      if (row === undefined) faults.push(`upstreams.${name}: no credential "${credential}" is stored; store it first`);
    }
  }
  const [first] = faults;
  if (first !== undefined) throw new Fault("invalid", first, { members: { faults } });
}

/** The text of a document, the same for equal ones: by sorted names. Throws a Fault if too long. */
function canonicalText(document: StoredDocument): string {
  // Aliases of an imported text make a long document of a short one.
  let length = 0;
  const inOrder = (value: unknown): unknown => {
    length += typeof value === "string" ? value.length : 1;
    if (length > documentLengthMax) throw tooLong();
    if (Array.isArray(value)) return value.map(inOrder);
    if (typeof value !== "object" || value === null) return value;
    const names = Object.keys(value).sort();
    return Object.fromEntries(names.map((name) => [name, inOrder(Reflect.get(value, name))]));
  };
  const text = JSON.stringify(inOrder(document));
  if (text.length > documentLengthMax) throw tooLong();
  return text;
}

const tooLong = () =>
  new Fault(
    "too_large",
    `The entries of the database would be longer than ${documentLengthMax} characters, or than ${fileBytesMax} bytes as YAML.`,
  );

const sha256Of = (text: string): string => createHash("sha256").update(text).digest("hex");

const nothing: ActiveRevision = {
  number: 0,
  document: canonicalText(emptyDocument),
  sha256: sha256Of(canonicalText(emptyDocument)),
  author_name: "",
};

const revisionOf = ({ number, sha256, document }: ActiveRevision): StoredRevision => ({
  number,
  sha256,
  document: JSON.parse(document) as StoredDocument,
});

const activeOf = async (database: Database): Promise<ActiveRevision> =>
  (await database
    .selectFrom("catalogue_revisions")
    .innerJoin("catalogue_active", "catalogue_active.revision", "catalogue_revisions.number")
    .select(["number", "sha256", "document", "author_name"])
    .executeTakeFirst()) ?? nothing;

/** A revision that is kept; undefined without one. */
export async function revisionWith(database: Database, number: number): Promise<StoredRevision | undefined> {
  if (number === 0) return revisionOf(nothing);
  const row = await database
    .selectFrom("catalogue_revisions")
    .select(["number", "sha256", "document", "author_name"])
    .where("number", "=", number)
    .executeTakeFirst();
  return row && revisionOf(row);
}

export function changedEntries(before: StoredDocument, after: StoredDocument): ChangedEntry[] {
  return entryKinds.flatMap((kind) => {
    const [old, fresh] = [before[sectionOf[kind]], after[sectionOf[kind]]];
    return [...new Set([...Object.keys(old), ...Object.keys(fresh)])].flatMap((name): ChangedEntry[] => {
      if (!Object.hasOwn(old, name)) return [{ kind, name, change: "added" }];
      if (!Object.hasOwn(fresh, name)) return [{ kind, name, change: "removed" }];
      return isDeepStrictEqual(old[name], fresh[name]) ? [] : [{ kind, name, change: "changed" }];
    });
  });
}

/** The lines of changed entries, as YAML. */
export const differenceOf = (before: StoredDocument, after: StoredDocument, changed: readonly ChangedEntry[]) =>
  diffOf(yamlOf(only(before, changed)), yamlOf(only(after, changed)));

/** The part of a document with these entries. */
function only(document: StoredDocument, entries: readonly ChangedEntry[]): StoredDocument {
  const part: Record<string, Record<string, Entry>> = {};
  for (const section of sections) part[section] = {};
  for (const { kind, name } of entries) {
    const section = sectionOf[kind];
    const entry = Object.hasOwn(document[section], name) ? document[section][name] : undefined;
    if (entry !== undefined) Object.assign(part[section] as object, { [name]: entry });
  }
  return part as StoredDocument;
}

const namedMax = 3;

/** Such as "added upstream groq, changed model gpt-x and 2 more". */
function summaryOf(changed: readonly ChangedEntry[]): string {
  const first = changed.slice(0, namedMax).map(({ kind, name, change }) => `${change} ${kind} ${name}`);
  const others = changed.length - first.length;
  return `${first.join(", ")}${others > 0 ? ` and ${others} more` : ""}`;
}

/**
 * Throws a Fault if an entry that the change touches was changed since the caller read it. Changes
 * of other entries do no harm: the result is checked as a whole.
 */
async function checkFresh(
  database: Database,
  { active, ifMatch, changed }: { active: ActiveRevision; ifMatch: number; changed: readonly ChangedEntry[] },
): Promise<void> {
  if (ifMatch === active.number) return;
  const seen = ifMatch > active.number ? undefined : await revisionWith(database, ifMatch);
  const [before, after] = [seen?.document, revisionOf(active).document];
  const meanwhile = before === undefined ? [] : changedEntries(before, after);
  const isTouched = meanwhile.some((entry) =>
    changed.some(({ kind, name }) => kind === entry.kind && name === entry.name),
  );
  if (before !== undefined && !isTouched) return;
  const since =
    before === undefined ? "is not kept" : `is no longer active: ${active.author_name} made ${active.number}`;
  throw new Fault("stale", `Revision ${ifMatch} ${since}. Read the catalogue again, and repeat your change.`, {
    members: {
      revision: active.number,
      author: active.author_name,
      changes: meanwhile,
      diff: before === undefined ? null : differenceOf(before, after, meanwhile),
    },
  });
}
