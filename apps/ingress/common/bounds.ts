/**
 * The ingress's fixed bounds: sizes, counts and times. Bounds that an operator sets are in
 * `config.ts`, those of the relay in `libs/relay/bounds.ts`. A name says the unit; `Length` is in
 * characters, and a name without a unit is a count.
 */
import { settledMs } from "#access/bounds.ts";

// Requests.
/** All headers of a request together: twice what Node allows by itself. */
export const headerBytesMax = 32 * 1024;
/** Fields of a body's outermost object, far more than any dialect has. */
export const bodyFieldsMax = 1_000;
/** Characters of a setting. Longer texts are content. */
export const settingLengthMax = 1_000;
/** Elements of a list among the settings. Longer lists are content. */
export const settingElementsMax = 16;
/** Members of nested objects among the settings. Later members are content. */
export const settingMembersMax = 1_000;
/**
 * A larger body leaves a part of `BODIES_BYTES_MAX` to small ones, and reserves memory as it
 * arrives; a smaller one by its Content-Length.
 */
export const smallBodyBytesMax = 64 * 1024;
/** Bytes of a compressed body that are decoded at once. */
export const decodedChunkBytes = 64 * 1024;
/**
 * The largest window of a zstd body is 2 to this power, in bytes:
 * https://www.rfc-editor.org/rfc/rfc9659
 */
export const zstdWindowLog = 23;
/** A body in zstd may have so many frames. Each costs about 0.1 ms, however short it is. */
export const zstdFramesMax = 1_000;
/**
 * A body up to this size takes an event loop about 20 ms at most, whatever its content. A larger
 * one is read in a thread.
 */
export const bodyReadAtOnceBytesMax = 128 * 1024;
/** How long a thread may read one body. The largest takes a second or two, whatever its content. */
export const bodyReadTimeoutMs = 10_000;
/**
 * The longest time between two checks of an upload's pace, so that a long grace does not delay the
 * 408 much.
 */
export const uploadCheckMsMax = 1_000;
/**
 * The rest of a refused body is read and discarded up to this size: many clients don't see the
 * response when their connection is closed while they send.
 */
export const discardedBytesMax = 128 << 20;
/**
 * How long the sender of a refused request may take to read the response and to finish sending,
 * before its connection is closed.
 */
export const refusedMs = 2_000;
/** While the ingress drains, a connection without a request for this long is idle. */
export const connectionSilentMs = 1_000;
/** How often a draining ingress closes idle connections. A caller may reuse one until then. */
export const connectionCheckMs = 50;

// Admission and rate limits.
/** The longest answer that is estimated, where the catalogue does not bound the model's answers. */
export const estimatedOutputTokensMax = 1_000_000;
/**
 * How long a usage record that Redis did not take is sent again: until Redis may have forgotten
 * whether it has it.
 */
export const recordMsMax = settledMs / 2;
/** Usage records that Redis has not taken. Beyond that the oldest is logged as lost. */
export const unrecordedMax = 100_000;
/**
 * Usage records that are sent again at once, so that a Redis that just came back is not flooded.
 */
export const repeatedRecordsMax = 1_000;

// Reads of callers without a key.
/** Bytes that one ingress sends them. */
export const publicBytesPerSecond = 4 << 20;
/** How long caches keep it. */
export const publicSeconds = 60;

// Generations and answers.
/** How often it is tried whether Redis has come back for a queue or a request. */
export const redisTryEveryMs = 200;
/**
 * How long a body lives under its own key in Redis after its ingress died. It is renewed at half of
 * that while its job waits.
 */
export const bodyLifeMs = 120_000;
/**
 * A whole answer is buffered up to this size, as far as its key gets memory for it, so that another
 * attempt can replace it until it is complete. A larger one is passed on as it arrives.
 */
export const bufferedAnswerBytesMax = 512 * 1024;
/** The time between the error event of a stream and the end of its connection. */
export const breakDelayMs = 500;
/** An answer with more unread bytes leaves a part of `ANSWERS_BYTES_MAX` to others. */
export const smallAnswerBytesMax = 64 * 1024;
/** How often the connections with waiting bytes are checked for what their callers have taken. */
export const unreadCheckMs = 100;

