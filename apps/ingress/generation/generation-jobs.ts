/** Generations as jobs of their queues: put there with their bodies, taken off, asked about. */
import type { Redis } from "ioredis";
import { allowsModel } from "#access/record.ts";
import { type GenerationJob, jobBodyBytesMax } from "#relay/job.ts";
import type { Failed } from "#relay/job-queue.ts";
import type { JobState } from "#relay/owner.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { isRefusal } from "#service/redis.ts";
import type { Generation, GenerationRequest } from "./generation.ts";

/** A body under its own key lives this long, and is renewed at half of it while its job waits. */
const bodyLifeMs = 120_000;

export interface GenerationJobsOptions {
  /** A connection of its own for large bodies, so that they don't hold up jobs. */
  bodies: Redis;
  keyspace: Keyspace;
}

export class GenerationJobs {
  readonly #options: GenerationJobsOptions;
  readonly #now = () => performance.now();

  constructor(options: GenerationJobsOptions) {
    this.#options = options;
  }

  /** `failed` is called when it is not on its queue, or when nobody knows. */
  enqueue(generation: Generation, attempt: number, owner: string, failed: Failed): void {
    const { body } = generation;
    const job = jobOf(generation, attempt, owner);
    const add = () => {
      generation.queued = generation.jobQueue.add(job, failed);
    };
    generation.queued = undefined;
    if (job.body !== null || body === undefined) {
      add();
      return;
    }
    generation.bodyRenewedAt = this.#now();
    this.#options.bodies.set(this.#bodyKey(generation), body, "PX", bodyLifeMs).then(
      () => {
        if (generation.state !== "over") add();
        else this.#unlink(generation);
      },
      (error: unknown) => failed(isRefusal(error)),
    );
  }

  dequeue({ jobQueue, queued }: Generation): void {
    if (queued !== undefined) void jobQueue.remove(queued);
  }

  /** The states of the jobs of these, in order. Rejects when Redis is away. */
  async statesOf(generations: readonly Generation[]): Promise<JobState[]> {
    const states = new Map<Generation, JobState>();
    for (const jobQueue of new Set(generations.map((generation) => generation.jobQueue))) {
      const asked = generations.filter((generation) => generation.jobQueue === jobQueue);
      const found = await jobQueue.statesOf(asked.map(({ queued }) => queued));
      for (const [index, generation] of asked.entries()) states.set(generation, found[index] as JobState);
    }
    return generations.map((generation) => states.get(generation) as JobState);
  }

  /** Call it every second or so for what waits on its queue. */
  renewBody(generation: Generation, now: number): void {
    const { body, bodyRenewedAt } = generation;
    if (body === undefined || !liesApart(generation, body) || now - bodyRenewedAt <= bodyLifeMs / 2) return;
    generation.bodyRenewedAt = now;
    this.#options.bodies.pexpire(this.#bodyKey(generation), bodyLifeMs).catch(() => undefined);
  }

  /** It can't be run anew: its body is forgotten, here and in Redis, and what it held is given back. */
  releaseBody(generation: Generation): void {
    const { body } = generation;
    if (body === undefined) return;
    generation.body = undefined;
    generation.held.end();
    if (liesApart(generation, body)) this.#unlink(generation);
  }

  #unlink(generation: Generation): void {
    this.#options.bodies.unlink(this.#bodyKey(generation)).catch(() => undefined);
  }

  #bodyKey({ id }: Generation): string {
    return this.#options.keyspace.body(id);
  }
}

function jobOf(generation: Generation, attempt: number, owner: string): GenerationJob {
  const { body } = generation;
  const { delivered } = generation.answer;
  const fallbacks = generation.model.fallbacks.filter((id) => allowsModel(generation.caller, id));
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
    ...(fallbacks.length > 0 && { fallbacks }),
    group: generation.caller.group,
    keyId: generation.caller.id,
    admittedAt: generation.admittedAt,
    ...(delivered !== undefined && { delivered }),
    body: body === undefined || liesApart(generation, body) ? null : body.toString("utf8"),
  };
}

/** Large bodies, and those that are no text, don't ride in jobs. */
const liesApart = ({ contentType }: GenerationRequest, body: Buffer): boolean =>
  body.length > jobBodyBytesMax || contentType !== "application/json";
