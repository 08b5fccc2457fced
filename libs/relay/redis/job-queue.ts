/**
 * The producer's end of a queue of BullMQ. All jobs have the same priority: prioritized jobs cost
 * the same as plain ones, and removing one from a long queue stays cheap. While workers have many
 * free slots, generations that are added together share a job and its cost.
 */
import { type Job, Queue } from "bullmq";
import type { Keyspace } from "#service/keyspace.ts";
import { isRefusal, type Redis, withStartupTimeLimits } from "#service/redis.ts";
import { bulkCharactersMax, bulkJobsMax, freeSlotsLifeMs, generationsPerJobMax, jobCharactersMax } from "../bounds.ts";
import { encodeJob, jobIdOf, type QueuedJob, type WrittenJob } from "../job.ts";
import type { JobState } from "../owner.ts";
import type { Failed, JobQueue, Queued } from "../ports.ts";
import { eventStreamSettings, jobStatesOf, restoreEventStreamSettings } from "./bullmq-internals.ts";
import { JobScripts, type QueuedJobText } from "./job-scripts.ts";
import { UntakenGenerations } from "./untaken-generations.ts";

/** The part of the free slots that one job may take. */
const freeSlotsShare = 1 / 16;

/** `redis` is a connection for the purpose `request`; the caller closes it. */
export async function openJobQueue(
  name: string,
  redis: Redis,
  keyspace: Keyspace,
  onError: (error: Error) => void,
): Promise<JobQueue> {
  const queue = await withStartupTimeLimits(redis, async () => {
    const opened = new Queue(name, {
      connection: redis,
      prefix: keyspace.queuePrefix(name),
      skipWaitingForReady: true,
      streams: eventStreamSettings,
    });
    opened.on("error", onError);
    await opened.waitUntilReady();
    return opened;
  });
  return new BullmqJobQueue(queue, redis);
}

/**
 * Generations gather for a turn of the event loop, or until the previous write is over; then they
 * are written together.
 */
class BullmqJobQueue implements JobQueue {
  readonly name: string;
  readonly parts: readonly string[];
  readonly #queue: Queue;
  readonly #redis: Redis;
  readonly #scripts: JobScripts;
  /** Generations that are not written yet. */
  #pending: Queued[] = [];
  #isWriting = false;
  #freeSlots = 0;
  #freeSlotsAt = 0;
  readonly #untaken = new UntakenGenerations(() => this.#scripts.wake());
  readonly #write = async () => {
    while (this.#pending.length > 0) await this.#writeBulk();
    this.#isWriting = false;
  };

  constructor(queue: Queue, redis: Redis) {
    this.name = queue.name;
    this.parts = [queue.name];
    this.#queue = queue;
    this.#redis = redis;
    this.#scripts = new JobScripts(queue, redis);
  }

  add(generation: WrittenJob, failed: Failed): Queued {
    const queued: Queued = { id: jobIdOf(generation), failed, generation, job: undefined };
    if (this.#redis.status !== "ready") {
      queueMicrotask(() => failed(false));
      return queued;
    }
    this.#pending.push(queued);
    this.#untaken.add(queued);
    if (!this.#isWriting) {
      this.#isWriting = true;
      setImmediate(this.#write);
    }
    return queued;
  }

  async remove(queued: Queued): Promise<void> {
    const { job } = queued;
    this.#untaken.remove(queued);
    if (job === undefined) this.#pending = this.#pending.filter((other) => other !== queued);
    if (job === undefined || this.#redis.status !== "ready") return;
    job.left.add(queued.id);
    try {
      if (job.left.size === job.size) await this.#queue.remove(job.id);
      else await this.#rewrite(job.id, job.left);
    } catch {
      // The job is active or gone. A worker that runs it asks the owner.
    }
  }

  async statesOf(all: readonly (Queued | undefined)[]): Promise<JobState[]> {
    const states = await jobStatesOf(this.#queue, this.#redis, new Set(all.flatMap((queued) => queued?.job?.id ?? [])));
    return all.map((queued) => states.get(queued?.job?.id ?? "") ?? "missing");
  }

  async depth(): Promise<{ waiting: number; active: number }> {
    const { prioritized = 0, active = 0 } = await this.#queue.getJobCounts("prioritized", "active");
    return { waiting: prioritized, active };
  }

  restoreSettings(): Promise<unknown> {
    return restoreEventStreamSettings(this.#queue, this.#redis);
  }

  taken(queued: Queued): void {
    this.#untaken.remove(queued);
  }

  setFreeSlots(slots: number): void {
    this.#freeSlots = slots;
    this.#freeSlotsAt = performance.now();
  }

  async close(): Promise<void> {
    this.#pending = [];
    this.#untaken.close();
    await this.#queue.close();
  }

  get #generationsPerJob(): number {
    return performance.now() - this.#freeSlotsAt > freeSlotsLifeMs
      ? 1
      : Math.max(1, Math.min(generationsPerJobMax, Math.floor(this.#freeSlots * freeSlotsShare)));
  }

  async #writeBulk(): Promise<void> {
    const sizeMax = this.#generationsPerJob;
    const members: Queued[] = [];
    const jobs: QueuedJobText[] = [];
    for (
      let characters = 0;
      jobs.length < bulkJobsMax && characters < bulkCharactersMax && this.#pending.length > 0;
    ) {
      const some = this.#pending.splice(0, fittingIn(this.#pending, sizeMax));
      for (const queued of some) characters += charactersOf(queued);
      members.push(...some);
      jobs.push(jobOf(some));
    }
    try {
      await this.#scripts.add(jobs);
    } catch (error) {
      const isRefused = isRefusal(error);
      for (const queued of isRefused ? members : [...members, ...this.#pending.splice(0)]) {
        this.#untaken.remove(queued);
        queued.failed(isRefused);
      }
    }
  }

  /**
   * Writes the job's data without the generations that left, including those that left during an
   * earlier call.
   */
  async #rewrite(id: string, left: ReadonlySet<string>): Promise<void> {
    const job = (await this.#queue.getJob(id)) as Job<QueuedJob> | undefined;
    if (job === undefined) return;
    const generations = job.data.generations.filter((generation) => !left.has(jobIdOf(generation)));
    await job.updateData({ generations });
  }
}

/** How many of the first generations go into one job. */
function fittingIn(pending: readonly Queued[], sizeMax: number): number {
  let characters = charactersOf(pending[0] as Queued);
  let count = 1;
  while (count < Math.min(sizeMax, pending.length)) {
    characters += charactersOf(pending[count] as Queued);
    if (characters > jobCharactersMax) break;
    count++;
  }
  return count;
}

const charactersOf = ({ generation }: Queued): number =>
  (generation?.body?.length ?? 0) + (generation?.delivered?.length ?? 0);

function jobOf(members: readonly Queued[]): QueuedJobText {
  const generations = members.map(({ generation }) => generation as WrittenJob);
  const job = { id: (members[0] as Queued).id, size: members.length, left: new Set<string>() };
  for (const member of members) {
    member.job = job;
    member.generation = undefined;
  }
  return { id: job.id, data: encodeJob(generations), generations: generations.length };
}