/**
 * Bytes of all tool calls in one answer for a client of Ollama, which gets each call as a whole.
 */
export const callBytesMax = 8 << 20;

/**
 * A stream that waits for rate limits for this long at most gets no keep-alives, which would commit
 * it to the status 200. Load balancers close silent connections after a minute.
 */
export const silentWaitMsMax = 50_000;

/** How long the list of a key's waiting requests answers further calls. */
export const ownQueueMs = 500;

// Idempotency.
/** Characters of an Idempotency-Key: the length that other APIs accept. */
export const idempotencyKeyLengthMax = 255;
/** How long the claim of a running generation outlives its ingress. A retry waits for it. */
export const idempotencyLeaseMs = 15_000;
/** Claims that an ingress releases once Redis is back. Further ones lapse. */
export const unreleasedClaimsMax = 10_000;
/**
 * How long a request waits for an answer that runs at another ingress, so that it does not hold its
 * slot forever.
 */
export const elsewhereMsMax = 30_000;
/**
 * How often a request checks an answer that runs at another ingress. Each check is a round trip to
 * Redis.
 */
export const elsewhereCheckMs = 200;
/** The largest answer that is kept for retries. */
export const storableAnswerBytesMax = 1 << 20;
/**
 * Unread bytes of one caller among several of the same answer: more than the kept bytes and the
 * relay's window together.
 */
export const sharedUnreadBytesMax = 4 << 20;

// Stored responses and conversations.
/**
 * Nothing is stored for callers while Redis uses more than this part of its memory, because jobs
 * need the rest.
 */
export const redisMemoryShareMax = 0.5;
/** How old the number for `redisMemoryShareMax` may be. Asking for it is a round trip. */
export const redisMemoryAgeMsMax = 1_000;
/**
 * Bytes of a response and its input. A larger one is not stored, because sealing it would block the
 * event loop.
 */
export const storedResponseBytesMax = 8 << 20;
/** Names besides its id by which a stored value can be found. */
export const aliasesMax = 2_000;
/** Bytes of an event in a stream that is recorded. An answer with a larger event is not stored. */
export const recordedEventBytesMax = 8 << 20;
/** How long the end of an answer waits until the answer is stored. */
export const storeMsMax = 2_000;
/** Responses that a stored response may continue, directly and indirectly. */
export const chainMax = 1_000;
/** Items of one conversation. */
export const conversationItemsMax = 10_000;
/** Items that a conversation leaves to the answer of a request. */
export const conversationItemsLeft = 100;
/** How often a change of a conversation is tried again after another request's change. */
export const conversationChangesMax = 20;
/**
 * Bytes of a request that adds items or metadata to a conversation. The size of a conversation is
 * bounded by what its key may store.
 */
export const conversationBodyBytesMax = 8 << 20;
/** How often the space of expired values is released. */
export const sweepEveryMs = 10_000;

// Background responses.
/** Bytes that are counted as stored before parts of this size together are appended to a value. */
export const countedAheadBytes = 32 * 1024;
/** How long events wait for others before they are appended to the log together. */
export const logGatherMs = 20;
/** Events of this size together are appended to the log at once. */
export const logGatherBytes = 32 * 1024;
/** Bytes that wait to be appended to the log. With more, the answer waits. */
export const logPendingBytesMax = 256 * 1024;
/**
 * How long an append to the log is tried while Redis does not answer, and the pause before each
 * further try.
 */
export const logAppendMsMax = 60_000;
export const logRetryMs = 500;
/** A log without news for this long may have lost its writer. */
export const logSilentMsMax = 10_000;
/** Callers that read logs at the same time. Each asks Redis up to twenty times a second. */
export const followersMax = 1_000;
/** The first pause of a reader of the log when there is nothing new. It doubles each time. */
export const logPollMsMin = 50;
/** The longest pause of a reader of the log. */
export const logPollMsMax = 500;
/** Bytes of one event of the log: the most that a worker lets pass, and some for what it adds. */
export const loggedEventBytesMax = 33 << 20;
/** Bytes of a background answer that is not streamed. */
export const wholeAnswerBytesMax = 32 << 20;
/** How long a background generation outlives its ingress before another one takes it over. */
export const detachedLeaseMs = 15_000;
/** Background generations that an ingress takes over at once. */
export const takeOversAtOnceMax = 8;
/** How often a background generation is taken over before it fails. */
export const takeOversMax = 3;

