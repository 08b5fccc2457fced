/**
 * Delivers alerts to the operator's webhook, signed as in https://www.standardwebhooks.com. An alert
 * that is not accepted is sent again for about two days, with growing pauses. A receiver may see an
 * alert twice; its `webhook-id` is the same.
 */

import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Dispatcher } from "undici";
import type { Clock } from "#service/clock.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import { StartupFault } from "#service/startup.ts";
import { deliveredTogetherMax, deliveryEveryMs, deliveryLeaseMs, webhookMs } from "../bounds.ts";
import type { InstallationValues } from "../config.ts";
import type { Database } from "../database/database.ts";
import { post } from "../webhooks/post.ts";

type WebhookSettings = Pick<InstallationValues, "alertWebhookUrl" | "alertWebhookSecret">;

export interface WebhookOptions {
  database: Database;
  /** The settings in force now. */
  settings(): WebhookSettings;
  /** Makes the connections. Undefined: any address may be called. */
  dispatcher?(): Dispatcher | undefined;
  clock: Clock;
  log: Logger;
}

interface Due {
  id: string;
  at: Date;
  kind: string;
  account: string | null;
  subject: string;
  detail: Record<string, unknown>;
  attempts: number;
}

/** The pauses between attempts, in seconds. */
const pauses = [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000];

export class Webhook {
  readonly #options: WebhookOptions;
  readonly #task: PeriodicTask;

  /** Throws a StartupFault for an address that is none. */
  constructor(options: WebhookOptions) {
    const { alertWebhookUrl: url } = options.settings();
    if (url !== undefined && !(URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)))
      throw new StartupFault("ALERT_WEBHOOK_URL must be an http or https address");
    this.#options = options;
    this.#task = new PeriodicTask({
      everyMs: deliveryEveryMs,
      run: () => this.#run(),
      log: options.log,
      level: "warn",
      failed: "alerts could not be delivered",
      works: "alerts are delivered again",
    });
  }

  close(): void {
    this.#task.close();
  }

  /** Delivers what is due. Never rejects. */
  run(): Promise<void> {
    return this.#task.run();
  }

  async #run(): Promise<boolean> {
    if (this.#options.settings().alertWebhookUrl === undefined) return false;
    for (const alert of await this.#take()) await this.#deliver(alert);
    return true;
  }

  /** Sends something like an alert. Resolves to why it was not accepted; undefined if it was. */
  sendTest(): Promise<string | undefined> {
    const alert = {
      id: `alert_${randomUUID().replaceAll("-", "")}`,
      at: new Date(this.#options.clock.epoch()),
      account: null,
      subject: "test",
      detail: {},
    };
    return this.#send(alert.id, JSON.stringify({ type: "test", kind: "test", ...alert }));
  }

  /** Claims alerts for a while, so that two processes rarely send the same one. */
  async #take(): Promise<Due[]> {
    const { rows } = await sql<Due>`
      update alerts set attempts = attempts + 1, next_attempt_at = ${new Date(this.#options.clock.epoch() + deliveryLeaseMs)}
      where id in (
        select id from alerts where next_attempt_at <= ${new Date(this.#options.clock.epoch())} order by next_attempt_at
        limit ${sql.lit(deliveredTogetherMax)} for update skip locked
      )
      returning id, at, kind, account, subject, detail, attempts`.execute(this.#options.database);
    return rows;
  }

  async #deliver({ attempts, ...alert }: Due): Promise<void> {
    const { database, log } = this.#options;
    const problem = await this.#send(alert.id, JSON.stringify({ type: alert.kind, ...alert }));
    const pause = pauses[attempts - 1];
    const next =
      problem === undefined || pause === undefined ? null : new Date(this.#options.clock.epoch() + pause * 1_000);
    if (problem !== undefined) log.warn({ alert: alert.id, attempts, problem }, "the webhook did not accept an alert");
    await database
      .updateTable("alerts")
      .set({
        next_attempt_at: next,
        ...(problem === undefined && { delivered_at: new Date(this.#options.clock.epoch()) }),
      })
      .where("id", "=", alert.id)
      .execute();
  }

  /** Undefined if it was accepted. */
  async #send(id: string, body: string): Promise<string | undefined> {
    const { alertWebhookUrl: url, alertWebhookSecret: secret } = this.#options.settings();
    if (url === undefined) return "no webhook";
    const { problem } = await post(
      {
        ...{ url, id, body, secrets: secret === undefined ? [] : [secret], timeoutMs: webhookMs },
        dispatcher: this.#options.dispatcher?.(),
      },
      this.#options.clock,
    );
    return problem;
  }
}
