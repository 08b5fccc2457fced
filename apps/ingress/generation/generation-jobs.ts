/**
 * Puts generations on their queues with their bodies, removes them, and asks the queues for their
 * states.
 */

import { packedBoundsOf } from "#operations/usage-bounds.ts";
import { jobBodyBytesMax } from "#relay/bounds.ts";
import type { GenerationJob } from "#relay/job.ts";
import type { JobState, Owner } from "#relay/owner.ts";
import type { Failed } from "#relay/ports.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { isRefusal } from "#service/redis.ts";
import { headersOf } from "#tracing/trace-context.ts";
import { answerBytesMaxOf } from "../admission/estimate.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import { bodyLifeMs } from "../common/bounds.ts";
import { attemptsBefore, type Generation } from "./generation.ts";

export interface GenerationJobsOptions {
  /** A separate connection for large bodies, so that they do not delay jobs. */
  bodies: Redis;
  keyspace: Keyspace;
  clock: Clock;
}

/** An attempt whose state the owner requests from its queue. */
export interface ProbedAttempt {
  client: Generation;
  number: number;
  attempt: number;
}

export class GenerationJobs {
  readonly #options: GenerationJobsOptions;

  constructor(options: GenerationJobsOptions) {
    this.#options = options;
  }

  /** Calls `failed` if the job is not on its queue, or if that is unknown. */
  enqueue(generation: Generation, attempt: number, owner: string, failed: Failed): void {
    const { body } = generation;
    const job = jobOf(generation, attempt, owner);
    const add = () => {
      generation.queued = generation.ingressQueue.jobs.add(job, failed);
    };
    generation.queued = undefined;
    if (job.body !== null || body === undefined) {
      add();
      return;
    }
    generation.bodyRenewedAt = this.#options.clock.now();
    this.#options.bodies.set(this.#bodyKey(generation), body, "PX", bodyLifeMs).then(
      () => {
        if (generation.state !== "over") add();
        else this.#deleteBody(generation);
      },
      (error: unknown) => failed(isRefusal(error)),
    );
  }

  dequeue({ ingressQueue, queued }: Generation): void {
    if (queued !== undefined) void ingressQueue.jobs.remove(queued);
  }

  /** Asks the queues for the states of these jobs and reports them to the owner. Never rejects. */
  async probe(attempts: readonly ProbedAttempt[], owner: Owner<Generation>): Promise<void> {
    try {
      const states = await this.#statesOf(attempts.map(({ client }) => client));
      const now = this.#options.clock.now();
      for (const [index, { client, number, attempt }] of attempts.entries()) {
        const state = states[index] as JobState;
        if (state !== "waiting") client.ingressQueue.admission.gone(number, now);
        owner.probed(number, attempt, state, now);
      }
    } catch {
      owner.probeFailed();
    }
  }

  /** Keeps the body of a waiting job alive. Call it every second or so. */
  renewBody(generation: Generation, now: number): void {
    const { body, bodyRenewedAt } = generation;
    if (body === undefined || !isApart(generation, body) || now - bodyRenewedAt <= bodyLifeMs / 2) return;
    generation.bodyRenewedAt = now;
    this.#options.bodies.pexpire(this.#bodyKey(generation), bodyLifeMs).catch(() => undefined);
  }

  /** No further attempt needs the body: releases it here and in Redis. */
  releaseBody(generation: Generation): void {
    const { body } = generation;
    if (body === undefined) return;
    generation.body = undefined;
    generation.held.end();
    if (isApart(generation, body)) this.#deleteBody(generation);
  }

  /** In the order of `generations`. Rejects while Redis is away. */
  async #statesOf(generations: readonly Generation[]): Promise<JobState[]> {
    const states = new Map<Generation, JobState>();
    for (const queue of new Set(generations.map(({ ingressQueue }) => ingressQueue))) {
      const asked = generations.filter(({ ingressQueue }) => ingressQueue === queue);
      const found = await queue.jobs.statesOf(asked.map(({ queued }) => queued));
      for (const [index, generation] of asked.entries()) states.set(generation, found[index] as JobState);
    }
    return generations.map((generation) => states.get(generation) as JobState);
  }

  #deleteBody(generation: Generation): void {
    this.#options.bodies.unlink(this.#bodyKey(generation)).catch(() => undefined);
  }

  #bodyKey({ id }: Generation): string {
    return this.#options.keyspace.body(id);
  }
}

function jobOf(generation: Generation, attempt: number, owner: string): GenerationJob {
  const { body, storage, trace, fallbacks } = generation;
  const { delivered } = generation.answer;
  const answerBytesMax = answerBytesMaxOf(generation);
  const usageMax = packedBoundsOf(generation.model, generation);
  const { user, tags } = generation.labels;
  return {
    generation: generation.id,
    owner,
    number: generation.number,
    attempt,
    dialect: generation.dialect,
    operation: generation.operation,
    framing: generation.framing,
    contentType: generation.contentType,
    headers: generation.callerHeaders,
    model: generation.model.id,
    ...(fallbacks.length > 0 && { fallbacks: fallbacks.map(({ id }) => id) }),
    group: generation.caller.group,
    ...(generation.caller.account !== undefined && { account: generation.caller.account }),
    keyId: generation.caller.id,
    admittedAt: generation.facts.receivedAt,
    ...(user !== null && { user }),
    ...(tags.length > 0 && { tags: [...tags] }),
    priceVersion: generation.catalogue.version,
    ...(usageMax !== undefined && { usageMax }),
    ...(generation.earlier !== undefined && {
      recorded: { generation: generation.facts.generationId, attempt: attemptsBefore(generation) + attempt },
    }),
    ...(trace !== undefined && headersOf(trace)),
    ...(storage !== undefined && { storage }),
    ...(delivered !== undefined && { delivered }),
    ...(answerBytesMax !== undefined && { answerBytesMax }),
    body: body === undefined || isApart(generation, body) ? null : body.toString("utf8"),
  };
}

/**
 * Large bodies, and bodies that are not text, have their own key instead of being part of the job.
 */
const isApart = ({ contentType }: GenerationRequest, body: Buffer): boolean =>
  body.length > jobBodyBytesMax || contentType !== "application/json";