// Sessions.
/**
 * Bytes of a caller's messages that wait for the upstream before the caller's socket is not read
 * any more.
 */
export const waitingInputBytesMax = 256 * 1024;
/** Bytes of the message that opens a session. */
export const openingBytesMax = 1 << 20;
/** Client secrets of one API key that are not expired. */
export const clientSecretsMax = 1_000;
/** Bytes of a request for a client secret, which Redis keeps. */
export const clientSecretBodyBytesMax = 8 * 1024;
/** Bytes of a message that changes a session's settings. */
export const namedMessageBytesMax = 1 << 20;
/** Bytes of all messages of a session in one direction: four times the audio of an hour. */
export const sessionBytesMax = 1 << 30;

// Responses over WebSocket.
/** How long a caller may take to answer a close frame. */
export const socketCloseMs = 2_000;
/** When a caller may try to open another connection, if there is none left. */
export const socketRetryAfterSeconds = 5;
/**
 * With this many bytes on their way to the caller, the connection counts as full and the answer
 * waits.
 */
export const socketFullBytes = 64 * 1024;
/**
 * Unread bytes of frames that the gateway itself wrote. A caller that provokes more is
 * disconnected.
 */
export const socketPendingBytesMax = 1 << 20;
/** Bytes of a frame's member outside the body: a type or an identifier. */
export const frameMemberBytesMax = 4_096;
/** Bytes of one event: the most that a worker lets pass, and some for what it adds. */
export const socketEventBytesMax = 33 << 20;
/** Answers that may be unread by the caller when the next turn begins. */
export const unreadAnswersMax = 4;
/** Bytes of a steering frame, because its refusal repeats a part of it. */
export const steeringBytesMax = 64 * 1024;

// The process.
/** How often things are checked that need no check of their own at an exact time. */
export const checkEveryMs = 1_000;
/** How often the settings of the queues are restored: a Redis that lost its data has lost them. */
export const restoreSettingsEveryMs = 10_000;
/** The longest time between two checks whether a rewrite of Redis' file is due. */
export const fileRewriteCheckMsMax = 10_000;
/**
 * How long a starting ingress waits until it hears its own heartbeat. Then it listens all the same,
 * and is not ready.
 */
export const firstHeartbeatMsMax = 5_000;
/** Characters of the user in a usage record. */
export const userLengthMax = 200;

/** Wrong passwords of operators from one IP address, and how often another may follow. */
export const wrongOperatorPasswords = { max: 20, everyMs: 10_000 };
/**
 * IP addresses whose wrong passwords are counted; the one that tried longest ago is forgotten
 * first.
 */
export const operatorAddressesMax = 10_000;

/** Look-ups of keys that are not known here: of one IP address, and of all together. */
export const lookUpsOfCaller = { max: 10, everyMs: 1_000 };
export const lookUps = { max: 200, everyMs: 5 };
/** IP addresses whose look-ups are counted. */
export const callersLookedUpMax = 10_000;

/** The end of an answer of up to so many bytes is stored while Redis' memory is full. */
export const smallEndBytesMax = 64 * 1024;

/**
 * More attempts than one ingress makes of a generation. A record has no more than 65,535
 * altogether.
 */
export const attemptsPerRun = 10_000;

// The link to control.
/** Requests for files that one ingress passes on at once. One key alone gets 4/5 of them. */
export const fileRequestsMax = 256;
/**
 * How long a request with a file may take to arrive. Node has one such time for all requests of a
 * server; other bodies have REQUEST_TIMEOUT_MS.
 */
export const fileRequestMs = 3_600_000;
/** Uploaded files that one request may name. */
export const attachedFilesMax = 20;
/** How long control may be silent while it takes or sends a file. */
export const controlSilenceMs = 120_000;
/** The largest failure that control answers with. */
export const controlFailureBytesMax = 65_536;
