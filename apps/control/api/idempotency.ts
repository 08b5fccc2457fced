/**
 * Repeated POST operations with an `Idempotency-Key`: they happen once, and each repetition within
 * a day gets the first answer. Answers may show a new key, so they are stored encrypted with a key
 * derived from the `Idempotency-Key`, which is not stored. That protects them as well as the
 * `Idempotency-Key` is random.
 */
import { createHash, createHmac } from "node:crypto";
import { seal, unseal } from "#service/sealing.ts";
import { idempotencyMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { Actor } from "./actor.ts";
import { Fault } from "./faults.ts";
import type { Answered } from "./handlers.ts";

/** A call with an `Idempotency-Key`. */
export interface RepeatableCall {
  /** The header. */
  idempotencyKey: string | string[];
  operation: string;
  actor: Actor;
  /** The caller's request. */
  input: unknown;
  now: Date;
}

/**
 * Runs the call, or resolves to the stored answer of an equal one. Throws a Fault for a key that
 * belongs to another request, or to one that has not ended.
 */
export async function answerOnce(
  database: Database,
  call: RepeatableCall,
  run: () => Promise<Answered<unknown>>,
): Promise<Answered<unknown> & { isReplayed: boolean }> {
  const key = keyIn(call);
  // Inputs may contain passwords: nobody can guess them from this without the `Idempotency-Key`.
  const request = createHmac("sha256", key).update(JSON.stringify(call.input)).digest("hex");
  const id = digestOf([call.actor.kind, call.actor.id, call.operation, key]);
  await database
    .deleteFrom("idempotent_answers")
    .where("created_at", "<", new Date(call.now.getTime() - idempotencyMs))
    .execute();
  const claimed = await database
    .insertInto("idempotent_answers")
    .values({ id, request, answer: null, version: null, created_at: call.now })
    .onConflict((conflict) => conflict.doNothing())
    .returning("id")
    .executeTakeFirst();
  if (claimed === undefined) return storedAnswer(database, id, request, key);
  const answered = await run().catch(async (error: unknown) => {
    await database.deleteFrom("idempotent_answers").where("id", "=", id).execute();
    throw error;
  });
  await database
    .updateTable("idempotent_answers")
    .set({
      answer: seal(sealingKeyOf(key, id), JSON.stringify(answered.body ?? null)),
      version: answered.version ?? null,
    })
    .where("id", "=", id)
    .execute();
  return { ...answered, isReplayed: false };
}

async function storedAnswer(database: Database, id: string, request: string, key: string) {
  const stored = await database.selectFrom("idempotent_answers").selectAll().where("id", "=", id).executeTakeFirst();
  if (stored === undefined || stored.request !== request)
    throw new Fault("conflict", "This `Idempotency-Key` was used for another request; use a new one.", {
      field: "Idempotency-Key",
    });
  if (stored.answer === null)
    throw new Fault(
      "conflict",
      "The first request with this `Idempotency-Key` has not ended. Repeat it in some seconds; if this error stays, the outcome is unknown: look whether it took effect.",
      { field: "Idempotency-Key" },
    );
  const opened = unseal(sealingKeyOf(key, id), stored.answer);
  if (opened === undefined) throw new Error("the stored answer of an idempotent call cannot be opened");
  const body: unknown = JSON.parse(opened);
  return { body, isReplayed: true, ...(stored.version !== null && { version: stored.version }) };
}

function keyIn({ idempotencyKey }: RepeatableCall): string {
  if (typeof idempotencyKey === "string" && /^[\x21-\x7e]{16,255}$/.test(idempotencyKey)) return idempotencyKey;
  throw new Fault("invalid", "`Idempotency-Key` must be 16 to 255 visible characters, such as a random UUID.", {
    field: "Idempotency-Key",
  });
}

const digestOf = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("hex");

const sealingKeyOf = (key: string, id: string) => ({ secret: key, salt: id, purpose: "sluice idempotent answer" });
