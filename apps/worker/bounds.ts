/**
 * The worker's fixed bounds: sizes, counts and times. The bounds that an operator
 * sets are in `config.ts` and the catalogue, the relay's in `libs/relay/bounds.ts`. A name says the
 * unit; `Length` is in characters, and a name without a unit is a count.
 */

// Queues and attempts.
/**
 * The most concurrent generations of one queue that an operator may set: beyond it sockets and
 * memory end first.
 */
export const capacityMax = 100_000;
/** Generations that a process takes before it knows what they cost. */
export const intakeFirst = 256;
/**
 * Generations that a process takes however busy it is, so that work goes on when something else
 * keeps it busy.
 */
export const intakeMin = 32;
/** By how much the number of generations may grow between two measurements. */
export const intakeGrowth = 1.5;
/**
 * The share of the memory above which a process takes no more, and of the event loop above which it
 * leaves to others what they can take.
 */
export const intakeShareMax = 0.8;
/** By how much the number of generations may grow between two measurements of a busy event loop. */
export const intakeBusyGrowth = 1.25;
/** The mean turn of the event loop above which a process takes no more. */
export const intakeTurnMsMax = 40;
/**
 * The shares of the event loop above and below which the interval between two reads of a stream
 * grows and shrinks, by a step at each measurement. A shorter interval than the least saves nothing
 * and is taken as none.
 */
export const paceShareMax = 0.9;
export const paceShareMin = 0.6;
export const paceStepMs = 10;
export const paceMsMin = 20;
export const paceMsMax = 100;
/** Streams whose next read is due within this time are read together. */
export const paceTickMs = 15;
/** Bytes that do not wait for more of their stream. */
export const gatherBytesMax = 16 * 1024;
/** How often a process measures what it uses. */
export const intakeEveryMs = 100;
/** Open files are counted with every so many measurements, and with each where few are left. */
export const filesCountedEvery = 10;
/**
 * Workers are in reserve while those before them may take so many times the generations that run,
 * and this many more.
 */
export const reserveFactor = 1.3;
export const reserveSlots = 16;
/** Generations that each of the workers before takes, however few run. */
export const reserveShareMin = 48;
/** Generations of a queue that a worker takes however few run. */
export const shareMin = 16;
/**
 * Generations that end within this time do not count in a worker's share: few of them would be lost
 * with it, and they cost much less together.
 */
export const briefMs = 500;
/** How old a worker's knowledge of the other workers may be when it has used its share. */
export const shareRefreshMs = 100;
/** How often the catalogue is checked for new queues. */
export const queueCheckMs = 1_000;
/** How often timeouts are checked, so they are kept to within this. */
export const watchMs = 250;
/** How often a draining worker checks whether attempts are left. */
export const drainCheckMs = 20;
/**
 * Larger requests are not searched for what an error quotes, because the search takes a turn of the
 * event loop.
 */
export const searchedBytesMax = 1 << 20;
/**
 * How long a missing terminator, the rest of an error body, or the close of a connection whose
 * answer is complete is waited for.
 */
export const lingerMs = 2_000;
/**
 * White space before an answer. More than this counts as the answer itself, which is bounded by its
 * reader.
 */
export const leadingBytesMax = 1 << 20;

// Preparation.
/** Bytes of a large body that one command reads. */
export const bodyPartBytes = 1 << 20;
/** Bodies of several parts that a worker reads at once. The others wait in line. */
export const bodiesReadAtOnceMax = 2;
/** How long Redis may fail to give a part of a body, and how soon it is asked again. */
export const bodySilenceMsMax = 8_000;
export const bodyRetryMs = 250;
/** Characters of all settings together that go to a reader of answers. Some answers repeat them. */
export const settingsLengthMax = 256 * 1024;
/** Characters or elements of one setting that goes to a reader of answers. None needs more. */
export const settingLengthMax = 1_000;
/**
 * A request or an answer up to this size takes an event loop about 20 ms at most, whatever its
 * content. A larger one goes to a thread.
 */
