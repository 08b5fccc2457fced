/** Operations on the members of an account, and on invitations. */
import Type from "typebox";
import { id, name, orNull, pageOf, pageQuery, role, strict, time } from "./common.ts";
import type { Operation } from "./operation.ts";
import { email, password } from "./people.ts";

const member = Type.Object({
  user: id("The id of the user."),
  name: name("For people."),
  email: Type.String({ description: "The user's address." }),
  role,
  hasSecondFactor: Type.Boolean(),
  createdAt: time("Since when the user is a member."),
});

const invitation = Type.Object({
  id: id("The id of the invitation, which is no secret."),
  account: id("The account that it is for."),
  email: orNull(Type.String({ description: "Only the user with this address may accept it; null for anyone." })),
  role,
  state: Type.Enum(["open", "accepted", "expired"] as const),
  createdAt: time("When it was created."),
  expiresAt: time("It can be accepted before it."),
});

const newInvitation = Type.Object({
  ...invitation.properties,
  url: orNull(Type.String({ description: "The link, shown only here; null if it went by mail." })),
  isSent: Type.Boolean({
    description: "Whether the link was handed to the mail server, as it is whenever there is one and an address.",
  }),
});

const account = { account: id("The id of an account.") };
const accountParams = Type.Object(account);
const memberParams = Type.Object({ ...account, user: id("The id of a user.") });
const token = Type.String({ minLength: 1, maxLength: 100, description: "What follows `#token=` in the link." });

export const memberOperations = {
  listMembers: {
    method: "GET",
    path: "/accounts/:account/members",
    summary: "Lists the members of an account, newest first.",
    access: "reader",
    params: accountParams,
    query: Type.Object(pageQuery, strict),
    answer: pageOf(member),
  },
  updateMember: {
    method: "PATCH",
    path: "/accounts/:account/members/:user",
    summary: "Changes the role of a member. The last owner stays one.",
    access: "owner",
    params: memberParams,
    body: Type.Object({ role }, strict),
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
    query: Type.Object(pageQuery, strict),
    answer: pageOf(invitation),
  },
  createInvitation: {
    method: "POST",
    path: "/accounts/:account/invitations",
    summary:
      "Invites somebody to an account. The answer shows the link once; with an address and a mail server it is also sent.",
    access: "owner",
    params: accountParams,
    body: Type.Object(
      {
        role,
        email: Type.Optional(email("Only the user with this address may accept it.")),
        expiresInHours: Type.Optional(Type.Integer({ minimum: 1, maximum: 720, description: "Default: 72." })),
      },
      strict,
    ),
    answer: newInvitation,
    status: 201,
  },
  revokeInvitation: {
    method: "DELETE",
    path: "/accounts/:account/invitations/:invitation",
    summary: "Revokes an invitation that nobody has accepted.",
    access: "owner",
    params: Type.Object({ ...account, invitation: id("The id of an invitation.") }),
  },
  showInvitation: {
    method: "POST",
    path: "/invitations/show",
    summary: "Shows an invitation to whoever has its link.",
    access: "anyone",
    body: Type.Object({ token }, strict),
    answer: Type.Object({
      account: id("The account that it is for."),
      accountName: name("Its name."),
      email: orNull(Type.String({ description: "Only the user with this address may accept it; null for anyone." })),
      role,
      expiresAt: time("It can be accepted before it."),
    }),
  },
  acceptInvitation: {
    method: "POST",
    path: "/invitations/accept",
    summary: "Accepts an invitation: as the signed-in user, or as a new user with a name, an address and a password.",
    access: "anyone",
    body: Type.Object(
      {
        token,
        name: Type.Optional(name("Of the new user.")),
        email: Type.Optional(email("Of the new user. Default: the address of the invitation.")),
        password: Type.Optional(password("Of the new user.")),
      },
      strict,
    ),
    answer: Type.Object({ account: id("The account."), user: id("The new member."), role }),
  },
} as const satisfies Record<string, Operation>;
