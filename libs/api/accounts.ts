/** Operations on accounts. */
import Type from "typebox";
import { accountForm } from "#access/record.ts";
import {
  changeOf,
  flag,
  group,
  id,
  integer,
  name,
  object,
  optional,
  orNull,
  pageOf,
  pageQuery,
  strictObject,
  time,
} from "./common.ts";
import type { Operation } from "./operation.ts";

const groups = orNull(
  Type.Array(group, {
    maxItems: 500,
    uniqueItems: true,
    description: "The groups that may be given to its keys; null for all. Keys that have another group keep it.",
  }),
);

const account = object({
  id: id("The id of the account."),
  name: name("For people."),
  createdAt: time("When it was created."),
  disabledAt: orNull(time("Since when its keys are refused; null while it is active.")),
  groups,
  contentDays: orNull(integer("How many days the content of requests is stored; null if none is stored.")),
});

const params = object({ account: id("The id of an account.") });

export const accountOperations = {
  listAccounts: {
    method: "GET",
    path: "/accounts",
    summary: "Lists the accounts of the caller, or all for an operator.",
    access: "person",
    query: strictObject(pageQuery),
    answer: pageOf(account),
  },
  createAccount: {
    method: "POST",
    path: "/accounts",
    summary: "Creates an account.",
    access: "operator",
    body: strictObject({
      id: optional(
        Type.String({
          pattern: accountForm.source,
          description: "Its id in usage and limits. Default: a random one.",
        }),
      ),
      name: name("For people."),
      groups: optional(groups),
    }),
    answer: account,
    status: 201,
  },
  getAccount: {
    method: "GET",
    path: "/accounts/:account",
    summary: "Shows an account.",
    access: "reader",
    params,
    answer: account,
  },
  updateAccount: {
    method: "PATCH",
    path: "/accounts/:account",
    summary:
      "Changes an account: its name, the groups of its keys, or disables it. The keys of a disabled account are refused.",
    access: "operator",
    params,
    body: changeOf({ name: name("For people."), isDisabled: flag(), groups }),
    answer: account,
  },
} as const satisfies Record<string, Operation>;
