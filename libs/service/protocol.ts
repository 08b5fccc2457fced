/**
 * The protocol of a gateway's processes: jobs, frames, announced slots, key records and control's
 * tables. During an upgrade processes of two releases share Redis and the database.
 *
 * A change that a process of the release before cannot read gets the next number, and its release
 * still reads the number before. Fields that readers may ignore need no new number. Jobs of each
 * number have a queue of their own, so that a worker meets none that it cannot run. Frames have the
 * number that both ends read.
 */
export interface Protocols {
  /** The lowest number that this process reads. */
  oldest: number;
  /** The number that it writes. */
  current: number;
}

export const protocols: Protocols = { oldest: 1, current: 1 };

/** All numbers that a process reads, its own first. */
export const readableOf = ({ oldest, current }: Protocols): number[] =>
  Array.from({ length: current - oldest + 1 }, (_, index) => current - index);

/** The end of a process's name says its protocol, unless that is 1. */
export const nameSuffixOf = ({ current }: Protocols): string => (current === 1 ? "" : `-p${current}`);

/** The protocol of the process with this name. */
export const protocolOf = (name: string): number => Number(/-p(\d{1,4})$/.exec(name)?.[1] ?? 1);
