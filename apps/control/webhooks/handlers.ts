/** The operations on webhooks. Their secrets are stored sealed, and shown once. */
import { randomBytes } from "node:crypto";
import type { Selectable } from "kysely";
import type { AnswerOf } from "#api/operation.ts";
import type { webhookOperations } from "#api/webhooks.ts";
import { hasCredentials } from "#service/config.ts";
import { isPublicHost, type Network } from "#service/public-agent.ts";
import { requireAccount } from "../accounts/members.ts";
import { within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { webhooksOfAccountMax } from "../bounds.ts";
import { type Inside, recordChange, transact } from "../database/change.ts";
import type { WebhookDeliveryRow, WebhookRow } from "../database/tables.ts";
import { addDelivery, failWaiting } from "./deliveries.ts";
import { sealSecret } from "./webhook-secret.ts";

type Webhook = Selectable<WebhookRow>;
type Delivery = Selectable<WebhookDeliveryRow>;
type ApiWebhook = AnswerOf<(typeof webhookOperations)["getWebhook"]>;
type ApiDelivery = AnswerOf<(typeof webhookOperations)["repeatDelivery"]>;

export interface WebhookHandlerOptions {
  /** Seals the secrets of webhooks. */
  secret: string;
  /** Private networks in which receivers may be. */
  networks: readonly Network[];
  /** A delivery is due. */
  wake(): void;
}

export function webhookHandlers({ secret, networks, wake }: WebhookHandlerOptions): Handlers<typeof webhookOperations> {
  const checkUrl = (text: string): void => {
    const refuse = (detail: string): never => {
      throw new Fault("invalid", detail, { field: "url" });
    };
    if (!URL.canParse(text)) refuse("`url` is not an address.");
    const url = new URL(text);
    if (hasCredentials(url)) refuse("`url` must not contain a user name or a password.");
    if (!isPublicHost(url.hostname, networks))
      refuse("The host of `url` must have a public address, or one in WEBHOOK_NETWORKS.");
  };
  const sealed = (id: string) => {
    const value = `whsec_${randomBytes(32).toString("base64")}`;
    return { value, sealed: sealSecret(secret, id, value) };
  };
  return {
    async listWebhooks({ query }, context) {
      let listed = webhooksWithin(context);
      if (query.account !== undefined) listed = listed.where("account", "=", query.account);
      const { rows, nextCursor } = await readPage(listed, query, ["created_at", "id"]);
      return { body: { items: rows.map(apiWebhookOf), nextCursor } };
    },

    async createWebhook({ body: { account, name, url, events } }, context) {
      checkUrl(url);
      const id = `webhook_${randomBytes(12).toString("hex")}`;
      const fresh = sealed(id);
      const row = await transact(context, "createWebhook", async (inside) => {
        await requireAccount(inside, account, true);
        const { count } = await inside.database
          .selectFrom("webhooks")
          .select(({ fn }) => fn.countAll<bigint>().as("count"))
          .where("account", "=", account)
          .executeTakeFirstOrThrow();
        if (Number(count) >= webhooksOfAccountMax)
          throw new Fault("conflict", `The account has ${count} webhooks, as many as it may; delete one first.`);
        const created = await inside.database
          .insertInto("webhooks")
          .values({
            ...{ id, account, name, url, secret: fresh.sealed },
            events: JSON.stringify(events),
            created_at: context.now,
          })
          .returningAll()
          .executeTakeFirstOrThrow();
        await inside.record({ account, subject: `webhook ${id}`, after: apiWebhookOf(created) });
        return created;
      });
      return { body: { ...apiWebhookOf(row), secret: fresh.value } };
    },

    async getWebhook({ params: { webhook } }, context) {
      return { body: apiWebhookOf(await webhookRow(context, webhook)) };
    },

    async updateWebhook({ params: { webhook }, body: { isEnabled, events, ...others } }, context) {
      if (others.url !== undefined) checkUrl(others.url);
      const row = await changed(context, "updateWebhook", webhook, ({ disabled_at }) => ({
        ...others,
        ...(events && { events: JSON.stringify(events) }),
        ...(isEnabled === true && { disabled_at: null, disabled_reason: null, failing_since: null }),
        ...(isEnabled === false && disabled_at === null && { disabled_at: context.now, disabled_reason: "person" }),
      }));
      return { body: apiWebhookOf(row) };
    },

    async rotateWebhookSecret({ params: { webhook }, body: { overlapSeconds } }, context) {
      const fresh = sealed(webhook);
      const row = await changed(context, "rotateWebhookSecret", webhook, (before) => ({
        secret: fresh.sealed,
        previous_secret: overlapSeconds === 0 ? null : before.secret,
        previous_secret_until: overlapSeconds === 0 ? null : new Date(context.now.getTime() + overlapSeconds * 1_000),
      }));
      return { body: { ...apiWebhookOf(row), secret: fresh.value } };
    },

    async deleteWebhook({ params: { webhook } }, context) {
      await transact(context, "deleteWebhook", async (inside) => {
        const before = await webhookRow(inside, webhook);
        await inside.database.deleteFrom("webhooks").where("id", "=", webhook).execute();
        await inside.record({
          account: before.account,
          subject: `webhook ${webhook}`,
          before: apiWebhookOf(before),
        });
      });
      return { body: undefined };
    },

    async testWebhook({ params: { webhook: id } }, context) {
      const row = await webhookRow(context, id);
      refuseDisabled(row);
      const delivery = await addDelivery(context.database, row, context.now);
      await recordChange(context, "testWebhook", { account: row.account, subject: `webhook ${id}` });
      wake();
      return { body: apiDeliveryOf(delivery) };
    },

    async listDeliveries({ query }, { database, scope }) {
      const { account, webhook, state } = query;
      let listed = database.selectFrom("webhook_deliveries").selectAll().where(within("account", scope));
      if (account !== undefined) listed = listed.where("account", "=", account);
      if (webhook !== undefined) listed = listed.where("webhook_id", "=", webhook);
      if (state !== undefined) listed = listed.where("state", "=", state);
      const { rows, nextCursor } = await readPage(listed, query, ["created_at", "id"]);
      return { body: { items: rows.map(apiDeliveryOf), nextCursor } };
    },

    async repeatDelivery({ params: { delivery: id } }, context) {
      const row = await transact(context, "repeatDelivery", async (inside) => {
        const before = await inside.database
          .selectFrom("webhook_deliveries")
          .selectAll()
          .where(within("account", inside.scope))
          .where("id", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (before === undefined) throw notFound("delivery", id);
        refuseDisabled(await webhookRow(inside, before.webhook_id));
        await inside.record({ account: before.account, subject: `webhook ${before.webhook_id}`, after: { id } });
        return inside.database
          .updateTable("webhook_deliveries")
          .set({ state: "pending", tries: 0, started_at: context.now, next_attempt_at: context.now })
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
      });
      wake();
      return { body: apiDeliveryOf(row) };
    },
  };
}

const webhooksWithin = ({ database, scope }: Pick<Context, "database" | "scope">) =>
  database.selectFrom("webhooks").selectAll().where(within("account", scope));

async function webhookRow(context: Pick<Context, "database" | "scope">, id: string): Promise<Webhook> {
  const row = await webhooksWithin(context).where("id", "=", id).executeTakeFirst();
  if (row === undefined) throw notFound("webhook", id);
  return row;
}

function refuseDisabled({ disabled_at }: Webhook): void {
  if (disabled_at !== null) throw new Fault("conflict", "The webhook is disabled; enable it first.");
}

type Columns = Partial<Omit<Webhook, "events"> & { events: string }>;

/** Changes a webhook, and records the change. The deliveries of one that is disabled fail. */
const changed = (
  context: Context,
  action: string,
  id: string,
  columnsOf: (before: Webhook) => Columns,
): Promise<Webhook> =>
  transact(context, action, async (inside: Inside<Context>) => {
    const before = await webhooksWithin(inside).where("id", "=", id).forUpdate().executeTakeFirst();
    if (before === undefined) throw notFound("webhook", id);
    const columns = columnsOf(before);
    if (Object.keys(columns).length === 0) return before;
    const after = await inside.database
      .updateTable("webhooks")
      .set(columns)
      .where("id", "=", id)
      .returningAll()
      .executeTakeFirstOrThrow();
    if (before.disabled_at === null && after.disabled_at !== null) await failWaiting(inside.database, id);
    await inside.record({
      account: before.account,
      subject: `webhook ${id}`,
      before: apiWebhookOf(before),
      after: apiWebhookOf(after),
    });
    return after;
  });

const isoOf = (time: Date | null): string | null => time?.toISOString() ?? null;

const apiWebhookOf = (row: Webhook): ApiWebhook => ({
  id: row.id,
  account: row.account,
  name: row.name,
  url: row.url,
  events: row.events,
  isEnabled: row.disabled_at === null,
  disabledReason: row.disabled_reason,
  createdAt: row.created_at.toISOString(),
  disabledAt: isoOf(row.disabled_at),
  failingSince: isoOf(row.failing_since),
  previousSecretUntil: isoOf(row.previous_secret_until),
});

const apiDeliveryOf = (row: Delivery): ApiDelivery => ({
  id: row.id,
  webhook: row.webhook_id,
  account: row.account,
  eventId: row.event_id,
  type: row.type,
  subject: row.subject,
  createdAt: row.created_at.toISOString(),
  state: row.state,
  attempts: row.attempts,
  nextAttemptAt: isoOf(row.next_attempt_at),
  deliveredAt: isoOf(row.delivered_at),
});
