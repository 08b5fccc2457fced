/** The rows of deliveries: one for each event and webhook. An event is added once. */
import { createHash, randomBytes } from "node:crypto";
import { type Selectable, sql } from "kysely";
import { eventsTakenMax } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { WebhookDeliveryRow, WebhookRow } from "../database/tables.ts";

export type Delivery = Selectable<WebhookDeliveryRow>;

/** The end of a batch or a response. */
export interface EndEvent {
  account: string;
  type: string;
  /** The id of the batch or the response. */
  subject: string;
  at: Date;
}

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 24);

/** The same for one event, however often it is told. */
const eventIdOf = ({ type, subject }: EndEvent): string => `evt_${hashOf(`${type} ${subject}`)}`;

const rowOf = (webhook: Pick<WebhookRow, "id" | "account">, event: EndEvent & { id: string }, now: Date) => ({
  id: `delivery_${hashOf(`${webhook.id} ${event.id}`)}`,
  webhook_id: webhook.id,
  account: webhook.account,
  event_id: event.id,
  type: event.type,
  subject: event.subject,
  created_at: event.at,
  started_at: now,
  next_attempt_at: now,
});

/** Adds deliveries of events to the webhooks of their accounts that want them. */
export async function addEvents(database: Database, events: readonly EndEvent[], now: Date): Promise<number> {
  if (events.length === 0) return 0;
  const webhooks = await database
    .selectFrom("webhooks")
    .select(["id", "account", "events"])
    .where("disabled_at", "is", null)
    .where("account", "in", [...new Set(events.map(({ account }) => account))])
    .execute();
  const rows = events.flatMap((event) =>
    webhooks
      .filter(({ account, events: wanted }) => account === event.account && wanted.some((type) => type === event.type))
      .map((webhook) => rowOf(webhook, { ...event, id: eventIdOf(event) }, now)),
  );
  if (rows.length > 0)
    await database
      .insertInto("webhook_deliveries")
      .values(rows)
      .onConflict((conflict) => conflict.column("id").doNothing())
      .execute();
  return rows.length;
}

/** Adds an event for one webhook alone, which tests its receiver. */
export const addDelivery = (
  database: Database,
  webhook: Pick<WebhookRow, "id" | "account">,
  now: Date,
): Promise<Delivery> =>
  database
    .insertInto("webhook_deliveries")
    .values(
      rowOf(
        webhook,
        {
          ...{ account: webhook.account, type: "webhook.test", subject: webhook.id, at: now },
          id: `evt_${randomBytes(12).toString("hex")}`,
        },
        now,
      ),
    )
    .returningAll()
    .executeTakeFirstOrThrow();

/** Adds the events of batches that are over, each once. */
export const announceBatches = (database: Database, now: Date): Promise<number> =>
  database.transaction().execute(async (transaction) => {
    const { rows } = await sql<{ id: string; account: string; state: string; ended_at: Date }>`
      update batches set is_announced = true where id in (
        select id from batches where ended_at is not null and not is_announced
        limit ${sql.lit(eventsTakenMax)} for update skip locked
      ) returning id, account, state, ended_at`.execute(transaction);
    const events = rows.map(({ id, account, state, ended_at: at }) => ({
      ...{ account, at, subject: id },
      type: `batch.${state}`,
    }));
    await addEvents(transaction, events, now);
    return rows.length;
  });

/** The deliveries of a disabled webhook fail. */
export const failWaiting = async (database: Database, webhook: string): Promise<void> => {
  await database
    .updateTable("webhook_deliveries")
    .set({ state: "failed", next_attempt_at: null })
    .where("webhook_id", "=", webhook)
    .where("state", "=", "pending")
    .execute();
};
