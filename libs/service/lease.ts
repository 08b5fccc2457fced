/** A lease is a claim in Redis that expires unless its holder renews it. */

/** After a crash, what a process has of slots and rate limits is free again after this time. */
export const leaseMs = 6_000;

/** How often a lease that lives so long is renewed: two renewals may be lost. */
export const renewEveryMsOf = (leaseMs: number): number => leaseMs / 3;
