/**
 * Control's fixed bounds: sizes, counts and times. `config.ts` has the bounds that an operator
 * sets.
 */
/** Connections to a Postgres server. */
export const connectionsMax = 10;
export const databaseConnectMs = 10_000;
/** The longest statement. */
export const statementMs = 60_000;

// The ledger.
/** Entries of the usage stream that are read at once; each has up to 100 records. */
export const entriesReadMax = 50;
/**
 * While records come, the time between two reads: a larger batch costs less per record, in the
 * database and here.
 */
export const readEveryMs = 500;
/** How long a read of the stream waits for new entries. */
export const readBlockMs = 1_000;
/** An entry that another reader has kept this long without confirming it is taken over. */
export const abandonedEntryMs = 60_000;
/**
 * How long confirmed entries stay in the stream: the embedded database may lose what it wrote just
 * before a power cut.
 */
export const keptEntriesMs = 600_000;
/**
 * They go earlier, though not before this time, when the stream is larger: writers keep records in
 * files when it has 256 MiB.
 */
export const keptBytesMax = 64 << 20;
export const keptEntriesMsMin = 10_000;
/** A reader that has asked for nothing for so long, and has nothing to confirm, is gone. */
export const forgottenReaderMs = 3_600_000;
/** How often confirmed entries are removed, and entries of dead readers looked for. */
export const tidyEveryMs = 10_000;
/** The wait after an error of Redis or the database. */
export const retryMs = 1_000;
/** Records that are not valid are kept for the operator, up to this many. */
export const invalidRecordsMax = 10_000;
/** Users, sessions and tags of one account and day with totals of their own, of each kind. */
export const labelValuesMax = 1_000;
/** Records so many days in the future get no partition of their own: a clock is far off. */
export const futureDaysMax = 2;

// The export of usage.
/** How often hours are looked for that are to be exported, and in how many days. */
export const usageExportEveryMs = 300_000;
export const exportDays = 7;
/** The claim of a process on an hour that it exports. */
export const exportClaimMs = 900_000;
/** A run ends after so many failures: the store is probably away. */
export const exportFailuresMax = 5;
/** Keys whose rows are made at once. */
export const exportedKeysMax = 200;

// Stored content.
/** How often content is taken from Redis, and how many entries at once; each has up to 2 MiB. */
export const contentEveryMs = 500;
export const contentEntriesMax = 8;
/** How often content is deleted that is older than its account wants. */
export const contentSweptEveryMs = 600_000;

// The catalogue's entries in the database.
/** Revisions that are kept, the active one included. */
export const revisionsMax = 200;
/** Characters of the entries of one revision, as JSON. */
export const documentLengthMax = 2_000_000;
/** Days of usage in an estimate of other prices. */
export const estimateDays = 30;
/** Stored credentials of upstreams. */
export const credentialsMax = 1_000;
/** How often a control process looks for changes of others, and for a Redis that lost its data. */
export const catalogueEveryMs = 1_000;

// The API.
/** The largest body. */
export const bodyBytesMax = 1 << 20;
/** How often partitions that are too old are dropped. */
export const dropEveryMs = 3_600_000;
/** Rows of a sum of usage, and of one as CSV. */
export const sumRowsMax = 10_000;
export const csvRowsMax = 200_000;
/** Records of one export of the log. */
export const csvRecordsMax = 10_000;
/** Days with records of a filter that the log looks into one by one. */
export const filteredDaysMax = 100;
/** Characters of a state before or after a change in the audit log, as JSON. */
export const auditStateMax = 20_000;
/** Values of one filter. */
export const filterValuesMax = 100;
/** Callers whose calls are counted; the one that has not called for longest is forgotten first. */
export const callersMax = 50_000;

