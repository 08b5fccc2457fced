/**
 * How much of a shared resource one holder may have (dynamic thresholds: Choudhury and Hahne,
 * "Dynamic queue length thresholds", 1998). Some is always left for the next holder, and nobody
 * loses what it holds.
 */
const timesFree = 4;

/**
 * Whether a holder may have this amount while so much is free: four times as much at most. One
 * holder alone gets 4/5, two get 4/9 each, and so on.
 */
export const isFairShare = (amount: number, free: number): boolean => amount <= timesFree * free;

/** The largest share of a holder that is alone, as a whole number. */
export const largestShareOf = (capacity: number): number => Math.floor((capacity * timesFree) / (timesFree + 1));
