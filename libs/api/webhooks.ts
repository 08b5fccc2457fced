/** Operations on the webhooks of accounts, which tell that batches and responses are over. */
import Type from "typebox";
import {
  changeOf,
  flag,
  id,
  integer,
  listOf,
  name,
  object,
  oneOf,
  optional,
  orNull,
  pageOf,
  pageQuery,
  strictObject,
  text,
  time,
} from "./common.ts";
import type { Operation } from "./operation.ts";
import { webhookPattern } from "./settings.ts";
import { webhookEvents } from "./vocabulary.ts";

export const deliveryStates = ["pending", "delivered", "failed"] as const;

const settings = {
  name: name("For people."),
  url: Type.String({
    maxLength: 2_000,
    pattern: webhookPattern.source,
    description: "Receives events by POST. Its host must have a public address, and it has no user name or password.",
  }),
  events: Type.Array(oneOf(webhookEvents), {
    minItems: 1,
    maxItems: webhookEvents.length,
    uniqueItems: true,
    description: "The events that it gets.",
  }),
};

const webhook = object({
  id: id("The id of the webhook."),
  account: id("The account whose events it gets."),
  ...settings,
  isEnabled: flag(),
  disabledReason: orNull(
    oneOf(
      ["person", "gone", "failing"],
      "gone: its receiver answered 410. failing: it has accepted nothing for days. Null while it is enabled.",
    ),
  ),
  createdAt: time("When it was created."),
  disabledAt: orNull(time("Since when it gets nothing.")),
  failingSince: orNull(time("The first failure since the last success.")),
  previousSecretUntil: orNull(time("Until then, events have a signature with the secret before, too.")),
});

const newWebhook = object({
  ...webhook.properties,
  secret: text("Verifies signatures (standardwebhooks.com); shown only here."),
});

const delivery = object({
  id: id("The id of the delivery."),
  webhook: id("Its webhook."),
  account: id("The account."),
  eventId: text("The id of the event, which `webhook-id` repeats at every attempt."),
  type: text("An event, or `webhook.test`."),
  subject: text("The id of the batch or the response."),
  createdAt: time("When the batch or the response was over."),
  state: oneOf(deliveryStates),
  attempts: listOf(
    object({
      at: time("When it began."),
      status: orNull(integer("The status of the answer; null without one.")),
      problem: orNull(text("Why it was not accepted; null if it was.")),
      durationMs: integer(),
    }),
    "The last ones, oldest first.",
  ),
  nextAttemptAt: orNull(time("Null if there is none.")),
  deliveredAt: orNull(time("When it was accepted.")),
});

const params = object({ webhook: id("The id of a webhook.") });

export const webhookOperations = {
  listWebhooks: {
    method: "GET",
    path: "/webhooks",
    summary: "Lists webhooks, newest first.",
    access: "member",
    query: strictObject({ ...pageQuery, account: optional(id("Only those of this account.")) }),
    answer: pageOf(webhook),
  },
  createWebhook: {
    method: "POST",
    path: "/webhooks",
    summary: "Creates a webhook. The answer shows its secret once.",
    access: "member",
    body: strictObject({ account: id("The account whose events it gets."), ...settings }),
    answer: newWebhook,
    status: 201,
  },
  getWebhook: {
    method: "GET",
    path: "/webhooks/:webhook",
    summary: "Reads a webhook, without its secret.",
    access: "member",
    params,
    answer: webhook,
  },
  updateWebhook: {
    method: "PATCH",
    path: "/webhooks/:webhook",
    summary: "Changes a webhook. Disabling it fails the deliveries that wait; they can be repeated.",
    access: "member",
    params,
    body: changeOf({ ...settings, isEnabled: flag() }),
    answer: webhook,
  },
  rotateWebhookSecret: {
    method: "POST",
    path: "/webhooks/:webhook/rotate",
    summary: "Creates a new secret. Events have a signature with the one before, too, for a while.",
    access: "member",
    params,
    body: strictObject({
      overlapSeconds: Type.Integer({
        minimum: 0,
        maximum: 7 * 86_400,
        description: "How long events are signed with the secret before, too.",
      }),
    }),
    answer: newWebhook,
    status: 201,
  },
  deleteWebhook: {
    method: "DELETE",
    path: "/webhooks/:webhook",
    summary: "Deletes a webhook and its deliveries.",
    access: "member",
    params,
  },
  testWebhook: {
    method: "POST",
    path: "/webhooks/:webhook/test",
    summary: "Sends an event of the type `webhook.test`, like any other event.",
    access: "member",
    params,
    answer: delivery,
    status: 201,
  },
  listDeliveries: {
    method: "GET",
    path: "/webhook-deliveries",
    summary: "Lists deliveries of events, newest first.",
    access: "member",
    query: strictObject({
      ...pageQuery,
      account: optional(id("Only those of this account.")),
      webhook: optional(id("Only those of this webhook.")),
      state: optional(oneOf(deliveryStates)),
    }),
    answer: pageOf(delivery),
  },
  repeatDelivery: {
    method: "POST",
    path: "/webhook-deliveries/:delivery/repeat",
    summary: "Sends an event again, with the same `webhook-id`, and retries for a day.",
    access: "member",
    params: object({ delivery: id("The id of a delivery.") }),
    answer: delivery,
  },
} as const satisfies Record<string, Operation>;
