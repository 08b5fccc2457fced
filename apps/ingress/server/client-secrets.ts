/**
 * Short-lived credentials for one session of OpenAI's Realtime, which a server creates with its API
 * key for a page in a browser:
 * https://platform.openai.com/docs/api-reference/realtime-sessions/create-realtime-client-secret.
 * Redis keeps what a secret allows under the secret's hash, sealed with a key derived from the
 * secret, which the gateway does not keep: a copy of Redis opens no session. A revoked API key
 * revokes its secrets.
 */
import { hash, randomBytes } from "node:crypto";
import { type KeyRecord, stateOf } from "#access/record.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { clientSecretsMax } from "../common/bounds.ts";
import { Sealing } from "../common/sealing.ts";
import type { KeyDirectory } from "./authentication.ts";

const form = /^ek_[A-Za-z0-9_-]{43}$/;
const sealedName = "client secret";

/** The rights of a client secret. */
export interface Grant {
  record: KeyRecord;
  /** The catalogue's id of the model. */
  model: string;
  /** The settings with which the session begins, in OpenAI's format. */
  session: Record<string, unknown>;
}

interface Sealed extends Pick<Grant, "model" | "session"> {
  /** The hash of the API key. */
  keyHash: string;
}

/**
 * Stores what a secret allows, unless its API key has as many secrets as it may. KEYS: the value;
 * the secrets of the API key. ARGV: the value; how long it lives, in milliseconds; the secret's
 * hash; how many an API key may have. Returns 1, or 0 for one too many.
 */
const storeScript = scriptOf(
  `${redisClock}
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', nowMs)
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('ZADD', KEYS[2], nowMs + tonumber(ARGV[2]), ARGV[3])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
return 1`,
  "refuse",
);

export class ClientSecrets {
  readonly #redis: Redis;
  readonly #keyspace: Keyspace;

  constructor(redis: Redis, keyspace: Keyspace) {
    this.#redis = redis;
    this.#keyspace = keyspace;
  }

  /** A new secret; undefined if the API key has too many. Rejects while Redis is away. */
  async create(keyId: string, sealed: Sealed, lifeMs: number): Promise<string | undefined> {
    const secret = `ek_${randomBytes(32).toString("base64url")}`;
    const hashed = hash("sha256", secret);
    const value = Sealing.of(secret, hashed).seal(sealedName, Buffer.from(JSON.stringify(sealed)));
    const keys = [this.#keyspace.clientSecret(hashed), this.#keyspace.clientSecretsOf(keyId)];
    const isStored = await runScript(this.#redis, storeScript, keys, [value, lifeMs, hashed, clientSecretsMax]);
    return isStored === 1 ? secret : undefined;
  }

  /**
   * The rights of the first valid secret among these credentials at `now` (epoch milliseconds).
   * Rejects while Redis is away.
   */
  async grantOf(
    credentials: readonly string[],
    keys: Pick<KeyDirectory, "find" | "look">,
    now: number,
  ): Promise<Grant | undefined> {
    const secret = credentials.find((credential) => form.test(credential));
    if (secret === undefined) return undefined;
    const hashed = hash("sha256", secret);
    const stored = await this.#redis.getBuffer(this.#keyspace.clientSecret(hashed));
    const opened = stored === null ? undefined : Sealing.of(secret, hashed).open(sealedName, stored);
    const sealed = opened && (parsedObject(opened) as Sealed | undefined);
    const record = sealed && (keys.find(sealed.keyHash) ?? (await keys.look(sealed.keyHash)));
    if (sealed === undefined || record === undefined || stateOf(record, now) !== "live") return undefined;
    return { record, model: sealed.model, session: sealed.session };
  }
}
