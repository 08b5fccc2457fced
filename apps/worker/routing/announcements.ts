/**
 * Tells all workers of a change: the entry is stored in a stream and published, with one command.
 * Every worker hears it, and a worker that starts, or was cut off, reads the entries that it lacks.
 */
import { type Channel, openChannel } from "#service/channel.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { announcementsReadMax } from "../bounds.ts";

/**
 * KEYS[1] the stream. ARGV a name, its value, the channel, entries at most, their life in ms.
 * Announces "<id> <name> <value>".
 */
const announceScript = scriptOf(
  `local id = redis.call("XADD", KEYS[1], "MAXLEN", "~", ARGV[4], "*", ARGV[1], ARGV[2])
redis.call("PEXPIRE", KEYS[1], ARGV[5])
redis.call("PUBLISH", ARGV[3], id .. " " .. ARGV[1] .. " " .. ARGV[2])
return id
`,
  "refuse",
);

const message = /^(\S+) (\S+) (.*)$/s;

export interface AnnouncementsDeps {
  redis: Redis;
  /** A shared connection in subscriber mode. */
  subscriber: Redis;
  keyspace: Keyspace;
  clock: Clock;
}

export interface AnnouncementsOptions extends AnnouncementsDeps {
  /** In Redis. */
  names: { stream: string; channel: string };
  entriesMax: number;
  lifeMs: number;
  /** Called for the own announcements, too, and more than once for some. */
  hear(name: string, value: string, ageMs: number): void;
}

export class Announcements {
  readonly #options: AnnouncementsOptions;
  #channel: Channel | undefined;
  /** The last entry of the stream that is known here. */
  #lastId = "-";

  constructor(options: AnnouncementsOptions) {
    this.#options = options;
  }

  /** Reads what was announced, and follows. Without Redis, nothing is known at first. */
  async start(): Promise<void> {
    const { subscriber, names } = this.#options;
    subscriber.on("ready", this.#read);
    this.#channel = openChannel(subscriber, names.channel, (bytes) => this.#receive(bytes));
    await this.#channel.subscribed.catch(() => undefined);
    await this.#read();
  }

  close(): void {
    this.#options.subscriber.off("ready", this.#read);
    this.#channel?.close();
  }

  /** `name` has no spaces. */
  announce(name: string, value: string): void {
    const { redis, names, entriesMax, lifeMs } = this.#options;
    const values = [name, value, names.channel, entriesMax, lifeMs];
    runScript(redis, announceScript, [names.stream], values).catch(() => undefined);
  }

  #receive(bytes: Buffer): void {
    const [, id, name, value] = message.exec(bytes.toString()) ?? [];
    if (id === undefined || name === undefined || value === undefined) return;
    this.#lastId = id;
    this.#hear(name, value, 0);
  }

  /** Another release may write other values. */
  #hear(name: string, value: string, ageMs: number): void {
    try {
      this.#options.hear(name, value, ageMs);
    } catch {}
  }

  /** Reads the entries after the last known one. An entry may be read twice. */
  readonly #read = async (): Promise<void> => {
    const { redis, names, clock } = this.#options;
    try {
      for (;;) {
        const from = this.#lastId === "-" ? "-" : `(${this.#lastId}`;
        const entries = await redis.xrange(names.stream, from, "+", "COUNT", announcementsReadMax);
        for (const [id, [name = "", value = ""]] of entries) {
          this.#hear(name, value, Math.max(0, clock.epoch() - Number.parseInt(id, 10)));
          this.#lastId = id;
        }
        if (entries.length < announcementsReadMax) return;
      }
    } catch {
      // Redis is away, and the next connection reads again.
    }
  };
}
