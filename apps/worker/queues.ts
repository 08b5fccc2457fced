/**
 * The queues from which a worker takes jobs: those of its command line that the catalogue names.
 */

import type { Logger } from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { announcementLifeMs, idleAnnouncementHeartbeats, idleAnnouncementLifeMs } from "#relay/bounds.ts";
import type { JobSlot, JobWorker, QueueLoad, SlotBoard, SplitWorker } from "#relay/ports.ts";
import {
  briefMs,
  queueCheckMs,
  reserveFactor,
  reserveShareMin,
  reserveSlots,
  shareMin,
  shareRefreshMs,
} from "./bounds.ts";
import { capacitiesOf } from "./config.ts";
import type { WorkerRedis } from "./redis.ts";

export interface WorkerQueuesDeps {
  /** Queues and their capacities, as the command line gives them. */
  capacities: ReadonlyMap<string, number>;
  /** Its share of a queue, as a multiple of what would be fair. */
  shareFactor: number;
  now(): number;
  catalogue(): Catalogue;
  openQueue(options: Parameters<WorkerRedis["queueWorkerOf"]>[0]): SplitWorker;
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
  /** The other workers that have free slots, and the lasting slots of these. */
  openWorkers: number;
  openLastingSlots: number;
  /** How many slots its generations use that end within a moment. */
  briefSlots: number;
  freedSlots: number;
  at: number;
  /** Workers that started together do not know each other yet. */
  isFirst: boolean;
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

  /** Whether other workers have free slots, as of the last announcement. */
  #isShared(queue: JobWorker): boolean {
    return (this.#announced.get(queue)?.openWorkers ?? 0) > 0;
  }

  /**
   * As of the last announcement. Infinite where no other worker has free slots, and while the
   * generations end within a moment. The fair share is the mean of the workers that have free
   * slots. The numbers of their slots do not count, because each depends on how busy its worker was
   * when it announced them.
   */
  #shareLeftOf(queue: JobWorker): number {
    const { usedSlots } = queue;
    const last = this.#announced.get(queue);
    if (last === undefined || last.isFirst) return shareMin - usedSlots;
    const lasting = Math.max(0, usedSlots - last.briefSlots);
    if (!this.#isShared(queue) || (lasting === 0 && usedSlots > 0)) return Number.POSITIVE_INFINITY;
    const fairShare = (last.openLastingSlots + lasting) / (last.openWorkers + 1);
    return Math.max(shareMin, Math.floor(this.#deps.shareFactor * fairShare)) - lasting;
  }

  /** Others may have come, or have more than at the last announcement. */
  async #refreshShare(queue: JobWorker): Promise<void> {
    if (this.#isStopping || queue.usedSlots < shareMin) return;
    const at = this.#announced.get(queue)?.at ?? Number.NEGATIVE_INFINITY;
    if (this.#deps.now() - at > shareRefreshMs) await this.#announce(queue);
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
    if (!this.#isStopping) for (const queue of this.#opened) this.#announceChanges(queue);
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
    const { capacities, catalogue, openQueue, log, isReady, isPaused: isPausedQueue, take, onRedisError } = this.#deps;
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
        isReserve: () => this.#inReserve.has(name) || (this.#deps.isBusy() && this.#isShared(queue)),
        isBusy: () => this.#deps.isBusy(),
        shareLeft: () => this.#shareLeftOf(queue),
        refreshShare: () => this.#refreshShare(queue),
        take,
        onError: onRedisError,
      };
      const queue = openQueue(options);
      await queue.openParts(parts);
      if (this.#isStopping) return queue.close();
      this.#opened.push(queue);
      void this.#announce(queue);
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

  /**
   * Whether the workers before this one take all: each its share of those that last, and all that
   * end within a moment.
   */
  #isReserve({ slots, usedSlots, lastingSlots, workersBefore, slotsBefore }: QueueLoad): boolean {
    const shares = this.#deps.shareFactor * lastingSlots * (slots === 0 ? 0 : slotsBefore / slots);
    const brief = (usedSlots - lastingSlots) * reserveFactor;
    const takenBefore = Math.min(slotsBefore, Math.max(workersBefore * reserveShareMin, shares) + brief);
    return takenBefore >= usedSlots * reserveFactor + reserveSlots;
  }

  /** How many slots the generations use that end within a moment, by those that just ended. */
  #briefSlotsOf({ freedSlots }: JobWorker, last: Announced | undefined): number {
    if (last === undefined) return 0;
    const perMs = (freedSlots - last.freedSlots) / Math.max(1, this.#deps.now() - last.at);
    return Math.round(perMs * briefMs);
  }

  /** Announces the slots of a queue, unless nothing is new. */
  #announceChanges(queue: JobWorker): void {
    const last = this.#announced.get(queue);
    const isIdle = queue.usedSlots === 0 && last?.usedSlots === 0 && last.slots === this.#announcedSlotsOf(queue);
    // The first of these announcements follows at once, because the life of the last one is short.
    if (isIdle && last.isIdle && ++last.heartbeatsAgo < idleAnnouncementHeartbeats) return;
    void this.#announce(queue, isIdle);
  }

  /**
   * A limit that still grows must not hold back the ingresses, which hear of it only every second.
   */
  #announcedSlotsOf(queue: JobWorker): number {
    return this.#deps.isBusy() ? this.slotsOf(queue) : queue.capacity;
  }

  /** Never rejects. */
  async #announce(queue: JobWorker, isIdle = false): Promise<void> {
    const { slotBoard, onRedisError, now } = this.#deps;
    const { name, usedSlots, freedSlots } = queue;
    const slots = this.#announcedSlotsOf(queue);
    const briefSlots = this.#briefSlotsOf(queue, this.#announced.get(queue));
    const lastingSlots = Math.max(0, usedSlots - briefSlots);
    const lifeMs = isIdle ? idleAnnouncementLifeMs : announcementLifeMs;
    const isFirst = !this.#announced.has(queue);
    const own = { slots, briefSlots, freedSlots, at: now(), isFirst, isIdle, heartbeatsAgo: 0 };
    try {
      const load = await slotBoard.announce(name, { slots, usedSlots, lastingSlots, running: 0, lifeMs });
      const { openWorkers, openLastingSlots } = load;
      this.#announced.set(queue, { ...own, usedSlots: load.usedSlots, openWorkers, openLastingSlots });
      if (this.#isReserve(load)) this.#inReserve.add(name);
      else if (this.#inReserve.delete(name)) queue.resume();
    } catch (error) {
      this.#announced.delete(queue);
      onRedisError(error as Error);
    }
  }
}
