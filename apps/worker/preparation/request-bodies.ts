/**
 * Reads bodies of requests that are too large for their jobs from Redis in parts, and few bodies of
 * several parts at a time. No command then takes long, whatever a body's size, and no other command
 * and no smaller body waits long behind a body.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { bodiesReadAtOnceMax, bodyPartBytes, bodyRetryMs, bodySilenceMsMax } from "../bounds.ts";

export interface RequestBodiesOptions {
  redis: Pick<Redis, "getrangeBuffer" | "strlen">;
  keyspace: Pick<Keyspace, "body">;
  clock: Clock;
}

export class RequestBodies {
  readonly #options: RequestBodiesOptions;
  #reading = 0;
  /** Starts of reads that wait for another one to end. */
  readonly #line: (() => void)[] = [];

  constructor(options: RequestBodiesOptions) {
    this.#options = options;
  }

  /**
   * The body of a generation's request; null if Redis does not have it. A command that fails is
   * repeated. Rejects with its error when it fails for `bodySilenceMsMax`, and with the signal's
   * reason once that is aborted.
   */
  async read(generation: string, signal: AbortSignal): Promise<Buffer | null> {
    const key = this.#options.keyspace.body(generation);
    const first = await this.#part(key, 0, signal);
    if (first.length < bodyPartBytes) return first.length === 0 ? null : first;
    // The part is not kept: many may wait.
    if (this.#reading < bodiesReadAtOnceMax) this.#reading++;
    else await new Promise<void>((resolve) => this.#line.push(resolve));
    try {
      return await this.#parts(key, signal);
    } finally {
      const next = this.#line.shift();
      if (next === undefined) this.#reading--;
      else next();
    }
  }

  async #parts(key: string, signal: AbortSignal): Promise<Buffer | null> {
    const parts: Buffer[] = [];
    const length = await this.#repeated(() => this.#options.redis.strlen(key), signal);
    let at = 0;
    while (at < length) {
      const part = await this.#part(key, at, signal);
      if (part.length === 0) return null;
      parts.push(part);
      at += part.length;
    }
    return length === 0 ? null : Buffer.concat(parts, at);
  }

  #part(key: string, at: number, signal: AbortSignal): Promise<Buffer> {
    return this.#repeated(() => this.#options.redis.getrangeBuffer(key, at, at + bodyPartBytes - 1), signal);
  }

  async #repeated<Result>(command: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    const { clock } = this.#options;
    const until = clock.now() + bodySilenceMsMax;
    for (;;) {
      signal.throwIfAborted();
      try {
        return await command();
      } catch (error) {
        if (clock.now() >= until) throw error;
        await delay(bodyRetryMs, undefined, { signal });
      }
    }
  }
}