export const preparedAtOnceBytesMax = 128 * 1024;
/**
 * How long a thread may take over one request, or over each part of an answer. The largest takes a
 * few seconds at most.
 */
export const taskTimeoutMs = 10_000;
/** Bytes of such a part. */
export const taskPartBytes = 32 << 20;

// Attachments.
/** All attachments of a request together; one that is named twice counts twice. */
export const allAttachmentsBytesMax = 50 << 20;
/** One attachment, so that a single one can't take most of a worker's memory for attachments. */
export const attachmentBytesMax = 20 << 20;
/** An attached text is written into its request in one step, and no model reads a longer one. */
export const textAttachmentBytesMax = 2 << 20;
/** Attachments that are fetched for one request, because each costs a call. */
export const attachmentsMax = 32;
/** Attachments of one request that are fetched at once. */
export const fetchesAtOnceMax = 4;
/** For all attachments of a request together. */
export const attachmentsTimeoutMs = 15_000;
/** How long the host of an attachment may take to accept a connection. */
export const attachmentConnectTimeoutMs = 5_000;
/** Redirects of one attachment's address. Each is a new address to check. */
export const redirectsMax = 3;
/** Reserved for an attachment of unknown size. */
export const guessedAttachmentBytes = 1 << 20;
/**
 * Connections to one host of attachments, so that no host serves all of a worker's requests at
 * once.
 */
export const hostConnectionsMax = 16;
/**
 * Bytes of a redirect's or an error's body that are read and discarded, so that the connection can
 * be used again.
 */
export const discardedAttachmentBytesMax = 16 * 1024;
/** How long the addresses of an upstream's host are cached. */
export const hostKnownMs = 30_000;
/** Hosts of upstreams whose addresses are cached. */
export const knownHostsMax = 1_000;
/**
 * Bytes of attachments after which other work has a turn: some milliseconds of reading, encoding
 * and writing.
 */
export const writtenAtOnceBytes = 1 << 20;

// Upstreams.
/** How long an upstream may take to show that it is reachable. */
export const presenceMs = 2_000;

/** The two calls of a test of an upstream: the list of models, and one short answer. */
export const testListMs = 10_000;
export const testAnswerMs = 40_000;
export const testListBytesMax = 8 << 20;
export const testAnswerBytesMax = 256 << 10;
export const testModelsMax = 5_000;
/** Characters of the vendor's words, and of its answer. */
export const testMessageLengthMax = 500;
/** Addresses at upstreams that are remembered as parsed. */
export const knownAddressesMax = 1_000;
/** How often the TLS files of an upstream are read anew, and the largest that is read. */
export const tlsFilesEveryMs = 1_000;
export const tlsFileBytesMax = 1 << 20;
/** Bytes of a response's head. Some upstreams send large cookies and policies. */
export const responseHeadBytesMax = 80 << 10;
/** How long each call of an upstream that reset a kept connection has a connection of its own. */
export const freshConnectionsMs = 60_000;
/** An HTTP/2 connection whose upstream does not answer a ping within this time is closed. */
export const pingIntervalMs = 15_000;
/** Bytes of a body that are hashed for its signature before other work has a turn. */
export const hashedAtOnceBytes = 4 << 20;
/** Characters of an upstream's request id that are passed on. */
export const requestIdLengthMax = 100;
/** Answers up to this size claim no memory (answer-memory.ts). */
export const unclaimedAnswerBytesMax = 1 << 20;
/** Memory for larger answers is claimed in such steps. */
export const claimedAtOnceBytes = 4 << 20;
/** Bytes of an error response that are read. */
export const errorBytesMax = 64 * 1024;
/** The longest Retry-After that is passed on, so that no caller sleeps for hours. */
export const retryAfterSecondsMax = 60;

// Routing.
/** Failures of a target that are further apart do not count as in a row. */
export const rowMs = 30_000;
/** How long a circuit breaker is open the first time. The time doubles with every failed probe. */
export const openMs = 1_000;
/**
 * How long a circuit breaker is open at most, so that a target that recovers is soon used again.
 */
