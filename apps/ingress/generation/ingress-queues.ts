/**
 * The queues of one ingress: for each, its admission queue, which orders generations fairly before
 * their dispatch, and the bound on how many may wait.
 */
import { AdmissionQueue } from "#relay/admission-queue.ts";
import type { JobQueue, SlotBoard } from "#relay/ports.ts";
import type { Clock } from "#service/clock.ts";
import { isRefusal } from "#service/redis.ts";
import { redisTryEveryMs } from "../common/bounds.ts";
import { Capacity } from "../common/capacity.ts";

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
}

export interface IngressQueuesOptions {
  /** The open queues; the catalogue may add some later. */
  jobQueues: ReadonlyMap<string, JobQueue>;
  slotBoard: SlotBoard;
  clock: Clock;
  /**
   * True if jobs can be dispatched to an available queue. Otherwise generations stay in their
   * admission queue.
   */
  isOpen(): boolean;
  /** A queue is available again. */
  onAvailable(): void;
  /** A generation left its admission queue. */
  dispatch(number: number): void;
}

export class IngressQueues {
  readonly #options: IngressQueuesOptions;
  readonly #queues = new Map<string, IngressQueue>();

  constructor(options: IngressQueuesOptions) {
    this.#options = options;
  }

  /** Undefined for a queue that is not open. */
  of(name: string): IngressQueue | undefined {
    const known = this.#queues.get(name);
    if (known !== undefined) return known;
    const { jobQueues, isOpen, dispatch } = this.#options;
    const jobs = jobQueues.get(name);
    if (jobs === undefined) return undefined;
    const queue: IngressQueue = {
      jobs,
      admission: new AdmissionQueue<number>({
        isOpen: () => queue.awaySince === undefined && isOpen(),
        release: dispatch,
      }),
      waiting: new Capacity(0, { own: 1 }),
      awaySince: undefined,
    };
    this.#queues.set(name, queue);
    return queue;
  }

  /** The bound on waiting generations by queue, of the queues that any generation has used. */
  get waiting(): [queue: string, Capacity][] {
    return [...this.#queues].filter(([, { waiting }]) => waiting.max > 0).map(([name, { waiting }]) => [name, waiting]);
  }

  /**
   * Shares the workers' slots with the other ingresses, and dispatches what is possible. Call it
   * with every heartbeat.
   */
  tick(now: number): void {
    for (const queue of this.#queues.values()) {
      void this.#shareSlots(queue);
      queue.admission.pump(now);
    }
  }

  /** Every open queue. */
  get all(): IngressQueue[] {
    return [...this.#options.jobQueues.keys()].map((name) => this.of(name) as IngressQueue);
  }

  /**
   * A command of the time `since` to the queue's keys failed, and might have worked. It is tried
   * several times a second whether one works again.
   */
  away(queue: IngressQueue, since: number): void {
    if (queue.awaySince !== undefined) return;
    queue.awaySince = since;
    this.#tryAgain(queue);
  }

  #tryAgain(queue: IngressQueue): void {
    setTimeout(async () => {
      await this.#shareSlots(queue);
      if (queue.awaySince !== undefined) this.#tryAgain(queue);
    }, redisTryEveryMs).unref();
  }

  /** While Redis does not report a queue's slots, its keys do not share them. */
  async #shareSlots(queue: IngressQueue): Promise<void> {
    const { slotBoard, clock, onAvailable } = this.#options;
    const { jobs, admission } = queue;
    const since = clock.now();
    try {
      const announcement = { slots: 0, usedSlots: 0, running: admission.runningSize };
      const { slots, running } = await slotBoard.announce(jobs.name, announcement);
      admission.setSlots(slots === 0 ? undefined : slots - running);
    } catch (error) {
      admission.setSlots(undefined);
      if (!isRefusal(error)) this.away(queue, since);
      return;
    }
    if (queue.awaySince === undefined) return;
    queue.awaySince = undefined;
    onAvailable();
    admission.pump(clock.now());
  }
}

/** Seconds after which a caller that the queue can't serve now should try again. */
export const retryAfterSecondsOf = ({ admission, waiting }: IngressQueue, now: number): number =>
  admission.retryAfterSeconds(waiting.used, now);
