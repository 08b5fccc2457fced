/** Operations on prices, for operators: differences to vendors' list prices, and their effect. */
import Type from "typebox";
import { catalogueChange, changeQuery } from "./catalogue-entries.ts";
import { flag, integer, listOf, money, object, oneOf, optional, orNull, strictObject, text } from "./common.ts";
import type { Operation } from "./operation.ts";

const modelId = Type.String({ minLength: 1, maxLength: 129, description: "The id of a model of the catalogue." });
const prices = (description: string) => Type.Record(Type.String(), Type.Unknown(), { description });

export const priceOperations = {
  listPriceDifferences: {
    method: "GET",
    path: "/catalogue/prices",
    summary: "Compares the prices of every target with the list prices of its vendor, as shipped with this version.",
    access: "operator",
    answer: object({
      date: text("When the list was made."),
      currency: text("Of the catalogue. The list is in USD; with another currency nothing is compared."),
      items: listOf(
        object({
          model: text(),
          upstream: text(),
          target: text("The vendor's name of the model."),
          source: oneOf(["file", "database"], "Where the model is; those of the file are changed there."),
          of: oneOf(["target", "model"], "Whose prices were compared."),
          state: oneOf(["equal", "different", "unknown"], "unknown: the list has no price."),
          differences: listOf(
            object({
              price: text("Such as `inputPerMillion`."),
              aboveInputTokens: integer("0 for any prompt."),
              catalogue: text("A decimal number."),
              list: text("A decimal number."),
              difference: oneOf(["cheaper", "dearer", "missing"]),
            }),
          ),
          listPrices: orNull(prices("As a model's `prices`.")),
        }),
      ),
    }),
  },
  applyListPrices: {
    method: "POST",
    path: "/catalogue/prices/apply",
    summary:
      "Gives models of the database the list prices of one of their targets, as one revision; a target with prices of its own gets them itself. Needs `If-Match` with the active revision.",
    access: "operator",
    query: changeQuery,
    body: strictObject({
      items: Type.Array(
        strictObject({
          model: modelId,
          upstream: Type.String({ minLength: 1, maxLength: 40 }),
          target: Type.String({ minLength: 1, maxLength: 256 }),
          from: optional(
            Type.String({
              pattern: "^\\d{4}-\\d{2}-\\d{2}$",
              description: "The day, in UTC, on which the prices begin. Default: at once.",
            }),
          ),
        }),
        { minItems: 1, maxItems: 1_000 },
      ),
    }),
    answer: catalogueChange,
  },
  estimatePrices: {
    method: "POST",
    path: "/catalogue/prices/estimate",
    summary:
      "The cost of a model's usage of the last 30 days at other prices, by the ledger's sums. Tiers for long prompts, service tiers and units other than tokens are not in these sums.",
    access: "operator",
    body: strictObject({
      model: modelId,
      prices: prices("As a model's `prices`."),
      priceRatios: optional(
        Type.Record(Type.String(), Type.Number({ minimum: 0, maximum: 1_000 }), {
          description: "Other factors of groups. Default: those of the catalogue.",
        }),
      ),
    }),
    answer: object({
      days: integer(),
      requests: integer(),
      inputTokens: integer(),
      outputTokens: integer(),
      billed: money("What callers were billed."),
      present: money("The same sums at the prices of the catalogue now."),
      proposed: money("The same sums at these prices."),
      isExact: flag("Whether neither price list has tiers, service tiers, or prices of other units."),
    }),
  },
} as const satisfies Record<string, Operation>;
