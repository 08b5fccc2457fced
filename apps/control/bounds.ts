/** Control's fixed bounds: sizes, counts and times. Those that an operator sets are in `config.ts`. */
/** Connections to a Postgres server. */
export const connectionsMax = 10;
export const databaseConnectMs = 10_000;
/** The longest statement. */
export const statementMs = 60_000;

// The ledger.
/** Entries of the usage stream that are read at once; each has up to 100 records. */
export const entriesReadMax = 50;
/** How long a read of the stream waits for new entries. */
export const readBlockMs = 1_000;
/** An entry that another reader has kept this long without confirming it is taken over. */
export const abandonedEntryMs = 60_000;
/** How long confirmed entries stay in the stream: the embedded database may lose what it wrote just before a power cut. */
export const keptEntriesMs = 600_000;
/** How often confirmed entries are removed, and entries of dead readers looked for. */
export const tidyEveryMs = 10_000;
/** The wait after an error of Redis or the database. */
export const retryMs = 1_000;
/** Records that are not valid are kept for the operator, up to this many. */
export const invalidRecordsMax = 10_000;
/** Records so many days in the future get no partition of their own: a clock is far off. */
export const futureDaysMax = 2;

// The API.
/** The largest body. */
export const bodyBytesMax = 1 << 20;
/** How often partitions that are too old are dropped. */
export const dropEveryMs = 3_600_000;
/** How long the answer of a request with an `Idempotency-Key` is kept. */
export const idempotencyMs = 86_400_000;

// Keys.
/** How often the version of the keys in Redis is compared. */
export const looksEveryMs = 1_000;
/** How often all keys in Redis are compared with the database. */
export const comparedEveryMs = 60_000;
/** Keys of one transaction of an import. */
export const importedTogetherMax = 500;
