/**
 * Changes of what control stores. Each runs in one transaction with its entry in the audit log: who
 * changed what, from where, with the state before and after. Entries are never changed.
 */
import { randomUUID } from "node:crypto";
import type { Actor } from "../api/actor.ts";
import { auditStateMax } from "../bounds.ts";
import type { Database } from "./database.ts";

/** `before` and `after` contain no secrets. Long ones are cut. */
export interface Change {
  /** The account that sees the entry. Without one, only operators see it. */
  account?: string | null;
  /** For example "key key_1". */
  subject: string;
  before?: unknown;
  after?: unknown;
}

export interface ChangeContext {
  readonly database: Database;
  readonly actor: Actor;
  /** The actor's IP address. */
  readonly address: string;
  readonly now: Date;
}

/** For changes that control makes itself. */
export const systemContext = (database: Database, now: Date): ChangeContext => ({
  database,
  actor: { kind: "system", id: "control", name: "control", isOperator: true, roles: new Map() },
  address: "",
  now,
});

/** The context inside a transaction: its `database` is the transaction. */
export type Inside<Context extends ChangeContext> = Context & {
  /** Adds an entry to the audit log. `actor` is the context's by default. */
  record(change: Change, actor?: Actor): Promise<void>;
};

/**
 * Runs `change` in a transaction: it locks, checks, updates and records. An error undoes all of it.
 * `action` is the name of the operation.
 */
export const transact = <Context extends ChangeContext, Result>(
  context: Context,
  action: string,
  change: (inside: Inside<Context>) => Promise<Result>,
): Promise<Result> =>
  context.database.transaction().execute((database) =>
    change({
      ...context,
      database,
      record: (each, actor = context.actor) => recordChange({ ...context, database, actor }, action, each),
    }),
  );

/** Adds an entry to the audit log, for an action that changes nothing in the database. */
export async function recordChange(
  { database, actor, address, now }: ChangeContext,
  action: string,
  { account = null, subject, before, after }: Change,
): Promise<void> {
  await database
    .insertInto("audit")
    .values({
      id: `audit_${randomUUID().replaceAll("-", "")}`,
      at: now,
      actor_kind: actor.kind,
      actor_id: actor.id,
      actor_name: actor.name,
      address,
      action,
      account,
      subject,
      before: stateTextOf(before),
      after: stateTextOf(after),
    })
    .execute();
}

/** A long state as its size and its beginning. */
function stateTextOf(state: unknown): string | null {
  if (state === undefined) return null;
  const text = JSON.stringify(state);
  if (text.length <= auditStateMax) return text;
  return JSON.stringify({
    isCut: true,
    characters: text.length,
    beginning: text.slice(0, auditStateMax).toWellFormed(),
  });
}
