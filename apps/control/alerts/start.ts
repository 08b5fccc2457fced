/** Composes alerts: who raises them, and who gets them. */
import type { Logger } from "pino";
import { alertMailsMax, dropEveryMs } from "../bounds.ts";
import type { ControlConfig } from "../config.ts";
import type { Database } from "../database/database.ts";
import type { Mail } from "../sign-in/mail.ts";
import { type Alert, Alerts, type AlertsOptions, dropAlerts } from "./alerts.ts";
import { Webhook } from "./webhook.ts";

export interface StartAlertsOptions
  extends Pick<AlertsOptions, "database" | "redis" | "keyspace" | "catalogue" | "log"> {
  config: Pick<ControlConfig, "alertWebhookUrl" | "alertWebhookSecret" | "usageDays">;
  /** Undefined without a mail server. */
  mail: Mail | undefined;
}

const dayMs = 86_400_000;

/** The returned function stops everything. */
export function startAlerts({ config, mail, ...options }: StartAlertsOptions): () => void {
  const { alertWebhookUrl: url, alertWebhookSecret: secret } = config;
  const { database, log } = options;
  const webhook = url === undefined ? undefined : new Webhook({ database, url, secret, log });
  const alerts = new Alerts({
    ...options,
    delivers: webhook !== undefined,
    raised: (alert) => void mailOwners(database, mail, alert, log),
  });
  const drop = () =>
    dropAlerts(database, new Date(Date.now() - config.usageDays * dayMs)).catch((error: unknown) =>
      log.warn({ err: error }, "old alerts could not be dropped"),
    );
  const timer = setInterval(drop, dropEveryMs);
  void drop();
  return () => {
    clearInterval(timer);
    alerts.close();
    webhook?.close();
  };
}

/** To the owners of the account; to operators where there is none. Never rejects. */
async function mailOwners(database: Database, mail: Mail | undefined, alert: Alert, log: Logger): Promise<void> {
  if (mail === undefined) return;
  try {
    for (const address of await addressesOf(database, alert.account)) mail.send(address, titleOf(alert), textOf(alert));
  } catch (error) {
    log.warn({ err: error }, "an alert was not mailed");
  }
}

async function addressesOf(database: Database, account: string | null): Promise<string[]> {
  const users =
    account === null
      ? database.selectFrom("users").select("email").where("isOperator", "=", true)
      : database
          .selectFrom("users")
          .innerJoin("members", "members.user_id", "users.id")
          .select("email")
          .where("members.account", "=", account)
          .where("members.role", "=", "owner");
  const rows = await users.where("emailVerified", "=", true).limit(alertMailsMax).execute();
  return rows.map(({ email }) => email);
}

const titles: Record<Alert["kind"], string> = {
  "budget.share": "80 % of a budget are spent",
  "budget.spent": "A budget is spent",
  "key.expiring": "A key expires soon",
  "key.revoked": "A key was revoked",
};

const titleOf = ({ kind, subject }: Alert): string => `${titles[kind]}: ${subject}`;

function textOf({ kind, subject, account, detail }: Alert): string {
  const facts = Object.entries({ subject, ...(account !== null && { account }), ...detail });
  return `${titles[kind]}.\n\n${facts.map(([name, value]) => `${name}: ${String(value)}`).join("\n")}\n`;
}
