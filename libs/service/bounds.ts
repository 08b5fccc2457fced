/** The bounds of what every process uses: Redis, the log, open files. */
/** After this time the outcome of a command counts as unknown. */
export const commandTimeoutMs = 1_500;
/**
 * How long a connection with a pending command may stay silent before it is replaced, because a
 * vanished host does not close it. Longer than any command blocks.
 */
export const silenceMs = 4_000;
/**
 * The minimum interval between reconnects away from a demoted Redis. Its address may still lead to
 * it for a while.
 */
export const leaveEveryMs = 1_000;
/**
 * How often each connection to a cluster asks which server has which keys. It costs a process about
 * 2 ms.
 */
export const slotsRefreshEveryMs = 1_000;
/** How long a connection may take to open again. */
export const connectTimeoutMs = 2_000;
/**
 * How long a connection may take to open at the start, when the process may still be busy loading.
 */
export const firstConnectTimeoutMs = 10_000;
/**
 * How long a closed connection waits for the end of its socket. The process cannot exit earlier.
 */
export const disconnectTimeoutMs = 100;
/** Characters of the log that are written together. A killed process loses the last batch. */
export const logBatchLengthMax = 8 * 1024;
/** Bytes of lines that wait for a log that can't be written. */
export const logKeptBytesMax = 1024 * 1024;
/** How long lines of the log wait to be written together. */
export const logBatchMs = 200;
/**
 * Above this share of the limit a process should accept no more connections. The rest is for Redis
 * connections and files.
 */
export const openFilesShareMax = 0.9;
/** How often a failure that goes on is logged. */
export const outageLoggedEveryMs = 60_000;
/** How long a process that has closed everything waits for what libraries have left. */
export const exitMs = 500;
/**
 * Connections that the kernel keeps until the process accepts them, as far as its own limit allows.
 * One more must be tried again, after a second at first.
 */
export const connectionsPendingMax = 4_096;
/**
 * How often a process compares its clock with that of Redis, and the least difference that it
 * corrects.
 */
export const clockCheckMs = 10_000;
export const clockDifferenceMs = 1_000;
/**
 * Threads of one kind that run large tasks: as many as the machine has cores to spare, and no more
 * than this.
 */
export const largeThreadsMax = 3;
/** Tasks of up to so many bytes have a thread of their own. */
export const smallTaskBytesMax = 1 << 20;
/**
 * A task may take so many times its limit of CPU time until it ends because the machine is too
 * busy.
 */
export const tardiness = 6;
