/**
 * Authenticates the caller by the API key in the request's headers or query. A key is valid
 * everywhere as soon as its creation is answered: an ingress that has not heard of a key asks
 * Redis. Whoever sends many unknown keys is refused without that.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { authenticate, hashesOf } from "#access/authenticate.ts";
import type { KeyRecord } from "#access/record.ts";
import type { Failure } from "#dialects/errors.ts";
import { callerOf, TokenBuckets } from "#service/token-buckets.ts";
import { callersLookedUpMax, lookUps, lookUpsOfCaller } from "../common/bounds.ts";
import { dialectOf } from "../common/endpoints.ts";
import { endedKey, invalidKey, invalidToken, missingKey, redisIsAway } from "../common/failures.ts";

/** The records of keys by the hash of the key. */
export interface KeyDirectory {
  find(hash: string): KeyRecord | undefined;
  /** Asks Redis for a record that is not known here yet. */
  look(hash: string): Promise<KeyRecord | undefined>;
  /** The web origins of all keys' records. */
  origins(): ReadonlySet<string>;
}

/**
 * A browser's WebSocket has no headers of its own, so OpenAI's clients there send the key as a
 * subprotocol.
 */
export const keySubprotocol = "openai-insecure-api-key.";

declare module "fastify" {
  interface FastifyRequest {
    /** The record of the caller's key; set before any handler runs. */
    caller: KeyRecord;
    /** The caller's key itself. It must not leave the process. */
    apiKey: string;
  }
}

/**
 * Sets the caller of a request. False for a key that is not valid, or not any more at `now` (epoch
 * milliseconds).
 */
export function authenticateCaller(
  keys: KeyDirectory,
  now: number,
  request: Pick<FastifyRequest, "headers" | "url" | "caller" | "apiKey">,
): boolean {
  const authentication = authenticate(credentialsOf(request.headers, request.url), keys, now);
  if (authentication.kind === "refused") return false;
  request.caller = authentication.record;
  request.apiKey = authentication.apiKey;
  return true;
}

/** The failure of a request whose credentials name no caller at `now` (epoch milliseconds). */
export function unidentified(
  { headers, url }: Pick<FastifyRequest, "headers" | "url">,
  keys: Pick<KeyDirectory, "find">,
  now: number,
): Failure {
  const credentials = credentialsOf(headers, url);
  if (credentials.length === 0) return missingKey;
  const [record] = hashesOf(credentials).flatMap((hash) => keys.find(hash) ?? []);
  const failure = record === undefined ? invalidKey : endedKey(record, now);
  const isToken = credentials.length === 1 && bearerPattern.test(headers.authorization ?? "");
  return isToken && dialectOf(url, headers) === "gemini" ? { ...failure, code: invalidToken.code } : failure;
}

/** Finds keys that are not known here yet. */
export class NewKeys {
  readonly #keys: KeyDirectory;
  readonly #callers = new TokenBuckets({ ...lookUpsOfCaller, keysMax: callersLookedUpMax });
  readonly #all = new TokenBuckets({ ...lookUps, keysMax: 1 });

  constructor(keys: KeyDirectory) {
    this.#keys = keys;
  }

  /**
   * Whether a credential of the request is a key that was not known before. False too for a caller
   * who has sent many unknown keys. Rejects with RedisUnavailable while Redis does not answer.
   */
  async learn({ headers, url, ip }: Pick<FastifyRequest, "headers" | "url" | "ip">): Promise<boolean> {
    const unknown = hashesOf(credentialsOf(headers, url)).filter((hash) => this.#keys.find(hash) === undefined);
    for (const hash of unknown) {
      if (this.#callers.take(callerOf(ip)) > 0 || this.#all.take("") > 0) return false;
      const record = await this.#keys.look(hash).catch(redisIsAway);
      if (record !== undefined) return true;
    }
    return false;
  }
}

/**
 * Parameters of the query with a key: Google's, and Azure's for pages that open a session
 * (https://learn.microsoft.com/azure/foundry/openai/how-to/realtime-audio-websockets).
 */
export const keyParameters = ["key", "api-key"];

const bearerPattern = /^bearer +([^ ]+)/i;

/**
 * Every credential of a request, wherever a dialect's clients put it: some clients send a stale
 * vendor key beside the good one. The query, which may have a key, is never logged.
 */
export function credentialsOf(headers: IncomingHttpHeaders, url: string): string[] {
  const credentials: string[] = [];
  const bearer = bearerPattern.exec(headers.authorization ?? "")?.[1];
  if (bearer !== undefined) credentials.push(bearer);
  for (const name of ["x-api-key", "x-goog-api-key", "api-key"] as const) {
    const value = headers[name];
    if (typeof value === "string" && value !== "") credentials.push(value.trim());
  }
  for (const offered of headers["sec-websocket-protocol"]?.split(",") ?? []) {
    const name = offered.trim();
    if (name.startsWith(keySubprotocol)) credentials.push(name.slice(keySubprotocol.length));
  }
  const question = url.indexOf("?");
  if (question >= 0) {
    const query = new URLSearchParams(url.slice(question + 1));
    credentials.push(...keyParameters.flatMap((name) => query.get(name) || []));
  }
  return credentials;
}
