/**
 * Where sessions are served, for those that are not served at their first place. Every worker has
 * all of them in memory, so that a request asks Redis for none; a session that moves costs one
 * command, which stores its binding and announces it.
 */
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { bindingMs, bindingRenewedMs, bindingsMax, bindingsReadMax } from "../bounds.ts";

/**
 * KEYS[1] the stream of bindings. ARGV a session, its place (empty: it has none any more), the
 * channel, entries at most, their life in ms. Announces "<id> <session> <place>".
 */
const bindScript = scriptOf(
  `local id = redis.call("XADD", KEYS[1], "MAXLEN", "~", ARGV[4], "*", ARGV[1], ARGV[2])
redis.call("PEXPIRE", KEYS[1], ARGV[5])
redis.call("PUBLISH", ARGV[3], id .. " " .. ARGV[1] .. " " .. ARGV[2])
return id
`,
  "refuse",
);

interface Binding {
  place: string;
  usedAt: number;
  announcedAt: number;
}

export interface BindingsDeps {
  redis: Redis;
  /** A shared connection in subscriber mode. */
  subscriber: Redis;
  keyspace: Pick<Keyspace, "bindings" | "bindingsChanged">;
  clock: Clock;
}

export class Bindings {
  readonly #deps: BindingsDeps;
  readonly #channel: Buffer;
  /** The one that was used longest ago is the first. */
  readonly #bindings = new Map<string, Binding>();
  /** The last entry of the stream that is known here. */
  #lastId = "-";

  constructor(deps: BindingsDeps) {
    this.#deps = deps;
    this.#channel = Buffer.from(deps.keyspace.bindingsChanged);
  }

  /** Reads what is bound, and follows changes. Without Redis, nothing is bound at first. */
  async start(): Promise<void> {
    const { subscriber, keyspace } = this.#deps;
    subscriber.on("messageBuffer", this.#onMessage);
    subscriber.on("ready", this.#read);
    await subscriber.subscribe(keyspace.bindingsChanged).catch(() => undefined);
    await this.#read();
  }

  get size(): number {
    return this.#bindings.size;
  }

  close(): void {
    const { subscriber, keyspace } = this.#deps;
    subscriber.off("messageBuffer", this.#onMessage);
    subscriber.off("ready", this.#read);
    subscriber.unsubscribe(keyspace.bindingsChanged).catch(() => undefined);
  }

  /** The place that serves a session, if it is not its first one. */
  placeOf(session: string): string | undefined {
    const binding = this.#bindings.get(session);
    if (binding === undefined || binding.usedAt + bindingMs > this.#deps.clock.now()) return binding?.place;
    this.#bindings.delete(session);
    return undefined;
  }

  /**
   * A place served the session; undefined for its first one, or for none after a failure. A known
   * binding is only renewed, now and then.
   */
  bind(session: string, place: string | undefined): void {
    const now = this.#deps.clock.now();
    const binding = this.#bindings.get(session);
    if (binding?.place === place) {
      if (binding === undefined) return;
      this.#keep(session, { ...binding, usedAt: now });
      if (now - binding.announcedAt < bindingRenewedMs) return;
    }
    this.#set(session, place, now);
    const { redis, keyspace } = this.#deps;
    const values = [session, place ?? "", keyspace.bindingsChanged, bindingsMax, bindingMs + bindingRenewedMs];
    runScript(redis, bindScript, [keyspace.bindings], values).catch(() => undefined);
  }

  #set(session: string, place: string | undefined, at: number): void {
    if (place === undefined || place === "") this.#bindings.delete(session);
    else this.#keep(session, { place, usedAt: at, announcedAt: at });
  }

  #keep(session: string, binding: Binding): void {
    this.#bindings.delete(session);
    this.#bindings.set(session, binding);
    if (this.#bindings.size > bindingsMax) this.#bindings.delete(this.#bindings.keys().next().value as string);
  }

  readonly #onMessage = (channel: Buffer, message: Buffer): void => {
    if (!channel.equals(this.#channel)) return;
    const [id, session, place] = message.toString().split(" ");
    if (id === undefined || session === undefined) return;
    this.#lastId = id;
    this.#set(session, place, this.#deps.clock.now());
  };

  /** Reads the entries after the last known one. An entry may be read twice. */
  readonly #read = async (): Promise<void> => {
    const { redis, keyspace, clock } = this.#deps;
    try {
      for (;;) {
        const from = this.#lastId === "-" ? "-" : `(${this.#lastId}`;
        const entries = await redis.xrange(keyspace.bindings, from, "+", "COUNT", bindingsReadMax);
        for (const [id, [session = "", place]] of entries) {
          const ageMs = Math.max(0, clock.epoch() - Number.parseInt(id, 10));
          if (ageMs < bindingMs) this.#set(session, place, clock.now() - ageMs);
          this.#lastId = id;
        }
        if (entries.length < bindingsReadMax) return;
      }
    } catch {
      // Redis is away: sessions go to their first places, and the next connection reads again.
    }
  };
}
