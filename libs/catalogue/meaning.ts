/**
 * Checks what the schema cannot express: references between parts of the file, URLs, and unique
 * ids.
 */

import type { Prices } from "#ledger/prices.ts";
import { suggestionOf } from "#service/nearest.ts";
import { ambiguityOf } from "#service/secret-files.ts";
import { baseUrlFaultOf, credentialNamesOf, type Environment, filledIn, isOffered } from "./environment.ts";
import type { Finding, Path } from "./fault.ts";
import { priceFindingsOf, ratioFindingsOf } from "./price-findings.ts";
import type { CatalogueFile } from "./schema.ts";
import { declaredModelsOf, isWildcard, listedPricesOf, nameIn } from "./wildcards.ts";

/** Headers that contain secrets or control the connection. */
const reservedHeaders =
  /^(authorization|proxy-authorization|cookie|x-api-key|api-key|x-goog-api-key|host|connection|content-length|content-type|transfer-encoding|accept-encoding)$/i;

/** All mistakes in a file that matches the schema. */
export function meaningFindingsOf(file: CatalogueFile, environment: Environment): Finding[] {
  return [
    ...addressFindingsOf(file),
    ...upstreamFindingsOf(file, environment),
    ...modelFindingsOf(file),
    ...groupFindingsOf(file),
  ];
}

function addressFindingsOf({ addresses }: CatalogueFile): Finding[] {
  if (!addresses) return [];
  return [
    ...baseUrlFindingsOf(["addresses", "baseUrl"], addresses.baseUrl),
    ...Object.entries(addresses.alternatives).flatMap(([name, url]) =>
      baseUrlFindingsOf(["addresses", "alternatives", name], url),
    ),
  ];
}

function upstreamFindingsOf({ upstreams }: CatalogueFile, environment: Environment): Finding[] {
  return Object.entries(upstreams).flatMap(([name, upstream]) => {
    const path = ["upstreams", name];
    const ambiguities = credentialNamesOf(upstream).flatMap((variable) => ambiguityOf(variable, environment) ?? []);
    if (ambiguities[0] !== undefined) return [{ path, text: ambiguities[0] }];
    const findings = Object.keys(upstream.headers)
      .filter((header) => reservedHeaders.test(header))
      .map(
        (header): Finding => ({
          path: [...path, "headers", header],
          atKey: true,
          text: "may not be set here; use `credential` for secrets, the worker sets the other headers",
        }),
      );
    const { cacheDomain = {} } = upstream;
    const names = credentialNamesOf(upstream);
    for (const variable of typeof cacheDomain === "string" ? [] : Object.keys(cacheDomain))
      if (!names.includes(variable)) {
        const text = unknownText("credential of this upstream is named", variable, names);
        findings.push({ path: [...path, "cacheDomain", variable], atKey: true, text });
      }
    if (!isOffered(upstream, environment)) return findings;
    const address = filledIn(upstream.baseUrl, environment);
    const at = [...path, "baseUrl"];
    return [
      ...findings,
      ...(address.kind === "faulty" ? [{ path: at, text: address.reason }] : baseUrlFindingsOf(at, address.text, true)),
    ];
  });
}

function baseUrlFindingsOf(path: Path, url: string, mayHaveQuery = false): Finding[] {
  const text = baseUrlFaultOf(url, mayHaveQuery);
  return text === undefined ? [] : [{ path, text }];
}

