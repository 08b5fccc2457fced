/**
 * Limits attempts to guess a password or code. A guesser waits, and the user does not: attempts
 * count by user and IP address together. Attempts from all addresses together are bounded as well,
 * against guessing from many; addresses from which the user has signed in before are free of that
 * bound.
 */
import { callerOf, TokenBuckets } from "#service/token-buckets.ts";
import { takeFrom } from "../api/rate-limits.ts";
import { callersMax, knownAddressMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";

export interface Attempts {
  /**
   * Counts an attempt. `user` is an e-mail address in small letters, whether or not somebody has
   * it, or what else stands for one user. Throws a Fault with the time to wait.
   */
  take(user: string, address: string): Promise<void>;
  /** Forgets the attempts from this address. */
  succeeded(user: string, address: string): void;
}

interface Rate {
  max: number;
  everyMs: number;
}

export interface AttemptsOptions {
  perAddress: Rate;
  perUser: Rate;
  database: Database;
  /** The text of the Fault. */
  detail: string;
  clock?: () => number;
}

export function createAttempts({ perAddress, perUser, database, detail, clock = Date.now }: AttemptsOptions): Attempts {
  const byAddress = new TokenBuckets({ ...perAddress, keysMax: callersMax, clock });
  const byUser = new TokenBuckets({ ...perUser, keysMax: callersMax, clock });
  const keyOf = (user: string, address: string) => `${callerOf(address)} ${user}`;
  return {
    async take(user, address) {
      takeFrom(byAddress, keyOf(user, address), detail);
      try {
        takeFrom(byUser, user, detail);
      } catch (fault) {
        if (!(await isKnown(database, user, address, clock()))) throw fault;
      }
    },
    succeeded(user, address) {
      byAddress.reset(keyOf(user, address));
      byUser.giveBack(user);
    },
  };
}

/** Whether the user has signed in from this address lately. */
async function isKnown(database: Database, email: string, address: string, now: number): Promise<boolean> {
  const signIn = await database
    .selectFrom("audit")
    .innerJoin("users", "users.id", "audit.actor_id")
    .select("audit.id")
    .where("users.email", "=", email)
    .where("audit.at", ">", new Date(now - knownAddressMs))
    .where("audit.action", "=", "signIn")
    .where("audit.address", "=", address)
    .limit(1)
    .executeTakeFirst();
  return signIn !== undefined;
}
