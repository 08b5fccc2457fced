/** Stored values of callers, sealed with their API keys. */
import { outlastRedis, type RedisWait } from "../common/outlast-redis.ts";
import type { Sealing } from "../common/sealing.ts";
import type { BoundedStore, PartPlace, StoredValue, ValueToStore } from "./bounded-store.ts";

/** The owner of stored values: an API key, and the sealing of its values. */
export interface StoreOwner {
  keyId: string;
  sealing: Sealing;
}

/** The name under which the detail of the value with this id is sealed. */
export const detailNameOf = (id: string): string => `${id} detail`;

/** The id of the log of an answer with this id. */
export const logIdOf = (id: string): string => `${logPrefix}${id}`;

/** The id of the answer that has a log with this id. */
export const answerIdOf = (logId: string): string => logId.slice(logPrefix.length);

const logPrefix = ":log:";

/**
 * While Redis is away, methods wait as requests do, and then reject with RedisUnavailable. Those
 * for logs reject at once, because logs are written and read in loops.
 */
export class SealedStore {
  readonly #store: BoundedStore;
  readonly #redisWait: RedisWait;

  constructor(store: BoundedStore, redisWait: RedisWait) {
    this.#store = store;
    this.#redisWait = redisWait;
  }

  /**
   * The new version; "conflict" if another version is stored than the one to replace, or another
   * value has the claimed alias; "full" if there is no space.
   */
  put({ keyId, sealing }: StoreOwner, value: ValueToStore): Promise<number | "conflict" | "full"> {
    const { id, value: plain, detail } = value;
    const sealed = {
      ...value,
      value: sealing.seal(id, plain),
      ...(detail !== undefined && { detail: sealing.seal(detailNameOf(id), detail) }),
    };
    return outlastRedis(this.#redisWait, async (isRepeated) => {
      const stored = await this.#store.put(keyId, sealed);
      if (stored !== "conflict" || !isRepeated) return stored;
      // The call before may have stored it: no other value is sealed to the same bytes.
      const [storedValue] = await this.#store.read(keyId, [id]);
      return storedValue?.value.equals(sealed.value) === true ? storedValue.version : "conflict";
    });
  }

  /** The values with these ids, in order; undefined for those that are not stored. */
  async read({ keyId, sealing }: StoreOwner, ids: readonly string[]): Promise<(StoredValue | undefined)[]> {
    const values = await outlastRedis(this.#redisWait, () => this.#store.read(keyId, ids));
    return values.map((one, index) => {
      const value = one && sealing.open(ids[index] as string, one.value);
      return value && one && { value, version: one.version };
    });
  }

  /** As BoundedStore.append. */
  append({ keyId, sealing }: StoreOwner, id: string, part: Buffer, place: PartPlace): Promise<number> {
    return this.#store.append(keyId, id, sealing.seal(id, part), place);
  }

  /**
   * Parts of a value from this index on, at most so many; undefined where the value is not stored.
   */
  async parts({ keyId, sealing }: StoreOwner, id: string, from: number, most: number): Promise<Buffer[] | undefined> {
    const parts = await this.#store.parts(keyId, id, from, most);
    const opened = parts?.map((part) => sealing.open(id, part));
    return opened?.every((part) => part !== undefined) === true ? opened : undefined;
  }

  /**
   * The details of the values with these ids, in order; undefined for those that are not stored.
   */
  async details({ keyId, sealing }: StoreOwner, ids: readonly string[]): Promise<(Buffer | undefined)[]> {
    const details = await outlastRedis(this.#redisWait, () => this.#store.details(keyId, ids));
    return details.map((detail, index) => detail && sealing.open(detailNameOf(ids[index] as string), detail));
  }

  /**
   * The bytes of the values with these ids together, with or without their details; 0 for those
   * that are not stored.
   */
  bytesOf({ keyId }: StoreOwner, ids: readonly string[], options: { hasDetails: boolean }): Promise<number> {
    return outlastRedis(this.#redisWait, () => this.#store.bytesOf(keyId, ids, options));
  }

  /** The ids of the values that have these aliases, in order. */
  idsOf({ keyId }: StoreOwner, aliases: readonly string[]): Promise<(string | undefined)[]> {
    return outlastRedis(this.#redisWait, () => this.#store.idsOf(keyId, aliases));
  }

  /**
   * True if there was a value with this id, or if there may have been one before Redis was away.
   */
  remove({ keyId }: StoreOwner, id: string): Promise<boolean> {
    return outlastRedis(this.#redisWait, async (isRepeated) => (await this.#store.remove(keyId, id)) || isRepeated);
  }
}
