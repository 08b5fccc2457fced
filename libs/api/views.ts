/**
 * Operations on saved views: the filters of a page of the console under a name, for a person or for
 * an account's members.
 */
import Type from "typebox";
import {
  changeOf,
  flag,
  id,
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

/** Pages that have views. */
const viewPages = ["usage", "requests"] as const;

const page = oneOf(viewPages, "The page of the console.");
const settings = {
  name: name("For people."),
  account: orNull(id("Whose members see the view too; null for its person alone.")),
  search: Type.Record(Type.String({ pattern: "^[A-Za-z]{1,30}$" }), Type.String({ maxLength: 2_000 }), {
    maxProperties: 20,
    description: "Filters and other choices, as in the page's address.",
  }),
};

const view = object({
  id: id("The id of the view."),
  page,
  ...settings,
  isOwn: flag("Whether it belongs to the caller."),
  person: text("The name of the person whom it belongs to."),
  createdAt: time("When it was saved."),
});

const params = object({ view: id("The id of a view.") });

export const viewOperations = {
  listViews: {
    method: "GET",
    path: "/views",
    summary: "Lists the caller's views and those that are shared with the caller's accounts, newest first.",
    access: "reader",
    query: strictObject({ ...pageQuery, page: optional(page) }),
    answer: pageOf(view),
  },
  createView: {
    method: "POST",
    path: "/views",
    summary: "Saves a view. A person may have 50.",
    access: "person",
    body: strictObject({ page, ...settings }),
    answer: view,
    status: 201,
  },
  updateView: {
    method: "PATCH",
    path: "/views/:view",
    summary: "Changes a view of the caller: its name, its filters, or with whom it is shared.",
    access: "person",
    params,
    body: changeOf(settings),
    answer: view,
  },
  removeView: {
    method: "DELETE",
    path: "/views/:view",
    summary: "Removes a view of the caller. Owners also remove those that are shared with their account.",
    access: "person",
    params,
  },
} as const satisfies Record<string, Operation>;
