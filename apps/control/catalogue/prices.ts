/** Prices for operators: differences to vendors' list prices, and the effect of other prices. */
import { sql } from "kysely";
import { Value } from "typebox/value";
import type { InputOf } from "#api/operation.ts";
import type { priceOperations } from "#api/prices.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Environment } from "#catalogue/environment.ts";
import { CatalogueFault } from "#catalogue/fault.ts";
import { checkPrices, listedModelOf, readListPrices } from "#catalogue/list-prices.ts";
import { checkedEntriesOf } from "#catalogue/load.ts";
import { priceFindingsOf } from "#catalogue/price-findings.ts";
import type { Entry, StoredDocument } from "#catalogue/stored.ts";
import { ppmOf, unitsOf } from "#ledger/money.ts";
import { costOf, type Prices, pricesSchema, unitPricesOf } from "#ledger/prices.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Handlers } from "../api/handlers.ts";
import { estimateDays } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { StoredCatalogue } from "./stored-catalogue.ts";

export interface PriceHandlerOptions {
  stored: StoredCatalogue;
  catalogue(): Catalogue;
  environment: Environment;
}

type Applied = InputOf<(typeof priceOperations)["applyListPrices"]>["body"]["items"][number];

/** The shipped list is in it. */
const listCurrency = "USD";

export function priceHandlers({
  stored,
  catalogue,
  environment,
}: PriceHandlerOptions): Handlers<typeof priceOperations> {
  const baseUrlOf = (upstream: string) => String(stored.entries().upstreams[upstream]?.baseUrl);
  return {
    async listPriceDifferences() {
      const list = readListPrices();
      const { currency } = catalogue();
      const entries = stored.entries();
      const { models } = stored.active.document;
      const checked = currency === listCurrency ? checkPrices(checkedEntriesOf(entries), list, environment) : [];
      const items = checked.map((item) => ({
        ...item,
        source: Object.hasOwn(models, item.model) ? ("database" as const) : ("file" as const),
        differences: [...item.differences],
        listPrices:
          listedModelOf(list, {
            baseUrl: String(entries.upstreams[item.upstream]?.baseUrl),
            name: item.target,
            environment,
          }).prices ?? null,
      }));
      return { body: { date: list.date, currency, items } };
    },
    async applyListPrices({ query, body: { items } }, context) {
      const list = readListPrices();
      if (catalogue().currency !== listCurrency)
        throw new Fault("conflict", `The list is in ${listCurrency}, and the catalogue is not.`);
      const pricesFor = ({ upstream, target }: Applied) => {
        const { prices } = listedModelOf(list, { baseUrl: baseUrlOf(upstream), name: target, environment });
        if (prices === undefined) throw notFound("list price of", target);
        return prices;
      };
      const body = await stored.change(context, {
        action: "applyListPrices",
        comment: query.comment ?? `list prices of ${list.date}`,
        isDryRun: query.dryRun ?? false,
        edit: (document) => items.reduce((changed, item) => withPrices(changed, item, pricesFor(item)), document),
      });
      return { body, version: body.revision };
    },
    async estimatePrices({ body: { model: id, prices, priceRatios = {} } }, { database, now }) {
      const model = catalogue().modelWith(id);
      if (model === undefined) throw notFound("model", id);
      const proposed = checkedPrices(prices);
      const sums = await sumsOf(database, id, now);
      const { groups } = catalogue();
      const costAt = (list: Prices, ratios: Record<string, number>) =>
        sums.reduce((total, sum) => {
          const unit = unitPricesOf(list, { ...sum, inputTokens: 0 }, sum.at);
          const ratio =
            (Object.hasOwn(ratios, sum.group) ? ratios[sum.group] : undefined) ??
            groups.get(sum.group)?.priceRatio ??
            1;
          const requests = { ...unit, request: unit.request * sum.requests };
          return total + costOf(requests, sum, ppmOf(ratio));
        }, 0n);
      const countOf = (count: (sum: Sum) => number) => sums.reduce((total, sum) => total + count(sum), 0);
      return {
        body: {
          days: estimateDays,
          requests: countOf(({ requests }) => requests),
          inputTokens: countOf(({ inputTokens }) => inputTokens),
          outputTokens: countOf(({ outputTokens }) => outputTokens),
          billed: unitsOf(sums.reduce((total, { cost }) => total + cost, 0n)),
          present: unitsOf(costAt(model.prices, {})),
          proposed: unitsOf(costAt(proposed, priceRatios)),
          isExact: [model.prices, proposed].every(isByTokens),
        },
      };
    },
  };
}

