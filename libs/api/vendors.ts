/**
 * Operations with which operators add an upstream: the vendors to pick from, a test of the settings
 * and the credential, and the models that the upstream offers.
 */
import Type from "typebox";
import { storedNamePattern } from "#catalogue/credentials.ts";
import { testOutcomes } from "#catalogue/upstream-test.ts";
import { flag, integer, listOf, object, oneOf, optional, orNull, strictObject, text } from "./common.ts";
import type { Operation } from "./operation.ts";

const tried = {
  upstream: Type.Record(Type.String(), Type.Unknown(), { description: "As `putUpstream` takes it." }),
  value: optional(
    Type.String({
      minLength: 1,
      maxLength: 16_000,
      description: "A credential that is not stored, in place of the upstream's own.",
    }),
  ),
};

const call = {
  outcome: oneOf(testOutcomes),
  problem: orNull(text("What failed, in words, and what to do about it; null for `ok`.")),
  message: orNull(text("The words of the vendor, or of the network. They never contain the credential.")),
  status: orNull(integer("The HTTP status of the answer.")),
  latencyMs: integer(),
};

export const vendorOperations = {
  listVendors: {
    method: "GET",
    path: "/catalogue/vendors",
    summary: "Vendors and servers of models, with the settings that an upstream of theirs begins with.",
    access: "operator",
    answer: object({
      items: listOf(
        object({
          id: text(),
          name: text(),
          kind: oneOf(["hosted", "self-hosted", "other"]),
          upstream: Type.Record(Type.String(), Type.Unknown(), {
            description: "Settings for `putUpstream`; `{name}` stands for a placeholder.",
          }),
          placeholders: listOf(object({ name: text(), label: text(), example: text() })),
          credential: oneOf(["needed", "optional", "none"]),
          keysUrl: orNull(text("Where its customers make a credential.")),
          note: orNull(text("For the operator.")),
        }),
      ),
    }),
  },
  testUpstream: {
    method: "POST",
    path: "/catalogue/test-upstream",
    summary:
      "A worker calls an upstream that need not be saved: its list of models, and a model if one is named, which costs a few tokens. Nothing is recorded as usage.",
    access: "operator",
    body: strictObject({
      ...tried,
      model: optional(Type.String({ minLength: 1, maxLength: 256, description: "The vendor's name of a model." })),
    }),
    answer: object({
      isOk: flag(
        "Whether all calls succeeded. Some upstreams have no list of models; then the call of a model decides.",
      ),
      list: object({ ...call, models: integer("How many it lists.") }),
      call: orNull(object({ ...call, answer: orNull(text("The beginning of the model's answer.")) })),
    }),
  },
  fetchModels: {
    method: "POST",
    path: "/catalogue/fetch-models",
    summary: "The models that an upstream lists, compared with the catalogue, with prices of the shipped list.",
    access: "operator",
    body: strictObject({
      ...tried,
      name: optional(
        Type.String({
          pattern: `^${storedNamePattern}$`,
          description: "The upstream's name in the catalogue, if it has one.",
        }),
      ),
    }),
    answer: object({
      ...call,
      items: listOf(
        object({
          name: text("The vendor's name."),
          state: oneOf(
            ["new", "known", "gone"],
            "known: a target of the catalogue. gone: a target that the upstream does not list; it may answer all the same.",
          ),
          contextWindow: orNull(integer()),
          outputTokensMax: orNull(integer()),
          capabilities: listOf(text()),
          prices: orNull(
            Type.Record(Type.String(), Type.Unknown(), {
              description: "As a model's `prices`; null if the list has none.",
            }),
          ),
        }),
      ),
    }),
  },
} as const satisfies Record<string, Operation>;
