/**
 * The producer's end of a queue, with BullMQ. All jobs have the same priority: prioritized jobs cost the same as plain ones, and removing one from a long
 * queue stays cheap. While workers have many free slots, generations that are added together share a job and its cost.
 */

import { type Job, Queue } from "bullmq";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { isRefusal, unhurried } from "#service/redis.ts";
import { bulkCharactersMax, bulkJobsMax, freeSlotsLifeMs, generationsPerJobMax, jobCharactersMax } from "../bounds.ts";
import { type GenerationJob, jobIdOf, type QueuedJob } from "../job.ts";
import type { JobQueue, Queued } from "../ports.ts";
import { eventStreamSettings, jobStatesOf, restoreEventStreamSettings } from "./bullmq-internals.ts";

const jobName = "generation";
const priority = 1;
/** The part of the free slots that one job may take. */
const freeSlotsShare = 1 / 16;

/** A queue that operators may inspect. */
export interface RedisJobQueue extends JobQueue {
  /** For the inspection page only: one for each part. */
  readonly bulls: readonly Queue[];
}

/** `redis` is a connection for the purpose `request`; the caller closes it. */
export async function openJobQueue(
  name: string,
  redis: Redis,
  keyspace: Keyspace,
  onError: (error: Error) => void,
): Promise<RedisJobQueue> {
  const queue = await unhurried(redis, async () => {
    const opened = new Queue(name, {
      connection: redis,
      prefix: keyspace.queuePrefix(name),
      skipWaitingForReady: true,
      streams: eventStreamSettings,
      defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1, priority },
    });
    opened.on("error", onError);
    await opened.waitUntilReady();
    return opened;
  });
  let gathered: Queued[] = [];
  let busy = false;
  let freeSlots = 0;
  let freeSlotsAt = 0;

  const flush = async () => {
    while (gathered.length > 0) {
      const sizeMax =
        performance.now() - freeSlotsAt > freeSlotsLifeMs
          ? 1
          : Math.max(1, Math.min(generationsPerJobMax, Math.floor(freeSlots * freeSlotsShare)));
      const members: Queued[] = [];
      const jobs: BulkJob[] = [];
      for (let characters = 0; jobs.length < bulkJobsMax && characters < bulkCharactersMax && gathered.length > 0; ) {
        const some = gathered.splice(0, fittingIn(gathered, sizeMax));
        for (const queued of some) characters += charactersOf(queued);
        members.push(...some);
        jobs.push(bulkJobOf(some));
      }
      try {
        const [first, ...others] = jobs as [BulkJob, ...BulkJob[]];
        if (others.length === 0) await queue.add(first.name, first.data, first.opts);
        else await queue.addBulk(jobs);
      } catch (error) {
        const refused = isRefusal(error);
        for (const { failed } of refused ? members : [...members, ...gathered.splice(0)]) failed(refused);
      }
    }
    busy = false;
  };

  /** Writes the job's data without the generations that left, including those that left during an earlier call. */
  const withdraw = async (id: string, left: ReadonlySet<string>) => {
    const job = (await queue.getJob(id)) as Job<QueuedJob> | undefined;
    if (job !== undefined)
      await job.updateData({
        generations: job.data.generations.filter((generation) => !left.has(jobIdOf(generation))),
      });
  };

  return {
    name,
    bulls: [queue],
    add(generation, failed) {
      const queued: Queued = { id: jobIdOf(generation), failed, generation, job: undefined };
      if (redis.status !== "ready") {
        queueMicrotask(() => failed(false));
        return queued;
      }
      gathered.push(queued);
      if (!busy) {
        busy = true;
        setImmediate(flush);
      }
      return queued;
    },
    async remove(queued) {
      const { job } = queued;
      if (job === undefined) gathered = gathered.filter((other) => other !== queued);
      if (job === undefined || redis.status !== "ready") return;
      job.left.add(queued.id);
      try {
        if (job.left.size === job.size) await queue.remove(job.id);
        else await withdraw(job.id, job.left);
      } catch {
        // The job is active or gone. A worker that runs it asks the owner.
      }
    },
    async statesOf(all) {
      const states = await jobStatesOf(queue, redis, new Set(all.flatMap((queued) => queued?.job?.id ?? [])));
      return all.map((queued) => states.get(queued?.job?.id ?? "") ?? "missing");
    },
    async depth() {
      const { prioritized = 0, active = 0 } = await queue.getJobCounts("prioritized", "active");
      return { waiting: prioritized, active };
    },
    restoreSettings: () => restoreEventStreamSettings(queue, redis),
    setFreeSlots(slots) {
      freeSlots = slots;
      freeSlotsAt = performance.now();
    },
    async close() {
      gathered = [];
      await queue.close();
    },
  };
}

/** How many of the first generations go into one job. */
function fittingIn(gathered: readonly Queued[], sizeMax: number): number {
  let characters = charactersOf(gathered[0] as Queued);
  let count = 1;
  while (count < Math.min(sizeMax, gathered.length)) {
    characters += charactersOf(gathered[count] as Queued);
    if (characters > jobCharactersMax) break;
    count++;
  }
  return count;
}

const charactersOf = ({ generation }: Queued): number =>
  (generation?.body?.length ?? 0) + (generation?.delivered?.length ?? 0);

interface BulkJob {
  name: string;
  data: QueuedJob;
  opts: { jobId: string };
}

function bulkJobOf(members: readonly Queued[]): BulkJob {
  const generations = members.map(({ generation }) => generation as GenerationJob);
  const job = { id: (members[0] as Queued).id, size: members.length, left: new Set<string>() };
  for (const member of members) {
    member.job = job;
    member.generation = undefined;
  }
  return { name: jobName, data: { generations }, opts: { jobId: job.id } };
}
