/**
 * Sealed content in a Redis stream, from which control takes it. The stream is bounded in bytes: a
 * new entry removes the oldest ones beyond the bound. Content is a service to its account and never
 * in the way of a request: what Redis does not take is lost, and counted.
 */

import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { Keyspace } from "#service/keyspace.ts";
import { readMetrics } from "#service/metrics.ts";
import { OutageLog } from "#service/outage-log.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { contentStreamBytesMax } from "./bounds.ts";
import { type Content, type ContentLabel, sealContent } from "./content.ts";

/**
 * Adds an entry whose id is the position of its first byte among all bytes that ever entered, so
 * that an id is also a bound in bytes. KEYS: the stream; the counter of bytes. ARGV: label; sealed
 * content; bytes of the stream at most. Returns the number of removed entries.
 */
const addScript = scriptOf(
  `
local total = redis.call('INCRBY', KEYS[2], #ARGV[1] + #ARGV[2])
local first = total - #ARGV[1] - #ARGV[2] + 1
redis.call('XADD', KEYS[1], string.format('%.0f-0', first), 'l', ARGV[1], 'c', ARGV[2])
if total <= tonumber(ARGV[3]) then return 0 end
return redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f', total - ARGV[3] + 1))`,
  "refuse",
);

export interface ContentStreamOptions {
  /** A connection of the purpose `request`, for large values. */
  redis: Redis;
  keyspace: Keyspace;
  /** Whether Redis has memory for it. */
  hasSpace(): Promise<boolean>;
  log: Logger;
  /** For tests: a smaller bound. */
  bytesMax?: number;
}

export class ContentStream {
  readonly #options: ContentStreamOptions;
  readonly #outage: OutageLog;
  readonly #writing = new Set<Promise<void>>();
  #written = 0;
  #lost = 0;

  constructor(options: ContentStreamOptions) {
    this.#options = options;
    this.#outage = new OutageLog({
      log: options.log,
      level: "warn",
      failed: "content of requests was lost: Redis did not take it",
      works: "Redis takes content of requests again",
    });
  }

  /** `lost` counts what Redis did not take, and what it removed before control had it. */
  get counts(): { readonly written: number; readonly lost: number } {
    return { written: this.#written, lost: this.#lost };
  }

  /** Resolves when Redis has it, or does not take it. Never rejects. */
  write(label: ContentLabel, content: Content): Promise<void> {
    const writing = this.#write(label, content).finally(() => this.#writing.delete(writing));
    this.#writing.add(writing);
    return writing;
  }

  async close(): Promise<void> {
    await Promise.all(this.#writing);
  }

  async #write(label: ContentLabel, content: Content): Promise<void> {
    const { redis, keyspace, hasSpace, bytesMax = contentStreamBytesMax } = this.#options;
    try {
      if (!(await hasSpace())) throw new Error("Redis uses more than half of its memory");
      const values = [JSON.stringify(label), await sealContent(label, content), bytesMax];
      this.#lost += Number(await runScript(redis, addScript, [keyspace.content, keyspace.contentBytes], values));
      this.#written++;
      this.#outage.worked();
    } catch (error) {
      this.#lost++;
      this.#outage.failed(error);
    }
  }
}

export interface ContentEntry {
  readonly id: string;
  readonly label: ContentLabel;
  readonly sealed: Buffer;
}

/** The oldest entries, at most `count`. Ids of entries that cannot be read are in `invalid`. */
export async function readContent(
  redis: Redis,
  keyspace: Keyspace,
  count: number,
): Promise<{ entries: ContentEntry[]; invalid: string[] }> {
  const entries: ContentEntry[] = [];
  const invalid: string[] = [];
  for (const [id, fields] of await redis.xrangeBuffer(keyspace.content, "-", "+", "COUNT", count)) {
    const label = labelOf(fields[1]);
    const sealed = fields[3];
    if (label === undefined || sealed === undefined) invalid.push(id.toString());
    else entries.push({ id: id.toString(), label, sealed });
  }
  return { entries, invalid };
}

export async function removeContent(redis: Redis, keyspace: Keyspace, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await redis.xdel(keyspace.content, ...ids);
}

function labelOf(text: Buffer | undefined): ContentLabel | undefined {
  try {
    const { generationId, account, key, receivedAt } = JSON.parse(String(text)) as Record<keyof ContentLabel, unknown>;
    if (![generationId, account, key].every((value) => typeof value === "string" && isPlain.test(value))) return;
    if (!Number.isSafeInteger(receivedAt)) return undefined;
    return { generationId, account, key, receivedAt } as ContentLabel;
  } catch {
    return undefined;
  }
}

const isPlain = /^[\x21-\x7e]{1,200}$/;

export function registerContentMetrics(registry: Registry, stream: Pick<ContentStream, "counts">): void {
  const { counter } = readMetrics(registry);
  counter(
    "sluice_content_written_total",
    "Requests whose content Redis took, of accounts that store it.",
    () => stream.counts.written,
  );
  counter(
    "sluice_content_lost_total",
    "Requests whose content was not stored: Redis was away or more than half full, or control did not take it before the stream's bound removed it.",
    () => stream.counts.lost,
  );
}
