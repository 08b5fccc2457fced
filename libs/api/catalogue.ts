/**
 * The part of the catalogue that callers may know: models, groups, prices and addresses. Never
 * routes or upstreams.
 */
import Type from "typebox";
import { integer, listOf, number, object, optional, orNull, text, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const amount = (description: string) => Type.String({ description });
const amounts = (description: string) => Type.Record(text(), amount("A decimal number."), { description });

const groupPrices = object({
  group: text(),
  prices: amounts(
    "By the catalogue's names, such as `inputPerMillion` and `perRequest`, with the group's ratio. An absent price is that of `inputPerMillion` or `outputPerMillion`.",
  ),
  images: listOf(
    object({
      size: optional(text()),
      quality: optional(text()),
      price: amount("Per image."),
    }),
    "Prices of generated images; the first that matches applies.",
  ),
  tiers: listOf(
    object({ aboveInputTokens: integer(), prices: amounts("The prices that this tier replaces.") }),
    "Prices for long prompts.",
  ),
  serviceTiers: Type.Record(text(), number(), { description: "Factors, by the name of the service tier." }),
  periods: optional(
    listOf(
      object({
        from: optional(text()),
        until: optional(text()),
        hours: optional(text("Of each day, in UTC.")),
        ratio: optional(number("A factor of all prices.")),
        prices: amounts("The prices that apply then."),
      }),
      "Prices that begin, end, or apply at some hours; of several, the last one.",
    ),
  ),
});

export const catalogueOperations = {
  readCatalogue: {
    method: "GET",
    path: "/catalogue",
    summary:
      "Models, groups, prices and base URLs. Without sign-in: those of the public group, if the catalogue has one.",
    access: "anyone",
    answer: object({
      version: text("Changes with the catalogue."),
      currency: text("Of all amounts."),
      baseUrl: orNull(
        text("The gateway's public base URL; that of GATEWAY_URL if the catalogue names none; null without both."),
      ),
      alternatives: Type.Record(text(), text(), {
        description: "Further base URLs that serve the same paths, by name.",
      }),
      publicGroup: orNull(text("The group that needs no sign-in.")),
      groups: listOf(
        object({
          name: text(),
          priceRatio: number("The factor that its prices include."),
          models: listOf(text(), "The ids of its models."),
        }),
      ),
      models: listOf(
        object({
          id: text(),
          name: text(),
          description: orNull(text()),
          ownedBy: text("The vendor."),
          created: orNull(time("The release date; null if it is unknown.")),
          contextWindow: orNull(integer()),
          outputTokensMax: orNull(integer()),
          capabilities: listOf(text()),
          recommendedDialect: text(),
          prices: listOf(groupPrices, "One for each group that has the model."),
        }),
      ),
    }),
  },
} as const satisfies Record<string, Operation>;
