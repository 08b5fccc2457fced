/**
 * The generations that go on without their callers, by their Idempotency-Keys. A key belongs to a
 * generation that runs or has its answer. One that has failed, or that has no end and no ingress
 * runs, leaves its key free. It stays readable under its own id.
 */
import { hashOf } from "#access/key.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { outlastRedis, type RedisWait } from "../common/outlast-redis.ts";
import { Refusal } from "../common/refusal.ts";
import type { AliasClaim } from "../stored/bounded-store.ts";
import { answerIdOf, logIdOf, type SealedStore, type StoreOwner } from "../stored/sealed-store.ts";
import { isOver, type StoredResponses } from "../stored/stored-responses.ts";
import { logEndOf } from "./answer-log.ts";
import type { Runs } from "./runs.ts";

export interface EarlierGenerationsOptions extends RedisWait {
  runs: Pick<Runs, "has">;
  store: SealedStore;
  responses: StoredResponses;
}

export interface EarlierGeneration {
  id: string;
  /** The fingerprint of its request. */
  fingerprint: string | undefined;
}

export class EarlierGenerations {
  readonly #options: EarlierGenerationsOptions;

  constructor(options: EarlierGenerationsOptions) {
    this.#options = options;
  }

  /**
   * The generation that has this Idempotency-Key, or the claim with which a new one gets it. Keys
   * of background responses and of streams are separate.
   */
  async find(
    owner: StoreOwner,
    name: string,
    { isBackground }: { isBackground: boolean },
  ): Promise<EarlierGeneration | AliasClaim> {
    const alias = `:${isBackground ? "response" : "stream"}:${hashOf(name)}`;
    const [from] = await this.#options.store.idsOf(owner, [alias]);
    const earlier = from && (isBackground ? this.#response(owner, from) : this.#stream(owner, answerIdOf(from)));
    return (await (earlier || undefined)) ?? { alias, from };
  }

  async #response(owner: StoreOwner, id: string): Promise<EarlierGeneration | undefined> {
    const isRunning = await this.#isRunning(owner, id);
    const stored = await this.#options.responses.find(owner, id);
    if (stored instanceof Refusal) return undefined;
    const { status } = parsedObject(stored.response) ?? {};
    const isLost = !isRunning && !isOver({ status });
    return status === "failed" || isLost ? undefined : { id, fingerprint: stored.fingerprint };
  }

  async #stream(owner: StoreOwner, id: string): Promise<EarlierGeneration | undefined> {
    const { store } = this.#options;
    const isRunning = await this.#isRunning(owner, id);
    const end = await outlastRedis(this.#options, () => logEndOf(store, owner, id));
    if (end === "failed" || (end === undefined && !isRunning)) return undefined;
    const [fingerprint] = await store.read(owner, [logIdOf(id)]);
    return fingerprint && { id, fingerprint: fingerprint.value.toString() };
  }

  /** Asked before what is stored: the end of a generation is stored while it still runs. */
  #isRunning({ keyId }: StoreOwner, id: string): Promise<boolean> {
    return outlastRedis(this.#options, () => this.#options.runs.has({ keyId, id }));
  }
}
