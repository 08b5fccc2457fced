/**
 * Puts generations on their queues with their bodies, removes them, and asks the queues for their
 * states.
 */

import { inputTokensOf } from "#dialects/attached-tokens.ts";
import { packedBoundsOf } from "#operations/usage-bounds.ts";
import { jobBodyBytesMax } from "#relay/bounds.ts";
import type { WrittenJob } from "#relay/job.ts";
import type { JobState } from "#relay/owner.ts";
import type { Failed } from "#relay/ports.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { isRefusal } from "#service/redis.ts";
import { headersOf } from "#tracing/trace-context.ts";
import { someOf } from "#wire/json/parse.ts";
import { answerBytesMaxOf } from "../admission/estimate.ts";
import { bodyLifeMs } from "../common/bounds.ts";
import { callerHeadersOf } from "../common/endpoints.ts";
import { attemptsBefore, type Generation } from "./generation.ts";

export interface GenerationJobsOptions {
  /** A separate connection for large bodies, so that they do not delay jobs. */
  bodies: Redis;
  keyspace: Keyspace;
  clock: Clock;
}

export class GenerationJobs {
  readonly #options: GenerationJobsOptions;

  constructor(options: GenerationJobsOptions) {
    this.#options = options;
  }

  /** Calls `failed` if the job is not on its queue, or if that is unknown. */
  enqueue(generation: Generation, attempt: number, owner: string, failed: Failed): void {
    const { ingressQueue, request, job: lost } = generation;
    const { bytes } = request;
    if (lost !== undefined) ingressQueue.jobs.taken(lost);
    const job = jobOf(generation, attempt, owner);
    const add = () => {
      generation.job = ingressQueue.jobs.add(job, failed);
    };
    generation.job = undefined;
    if (job.body !== null || bytes === undefined) {
      add();
      return;
    }
    generation.bodyRenewedAt = this.#options.clock.now();
    this.#options.bodies.set(this.#bodyKey(generation), bytes, "PX", bodyLifeMs).then(
      () => {
        if (!generation.isOver) add();
        else this.#deleteBody(generation);
      },
      (error: unknown) => failed(isRefusal(error)),
    );
  }

  dequeue({ ingressQueue, job }: Generation): void {
    if (job !== undefined) void ingressQueue.jobs.remove(job);
  }

  /** Keeps the body of a waiting job alive. Call it every second or so. */
  renewBody(generation: Generation, now: number): void {
    if (!isApart(generation) || now - generation.bodyRenewedAt <= bodyLifeMs / 2) return;
    generation.bodyRenewedAt = now;
    this.#options.bodies.pexpire(this.#bodyKey(generation), bodyLifeMs).catch(() => undefined);
  }

  /** No further attempt needs the body: releases it here and in Redis. */
  releaseBody(generation: Generation): void {
    if (generation.request.bytes === undefined) return;
    if (isApart(generation)) this.#deleteBody(generation);
    generation.request.bytes = undefined;
    generation.bodyClaim.end();
  }

  /** In the order of `generations`. Rejects while Redis is away. */
  async statesOf(generations: readonly Generation[]): Promise<JobState[]> {
    const states = new Map<Generation, JobState>();
    for (const queue of new Set(generations.map(({ ingressQueue }) => ingressQueue))) {
      const members = generations.filter(({ ingressQueue }) => ingressQueue === queue);
      const jobStates = await queue.jobs.statesOf(members.map(({ job }) => job));
      for (const [index, generation] of members.entries()) states.set(generation, jobStates[index] as JobState);
    }
    return generations.map((generation) => states.get(generation) as JobState);
  }

  #deleteBody(generation: Generation): void {
    this.#options.bodies.unlink(this.#bodyKey(generation)).catch(() => undefined);
  }

  #bodyKey({ admitted }: Generation): string {
    return this.#options.keyspace.body(admitted.id);
  }
}

function jobOf(generation: Generation, attempt: number, owner: string): WrittenJob {
  const { number, facts, fallbacks, request } = generation;
  const { http, endpoint, framing, demand, bytes, labels, storage } = request;
  const { id, model, contentType, catalogue, session, trace, whenFlexFull } = generation.admitted;
  const { dialect, operation } = endpoint;
  const { group, account } = http.caller;
  const traceHeaders = trace && headersOf(trace);
  return {
    generation: id,
    owner,
    number,
    attempt,
    dialect,
    operation,
    framing,
    contentType,
    group,
    account,
    headers: callerHeadersOf(dialect, http.headers),
    model: model.id,
    fallbacks: someOf(fallbacks.map((fallback) => fallback.id)),
    keyId: http.caller.id,
    admittedAt: facts.receivedAt,
    user: labels.user ?? undefined,
    sessionName: labels.session ?? undefined,
    tags: someOf([...labels.tags]),
    batch: request.batch,
    priceVersion: catalogue.version,
    usageMax: packedBoundsOf(model, demand),
    inputTokens: demand.attachedBytes === undefined ? undefined : inputTokensOf(bytes?.length ?? 0, demand),
    recorded: request.earlier && {
      generation: facts.generationId,
      attempt: attemptsBefore(generation) + attempt,
    },
    session: session?.id,
    sessionIsAssumed: session?.isAssumed || undefined,
    whenFlexFull: labels.isFlex === true ? whenFlexFull : undefined,
    isMirrored: request.isMirrored,
    trial: http.trial && [...http.trial.failing],
    vendorBatch: request.vendorBatch,
    traceparent: traceHeaders?.traceparent,
    tracestate: traceHeaders?.tracestate,
    storage,
    delivered: generation.answer.delivered,
    answerBytesMax: answerBytesMaxOf(model, demand),
    body: isApart(generation) ? null : (bytes?.toString("utf8") ?? null),
  };
}

/**
 * Large bodies, and bodies that are not text, have their own key instead of being part of the job.
 */
const isApart = ({ request: { bytes }, admitted: { contentType } }: Generation): boolean =>
  bytes !== undefined && (bytes.length > jobBodyBytesMax || contentType !== "application/json");
