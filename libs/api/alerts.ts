/** Operations on alerts. */
import Type from "typebox";
import { id, orNull, pageOf, pageQuery, strict, time } from "./common.ts";
import type { Operation } from "./operation.ts";

export const alertKinds = ["budget.share", "budget.spent", "key.expiring", "key.revoked"] as const;

const alert = Type.Object({
  id: id("The id of the alert, which its webhook repeats."),
  at: time("When it was raised."),
  kind: Type.Enum(alertKinds, {
    description: "budget.share: 80 % of a budget are spent. key.expiring: a key expires within a week.",
  }),
  account: orNull(Type.String()),
  subject: Type.String({ description: "Such as `key key_1`, `account acme` or `group default`." }),
  detail: Type.Record(Type.String(), Type.Unknown(), {
    description: "The budget's period, limit and spending, or the key's name and times.",
  }),
  deliveredAt: orNull(time("When the webhook accepted it; null if it has not, or if there is none.")),
});

export const alertOperations = {
  listAlerts: {
    method: "GET",
    path: "/alerts",
    summary: "Alerts about budgets and keys, newest first.",
    access: "reader",
    query: Type.Object({ ...pageQuery, account: Type.Optional(id("Only alerts of this account.")) }, strict),
    answer: pageOf(alert),
  },
} as const satisfies Record<string, Operation>;
