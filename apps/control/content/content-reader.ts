/**
 * Takes content of requests from Redis into the database, and deletes what is older than its
 * account wants. An entry leaves Redis after it was stored; several control processes may take the
 * same one, which is stored once.
 */

import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import type { Logger } from "pino";
import { type ContentEntry, readContent, removeContent } from "#content/content-stream.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { OutageLog } from "#service/outage-log.ts";
import type { Redis } from "#service/redis.ts";
import { contentEntriesMax, contentEveryMs, contentSweptEveryMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";

export interface ContentReaderOptions {
  database: Database;
  /** A connection of its own, of the purpose `request`, because entries are large. */
  redis: Redis;
  keyspace: Keyspace;
  clock: Clock;
  log: Logger;
}

export class ContentReader {
  readonly #options: ContentReaderOptions;
  readonly #closing = new AbortController();
  readonly #outage: OutageLog;
  #running: Promise<void> | undefined;
  #sweptAt = Number.NEGATIVE_INFINITY;

  constructor(options: ContentReaderOptions) {
    this.#options = options;
    this.#outage = new OutageLog({
      log: options.log,
      level: "warn",
      failed: "content of requests could not be stored; it stays in Redis",
      works: "content of requests is stored again",
    });
  }

  start(): void {
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  /**
   * Stores some entries and removes them from Redis. Resolves to their number; rejects when Redis
   * or the database does not answer.
   */
  async take(): Promise<number> {
    const { redis, keyspace, log } = this.#options;
    const { entries, invalid } = await readContent(redis, keyspace, contentEntriesMax);
    if (invalid.length > 0) log.error({ count: invalid.length }, "content of requests is not valid; it is dropped");
    for (const entry of entries) await this.#store(entry);
    const ids = [...invalid, ...entries.map(({ id }) => id)];
    await removeContent(redis, keyspace, ids);
    return ids.length;
  }

  /** Deletes what is older than its account wants. Rejects when the database does not answer. */
  async sweep(): Promise<void> {
    const { database } = this.#options;
    const { numAffectedRows = 0n } = await sql`
      delete from content using accounts
      where accounts.id = content.account
        and (content_days is null or received_at < now() - content_days * interval '1 day')`.execute(database);
    // The embedded database reuses the space of deleted rows only then.
    if (numAffectedRows > 0n) await sql`vacuum content`.execute(database);
    this.#sweptAt = this.#options.clock.now();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      let count = 0;
      try {
        count = await this.take();
        if (this.#options.clock.now() - this.#sweptAt > contentSweptEveryMs) await this.sweep();
        this.#outage.worked();
      } catch (error) {
        if (!signal.aborted) this.#outage.failed(error);
      }
      if (count < contentEntriesMax) await delay(contentEveryMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /**
   * The lock keeps the account from ending its storage meanwhile. Content that was sealed for an
   * earlier key of the account is not stored.
   */
  async #store({ label: { generationId, account, key, receivedAt }, sealed }: ContentEntry): Promise<void> {
    await sql`
      insert into content (generation_id, account, received_at, sealed)
      select ${generationId}, id, ${new Date(receivedAt)}, ${sealed}
      from accounts where id = ${account} and content_key = ${key} for share
      on conflict do nothing`.execute(this.#options.database);
  }
}
