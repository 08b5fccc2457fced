/** Timeouts and sizes of the relay. All processes must use the same values. */
export interface RelayBounds {
  /**
   * The interval of heartbeats, to the process itself and to every mailbox with which it shares
   * live generations.
   */
  heartbeatMs: number;
  /**
   * A process that is silent for this long, while the listener's own link is up, is dead. A process
   * that was frozen for longer drops everything it runs.
   */
  graceMs: number;
  /**
   * An owner that was heard within this time is alive: a worker may start its attempts before `go`.
   */
  aliveMs: number;
  /** How long a process keeps its generations while its own link is down. */
  downMs: number;
  /**
   * The longest delay of an acknowledgement while more frames arrive. The sender keeps frames until
   * then.
   */
  ackMs: number;
  /** The most bytes of one generation that were sent and that the caller has not read. */
  windowBytes: number;
  /**
   * The most bytes on the way to one mailbox that are not acknowledged as arrived. A frame waits
   * behind those that were sent before it, so this bounds the delay that large answers cause for
   * small ones.
   */
  mailboxWindowBytes: number;
  /** The shortest time between two requests to resend the same frames. */
  missingRetryMs: number;
  /**
   * How long a generation waits before its owner asks the queue for its state, and between two such
   * requests.
   */
  probeMs: number;
  /** How many states an owner requests at a time. */
  probesMax: number;
  /** How many workers may be lost over one generation before it fails. */
  runsMax: number;
  /**
   * How long an owner remembers a finished generation, to answer a worker that missed the end.
   * Longer than `downMs`.
   */
  rememberMs: number;
}

export const relayBounds: RelayBounds = {
  heartbeatMs: 1_000,
  graceMs: 5_000,
  aliveMs: 1_000,
  downMs: 30_000,
  ackMs: 200,
  windowBytes: 1 << 20,
  mailboxWindowBytes: 2 << 20,
  missingRetryMs: 300,
  probeMs: 2_000,
  probesMax: 64,
  runsMax: 3,
  rememberMs: 35_000,
};

/**
 * The most payload bytes of one frame. A large answer is many frames, so that small answers never
 * wait long behind it.
 */
export const payloadBytesMax = 64 * 1024 - 64;
/**
 * Bytes of one message of a session, in either direction: OpenAI accepts audio of 15 MB in one
 * event.
 */
export const sessionMessageBytesMax = 16 << 20;
/** The largest Retry-After of a full queue; queues change quickly. */
export const retryAfterSecondsMax = 60;
/** Characters of a body's content type; more than any client sends. */
export const contentTypeLengthMax = 500;
/** Generations of one job: a worker takes a job whole, and may exceed its capacity by the rest. */
export const generationsPerJobMax = 16;
/** Characters of the bodies of one job together. */
export const jobCharactersMax = 64 * 1024;
/** A body up to this size is part of its job; a larger one has its own key in Redis. */
export const jobBodyBytesMax = 32 * 1024;
/** Bytes of an answer that another attempt may resume; a longer answer is not resumed. */
export const deliveredBytesMax = 1 << 20;
/** Owners without work that a worker remembers, so that their next job can start immediately. */
export const idleOwnersMax = 1_000;
/** Bytes of one PUBLISH, unless a single frame is larger. */
export const envelopeBytesMax = 256 * 1024;
/**
 * Bytes that gather for one mailbox. More is dropped, as if lost on the wire, and requested again.
 */
export const gatheredBytesMax = 32 << 20;
/**
 * After an envelope with so many frames the next one to the same mailbox waits for so long: more
 * frames share it then. No envelope waits that has this many bytes.
 */
export const busyFramesMin = 8;
export const busyFramesMs = 1;
export const busyBytesMax = 64 * 1024;
/**
 * The longest delay of a part of an answer after its first, of a process that sends to several
 * others, if an envelope left to the same one within this time.
 */
export const soonFrameMs = 8;
/** The longest delay of a frame that nobody waits for. */
export const idleFrameMs = 5;
/**
 * How long after this process' own subscription an envelope that reaches nobody says nothing: all
 * processes subscribe again when Redis is back.
 */
export const othersBackMs = 1_000;
/** A mailbox to which nothing was sent for so long is forgotten. */
export const quietMs = 60_000;
/** Jobs that one script adds. */
export const bulkJobsMax = 64;
/** Characters of these jobs before the last one. */
export const bulkCharactersMax = 1 << 20;
/** How long a worker's report of its free slots is valid. */
export const freeSlotsLifeMs = 1_000;
/** How long a job is locked after it was fetched. A dispatch ends well within this time. */
export const jobLockMs = 90_000;
/**
 * The most generations of jobs that are sent to a worker without another fetch, and how long after
 * the last one. Both bound what a frozen worker is sent.
 */
export const creditMax = 64;
export const creditLifeMs = 1_000;
/**
 * How old a sent job may be that its worker puts back. Less than `graceMs`, after which its owner
 * starts another attempt.
 */
export const putBackMsMax = 4_000;
/** Jobs that one fetch takes. */
export const fetchedJobsMax = 16;
/** How long a job that is over may stay on its queue, if no fetch takes it off earlier. */
export const completeMs = 100;
/** How soon a failed fetch is tried again. */
export const fetchRetryMs = 250;
/**
 * How long a job waits until its owner wakes all workers of the queue, also those in reserve, and
 * the longest time between two such calls while jobs still wait.
 */
export const wakeMs = 50;
export const wakeMsMax = 1_000;
/**
 * A worker that shares a queue with others reports so many free slots for each generation that its
 * share allows. An ingress puts a sixteenth of them into one job, so half of the rest at most.
 */
export const shareReportFactor = 8;
/** How long a worker above its share leaves the jobs of a queue to others. */
export const yieldMs = 5;
/** How long one fetch waits for a job. Shorter than `silenceMs` of a connection. */
export const fetchWaitSeconds = 3;
/** The same for a worker in reserve that has generations of the queue: it may be needed soon. */
export const reserveWaitSeconds = 0.05;
/**
 * How long the connection for blocked fetches may take to answer beyond that, or to be opened
 * again.
 */
export const fetchOverdueMs = 3_000;
/** How long a stop waits for fetches under way. While Redis is away they do not return. */
export const fetchesStopMs = 2_500;
/** An announcement of a queue's workers expires after this time. */
export const announcementLifeMs = 5_000;
/**
 * The announcements of a worker that has nothing to do and nothing new to say: every so many
 * heartbeats, each with this life.
 */
export const idleAnnouncementHeartbeats = 8;
export const idleAnnouncementLifeMs = 20_000;
/** How many heartbeats apart an ingress reads the slots of a queue that it does not use. */
export const idleReadHeartbeats = 10;
