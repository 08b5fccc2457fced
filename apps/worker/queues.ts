/**
 * The queues from which a worker takes jobs: those of its command line that the catalogue names.
 */

import type { Logger } from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { announcementLifeMs, idleAnnouncementHeartbeats, idleAnnouncementLifeMs } from "#relay/bounds.ts";
import type { JobSlot, JobWorker, SlotBoard, SplitWorker } from "#relay/ports.ts";
import { queueCheckMs, reserveFactor, reserveSlots } from "./bounds.ts";
import { capacitiesOf } from "./config.ts";
import type { WorkerRedis } from "./redis.ts";

export interface WorkerQueuesDeps {
  /** Queues and their capacities, as the command line gives them. */
  capacities: ReadonlyMap<string, number>;
  catalogue(): Catalogue;
  connections: Pick<WorkerRedis, "queueWorkerOf">;
  slotBoard: SlotBoard;
  log: Logger;
  isReady(): boolean;
  isPaused(queue: string): boolean;
  /** Generations that this process takes at most, on all queues. */
  limit(): number;
  /**
   * Whether the limit is what this process can bear. Otherwise the limit grows as far as it is
   * used.
   */
  isBusy(): boolean;
  take(slot: JobSlot): void;
  onRedisError(error: Error): void;
}

/** The last announcement about a queue, and the load that came back. */
interface Announced {
  slots: number;
  /** The used slots of all workers, this one included. */
  usedSlots: number;
  /** It is valid until the next one of an idle worker. */
  isIdle: boolean;
  heartbeatsAgo: number;
}

export class WorkerQueues {
  readonly #deps: WorkerQueuesDeps;
  readonly #announced = new Map<JobWorker, Announced>();
  readonly #opened: SplitWorker[] = [];
  /** The queues for which other workers have slots enough. */
  readonly #inReserve = new Set<string>();
  /** The queues on which other workers have free slots. */
  readonly #shared = new Set<string>();
  #check: NodeJS.Timeout | undefined;
  #isStopping = false;

  constructor(deps: WorkerQueuesDeps) {
    this.#deps = deps;
  }

  /** The queues that this worker serves now. */
  get opened(): readonly JobWorker[] {
    return this.#opened;
  }

  /** The generations of all queues. */
  get usedSlots(): number {
    return this.#opened.reduce((sum, { usedSlots }) => sum + usedSlots, 0);
  }

  /** The rest of the limit. */
  get #freeSlots(): number {
    return this.#deps.limit() - this.usedSlots;
  }

  /** Generations of a queue that this process takes now, and those of them that it has. */
  slotsOf({ capacity, usedSlots }: JobWorker): number {
    return Math.max(usedSlots, Math.min(capacity, usedSlots + this.#freeSlots));
  }

  isInReserve(queue: string): boolean {
    return this.#inReserve.has(queue);
  }

  /** Takes jobs as far as the limit allows now. */
  resume(): void {
    for (const queue of this.#opened) queue.resume();
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /**
   * Takes jobs from every queue, and from those that the catalogue names later. Rejects with a
   * StartupFault without Redis.
   */
  async start(): Promise<void> {
    await this.#openMissing();
    this.#checkLater();
  }

  /**
   * Tells the ingresses how many slots each queue has here. Call it with every heartbeat: an
   * announcement lapses. While nobody uses a queue, its announcement is renewed less often.
   */
  announce(): void {
    if (!this.#isStopping) for (const queue of this.#opened) this.#announce(queue);
  }

  /** Redis may have lost the announcements: the next heartbeat repeats all of them. */
  announceAnew(): void {
    this.#announced.clear();
  }

  /** Takes no more jobs. Settles when no fetch is under way. A second call does nothing. */
  async stop(): Promise<void> {
    if (this.#isStopping) return;
    const { slotBoard, onRedisError } = this.#deps;
    this.#isStopping = true;
    clearTimeout(this.#check);
    for (const { name } of this.#opened) slotBoard.withdraw(name).catch(onRedisError);
    await Promise.all(this.#opened.map((queue) => queue.stop()));
  }

  /** Closes the connections. Call `stop` first. */
  async close(): Promise<void> {
    await Promise.all(this.#opened.map((queue) => queue.close()));
  }

  /** A queue that left the catalogue stays open, because jobs may still wait on it. */
  async #openMissing(): Promise<void> {
    const {
      capacities,
      catalogue,
      connections,
      log,
      isReady,
      isPaused: isPausedQueue,
      take,
      onRedisError,
    } = this.#deps;
    for (const [name, capacity] of capacitiesOf(capacities, catalogue().queues.keys())) {
      const parts = catalogue().queues.get(name)?.parts ?? 1;
      const opened = this.#opened.find((queue) => queue.name === name);
      if (opened !== undefined) {
        await opened.openParts(parts);
        continue;
      }
      const options = {
        name,
        capacity,
        isReady,
        isPaused: () => isPausedQueue(name),
        freeSlots: () => this.#freeSlots,
        isReserve: () => this.#inReserve.has(name) || (this.#deps.isBusy() && this.#shared.has(name)),
        take,
        onError: onRedisError,
      };
      const queue = connections.queueWorkerOf(options);
      await queue.openParts(parts);
      if (this.#isStopping) return queue.close();
      this.#opened.push(queue);
      this.#announce(queue);
      if (catalogue().queues.has(name)) log.info({ queue: name, capacity }, "works on a queue");
      else log.warn({ queue: name, capacity }, "works on a queue that the catalogue does not name");
    }
  }

  #checkLater(): void {
    if (this.#isStopping) return;
    this.#check = setTimeout(async () => {
      await this.#openMissing().catch(this.#deps.onRedisError);
      this.#checkLater();
    }, queueCheckMs);
  }

  #announce(queue: JobWorker): void {
    const { slotBoard, isBusy, onRedisError } = this.#deps;
    const { name, usedSlots, capacity } = queue;
    // A limit that still grows must not hold back the ingresses, which hear of it only every
    // second.
    const slots = isBusy() ? this.slotsOf(queue) : capacity;
    const last = this.#announced.get(queue);
    const isIdle = usedSlots === 0 && last?.usedSlots === 0 && last.slots === slots;
    // The first of these announcements follows at once, because the life of the last one is short.
    if (isIdle && last.isIdle && ++last.heartbeatsAgo < idleAnnouncementHeartbeats) return;
    const lifeMs = isIdle ? idleAnnouncementLifeMs : announcementLifeMs;
    slotBoard.announce(name, { slots, usedSlots, running: 0, lifeMs }).then(
      (load) => {
        this.#announced.set(queue, { slots, usedSlots: load.usedSlots, isIdle, heartbeatsAgo: 0 });
        if (load.slots - slots > load.usedSlots - usedSlots) this.#shared.add(name);
        else this.#shared.delete(name);
        if (load.slotsBefore >= load.usedSlots * reserveFactor + reserveSlots) this.#inReserve.add(name);
        else if (this.#inReserve.delete(name)) queue.resume();
      },
      (error: Error) => {
        this.#announced.delete(queue);
        onRedisError(error);
      },
    );
  }
}
