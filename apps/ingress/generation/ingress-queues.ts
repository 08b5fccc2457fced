/**
 * The queues of one ingress: for each, its admission queue, which orders generations fairly before
 * their dispatch, and the bound on how many may wait.
 */
import type { KeyRecord } from "#access/record.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { AdmissionQueue } from "#relay/admission-queue.ts";
import { idleReadHeartbeats } from "#relay/bounds.ts";
import { keySlotsIn, noKeySlots, textOfKeySlots } from "#relay/key-slots.ts";
import type { JobQueue, SlotBoard } from "#relay/ports.ts";
import type { Clock } from "#service/clock.ts";
import { isRefusal } from "#service/redis.ts";
import { Capacity, type Claim } from "../common/capacity.ts";
import { overloadOf } from "../common/failures.ts";
import type { Result } from "../common/refusal.ts";

/**
 * Which workers serve a queue: ones that run this process's jobs, none, or only ones of another
 * protocol; unknown at first.
 */
export type ServingWorkers = "unknown" | "some" | "none" | "other";

export interface IngressQueue {
  readonly jobs: JobQueue;
  /** Its items are the numbers of generations. */
  readonly admission: AdmissionQueue<number>;
  /**
   * The generations that wait for a worker. Its maximum is set with every request, from the
   * catalogue.
   */
  readonly waiting: Capacity;
  /**
   * Since when commands to the queue's keys in Redis fail; undefined while they work. Meanwhile its
   * generations wait here.
   */
  awaySince: number | undefined;
  workers: ServingWorkers;
  /** Generations that ran when the slots were last shared. */
  announcedRunning: number;
  /** How many heartbeats ago the slots were last shared. */
  heartbeatsAgo: number;
}

export interface IngressQueuesOptions {
  /** The open queues; the catalogue may add some later. */
  jobQueues: ReadonlyMap<string, JobQueue>;
  slotBoard: SlotBoard;
  clock: Clock;
}

export class IngressQueues {
  readonly #options: IngressQueuesOptions;
  readonly #queues = new Map<string, IngressQueue>();

  constructor(options: IngressQueuesOptions) {
    this.#options = options;
  }

  /** Undefined for a queue that is not open. */
  of(name: string): IngressQueue | undefined {
    const usedQueue = this.#queues.get(name);
    if (usedQueue !== undefined) return usedQueue;
    const jobs = this.#options.jobQueues.get(name);
    if (jobs === undefined) return undefined;
    const queue: IngressQueue = {
      jobs,
      admission: new AdmissionQueue<number>(),
      waiting: new Capacity(0, { own: 1 }),
      awaySince: undefined,
      workers: "unknown",
      announcedRunning: 0,
      heartbeatsAgo: idleReadHeartbeats,
    };
    this.#queues.set(name, queue);
    return queue;
  }

  /** The bound on waiting generations by queue, of the queues that any generation has used. */
  get waiting(): [queue: string, Capacity][] {
    return [...this.#queues].filter(([, { waiting }]) => waiting.max > 0).map(([name, { waiting }]) => [name, waiting]);
  }

  /** Every open queue. */
  get all(): IngressQueue[] {
    return [...this.#options.jobQueues.keys()].map((name) => this.of(name) as IngressQueue);
  }

  /**
   * Whether the slots of the queue should be shared with this heartbeat: always while the queue has
   * generations of this ingress or waits for workers of its protocol, now and then otherwise.
   */
  isShareDue(queue: IngressQueue): boolean {
    const { admission, waiting, announcedRunning, workers } = queue;
    const isIdle = admission.runningSize === 0 && waiting.used === 0 && announcedRunning === 0;
    return ++queue.heartbeatsAgo >= idleReadHeartbeats || !isIdle || workers === "other";
  }

  /**
   * Shares the workers' slots with the other ingresses. While Redis does not report a queue's
   * slots, its keys do not share them. Resolves to a change: the queue's keys are available again,
   * or not any more.
   */
  async share(queue: IngressQueue): Promise<"back" | "away" | undefined> {
    const { slotBoard, clock } = this.#options;
    const { jobs, admission } = queue;
    const since = clock.now();
    const running = admission.runningSize;
    queue.heartbeatsAgo = 0;
    queue.announcedRunning = running;
    try {
      const keySlots = textOfKeySlots(admission.keySlots);
      const announcement = { slots: 0, usedSlots: 0, lastingSlots: 0, running, keySlots };
      const load = await slotBoard.announce(jobs.name, announcement);
      admission.slots = load.slots === 0 ? undefined : load.slots - load.running;
      admission.setElsewhere(keySlotsIn(load.keySlots ?? []), clock.now());
      if (load.slots > 0) queue.workers = "some";
      else queue.workers = (await slotBoard.hasOtherWorkers(jobs.name)) ? "other" : "none";
      const wasAway = queue.awaySince !== undefined;
      queue.awaySince = undefined;
      return wasAway ? "back" : undefined;
    } catch (error) {
      admission.slots = undefined;
      admission.setElsewhere(noKeySlots, clock.now());
      if (isRefusal(error) || queue.awaySince !== undefined) return undefined;
      queue.awaySince = since;
      return "away";
    }
  }
}

/** Seconds after which a caller that the queue can't serve now should try again. */
export const retryAfterSecondsOf = ({ admission, waiting }: IngressQueue, now: number): number =>
  admission.retryAfterSeconds(waiting.used, now);

/** A slot among all generations, and one among those that wait on a queue. */
export interface GenerationSlots {
  all: Claim;
  waiting: Claim;
}

/** A refused request keeps neither slot. */
export function claimSlots(
  { id }: Pick<KeyRecord, "id">,
  queue: IngressQueue,
  { slots, events, clock }: { slots: Capacity; events: EventSink<IngressEvents>; clock: Clock },
): Result<GenerationSlots> {
  const all = slots.claim(id);
  const waiting = queue.waiting.claim(id);
  for (const [limit, claim] of [
    ["generations", all],
    ["waiting", waiting],
  ] as const) {
    const shortage = claim.hold(1);
    if (shortage === undefined) continue;
    all.end();
    return overloadOf(events, shortage, {
      limit,
      keyId: id,
      retryAfterSeconds: retryAfterSecondsOf(queue, clock.now()),
    });
  }
  return { all, waiting };
}