// Sign-in.
/** Wrong passwords in a row for one user from one IP address, and how often another may follow. */
export const wrongPasswords = { max: 5, everyMs: 60_000 };
/** Attempts for one user from all IP addresses together. */
export const userWrongPasswords = { max: 100, everyMs: 10_000 };
/** Mails that reset a password: for one user from one IP address, and from all together. */
export const passwordMails = { max: 5, everyMs: 60_000 };
export const userPasswordMails = { max: 20, everyMs: 600_000 };
/** How long an IP address is known as one from which a user has signed in. */
export const knownAddressMs = 90 * 86_400_000;
/** Attempts to sign in from one IP address, and how often another may follow. */
export const signInsMax = 20;
export const signInEveryMs = 3_000;
/** Links that sign in once. */
export const signInLinkMs = 15 * 60_000;
/** Links that confirm a new address. */
export const emailLinkMs = 3_600_000;
/** A session that began with a link may set a password without the old one for so long. */
export const freshSessionMs = 15 * 60_000;
export const sessionMs = 7 * 86_400_000;
/** How long libraries wait for a provider, at each step, and the bytes of its answers. */
export const providerMs = 10_000;
export const providerBytesMax = 1 << 20;
/** How long a test of a provider is kept. */
export const oidcTestMs = 600_000;
/** Sign-ins by the provider whose claims are known and whose session has not begun. */
export const signInsByProviderMax = 1_000;
/** Sessions of one user; the oldest ends first. */
export const sessionsMax = 50;
/** The largest body of a call to sign in. */
export const signInBodyBytesMax = 16_384;
/** Invitations of one account that are open. */
export const openInvitationsMax = 100;
export const invitationHours = 72;
/** Operator tokens that are not revoked. */
export const tokensMax = 1_000;
/** How exactly the last use of a token is known. */
export const tokenUseMs = 60_000;
/** How often sessions and links that have expired are deleted. */
export const expireEveryMs = 3_600_000;
/** How long a mail server may be silent, and how long it may take for one mail. */
export const mailMs = 20_000;
export const mailTotalMs = 60_000;
/** Mails on their way to the mail server. */
export const mailsMax = 100;
/** How often the usage of keys with new records is published, and how many keys at once. */
export const keyUsageEveryMs = 500;
export const keyUsageBatchMax = 500;
/** Keys whose cost of earlier months is remembered. */
export const pastCostsMax = 20_000;

/** Smaller answers are sent as they are. */
export const compressedBytesMin = 2_048;
/** How long caches may keep what is public. */
export const publicSeconds = 60;

// Export and import.
/** Rows that are read at once. */
export const exportRowsMax = 1_000;
/** Rows, and characters of rows, that are inserted at once. */
export const importRowsMax = 1_000;
export const importBytesMax = 4 << 20;

// Budgets.
/**
 * How often the budgets in Redis are compared with the ledger, and for how many callers at once.
 */
export const reconcileEveryMs = 60_000;
export const budgetSubjectsAtOnce = 500;
/** How long a comparison waits for a ledger that lags behind. */
export const catchUpMs = 20_000;
export const caughtUpCheckMs = 200;
/** A generation that has ended is in the stream after this time. */
export const recordedWithinMs = 2_000;
/** How long the answer of a request with an `Idempotency-Key` is kept. */
export const idempotencyMs = 86_400_000;

// Keys.
/** How often the version of the keys in Redis is compared. */
export const looksEveryMs = 1_000;
/** How often all keys in Redis are compared with the database. */
export const comparedEveryMs = 60_000;
/** Keys of one transaction of an import. */
export const importedTogetherMax = 500;

// The catalogue's file.
/** Lines of a difference that are shown. */
export const diffLinesMax = 2_000;
/** Pairs of lines that are compared, beyond which a text counts as replaced. 8 MB, some 20 ms. */
export const diffCellsMax = 4_000_000;

// Settings.
/** How often the version of the stored settings is compared. */
export const settingsEveryMs = 2_000;
/** Saved views of one person. */
export const viewsMax = 50;

// Alerts.
/** How often budgets and keys are checked for alerts. */
export const alertsEveryMs = 30_000;
/** A key raises an alert so long before it expires. */
export const expiringMs = 7 * 86_400_000;
/** A revocation raises an alert for so long after it. */
export const revokedRecentlyMs = 86_400_000;
/** The same for a webhook that was disabled. */
export const disabledRecentlyMs = 86_400_000;
/** Alerts of one statement. */
export const raisedTogetherMax = 200;
/**
 * How often alerts are looked for that the webhook does not have, and how many are sent in a round.
 */
