/** Operations on alerts. */
import Type from "typebox";
import { id, object, oneOf, optional, orNull, pageOf, pageQuery, strictObject, text, time } from "./common.ts";
import type { Operation } from "./operation.ts";

export const alertKinds = ["budget.share", "budget.spent", "key.expiring", "key.revoked", "webhook.disabled"] as const;

const alert = object({
  id: id("The id of the alert, which its webhook repeats."),
  at: time("When it was raised."),
  kind: oneOf(
    alertKinds,
    "budget.share: 80 % of a budget are spent. key.expiring: a key expires within a week. webhook.disabled: its receiver failed.",
  ),
  account: orNull(text()),
  subject: text("Such as `key key_1`, `account acme` or `group default`."),
  detail: Type.Record(text(), Type.Unknown(), {
    description: "The budget's period, limit and spending, the key's name and times, or the webhook's name and why.",
  }),
  deliveredAt: orNull(time("When the webhook accepted it; null if it has not, or if there is none.")),
});

export const alertOperations = {
  listAlerts: {
    method: "GET",
    path: "/alerts",
    summary: "Alerts about budgets and keys, newest first.",
    access: "reader",
    query: strictObject({ ...pageQuery, account: optional(id("Only alerts of this account.")) }),
    answer: pageOf(alert),
  },
} as const satisfies Record<string, Operation>;
