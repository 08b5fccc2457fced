/** Operations on operator tokens, with which machines call the API. */
import Type from "typebox";
import { id, name, object, optional, orNull, pageOf, pageQuery, strictObject, text, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const scopes = Type.Array(Type.String({ pattern: "^([a-zA-Z]{1,60}|[a-zA-Z]{0,60}\\*)$" }), {
  minItems: 1,
  maxItems: 100,
  description: "Names of operations, or prefixes followed by `*`, such as `list*`; `*` for all.",
});

const token = object({
  id: id("The id of the token, which is no secret."),
  name: name("For people."),
  hint: text("Its last characters."),
  scopes,
  createdAt: time("When it was created."),
  expiresAt: orNull(time("The token is valid before it; null for ever.")),
  revokedAt: orNull(time("When it was revoked, which is final.")),
  lastUsedAt: orNull(time("When it was last used, to the minute.")),
});

export const tokenOperations = {
  listTokens: {
    method: "GET",
    path: "/tokens",
    summary: "Lists the operator tokens, newest first.",
    access: "operator",
    query: strictObject(pageQuery),
    answer: pageOf(token),
  },
  createToken: {
    method: "POST",
    path: "/tokens",
    summary:
      "Creates an operator token for a machine. The answer shows it once. A token with scopes cannot create tokens.",
    access: "operator",
    body: strictObject({
      name: name("For people."),
      scopes,
      expiresAt: optional(orNull(time("The token is valid before it; null for ever."))),
    }),
    answer: object({
      ...token.properties,
      token: text("The token itself, shown only here."),
    }),
    status: 201,
  },
  revokeToken: {
    method: "POST",
    path: "/tokens/:token/revoke",
    summary: "Revokes an operator token, which is final.",
    access: "operator",
    params: object({ token: id("The id of a token.") }),
    answer: token,
  },
} as const satisfies Record<string, Operation>;
