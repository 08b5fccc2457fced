/** Operations on the members of an account, and on invitations. */
import Type from "typebox";
import {
  flag,
  id,
  name,
  object,
  oneOf,
  optional,
  orNull,
  pageOf,
  pageQuery,
  role,
  strictObject,
  text,
  time,
} from "./common.ts";
import type { Operation } from "./operation.ts";
import { email, password } from "./people.ts";

const member = object({
  user: id("The id of the user."),
  name: name("For people."),
  email: text("The user's address."),
  role,
  hasSecondFactor: flag(),
  createdAt: time("Since when the user is a member."),
});

const invitation = object({
  id: id("The id of the invitation, which is no secret."),
  account: id("The account that it is for."),
  email: orNull(text("Only the user with this address may accept it; null for anyone.")),
  role,
  state: oneOf(["open", "accepted", "expired"]),
  createdAt: time("When it was created."),
  expiresAt: time("It can be accepted before it."),
});

const newInvitation = object({
  ...invitation.properties,
  url: orNull(text("The link, shown only here; null if it went by mail.")),
  isSent: flag("Whether the link was handed to the mail server, as it is whenever there is one and an address."),
});

const account = { account: id("The id of an account.") };
const accountParams = object(account);
const memberParams = object({ ...account, user: id("The id of a user.") });
const token = Type.String({ minLength: 1, maxLength: 100, description: "What follows `#token=` in the link." });

export const memberOperations = {
  listMembers: {
    method: "GET",
    path: "/accounts/:account/members",
    summary: "Lists the members of an account, newest first.",
    access: "reader",
    params: accountParams,
    query: strictObject(pageQuery),
    answer: pageOf(member),
  },
  updateMember: {
    method: "PATCH",
    path: "/accounts/:account/members/:user",
    summary: "Changes the role of a member. The last owner stays one.",
    access: "owner",
    params: memberParams,
    body: strictObject({ role }),
    answer: member,
  },
  removeMember: {
    method: "DELETE",
    path: "/accounts/:account/members/:user",
    summary: "Removes a member from an account. The last owner cannot be removed.",
    access: "owner",
    params: memberParams,
  },
  listInvitations: {
    method: "GET",
    path: "/accounts/:account/invitations",
    summary: "Lists the invitations of an account, newest first.",
    access: "owner",
    params: accountParams,
    query: strictObject(pageQuery),
    answer: pageOf(invitation),
  },
  createInvitation: {
    method: "POST",
    path: "/accounts/:account/invitations",
    summary:
      "Invites somebody to an account. The answer shows the link once; with an address and a mail server it is also sent.",
    access: "owner",
    params: accountParams,
    body: strictObject({
      role,
      email: optional(email("Only the user with this address may accept it.")),
      expiresInHours: optional(Type.Integer({ minimum: 1, maximum: 720, description: "Default: 72." })),
    }),
    answer: newInvitation,
    status: 201,
  },
  revokeInvitation: {
    method: "DELETE",
    path: "/accounts/:account/invitations/:invitation",
    summary: "Revokes an invitation that nobody has accepted.",
    access: "owner",
    params: object({ ...account, invitation: id("The id of an invitation.") }),
  },
  showInvitation: {
    method: "POST",
    path: "/invitations/show",
    summary: "Shows an invitation to whoever has its link.",
    access: "anyone",
    body: strictObject({ token }),
    answer: object({
      account: id("The account that it is for."),
      accountName: name("Its name."),
      email: orNull(text("Only the user with this address may accept it; null for anyone.")),
      role,
      expiresAt: time("It can be accepted before it."),
    }),
  },
  acceptInvitation: {
    method: "POST",
    path: "/invitations/accept",
    summary: "Accepts an invitation: as the signed-in user, or as a new user with a name, an address and a password.",
    access: "anyone",
    body: strictObject({
      token,
      name: optional(name("Of the new user.")),
      email: optional(email("Of the new user. Default: the address of the invitation.")),
      password: optional(password("Of the new user.")),
    }),
    answer: object({ account: id("The account."), user: id("The new member."), role }),
  },
} as const satisfies Record<string, Operation>;
