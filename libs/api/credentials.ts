/**
 * Operations on the credentials of upstreams, for operators. A value goes in and never comes out:
 * answers show its last four characters.
 */
import Type from "typebox";
import { storedNamePattern } from "#catalogue/credentials.ts";
import { integer, listOf, object, oneOf, orNull, strictObject, text, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const credentialValue = Type.String({ minLength: 1, maxLength: 16_000, description: "The secret itself." });

const credential = object({
  name: text(),
  reference: text("As `credential` of an upstream names it."),
  hint: text("The last four characters of the value; empty for a short one."),
  version: integer("How many values it has had."),
  state: oneOf(
    ["usable", "unreadable"],
    "unreadable: no secret in CREDENTIALS_SECRET opens it, so it must be stored again.",
  ),
  createdAt: time("When it was stored first."),
  updatedAt: time("When it got its value."),
  overlapUntil: orNull(time("Until then the value before is in use as well.")),
  usedBy: listOf(text(), "The upstreams that name it."),
  problem: orNull(text("Why workers cannot use it, or that a vendor refuses it.")),
});

const params = strictObject({
  credential: Type.String({ pattern: `^${storedNamePattern}$`, description: "Its name." }),
});

export const credentialOperations = {
  listCredentials: {
    method: "GET",
    path: "/catalogue/credentials",
    summary: "The stored credentials of upstreams, without their values.",
    access: "operator",
    answer: object({ items: listOf(credential) }),
  },
  putCredential: {
    method: "PUT",
    path: "/catalogue/credentials/:credential",
    summary:
      "Stores a credential, or replaces its value. A value that is the mask of the present one, such as `…abcd`, changes nothing.",
    access: "operator",
    params,
    body: strictObject({
      value: orNull(Type.String({ ...credentialValue, description: "The secret itself; null keeps the present one." })),
      overlapSeconds: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 2_592_000,
          description:
            "How long workers use the value before as well, in turn. One that the vendor refuses is left out. Default: 0.",
        }),
      ),
    }),
    answer: credential,
  },
  deleteCredential: {
    method: "DELETE",
    path: "/catalogue/credentials/:credential",
    summary: "Deletes a credential that no upstream names.",
    access: "operator",
    params,
  },
} as const satisfies Record<string, Operation>;
