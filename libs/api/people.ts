/** Operations on people: who is signed in, their sessions, and all users for an operator. */
import Type from "typebox";
import {
  changeOf,
  flag,
  id,
  listOf,
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

/** The characters of a password, at least and at most. */
export const passwordLengths = { minLength: 12, maxLength: 128 } as const;

export const email = (description: string) =>
  Type.String({ pattern: "^[^\\s@<>]{1,64}@[^\\s@<>]{1,190}$", maxLength: 254, description });
export const password = (description: string) => Type.String({ ...passwordLengths, description });
const currentPassword = optional(
  Type.String({
    maxLength: passwordLengths.maxLength,
    description:
      "Required, unless there is no password yet or the session began with a sign-in link in the last 15 minutes.",
  }),
);

const user = object({
  id: id("The id of the user."),
  name: name("For people."),
  email: text("The address that the user signs in with."),
  isOperator: flag("Whether the user has every role in every account."),
  hasSecondFactor: flag(),
  createdAt: time("When the user was created."),
});

const me = object({
  kind: oneOf(["person", "token"]),
  id: id("The id of the user or of the token."),
  name: name("For people."),
  email: orNull(text("Null for a token.")),
  isOperator: flag("Whether the caller has every role in every account."),
  hasPassword: flag(),
  hasSecondFactor: flag(),
  scopes: orNull(listOf(text(), "The operations that a token may call; null for all.")),
  accounts: listOf(object({ id: id("The id of an account."), name: name("Its name."), role })),
});

const session = object({
  id: id("The id of the session, which is no secret."),
  isCurrent: flag("Whether this call uses it."),
  method: text("How it began: password, second-factor, link or oidc."),
  address: orNull(text("The IP address that it began from.")),
  userAgent: orNull(text("The browser that it began with.")),
  createdAt: time("When it began."),
  expiresAt: time("When it ends unless it is used."),
});

const userParams = object({ user: id("The id of a user.") });

export const peopleOperations = {
  getSignInMethods: {
    method: "GET",
    path: "/sign-in-methods",
    summary: "Lists the ways to sign in.",
    access: "anyone",
    answer: object({
      password: flag(),
      oidc: orNull(text("The name of the OpenID Connect provider; null without one.")),
      passwordReset: flag("Whether a forgotten password can be reset by mail."),
      needsLink: flag("Nobody has set up the gateway: its first operator needs the link that a start prints."),
    }),
  },
  getMe: {
    method: "GET",
    path: "/me",
    summary: "Shows the caller, with accounts and roles.",
    access: "person",
    answer: me,
  },
  updateMe: {
    method: "PATCH",
    path: "/me",
    summary:
      "Changes the caller's name or e-mail address. With a mail server, a new address counts once the link that is sent to it was opened; the answer has the address so far.",
    access: "person",
    body: changeOf({ name: name("For people."), email: email("The address to sign in with."), currentPassword }),
    answer: me,
  },
  setMyPassword: {
    method: "POST",
    path: "/me/password",
    summary: "Sets the caller's password, and ends the caller's other sessions.",
    access: "person",
    body: strictObject({ password: password("The new password."), currentPassword }),
  },
  listSessions: {
    method: "GET",
    path: "/me/sessions",
    summary: "Lists the caller's sessions, newest first.",
    access: "person",
    query: strictObject(pageQuery),
    answer: pageOf(session),
  },
  endSession: {
    method: "DELETE",
    path: "/me/sessions/:session",
    summary: "Ends one of the caller's sessions.",
    access: "person",
    params: object({ session: id("The id of a session.") }),
  },
  endSessions: {
    method: "DELETE",
    path: "/me/sessions",
    summary: "Ends the caller's sessions, the current one included.",
    access: "person",
    query: strictObject({ keepsCurrent: optional(flag("Whether the current session goes on.")) }),
  },
  listUsers: {
    method: "GET",
    path: "/users",
    summary: "Lists the users, newest first.",
    access: "operator",
    query: strictObject({
      ...pageQuery,
      search: optional(Type.String({ maxLength: 100, description: "A part of the name or the address." })),
    }),
    answer: pageOf(user),
  },
  updateUser: {
    method: "PATCH",
    path: "/users/:user",
    summary: "Makes a user an operator, or ends that. The last operator stays one.",
    access: "operator",
    params: userParams,
    body: strictObject({ isOperator: flag() }),
    answer: user,
  },
  removeUser: {
    method: "DELETE",
    path: "/users/:user",
    summary:
      "Removes a user with sessions and memberships. The last operator, and the last owner of an account, cannot be removed.",
    access: "operator",
    params: userParams,
  },
  endUserSessions: {
    method: "DELETE",
    path: "/users/:user/sessions",
    summary: "Ends all sessions of a user.",
    access: "operator",
    params: userParams,
  },
  createSignInLink: {
    method: "POST",
    path: "/sign-in-links",
    summary:
      "Creates a link that signs a user in once, for first steps and forgotten passwords. It does not ask for a second factor.",
    access: "operator",
    body: strictObject({ user: optional(id("The id of a user. Default: the first operator.")) }),
    answer: object({
      user: id("The id of the user."),
      email: text("The address of the user."),
      url: text("The link. Whoever opens it first is signed in as the user."),
      expiresAt: time("The link is valid before it."),
    }),
    status: 201,
  },
} as const satisfies Record<string, Operation>;