function modelFindingsOf({ models, queues, upstreams }: CatalogueFile): Finding[] {
  const firstWith = new Map<string, number>();
  const declared = declaredModelsOf(models);
  return models.flatMap((model, index) => {
    const findings: Finding[] = [];
    const path = ["models", index];
    const addFinding = (own: Path, text: string) => findings.push({ path: [...path, ...own], text });
    const addUnknown = (own: Path, kind: "queue" | "upstream", name: string) => {
      const named = kind === "queue" ? queues : upstreams;
      if (!Object.hasOwn(named, name)) addFinding(own, unknownText(`${kind} is named`, name, Object.keys(named)));
    };
    const addPrices = (own: Path, prices: Prices | undefined) =>
      prices && findings.push(...priceFindingsOf(prices, [...path, ...own, "prices"]));
    const twin = firstWith.get(model.id);
    if (twin === undefined) firstWith.set(model.id, index);
    else addFinding(["id"], `"${model.id}" is already the id of models[${twin}]`);
    addUnknown(["queue"], "queue", model.queue);
    if (createdSecondsOf(model.created) === undefined)
      addFinding(["created"], "must be a date such as 2026-01-31, or seconds since 1970");
    const { contextWindow = Number.POSITIVE_INFINITY, outputTokensMax = 0 } = model;
    if (outputTokensMax > contextWindow)
      addFinding(["outputTokensMax"], `is more than contextWindow, which is ${contextWindow}`);
    for (const [place, id] of model.fallbacks.entries()) {
      if (id === model.id) addFinding(["fallbacks", place], "is the model itself");
      else if (!declared.has(id)) addFinding(["fallbacks", place], unknownText("model has the id", id, declared.ids));
    }
    addPrices([], model.prices);
    findings.push(...wildcardFindingsOf(model, path, new Set(models.map(({ id }) => id))));
    findings.push(...strategyFindingsOf(model, path));
    if (model.mirror !== undefined) {
      const { upstream, queue, prices, model: name } = model.mirror;
      addUnknown(["mirror", "upstream"], "upstream", upstream);
      addUnknown(["mirror", "queue"], "queue", queue);
      if (queue === model.queue)
        addFinding(["mirror", "queue"], "is the model's own queue, where copies would delay the requests of callers");
      if (name.includes("*")) addFinding(["mirror", "model"], "may not contain `*`");
      addPrices(["mirror"], prices);
    }
    for (const [place, { upstream, model: name, prices }] of model.route.entries()) {
      if (name.includes("*") && (!isWildcard(model.id) || name.indexOf("*") < name.length - 1))
        addFinding(["route", place, "model"], "may contain `*` only at its end, and only if the id ends in `*`");
      addPrices(["route", place], prices);
      addUnknown(["route", place, "upstream"], "upstream", upstream);
    }
    return findings;
  });
}

/** A strategy chooses among neighbours with weights, and the cheapest one by their prices. */
function strategyFindingsOf({ strategy, route }: CatalogueFile["models"][number], path: Path): Finding[] {
  if (strategy === "weights") return [];
  const isEqual = (place: number) => route[place]?.weight !== undefined;
  const equal = [...route.keys()].filter((place) => isEqual(place) && (isEqual(place - 1) || isEqual(place + 1)));
  if (equal.length === 0)
    return [
      {
        path: [...path, "strategy"],
        text: `"${strategy}" needs targets to choose from: give at least two adjacent targets of the route a \`weight\`, such as 1 each`,
      },
    ];
  if (strategy !== "cheapest") return [];
  return equal
    .filter((place) => route[place]?.prices === undefined)
    .map((place) => ({
      path: [...path, "route", place, "prices"],
      text: "missing: `strategy: cheapest` compares targets by what the operator pays there",
    }));
}