export const deliveryEveryMs = 2_000;
export const deliveredTogetherMax = 20;
/** The claim of a process on an alert that it sends. */
export const deliveryLeaseMs = 60_000;
/** How long the webhook may take to answer. */
export const webhookMs = 10_000;
/** People of one account who get an alert by mail. */
export const alertMailsMax = 20;

// Operations.
/** Conditions that need the operator, as in infra/prometheus/alerts.yml. */
export const ledgerBehindSeconds = 60;
export const redisMemoryShare = 0.9;
/**
 * The oldest wait, as a share of how long the queue lets requests wait; where this is longer, in
 * seconds, unless the queue is one on which nobody waits for the answer.
 */
export const oldestWaitShare = 0.5;
export const oldestWaitSeconds = 60;
/** Shares are of so many requests or calls at least, in about a minute. */
export const comparedRequestsMin = 20;
export const failedShare = 0.05;
export const refusedShare = 0.05;
export const targetFailedShare = 0.2;
/** A queue grows when so many more requests wait than a while ago, and so many times as many. */
export const queueGrowthMin = 20;
export const queueGrowthFactor = 1.5;
/** The time over which shares and growth are seen, in milliseconds, and the least of it. */
export const seenMs = 60_000;
export const seenMsMin = 10_000;
/** Generations of one list. */
export const generationsShownMax = 100;

/** Records of later runs of one generation count from multiples of this. */
export const attemptsOfRunMax = 100;

// Files.
/** Bytes that are encrypted together. */
export const fileChunkBytes = 1 << 16;
/**
 * Bytes that a file without an announced size reserves first; then as many again, up to a bound.
 */
export const fileReservedMin = 1 << 20;
export const fileReservedMax = 64 << 20;
/**
 * A file that nothing has arrived of for so long is given up, and how often its time is renewed.
 */
export const fileSilenceMs = 600_000;
export const fileRenewedEveryMs = 60_000;
/** How often files are deleted that have expired, and how many at once. */
export const filesSweptEveryMs = 60_000;
export const filesSweptTogether = 200;
/** Files of one list. */
export const filesListedMax = 10_000;
/** The largest input of a batch, and how long it is kept. */
export const batchFileBytesMax = 200 << 20;
export const batchFileSeconds = 30 * 86_400;
/** Fields of a form, and bytes of each. */
export const formFieldsMax = 20;
export const formFieldBytesMax = 8_192;
/** Characters of a file's name, and of its media type. */
export const fileNameMax = 255;
export const mediaTypeMax = 100;
/**
 * OpenAI's bounds of a file in parts, of one part and of its time to arrive:
 * https://platform.openai.com/docs/api-reference/uploads
 */
export const uploadBytesMax = 8 * 2 ** 30;
export const uploadPartBytesMax = 64 << 20;
export const uploadMs = 3_600_000;
/** Google's bounds of a file, and of its life: https://ai.google.dev/gemini-api/docs/files */
export const geminiFileBytesMax = 2 ** 31;
export const geminiFileSeconds = 48 * 3_600;
export const uploadPartsMax = 1_000;
/** The largest body that is not a file. */
export const internalBodyBytesMax = 1 << 20;
/** Uploads of one account at the same time, in one process. */
export const uploadsOfAccountMax = 32;

// Batches.
/** A lease that is not renewed ends after this time. */
export const batchLeaseMs = 15_000;
export const batchRenewEveryMs = 2_000;
/** How often a process looks for batches to check, to run and to end. */
export const batchEveryMs = 500;
/**
 * How long the end of a batch waits for the ledger, which has a record about a second after its
 * answer, and how often it looks.
 */
