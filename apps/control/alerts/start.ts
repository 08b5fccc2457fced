/** Composes alerts: who raises them, and who gets them. */
import type { Logger } from "pino";
import { createPublicAgent, type Network, networksOf } from "#service/public-agent.ts";
import { alertMailsMax, webhookMs } from "../bounds.ts";
import type { InstallationValues } from "../config.ts";
import type { Database } from "../database/database.ts";
import type { Mail } from "../sign-in/mail.ts";
import { type Alert, Alerts, type AlertsOptions } from "./alerts.ts";
import { Webhook } from "./webhook.ts";

export interface StartAlertsOptions
  extends Pick<AlertsOptions, "database" | "redis" | "keyspace" | "catalogue" | "clock" | "log"> {
  settings(): InstallationValues;
  /**
   * Whether the webhook's address comes from the environment, whose author may name any address.
   */
  isWebhookFixed: boolean;
  /** Private networks that a stored address may be in. */
  webhookNetworks: readonly Network[];
  mail: Mail;
}

export function startAlerts({ mail, isWebhookFixed, webhookNetworks, ...options }: StartAlertsOptions): {
  webhook: Webhook;
  close(): void;
} {
  const { database, log } = options;
  const networks = isWebhookFixed ? allNetworks : webhookNetworks;
  const agent = createPublicAgent(networks, { timeout: webhookMs, connections: 1 });
  const webhook = new Webhook({ ...options, dispatcher: () => agent });
  const alerts = new Alerts({ ...options, raised: (alert) => void mailOwners(database, mail, alert, log) });
  return {
    webhook,
    close() {
      alerts.close();
      webhook.close();
      void agent.destroy();
    },
  };
}

const allNetworks = networksOf("0.0.0.0/0, ::/0");

/** To the owners of the account; to operators where there is none. Never rejects. */
async function mailOwners(database: Database, mail: Mail, alert: Alert, log: Logger): Promise<void> {
  if (!mail.isAvailable()) return;
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
  "webhook.disabled": "A webhook was disabled because its receiver failed",
};

const titleOf = ({ kind, subject }: Alert): string => `${titles[kind]}: ${subject}`;

function textOf({ kind, subject, account, detail }: Alert): string {
  const facts = Object.entries({ subject, ...(account !== null && { account }), ...detail });
  return `${titles[kind]}.\n\n${facts.map(([name, value]) => `${name}: ${String(value)}`).join("\n")}\n`;
}