export const openMsMax = 4_000;
/** How long a probe keeps other calls out, if its worker dies. */
export const probeMs = 5_000;
/** How often a worker reads what other workers found out about targets. */
export const circuitBreakerPollMs = 500;
/** How long Redis remembers circuit breakers after the last failure. */
export const circuitBreakerLifeSeconds = 600;
/**
 * The first cooldown after a refusal. It doubles with each further refusal in a row, so a single
 * odd answer costs little.
 */
export const firstCooldownMs = { credential: 1_000, quota: 5_000, missing: 1_000 };
/**
 * The longest cooldown after refusals in a row, so that a credential that was repaired is soon used
 * again.
 */
export const cooldownMsMax = { credential: 60_000, quota: 300_000, missing: 60_000 };
/**
 * The cooldown of a rate-limited credential if its upstream names no time and has other
 * credentials; and the longest for callers who were not limited themselves.
 */
export const rateLimitedMs = 5_000;
/** The longest cooldown that an upstream can ask for. */
export const cooldownAskedMsMax = 3_600_000;
/**
 * How long after its cooldown a refusal still counts with one of another caller, and of how many
 * callers refusals are remembered for each credential.
 */
export const refusalKnownMs = 60_000;
export const refusedCallersMax = 8;
/** Cooldowns that a worker remembers. */
export const cooldownsMax = 10_000;
/**
 * The first content of an answer, as `firstContentTimeoutMs` bounds it where the catalogue does
 * not.
 */
export const firstContentMsMax = 300_000;
/**
 * Silence before the first content, if another target is left: the least that a target gets,
 * whatever its earlier answers took.
 */
export const quietMsMin = { streamed: 10_000, whole: 90_000 };
/** The same for a model or a request with reasoning, which may say nothing while it thinks. */
export const thinkingMsMin = { streamed: 120_000, whole: 300_000 };
/** The least for a stream's last target. */
export const lastQuietMsMin = 30_000;
/** How many times the 95th percentile of a target's times to the first content it may take. */
export const quietFactor = 3;
/**
 * Bytes of a request that add a millisecond to these times: a prompt of 100,000 tokens adds 20
 * seconds.
 */
export const promptBytesPerMs = 20;
/** Times to the first content that are remembered of each target, and the targets. */
export const contentTimesMax = 64;
export const timedTargetsMax = 1_000;
/**
 * `betweenContentTimeoutMs` as a multiple of `betweenTokensTimeoutMs`, where the catalogue does not
 * set it.
 */
export const contentGapFactor = 4;
/**
 * Bytes that count as a part of an answer which has no events: fewer in all of the time between two
 * parts are a trickle.
 */
export const partBytes = 256;
/** Bytes of an event that is not complete yet which count as a part of its answer. */
export const eventPartBytes = 64 * 1024;
/** The first pause before a target is called again. */
export const backOffMs = 200;
/** The longest pause before a target is called again. */
export const backOffMsMax = 5_000;
/**
 * A target that let an attempt wait for this long in vain, in all of its calls, is not called
 * again: it counts as silent.
 */
export const vainWaitMsMax = 5_000;
/**
 * The longest Retry-After that an attempt waits for. A longer wait is the caller's decision, so the
 * caller gets an error with a Retry-After.
 */
export const waitMsMax = 5_000;
/** How long an attempt waits for targets that are full or rate limited. */
export const blockedMsMax = 60_000;
/** How soon a slot at a full upstream is requested again. */
export const busyMs = 150;
/**
 * The minute in which the calls of an upstream are counted, in whole seconds: a call that is late
 * on its way to the upstream, or one before the end of a second, stays in the upstream's minute.
 */
export const vendorWindowSeconds = 61;
/** The tokens of an answer before any is known of its target. */
export const firstOutputTokens = 500;
/** How much the last answer counts in a mean. */
export const meanWeight = 0.1;
/**
 * A worker takes what is left of a vendor's limit in blocks, each this part of it or what a call
 * needs, and loses what it has not used after a time.
 */
