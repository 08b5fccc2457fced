/**
 * Makes Redis rewrite its append-only file at an interval. The file keeps every command, so a
 * request's body stays in it after Redis has deleted the job. A rewrite leaves only what Redis has
 * in memory at that moment:
 * https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/#log-rewriting
 */
import type { Logger } from "pino";
import type { Keyspace } from "#service/keyspace.ts";
import { type Redis, serversOf } from "#service/redis.ts";
import { fileRewriteCheckMsMax } from "./common/bounds.ts";

export interface FileRewritesOptions {
  redis: Redis;
  keyspace: Keyspace;
  /** Time between two rewrites, over all ingresses. */
  everyMs: number;
  log: Logger;
}

export class FileRewrites {
  readonly #options: FileRewritesOptions;

  constructor(options: FileRewritesOptions) {
    this.#options = options;
  }

  /** How often `rewriteIfDue` must be called. */
  get checkEveryMs(): number {
    return Math.min(fileRewriteCheckMsMax, this.#options.everyMs);
  }

  /** Never rejects. */
  async rewriteIfDue(): Promise<void> {
    try {
      await this.#rewriteIfDue();
    } catch (error) {
      this.#options.log.warn(
        { err: error },
        "Redis did not rewrite its append-only file; request bodies stay in the file until it is rewritten",
      );
    }
  }

  /** The key is a lease: one ingress starts one rewrite in each interval. */
  async #rewriteIfDue(): Promise<void> {
    const { redis, keyspace, everyMs, log } = this.#options;
    const servers = await Promise.all(
      serversOf(redis).map(async (server) => ({ server, persistence: await server.info("persistence") })),
    );
    const writing = servers.filter(({ persistence }) => /^aof_enabled:1/m.test(persistence));
    if (writing.length === 0) return;
    if ((await redis.set(keyspace.fileRewritten, "1", "PX", everyMs, "NX")) === null) return;
    for (const { server, persistence } of writing) {
      if (/^aof_last_bgrewrite_status:err/m.test(persistence))
        log.warn("Redis failed to rewrite its append-only file the last time");
      await server.bgrewriteaof();
    }
  }
}
