/**
 * The credentials of upstreams in the database, sealed with CREDENTIALS_SECRET. Each change raises
 * a number, by which control processes notice it and publish all of them to workers.
 */
import { createHash } from "node:crypto";
import { sql } from "kysely";
import type { Logger } from "pino";
import type { credentialOperations } from "#api/credentials.ts";
import type { AnswerOf, InputOf } from "#api/operation.ts";
import {
  isSealedWithFirst,
  openCredential,
  type PublishedCredentials,
  referenceOf,
  sealCredential,
} from "#catalogue/credentials.ts";
import { publishCredentials, publishedCredentialsId } from "#catalogue/publication.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { readProcessReports } from "#service/process-reports.ts";
import type { Redis } from "#service/redis.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { credentialsMax } from "../bounds.ts";
import { transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import type { CredentialRow } from "../database/tables.ts";

export interface CredentialStoreOptions {
  database: Database;
  /** For the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  /** The values of CREDENTIALS_SECRET now. */
  secrets(): readonly string[];
  /** The upstreams of the catalogue that name stored credentials, by reference. */
  users(database: Database): Promise<Map<string, string[]>>;
  clock: Clock;
  log: Logger;
}

type Item = AnswerOf<(typeof credentialOperations)["putCredential"]>;
type Change = InputOf<(typeof credentialOperations)["putCredential"]>["body"];

const hintLength = 4;
/** The last characters of a shorter value would say too much. */
const hintedLengthMin = 16;
/** Characters that stand for hidden ones. No value of a vendor begins so. */
const mask = /^[•*…·.]/;
/** Values are sent in headers. A Google service account's is JSON. */
const valueForm = /^([\x21-\x7e]+|\{[^\0]*\})$/;

export class CredentialStore {
  readonly #options: CredentialStoreOptions;
  /** The secret that has sealed all of them. */
  #first: string | undefined;
  #published: { number: number; id: string; credentials: PublishedCredentials } | undefined;

  constructor(options: CredentialStoreOptions) {
    this.#options = options;
  }

  /** Seals anew what another secret than the first one has sealed. */
  async #rewrap(): Promise<void> {
    const { database, log } = this.#options;
    const secrets = this.#options.secrets();
    let count = 0;
    for (const row of await database.selectFrom("credentials").selectAll().execute()) {
      const again = (sealed: string) => {
        const value = isSealedWithFirst(secrets, sealed) ? undefined : openCredential(secrets, row.name, sealed);
        return value === undefined ? sealed : sealCredential(secrets as [string], row.name, value);
      };
      const sealed = again(row.sealed);
      const previous = row.previous_sealed && again(row.previous_sealed);
      if (sealed === row.sealed && previous === row.previous_sealed) continue;
      const { numUpdatedRows } = await database
        .updateTable("credentials")
        .set({ sealed, previous_sealed: previous })
        .where("name", "=", row.name)
        .where("sealed", "=", row.sealed)
        .executeTakeFirst();
      count += Number(numUpdatedRows);
    }
    if (count === 0) return;
    await raise(database);
    log.info({ credentials: count }, "sealed stored credentials with the first secret of CREDENTIALS_SECRET");
  }

  /**
   * Seals all values with the first secret, ends overlaps, and puts the sealed values into Redis if
   * that has others.
   */
  async refresh(): Promise<void> {
    const { database, redis, keyspace, clock } = this.#options;
    const [first] = this.#options.secrets();
    if (first !== this.#first) await this.#rewrap();
    this.#first = first;
    const now = new Date(clock.epoch());
    const active = await database.selectFrom("catalogue_active").select("credentials").executeTakeFirst();
    const number = active?.credentials ?? 0;
    if (this.#published?.number !== number) {
      const rows = await database.selectFrom("credentials").selectAll().orderBy("name").execute();
      const credentials = Object.fromEntries(rows.map((row) => [row.name, publishedOf(row)]));
      const id = createHash("sha256").update(JSON.stringify(credentials)).digest("hex");
      this.#published = { number, id, credentials };
    }
    if (Object.values(this.#published.credentials).some(({ previous }) => previous !== undefined))
      await this.#endOverlaps(now);
    const published = await publishedCredentialsId(redis, keyspace);
    if (published === this.#published.id || (published === null && number === 0)) return;
    await publishCredentials(redis, keyspace, this.#published);
  }

  async #endOverlaps(now: Date): Promise<void> {
    const { database } = this.#options;
    const ended = await database
      .updateTable("credentials")
      .set({ previous_sealed: null, previous_version: null, previous_until: null })
      .where("previous_until", "<=", now)
      .executeTakeFirst();
    if (ended.numUpdatedRows > 0n) await raise(database);
  }

  async list(): Promise<Item[]> {
    const rows = await this.#options.database.selectFrom("credentials").selectAll().orderBy("name").execute();
    const context = await this.#context();
    return rows.map((row) => this.#described(row, context));
  }

  async #context(): Promise<ItemContext> {
    return { users: await this.#options.users(this.#options.database), problems: await this.#problems() };
  }

  /** The reports of workers about credentials that they cannot use, by reference. */
  async #problems(): Promise<Map<string, string>> {
    const { redis, keyspace, clock } = this.#options;
    const reports = await readProcessReports(redis, keyspace, clock.epoch()).catch(() => []);
    const problems = new Map<string, string>();
    for (const { id, status } of reports) {
      const { coolingCredentials = [], unreadableCredentials = [] } = status as WorkerStatus;
      for (const text of coolingCredentials) {
        const [target = "", reference = ""] = text.split(": ");
        problems.set(reference, `It cools down at ${target}: the vendor refused it, or limits its rate.`);
      }
      for (const name of unreadableCredentials)
        problems.set(referenceOf(name), `CREDENTIALS_SECRET of ${id} does not open it.`);
    }
    return problems;
  }

  /** Throws a Fault for a value that no vendor gives, and without CREDENTIALS_SECRET. */
  seal(name: string, value: string): string {
    const secrets = this.#options.secrets();
    if (secrets.length === 0)
      throw new Fault("unavailable", "Set CREDENTIALS_SECRET at control and workers to store credentials.");
    if (!valueForm.test(value))
      throw new Fault("invalid", "The value has spaces, line breaks or other characters that no credential has.", {
        field: "value",
      });
    return sealCredential(secrets as [string], name, value);
  }

  /** Throws a Fault. */
  async put(name: string, { value, overlapSeconds = 0 }: Change, context: Context): Promise<Item> {
    const row = await transact(context, "putCredential", async (inside) => {
      const { database, now } = inside;
      await lockCatalogue(database);
      const before = await database.selectFrom("credentials").selectAll().where("name", "=", name).executeTakeFirst();
      const fresh = value?.trim() ?? "";
      if (value === null || mask.test(fresh) || (before !== undefined && fresh !== "" && fresh === before.hint)) {
        if (before !== undefined) return before;
        throw new Fault("invalid", "Send the secret itself: there is no value yet that could stay.", {
          field: "value",
        });
      }
      const sealed = this.seal(name, fresh);
      const { count } = await database
        .selectFrom("credentials")
        .select((rows) => rows.fn.countAll<bigint>().as("count"))
        .executeTakeFirstOrThrow();
      if (before === undefined && Number(count) >= credentialsMax)
        throw new Fault("conflict", `There are ${credentialsMax} stored credentials; delete one first.`);
      const overlaps = before !== undefined && overlapSeconds > 0;
      const after: CredentialRow = {
        name,
        version: (before?.version ?? 0) + 1,
        sealed,
        hint: fresh.length < hintedLengthMin ? "" : fresh.slice(-hintLength),
        previous_version: overlaps ? before.version : null,
        previous_sealed: overlaps ? before.sealed : null,
        previous_until: overlaps ? new Date(now.getTime() + overlapSeconds * 1_000) : null,
        created_at: before?.created_at ?? now,
        updated_at: now,
      };
      await database
        .insertInto("credentials")
        .values(after)
        .onConflict((conflict) => conflict.column("name").doUpdateSet(after))
        .execute();
      await raise(database);
      await inside.record({
        subject: `credential ${name}`,
        before: before && recordedOf(before),
        after: recordedOf(after),
      });
      return after;
    });
    await this.#publishNow();
    return this.#described(row, await this.#context());
  }

  /** Throws a Fault while an upstream names it. */
  async delete(name: string, context: Context): Promise<void> {
    await transact(context, "deleteCredential", async (inside) => {
      await lockCatalogue(inside.database);
      const users = (await this.#options.users(inside.database)).get(referenceOf(name)) ?? [];
      if (users.length > 0)
        throw new Fault("conflict", `The credential is in use by ${users.join(", ")}; change these upstreams first.`, {
          members: { usedBy: users },
        });
      const row = await inside.database
        .deleteFrom("credentials")
        .where("name", "=", name)
        .returningAll()
        .executeTakeFirst();
      if (row === undefined) throw notFound("stored credential", name);
      await raise(inside.database);
      await inside.record({ subject: `credential ${name}`, before: recordedOf(row) });
    });
    await this.#publishNow();
  }

  /** A failure is repaired by the next refresh. */
  async #publishNow(): Promise<void> {
    await this.refresh().catch((error: unknown) =>
      this.#options.log.warn({ err: error }, "a change of credentials did not reach Redis; trying again"),
    );
  }

  #described(row: CredentialRow, { users, problems }: ItemContext): Item {
    const { secrets } = this.#options;
    const reference = referenceOf(row.name);
    const isUsable = openCredential(secrets(), row.name, row.sealed) !== undefined;
    return {
      name: row.name,
      reference,
      hint: row.hint,
      version: row.version,
      state: isUsable ? "usable" : "unreadable",
      createdAt: row.created_at.toISOString(),
      updatedAt: row.updated_at.toISOString(),
      overlapUntil: row.previous_until?.toISOString() ?? null,
      usedBy: users.get(reference) ?? [],
      problem: isUsable ? (problems.get(reference) ?? null) : "CREDENTIALS_SECRET does not open it; store it again.",
    };
  }
}

interface ItemContext {
  users: ReadonlyMap<string, string[]>;
  problems: ReadonlyMap<string, string>;
}

/** The part of a worker's status about credentials. */
interface WorkerStatus {
  coolingCredentials?: readonly string[];
  unreadableCredentials?: readonly string[];
}

/** Changes of credentials and of entries wait for each other. */
export async function lockCatalogue(database: Database): Promise<void> {
  await database
    .insertInto("catalogue_active")
    .values({ revision: 0 })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  await database.selectFrom("catalogue_active").select("revision").forUpdate().executeTakeFirstOrThrow();
}

async function raise(database: Database): Promise<void> {
  await database.updateTable("catalogue_active").set({ credentials: sql`credentials + 1` }).execute();
}

const publishedOf = ({ version, sealed, previous_sealed, previous_version }: CredentialRow) => ({
  version,
  sealed,
  ...(previous_sealed !== null &&
    previous_version !== null && { previous: { version: previous_version, sealed: previous_sealed } }),
});

/** The parts for the audit log. */
const recordedOf = ({ hint, version, previous_until }: CredentialRow) => ({
  hint,
  version,
  overlapUntil: previous_until?.toISOString() ?? null,
});

export const credentialHandlers = (store: CredentialStore): Handlers<typeof credentialOperations> => ({
  async listCredentials() {
    return { body: { items: await store.list() } };
  },
  async putCredential({ params: { credential }, body }, context) {
    return { body: await store.put(credential, body, context) };
  },
  async deleteCredential({ params: { credential } }, context) {
    await store.delete(credential, context);
    return { body: undefined };
  },
});
