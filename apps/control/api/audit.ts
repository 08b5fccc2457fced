/**
 * The audit log: who changed what, from where, with the state before and after. Entries are never
 * changed.
 */
import { randomUUID } from "node:crypto";
import type { Database } from "../database/database.ts";
import type { Context } from "./handlers.ts";

export interface Change {
  /** The name of the operation. */
  action: string;
  account: string | null;
  /** What was changed, such as "key key_1". */
  subject: string;
  before?: unknown;
  after?: unknown;
}

/** Call it in the transaction of the change. `before` and `after` contain no secrets. */
export async function recordChange(
  database: Database,
  { actor, address, now }: Pick<Context, "actor" | "address" | "now">,
  { action, account, subject, before, after }: Change,
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
      before: before === undefined ? null : JSON.stringify(before),
      after: after === undefined ? null : JSON.stringify(after),
    })
    .execute();
}