/** A wildcard needs a price for whatever it passes through: one for all, or one for each. */
function wildcardFindingsOf(model: CatalogueFile["models"][number], path: Path, ids: ReadonlySet<string>): Finding[] {
  const { id: entryId, prices, pricesByModel } = model;
  if (!isWildcard(entryId)) {
    const own = pricesByModel && {
      path: [...path, "pricesByModel"],
      atKey: true,
      text: "needs an id that ends in `*`",
    };
    return [...(prices ? [] : [{ path: [...path, "prices"], text: "missing" }]), ...(own ? [own] : [])];
  }
  if (!prices && !pricesByModel)
    return [
      {
        path: [...path, "prices"],
        text: "missing: a wildcard needs `prices` for all of its models (0 if they are free), or `pricesByModel`",
      },
    ];
  return listedPricesOf(model).flatMap(({ id, name, prices: listed }): Finding[] => {
    const at = [...path, "pricesByModel", name];
    if (nameIn(entryId, id) === undefined) return [{ path: at, atKey: true, text: `"${id}" cannot be a model's name` }];
    if (ids.has(id)) return [{ path: at, atKey: true, text: `"${id}" is already the id of another entry` }];
    return priceFindingsOf(listed, at);
  });
}

const unknownText = (what: string, name: string, names: Iterable<string>) =>
  `no ${what} "${name}"${suggestionOf(name, names)}`;

function groupFindingsOf({ groups, models, publicGroup }: CatalogueFile): Finding[] {
  const declared = declaredModelsOf(models);
  const unknown: Finding[] =
    publicGroup === undefined || Object.hasOwn(groups, publicGroup)
      ? []
      : [{ path: ["publicGroup"], text: unknownText("group is named", publicGroup, Object.keys(groups)) }];
  const patternFindingsOf = (pattern: string, place: Omit<Finding, "text">): Finding[] => {
    const star = pattern.indexOf("*");
    if (star !== -1 && star !== pattern.length - 1) return [{ ...place, text: "`*` may stand only at the end" }];
    return star === -1 && !declared.has(pattern)
      ? [{ ...place, text: unknownText("model has the id", pattern, declared.ids) }]
      : [];
  };
  const findings = Object.entries(groups).flatMap(([name, group]) => [
    ...ratioFindingsOf(group.priceRatio, ["groups", name, "priceRatio"]),
    ...group.models.flatMap((pattern, index) =>
      patternFindingsOf(pattern, { path: ["groups", name, "models", index] }),
    ),
    ...Object.keys(group.modelLimits ?? {}).flatMap((pattern) =>
      patternFindingsOf(pattern, { path: ["groups", name, "modelLimits", pattern], atKey: true }),
    ),
    ...[
      ...(["limits", "keyLimits", "accountLimits"] as const).map((of) => ({ path: [of], limits: group[of] })),
      ...(["tagLimits", "modelLimits"] as const).flatMap((of) =>
        Object.entries(group[of] ?? {}).map(([part, limits]) => ({ path: [of, part], limits })),
      ),
    ].flatMap(({ path: own, limits = {} }): Finding[] => {
      const { budgetPerDay = 0, budgetPerMonth = Number.POSITIVE_INFINITY, onLimit, waitMs } = limits;
      const wrong: [limit: string, text: string][] = [];
      if (own[0] === "tagLimits" && limits.budgetTotal !== undefined)
        wrong.push(["budgetTotal", "is not possible: the sums of tags end with their records"]);
      if (own[0] === "modelLimits")
        for (const limit of Object.keys(limits).filter((each) => each.startsWith("budget")))
          wrong.push([limit, "is not possible: budgets are those of keys, accounts, groups and tags"]);
      if (budgetPerDay > budgetPerMonth)
        wrong.push(["budgetPerDay", `is more than budgetPerMonth, which is ${budgetPerMonth}`]);
      if (waitMs !== undefined && onLimit !== "wait") wrong.push(["waitMs", "is of use only with onLimit: wait"]);
      return wrong.map(([limit, text]) => ({ path: ["groups", name, ...own, limit], text }));
    }),
  ]);
  return [...unknown, ...findings];
}

/**
 * Seconds since 1970 of a date (midnight, UTC); returns a number unchanged. Undefined for an
 * invalid date, such as 31 February.
 */
export function createdSecondsOf(created: number | string): number | undefined {
  if (typeof created === "number") return created;
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(created) ? Date.parse(created) : Number.NaN;
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(created) ? ms / 1_000 : undefined;
}
