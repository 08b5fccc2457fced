/**
 * The relay's dependencies: a transport for frames, and queues for jobs. `redis/` implements both
 * with Redis pub/sub and BullMQ.
 */
import type { Frame, Urgency } from "./frame.ts";
import type { GenerationJob, WrittenJob } from "./job.ts";
import type { JobState } from "./owner.ts";

export interface TransportHandlers {
  /** An envelope arrived. Its frames follow through `receive`. */
  heard(sender: string): void;
  receive(sender: string, frame: Frame): void;
  /** The subscription is restored after the connection was lost. */
  resubscribed(): void;
  /** An envelope reached no process: the one with this mailbox is gone, or has no link to Redis. */
  unreachable(mailbox: string): void;
}

export interface TransportStatistics {
  publishes: number;
  publishFailures: number;
  framesSent: number;
  framesReceived: number;
  /** Envelopes that this process cannot read. */
  unreadableEnvelopes: number;
  /** Milliseconds of the last round trip of a PUBLISH. */
  roundTripMs: number;
}

/**
 * A process's own mailbox, and access to all other mailboxes. Unreliable: the owner and the runner
 * compensate for losses.
 */
export interface Transport {
  /** This process's name: the sender of its envelopes, and the address of its mailbox. */
  readonly self: string;
  /** Whether it can send and receive now. */
  readonly isConnected: boolean;
  readonly statistics: Readonly<TransportStatistics>;
  /** Starts to receive. Call it once; resolves when the subscription is up. */
  listen(handlers: TransportHandlers): Promise<void>;
  send(mailbox: string, frame: Frame, urgency?: Urgency): void;
  /**
   * Sends an envelope even without frames. A heartbeat to `self` also checks the subscription and
   * that Redis accepts writes.
   */
  heartbeat(mailbox: string): void;
  /** Settles when everything sent before has left, or after a second. */
  close(): Promise<void>;
}

/**
 * `isRefused`: Redis answered and refused this job alone. Otherwise the outcome is unknown, and
 * other jobs are likely to share it.
 */
export type Failed = (isRefused: boolean) => void;

/** A generation on its way to a worker. */
export interface Queued {
  readonly id: string;
  readonly failed: Failed;
  /** Undefined once it is on the queue. */
  generation: WrittenJob | undefined;
  /** The job that it is a part of; undefined until it is on the queue. */
  job: { readonly id: string; readonly size: number; readonly left: Set<string> } | undefined;
}

/** The producer's end of a queue. */
export interface JobQueue {
  readonly name: string;
  /** The names of the queues in Redis that it consists of. */
  readonly parts: readonly string[];
  /**
   * Puts a generation on the queue, together with the others of this turn of the event loop. Calls
   * `failed` when the queue refused it or the outcome is unknown; an unknown outcome also fails
   * what was added since, so that no caller waits for more than one timeout.
   */
  add(generation: WrittenJob, failed: Failed): Queued;
  /**
   * Removes a generation that still waits on the queue; does nothing to one that is active. Never
   * throws.
   */
  remove(queued: Queued): Promise<void>;
  /**
   * The states of these generations' jobs, in order; `missing` if it is not on the queue. Rejects
   * while Redis is away.
   */
  statesOf(all: readonly (Queued | undefined)[]): Promise<JobState[]>;
  /**
   * How many jobs wait and how many are active, over all processes. Rejects while Redis is away.
   */
  depth(): Promise<{ waiting: number; active: number }>;
  /**
   * Writes the queue's settings again, in case Redis lost its data. Rejects while Redis is away.
   */
  restoreSettings(): Promise<unknown>;
  /** A worker took this generation. Generations that no worker takes wake workers in reserve. */
  taken(queued: Queued): void;
  /** Reports how many slots a worker has free. */
  setFreeSlots(slots: number): void;
  close(): Promise<void>;
}

/** A slot for one generation at a worker, from the fetch until `release`. */
export interface JobSlot {
  readonly queue: string;
  readonly job: GenerationJob;
  /** How many slots are free beside it. */
  readonly freeSlots: number;
  /**
   * Ends the dispatch of this generation. With the last generation of its job, the job leaves the
   * queue. Call it once.
   */
  dispatched(): void;
  /** Frees the slot. Call it once, after `dispatched`. */
  release(): void;
}

/** The consumer's end of a queue. */
export interface JobWorker {
  readonly name: string;
  readonly capacity: number;
  readonly usedSlots: number;
  /** How many slots were ever freed. */
  readonly freedSlots: number;
  start(): void;
  /** Takes jobs if it may again. Call it when `freeSlots` or `isReserve` may have changed. */
  resume(): void;
  /** Takes no further job. Settles when no fetch is under way, or after 2.5 s without Redis. */
  stop(): Promise<void>;
  /**
   * Closes the connections. Call it after `stop` and the last `release`, unless running attempts do
   * not matter.
   */
  close(): Promise<void>;
}

/** A worker of a queue in several parts. */
export interface SplitWorker extends JobWorker {
  /** Opens and starts missing parts. Parts beyond `parts` stay open: jobs may still wait there. */
  openParts(parts: number): Promise<void>;
}

/** A process's announcement about a queue. */
export interface SlotAnnouncement {
  /** Concurrent generations that a worker takes. */
  slots: number;
  /** The worker's slots in use, and those of them whose generations last longer than a moment. */
  usedSlots: number;
  lastingSlots: number;
  /** Generations that run for an ingress. */
  running: number;
  /** The slots and tokens of an ingress' keys (`textOfKeySlots`); undefined for a worker. */
  keySlots?: string;
  /** How long it is valid; `announcementLifeMs` by default. */
  lifeMs?: number;
}

export interface QueueLoad {
  /** Slots of all workers. */
  slots: number;
  usedSlots: number;
  lastingSlots: number;
  /** The workers whose names come before this process's name, and their slots. */
  workersBefore: number;
  slotsBefore: number;
  /** The other workers that have free slots, and the lasting slots of these. */
  openWorkers: number;
  openLastingSlots: number;
  /** Generations that run for other processes. */
  running: number;
  /** The announcements of other ingresses about their keys; only for an ingress. */
  keySlots?: readonly string[];
}

/**
 * The worker slots of all queues and their use. A process announces its own once a second, and less
 * often while the queue is idle; an announcement expires if its process stops renewing it.
 */
export interface SlotBoard {
  /**
   * Resolves with the load of the queue, as far as it concerns jobs of this process's protocol.
   * Rejects if Redis does not answer.
   */
  announce(queue: string, announcement: SlotAnnouncement): Promise<QueueLoad>;
  /** Withdraws the announcement of this process. Rejects if Redis does not answer. */
  withdraw(queue: string): Promise<void>;
  /**
   * Whether workers serve the queue that read jobs of the protocol before or after this process's.
   * Rejects if Redis does not answer.
   */
  hasOtherWorkers(queue: string): Promise<boolean>;
}
