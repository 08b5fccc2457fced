/** The bounds of keys, rate limits and budgets: sizes, counts and times. */
/**
 * Keys of one request that are looked up: more than the number of places in a request that can
 * contain a key.
 */
export const credentialsMax = 8;
/** How long a notice may arrive after the version that it announces is visible. */
export const noticeLatenessMs = 50;
/** With more pending notices than this, the copy reads all records again. */
export const noticesMax = 1_000;
/** How often a copy compares its version with that in Redis, so how late a lost notice shows. */
export const compareEveryMs = 700;
/** Records that one command reads, so that Redis serves others in between. */
export const pageSize = 1_000;
/** How often a revocation is tried again when the record changes meanwhile. */
export const revokeAttemptsMax = 5;
/**
 * How long Redis remembers that a generation is settled. Repeating `settle` after this time counts
 * twice.
 */
export const settledMs = 3_600_000;
/** The approximate number of leases that one call renews. */
export const renewalsMax = 1_000;
/** Settled generations that one call forgets. */
export const forgottenMax = 500;
/**
 * Settled generations that wait to be forgotten. Redis forgets the others by itself, after
 * `settledMs`.
 */
export const knownMax = 100_000;
/**
 * How long Redis remembers what a caller has spent since its last generation: longer than any
 * calendar period.
 */
export const budgetLifeMs = 400 * 86_400_000;
/** Addresses and networks of a key. */
export const addressesMax = 100;
/** Tags of a key, and of the header of a request. */
export const tagsMax = 10;
export const tagLengthMax = 60;
/** Admissions or settlements of the same subjects in one script. */
export const batchedCallsMax = 64;
/**
 * How long a process admits from the allowance of one answer, and which part of what a limit has
 * left the allowance is.
 */
export const allowanceMs = 100;
export const allowanceShare = 64;
/** How long it is remembered: longer than Redis may take to answer. */
export const allowanceKeptMs = 5_000;
/** How late Redis hears of what was admitted from allowances, and of usage far from a limit. */
export const gatherMs = 50;
/** Running generations of the same subjects that Redis was not told of. */
export const untoldMax = 4 * batchedCallsMax;
/** With `onLimit: wait`: how long a request waits for its turn, by default and at most. */
export const limitWaitMsDefault = 30_000;
export const limitWaitMsMax = 600_000;
/**
 * How long a signature between ingresses and control is valid; the clocks of both may differ by as
 * much.
 */
export const internalSignatureMs = 30_000;
/** Accepted signatures that a process remembers. */
export const internalSignaturesMax = 200_000;
/** Hashes of keys that a process remembers. */
export const hashesMax = 10_000;
/** How long an address for an upload is valid. */
export const uploadTicketMs = 3_600_000;

/** The targets that count as failing in one trial. */
export const trialTargetsMax = 50;
