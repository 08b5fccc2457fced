/**
 * What callers may know of the catalogue: models, groups, prices and addresses. Never routes or
 * upstreams.
 */
import Type from "typebox";
import { orNull, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const amount = (description: string) => Type.String({ description });
const amounts = (description: string) => Type.Record(Type.String(), amount("A decimal number."), { description });

const groupPrices = Type.Object({
  group: Type.String(),
  prices: amounts(
    "By the catalogue's names, such as `inputPerMillion` and `perRequest`, with the group's ratio. An absent price is that of `inputPerMillion` or `outputPerMillion`.",
  ),
  images: Type.Array(
    Type.Object({
      size: Type.Optional(Type.String()),
      quality: Type.Optional(Type.String()),
      price: amount("Per image."),
    }),
    { description: "Prices of generated images; the first that matches applies." },
  ),
  tiers: Type.Array(
    Type.Object({ aboveInputTokens: Type.Integer(), prices: amounts("The prices that this tier replaces.") }),
    { description: "Prices for long prompts." },
  ),
  serviceTiers: Type.Record(Type.String(), Type.Number(), { description: "Factors, by the name of the service tier." }),
  periods: Type.Optional(
    Type.Array(
      Type.Object({
        from: Type.Optional(Type.String()),
        until: Type.Optional(Type.String()),
        hours: Type.Optional(Type.String({ description: "Of each day, in UTC." })),
        ratio: Type.Optional(Type.Number({ description: "A factor of all prices." })),
        prices: amounts("The prices that apply then."),
      }),
      { description: "Prices that begin, end, or apply at some hours; of several, the last one." },
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
    answer: Type.Object({
      version: Type.String({ description: "Changes with the catalogue." }),
      currency: Type.String({ description: "Of all amounts." }),
      baseUrl: orNull(
        Type.String({
          description:
            "The gateway's public base URL; that of GATEWAY_URL if the catalogue names none; null without both.",
        }),
      ),
      alternatives: Type.Record(Type.String(), Type.String(), {
        description: "Further base URLs that serve the same paths, by name.",
      }),
      publicGroup: orNull(Type.String({ description: "The group that needs no sign-in." })),
      groups: Type.Array(
        Type.Object({
          name: Type.String(),
          priceRatio: Type.Number({ description: "The factor that its prices include." }),
          models: Type.Array(Type.String(), { description: "The ids of its models." }),
        }),
      ),
      models: Type.Array(
        Type.Object({
          id: Type.String(),
          name: Type.String(),
          description: orNull(Type.String()),
          ownedBy: Type.String({ description: "The vendor." }),
          created: time("The release date."),
          contextWindow: orNull(Type.Integer()),
          outputTokensMax: orNull(Type.Integer()),
          capabilities: Type.Array(Type.String()),
          recommendedDialect: Type.String(),
          prices: Type.Array(groupPrices, { description: "One for each group that has the model." }),
        }),
      ),
    }),
  },
} as const satisfies Record<string, Operation>;
