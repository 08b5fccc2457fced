/** Operations on the audit log. */
import Type from "typebox";
import { id, object, optional, orNull, pageOf, pageQuery, strictObject, text, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const entry = object({
  id: id("The id of the entry."),
  at: time("When it happened."),
  actor: object({
    kind: text("person, token, or system for the gateway itself."),
    id: text("The id of the user or of the token."),
    name: text("The address or the name at that time."),
  }),
  address: text("The IP address that the call came from."),
  action: text("The name of the operation, or signIn."),
  account: orNull(id("The account that it concerns.")),
  subject: text("What was changed, such as `key key_1`."),
  before: Type.Unknown({
    description:
      "Its state before, without secrets; null for what is new. A long one is its `beginning` and how many `characters` it has, with `isCut`.",
  }),
  after: Type.Unknown({
    description: "Its state after, without secrets; null for what was removed. A long one is cut alike.",
  }),
});

export const auditOperations = {
  listAudit: {
    method: "GET",
    path: "/audit",
    summary: "Lists who changed what, newest first. Owners see their own accounts.",
    access: "owner",
    query: strictObject({
      ...pageQuery,
      account: optional(id("Only entries of this account.")),
      actor: optional(id("Only entries of this user or token.")),
      action: optional(id("Only this action.")),
      subject: optional(Type.String({ minLength: 1, maxLength: 300, description: "Only what happened to it." })),
      from: optional(time("Only entries at this time or later.")),
      to: optional(time("Only entries before this time.")),
    }),
    answer: pageOf(entry),
  },
} as const satisfies Record<string, Operation>;
