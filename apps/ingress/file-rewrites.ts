/**
 * Rewrites Redis' append-only file at an interval. The file keeps every command, so a request's body stays in it after Redis has deleted the job;
 * a rewrite leaves only what Redis holds at that moment: https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/#log-rewriting
 */

import type { Logger } from "pino";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";

/** How often an ingress asks whether a rewrite is due. */
const askEveryMs = 10_000;

export interface FileRewritesOptions {
  redis: Redis;
  keyspace: Keyspace;
  /** Time between two rewrites, over all ingresses. */
  everyMs: number;
  log: Logger;
}

export class FileRewrites {
  readonly #options: FileRewritesOptions;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(options: FileRewritesOptions) {
    this.#options = options;
  }

  /** Call it every second or so. */
  tick(now: number): void {
    const { redis, everyMs, log } = this.#options;
    if (redis.status !== "ready" || now - this.#askedAt < Math.min(askEveryMs, everyMs)) return;
    this.#askedAt = now;
    this.#rewriteIfDue().catch((error: unknown) =>
      log.warn(
        { err: error },
        "Redis did not rewrite its append-only file; request bodies stay in the file until it is rewritten",
      ),
    );
  }

  /** The key is a lease: one ingress starts one rewrite in each interval. */
  async #rewriteIfDue(): Promise<void> {
    const { redis, keyspace, everyMs, log } = this.#options;
    const persistence = await redis.info("persistence");
    if (!/^aof_enabled:1/m.test(persistence)) return;
    if ((await redis.set(keyspace.fileRewritten, "1", "PX", everyMs, "NX")) === null) return;
    if (/^aof_last_bgrewrite_status:err/m.test(persistence))
      log.warn("Redis failed to rewrite its append-only file the last time");
    await redis.bgrewriteaof();
  }
}