const schema = pricesSchema("");

/** Throws a Fault for prices that a catalogue could not have. */
function checkedPrices(value: Entry): Prices {
  const whole: unknown = Value.Default(schema, structuredClone(value));
  if (!Value.Check(schema, whole)) {
    const [error] = Value.Errors(schema, whole);
    throw new Fault("invalid", `prices${error?.instancePath ?? ""}: ${error?.message ?? "are not valid"}`, {
      field: "prices",
    });
  }
  const [finding] = priceFindingsOf(whole, ["prices"]);
  if (finding !== undefined)
    throw new Fault("invalid", new CatalogueFault(`${finding.path.join(".")}: ${finding.text}`).message, {
      field: "prices",
    });
  return whole;
}

/** Whether sums of tokens say all about the cost. */
const isByTokens = ({ tiers, serviceTiers, images, ...prices }: Prices): boolean =>
  tiers.length === 0 &&
  images.length === 0 &&
  Object.keys(serviceTiers).length === 0 &&
  !Object.keys(prices).some((name) => name.startsWith("per") && name !== "periods" && name !== "perRequest");

/**
 * From a day on, or at once: the present prices then stay until that day. A target with prices of
 * its own gets them, and else the model.
 */
function withPrices(document: StoredDocument, { model: id, from, ...named }: Applied, list: Prices): StoredDocument {
  const entry = Object.hasOwn(document.models, id) ? document.models[id] : undefined;
  if (entry === undefined)
    throw new Fault(
      "conflict",
      `The model ${JSON.stringify(id)} is not in the database; change its prices in the file.`,
    );
  const withList = (priced: Entry) => ({ ...priced, prices: changedPrices(priced.prices, list, from) });
  const isNamed = ({ upstream, model, prices }: Entry) =>
    upstream === named.upstream && model === named.target && prices !== undefined;
  const route = (entry.route ?? []) as Entry[];
  const changed = route.some(isNamed)
    ? { ...entry, route: route.map((target) => (isNamed(target) ? withList(target) : target)) }
    : withList(entry);
  return { ...document, models: { ...document.models, [id]: changed } };
}

function changedPrices(present: unknown, list: Prices, from: string | undefined): object {
  const { images, tiers, serviceTiers, periods, ...single } = list;
  if (from !== undefined) {
    const { periods: presentPeriods = [], ...others } = Object(present) as { periods?: unknown[] };
    return { ...others, periods: [...presentPeriods, { from, ...single }] };
  }
  return {
    ...single,
    ...(images.length > 0 && { images }),
    ...(tiers.length > 0 && { tiers }),
    ...(Object.keys(serviceTiers).length > 0 && { serviceTiers }),
    ...(periods !== undefined && { periods }),
  };
}

interface Sum {
  at: number;
  group: string;
  requests: number;
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  audioInputTokens: number;
  audioOutputTokens: number;
  cost: bigint;
}

async function sumsOf(database: Database, model: string, now: Date): Promise<Sum[]> {
  const from = new Date(now.getTime() - estimateDays * 86_400_000);
  const { rows } = await sql<{ half_hour: Date; group_name: string } & Record<string, bigint | string>>`
    select half_hour, group_name, sum(requests - refused)::bigint as requests, sum(input_tokens)::bigint as input_tokens,
      sum(cached_input_tokens)::bigint as cached, sum(cache_write_tokens)::bigint as written,
      sum(output_tokens)::bigint as output_tokens, sum(reasoning_tokens)::bigint as reasoning,
      sum(audio_input_tokens)::bigint as audio_input, sum(audio_output_tokens)::bigint as audio_output,
      sum(cost)::bigint as cost
    from usage_totals where half_hour >= ${from} and model = ${model}
    group by half_hour, group_name`.execute(database);
  return rows.map((row) => ({
    at: row.half_hour.getTime(),
    group: row.group_name,
    requests: Number(row.requests),
    inputTokens: Number(row.input_tokens),
    cachedInputTokens: Number(row.cached),
    cacheWriteTokens: Number(row.written),
    outputTokens: Number(row.output_tokens),
    reasoningTokens: Number(row.reasoning),
    audioInputTokens: Number(row.audio_input),
    audioOutputTokens: Number(row.audio_output),
    cost: BigInt(row.cost as bigint),
  }));
}
