/** The bounds of usage records on their way to the ledger: sizes, counts and times. */
/** Records that end within this time after the last ones are sent together, or so many at once. */
export const batchMs = 50;
export const batchRecordsMax = 100;
/** Batches that are sent at once when more records wait. */
export const batchesTogetherMax = 10;
/**
 * Records that wait in memory for Redis or for the file. Beyond that new ones are counted as lost.
 */
export const pendingRecordsMax = 100_000;
/**
 * Bytes of the stream in Redis. Beyond that records go to a file, so that the ledger's delay never
 * costs a caller a request.
 */
export const streamBytesMax = 256 * 1024 * 1024;
/** Bytes from files that a process sends before it reads the size of the stream again. */
export const unmeasuredBytesMax = 2 * 1024 * 1024;
/**
 * How long records are kept after Redis took them, and how many: they are sent again when another
 * server takes its place.
 */
export const sentKeptMs = 10_000;
export const sentKeptMax = 20_000;
/** How often the size of the stream is read, and how often records in a file are sent. */
export const checkEveryMs = 1_000;
/** Bytes that are read from the file at once. */
export const spoolChunkBytes = 256 * 1024;
/** How long a process appends to one file. */
export const spoolFileMs = 30_000;
/** A file that nobody has written to for this long is complete. */
export const abandonedMs = 60_000;