export const blockShare = 32;
export const blockMs = 30_000;
/** How soon a worker asks again for a limit whose new window ends nobody knows when. */
export const assumedAskMs = 500;
/** Below this part of a limit, all workers learn of any other use of it. */
export const scarceShare = 8;
/** Targets whose vendors' limits are remembered, and how long beyond the limits' periods. */
export const limitedTargetsMax = 1_000;
export const limitLifeMs = 3_600_000;
/** The last announcements about credentials and limits that Redis keeps. */
export const newsMax = 2_000;
/** The longest that an attempt waits for a target's limit with `whenFull: wait`. */
export const fullWaitMsMax = 60_000;
/**
 * Pauses between calls with flex while there is no capacity, and how long an attempt goes on:
 * https://platform.openai.com/docs/guides/flex-processing advises to back off.
 */
export const flexPauseMs = 1_000;
export const flexPauseMsMax = 30_000;
export const flexWaitMsMax = 600_000;
/** How soon an upstream that does not answer at all is checked again. */
export const absentMs = 1_000;
/**
 * After this many failed checks in a row, which takes about a minute, the upstream is called all
 * the same.
 */
export const absencesMax = 16;

// Usage records.
/** An ingress writes the usage record of a generation within this time of its end. */
export const recordedWithinMs = 2_000;
/**
 * An ingress that is not heard for this long after the end of a generation may have vanished before
 * it wrote the record.
 */
export const unheardMs = 6_000;
/** Records that wait to be confirmed. More are written at once. */
export const unheardRecordsMax = 20_000;
/** How often records that nobody confirmed are looked for. */
export const usageCheckMs = 500;
/**
 * An ingress of such a record that falls silent is sent empty messages for so long. One that they
 * reach at the end has written the record by then. Longer than `othersBackMs` of the relay.
 */
export const reachedMs = 2_000;

/** Lines in the log about failed calls of a target within this time, in ms. */
export const failedCallLinesMax = 10;
export const failedCallLinesEveryMs = 60_000;

// Sessions.
/**
 * Bytes of a caller's message that are gathered before they are sent as a fragment: smaller
 * messages leave whole.
 */
export const gatheredInputBytesMax = 128 * 1024;
/**
 * How often the upstream of a session is pinged. One without traffic since the last ping is gone.
 */
export const sessionPingMs = 30_000;
/** How long an upstream may take to answer a close frame. */
export const sessionCloseMs = 2_000;
/** Targets whose repairs are remembered, the repairs of each, and how long, in ms. */
export const learnedTargetsMax = 1_000;
export const learnedRepairsMax = 32;
export const learnedRepairsMs = 3_600_000;

/** How long a session's binding lasts after its last use. */
export const bindingMs = 3_600_000;
/** A binding in use is announced again after this time, so that others keep it as long. */
export const bindingRenewedMs = 900_000;
/** How often a worker tells others of its targets, and how long that counts. */
export const tellEveryMs = 1_000;
export const measuresLifeMs = 3_000;
/** After this time a measurement counts half. */
export const measureHalfLifeMs = 10_000;
/** Other workers whose measurements are kept. */
export const measuringWorkersMax = 1_000;

/** Bindings in Redis, and in the memory of each worker. */
export const bindingsMax = 100_000;
/** Announcements that a worker reads at a time. */
export const announcementsReadMax = 1_000;

/** One call of a vendor's API of batches: two of them are in the time of control's call. */
export const vendorCallMs = 25_000;
export const vendorCallBytesMax = 8 << 20;
/** Bytes of a vendor's batch, all of which Redis and a worker have at once; Gemini takes 20 MB. */
export const vendorRequestsBytesMax = 16 << 20;
/** The most bytes of one answer of a vendor's batch, and of those that are in Redis at once. */
export const vendorAnswerBytesMax = 64 << 20;
export const vendorAnswersBytesMax = 2 << 20;
/** Pages of 100 objects in which a batch is looked for. */
export const vendorPagesMax = 20;
/** A vendor's batch whose name is unknown was created so long before or after its submission. */
export const vendorSubmitSpanMs = 120_000;
/** How long requests and answers of a vendor's batch are in Redis. */
export const vendorRequestsLifeMs = 3_600_000;
