/** The catalogue as callers may know it, prepared once for each version. */
import { createHash } from "node:crypto";
import type { catalogueOperations } from "#api/catalogue.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { groupPricesOf } from "#catalogue/offers.ts";
import { isSignedIn, mayCall } from "../api/actor.ts";
import { Fault } from "../api/faults.ts";
import type { Answered, Handlers } from "../api/handlers.ts";

type Body = AnswerOf<(typeof catalogueOperations)["readCatalogue"]>;

export function catalogueHandlers(
  catalogue: () => Catalogue,
  gatewayUrl: () => string,
): Handlers<typeof catalogueOperations> {
  const everything = preparedFor((current) => [...current.groups.keys()], false, gatewayUrl);
  const inPublic = preparedFor(({ publicGroup }) => (publicGroup === undefined ? [] : [publicGroup]), true, gatewayUrl);
  return {
    async readCatalogue(_input, { actor }) {
      const current = catalogue();
      // Everybody may read what is public, also a token whose scopes allow no more.
      if (isSignedIn(actor) && mayCall(actor, "readCatalogue")) return everything(current);
      if (current.publicGroup === undefined)
        throw new Fault(
          "unauthenticated",
          "Sign in, or send a token with the scope readCatalogue as `Authorization: Bearer …`: no group is public.",
        );
      return inPublic(current);
    },
  };
}

/** Remembers the answer for the newest catalogue and address. */
function preparedFor(groupsOf: (catalogue: Catalogue) => string[], isPublic: boolean, gatewayUrl: () => string) {
  let last: { of: Catalogue; url: string; answered: Answered<Body> } | undefined;
  return (catalogue: Catalogue): Answered<Body> => {
    const url = gatewayUrl();
    if (last?.of !== catalogue || last.url !== url) {
      const body = bodyOf(catalogue, groupsOf(catalogue), url);
      const json = Buffer.from(JSON.stringify(body));
      const etag = `"${createHash("sha256").update(json).digest("hex").slice(0, 16)}"`;
      last = { of: catalogue, url, answered: { body, prepared: { json, etag, isPublic } } };
    }
    return last.answered;
  };
}

function bodyOf(catalogue: Catalogue, names: readonly string[], gatewayUrl: string): Body {
  const { version, currency, addresses, publicGroup = null } = catalogue;
  const groups = names.map((name) => ({
    name,
    priceRatio: catalogue.groups.get(name)?.priceRatio ?? 1,
    models: catalogue.modelsOf(name).map(({ id }) => id),
  }));
  const models = catalogue.models.flatMap((model) => {
    const having = groups.filter(({ name }) => catalogue.modelFor(name, model.id) !== undefined);
    if (having.length === 0) return [];
    return [
      {
        id: model.id,
        name: model.name,
        description: model.description ?? null,
        ownedBy: model.ownedBy,
        created: model.created === 0 ? null : new Date(model.created * 1_000).toISOString(),
        contextWindow: model.contextWindow ?? null,
        outputTokensMax: model.outputTokensMax ?? null,
        capabilities: [...model.capabilities],
        recommendedDialect: model.recommendedDialect,
        prices: having.map(({ name, priceRatio }) => ({ group: name, ...groupPricesOf(model.prices, priceRatio) })),
      },
    ];
  });
  return {
    version,
    currency,
    baseUrl: addresses?.baseUrl ?? (gatewayUrl || null),
    alternatives: { ...addresses?.alternatives },
    publicGroup,
    groups,
    models,
  };
}
