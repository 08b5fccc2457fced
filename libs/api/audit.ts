/** Operations on the audit log. */
import Type from "typebox";
import { id, orNull, pageOf, pageQuery, strict, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const entry = Type.Object({
  id: id("The id of the entry."),
  at: time("When it happened."),
  actor: Type.Object({
    kind: Type.String({ description: "person, token, or system for the gateway itself." }),
    id: Type.String({ description: "The id of the user or of the token." }),
    name: Type.String({ description: "The address or the name at that time." }),
  }),
  address: Type.String({ description: "The IP address that the call came from." }),
  action: Type.String({ description: "The name of the operation, or signIn." }),
  account: orNull(id("The account that it concerns.")),
  subject: Type.String({ description: "What was changed, such as `key key_1`." }),
  before: Type.Unknown({ description: "Its state before, without secrets; null for what is new." }),
  after: Type.Unknown({ description: "Its state after, without secrets; null for what was removed." }),
});

export const auditOperations = {
  listAudit: {
    method: "GET",
    path: "/audit",
    summary: "Lists who changed what, newest first. Owners see their own accounts.",
    access: "owner",
    query: Type.Object(
      {
        ...pageQuery,
        account: Type.Optional(id("Only entries of this account.")),
        actor: Type.Optional(id("Only entries of this user or token.")),
        action: Type.Optional(id("Only this action.")),
        from: Type.Optional(time("Only entries at this time or later.")),
        to: Type.Optional(time("Only entries before this time.")),
      },
      strict,
    ),
    answer: pageOf(entry),
  },
} as const satisfies Record<string, Operation>;