export const batchUsageWaitMs = 5_000;
export const batchUsageEveryMs = 250;
/** How often the delays of processes are read while lines run, and from when on fewer run. */
export const batchYieldEveryMs = 1_000;
export const batchDelayMsMax = 4;
/** A request of a batch; a longer one is larger than the bodies that ingresses take by default. */
export const batchLineBytesMax = 32 << 20;
/** Faults of an input that are listed. */
export const inputFaultsMax = 1_000;
/** How often an input is read that cannot be read to its end; every 15 seconds for an hour. */
export const inputRunsMax = 240;
/** The lines of a chunk, and the bytes of its bodies if it has several. */
export const chunkLinesMax = 200;
export const chunkBytesMax = 2 << 20;
/** Chunks that a process runs at once. */
export const chunksRunningMax = 32;
/** Results of a chunk are stored at most once in this time, and when they are so large. */
export const segmentEveryMs = 250;
export const segmentBytesMax = 2 << 20;
/** Bytes of results that are put in order at once. */
export const orderedBytesMax = 32 << 20;
/** A response to a line. */
export const lineAnswerBytesMax = 64 << 20;
/** How long a line's request may take. */
export const lineMs = 3_600_000;
/** How often a line is sent whose request failed at an upstream. */
export const lineSendsMax = 3;
/** How often a line is sent whose connection broke. */
export const lineBreaksMax = 10;
/** Pauses before a line is sent again. */
export const linePauseMs = 1_000;
export const linePauseMsMax = 60_000;
/** How long running lines may take when the process stops. */
export const lineDrainMs = 5_000;
/**
 * A vendor's batch whose submission had no result is looked for after this time: then no worker
 * submits it any more.
 */
export const vendorFindMs = 60_000;
/** How often a vendor's batch is submitted that the vendor did not have. */
export const vendorSubmissionsMax = 2;
/**
 * Readings of a vendor's answers in a row that bring none. The pause before each is twice the one
 * before: about an hour in all, if the state is asked for every minute.
 */
export const vendorReadsMax = 6;
/** So long before the end of the completion window, lines without an answer run one by one. */
export const vendorReserveMs = 2 * 3_600_000;
/** Inputs that one process checks for the console at the same time. */
export const batchChecksMax = 2;
/** The time in which a batch is executed. */
export const batchWindowMs = 86_400_000;
/** A request that creates a batch without lines in it. */
export const batchBodyBytesMax = 65_536;
/** Batches of one list. */
export const batchesShownDefault = 20;
export const batchesShownMax = 100;
/** The requests of a batch arrive in this time. */
export const receivingMs = 3_600_000;
/** How often outdated batches are deleted, and how many at once. */
export const batchesSweptEveryMs = 60_000;
export const batchesSweptTogether = 100;
/** Rows of chunks that are read at once. */
export const chunkRowsMax = 500;
/** How long results are stored after the end of a batch. */
export const batchResultsDays = 30;
/** Results that are read to group the failed requests of a batch. */
export const batchErrorBytesMax = 64 << 20;
/** Codes of one batch, and of each the failed requests that are listed with their texts. */
export const batchErrorCodesMax = 50;
export const batchErrorCodeMax = 100;
export const batchErrorLinesShown = 5;
export const batchErrorTextMax = 500;

// Webhooks of accounts.
export const webhooksOfAccountMax = 20;
/** Deliveries that are kept: for so many days, and so many of each account. */
export const deliveryDays = 30;
export const deliveriesOfAccountMax = 10_000;
/** Attempts that are listed. */
export const attemptsListedMax = 20;
/** How often deliveries are looked for that are due, and how many run at once. */
export const deliveriesEveryMs = 1_000;
export const deliveriesRunningMax = 64;
export const deliveriesOfWebhookMax = 8;
/** How long a receiver may take to answer. A claim on a delivery lasts longer. */
export const deliveryMs = 20_000;
export const deliveryClaimMs = 60_000;
/** The first pause before another attempt, the factor of the next ones, and the longest. */
export const deliveryPauseMs = 5_000;
export const deliveryPauseFactor = 3;
export const deliveryPauseMsMax = 6 * 3_600_000;
/** Attempts end after this time. */
export const deliveryWindowMs = 86_400_000;
/** A webhook that has accepted nothing for so long is disabled. */
export const webhookFailingMs = 5 * 86_400_000;
/** Events that are taken at once. */
export const eventsTakenMax = 500;
/** How often deliveries are deleted that are no longer kept. */
export const deliveriesSweptEveryMs = 600_000;
