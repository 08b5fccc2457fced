/**
 * Makes libs/catalogue/list-models.json, the list of vendors' models with prices, limits and
 * capabilities, from LiteLLM's public price data
 * (https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json, MIT):
 * `npm run list-models -- FILE DATE`. Prices that were compared with a vendor's page are in
 * list-prices.yaml, which wins. A run never drops a model or a price: it prints what changed, and a
 * person looks at it before it is committed.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const target = join(import.meta.dirname, "../libs/catalogue/list-models.json");

/** Vendors by LiteLLM's name, with the beginning of their models' names and their APIs' hosts. */
const sources: Record<string, { vendor: string; prefix: string; hosts: string[]; page: string }> = {
  openai: {
    vendor: "openai",
    prefix: "",
    hosts: ["api.openai.com"],
    page: "https://developers.openai.com/api/docs/pricing",
  },
  anthropic: {
    vendor: "anthropic",
    prefix: "",
    hosts: ["api.anthropic.com"],
    page: "https://platform.claude.com/docs/en/about-claude/pricing",
  },
  gemini: {
    vendor: "google",
    prefix: "gemini/",
    hosts: ["generativelanguage.googleapis.com"],
    page: "https://ai.google.dev/gemini-api/docs/pricing",
  },
  groq: { vendor: "groq", prefix: "groq/", hosts: ["api.groq.com"], page: "https://groq.com/pricing" },
  mistral: { vendor: "mistral", prefix: "mistral/", hosts: ["api.mistral.ai"], page: "https://mistral.ai/pricing" },
  deepseek: {
    vendor: "deepseek",
    prefix: "deepseek/",
    hosts: ["api.deepseek.com"],
    page: "https://api-docs.deepseek.com/quick_start/pricing",
  },
  xai: { vendor: "xai", prefix: "xai/", hosts: ["api.x.ai"], page: "https://docs.x.ai/docs/models" },
  moonshot: {
    vendor: "moonshot",
    prefix: "moonshot/",
    hosts: ["api.moonshot.ai"],
    page: "https://platform.moonshot.ai/docs/pricing/chat",
  },
  fireworks_ai: {
    vendor: "fireworks",
    prefix: "fireworks_ai/",
    hosts: ["api.fireworks.ai"],
    page: "https://fireworks.ai/pricing",
  },
  together_ai: {
    vendor: "together",
    prefix: "together_ai/",
    hosts: ["api.together.ai", "api.together.xyz"],
    page: "https://www.together.ai/pricing",
  },
  cerebras: {
    vendor: "cerebras",
    prefix: "cerebras/",
    hosts: ["api.cerebras.ai"],
    page: "https://www.cerebras.ai/pricing",
  },
  cohere_chat: { vendor: "cohere", prefix: "", hosts: ["api.cohere.ai"], page: "https://cohere.com/pricing" },
  dashscope: {
    vendor: "alibaba",
    prefix: "dashscope/",
    hosts: ["dashscope-intl.aliyuncs.com"],
    page: "https://www.alibabacloud.com/help/en/model-studio/models",
  },
  zai: { vendor: "zai", prefix: "zai/", hosts: ["api.z.ai"], page: "https://docs.z.ai/guides/overview/pricing" },
  minimax: {
    vendor: "minimax",
    prefix: "minimax/",
    hosts: ["api.minimax.io"],
    page: "https://platform.minimax.io/docs/guides/pricing",
  },
};

type Source = Record<string, unknown>;
type Prices = Record<string, unknown>;
interface ListedModel {
  prices?: Prices;
  contextWindow?: number;
  outputTokensMax?: number;
  capabilities: string[];
}
interface List {
  date: string;
  vendors: Record<string, { source: string; hosts: string[]; models: Record<string, ListedModel> }>;
}

/** USD per million, of USD per token. A price of 0 is unknown in this source. */
const perMillion = (value: unknown): number | undefined =>
  typeof value === "number" && value > 0 ? Number((value * 1e6).toFixed(6)) : undefined;

const fields = {
  inputPerMillion: "input_cost_per_token",
  cachedInputPerMillion: "cache_read_input_token_cost",
  cacheWritePerMillion: "cache_creation_input_token_cost",
  outputPerMillion: "output_cost_per_token",
} as const;
const hourField = "cache_creation_input_token_cost_above_1hr";

const pricesWith = (model: Source, suffix: string): Prices =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, field]) => {
      const price = perMillion(model[`${field}${suffix}`]);
      return price === undefined ? [] : [[name, price]];
    }),
  );

/** Bounds are written as `_above_272k_tokens`, or as ranges. */
function tiersOf(model: Source): Prices[] {
  const bounds = Object.keys(model).flatMap(
    (field) => /^input_cost_per_token_above_(\d+)k_tokens$/.exec(field)?.[1] ?? [],
  );
  const named = bounds.map((bound) => ({
    aboveInputTokens: Number(bound) * 1_000,
    ...pricesWith(model, `_above_${bound}k_tokens`),
  }));
  const ranges = (Array.isArray(model.tiered_pricing) ? model.tiered_pricing : []) as (Source & { range?: number[] })[];
  const ranged = ranges
    .filter(({ range }) => (range?.[0] ?? 0) > 0)
    .map((tier) => ({ aboveInputTokens: tier.range?.[0] as number, ...pricesWith(tier, "") }));
  return [...named, ...ranged].sort((a, b) => a.aboveInputTokens - b.aboveInputTokens);
}

/** Factors of service tiers, where input and output have the same one. */
function serviceTiersOf(model: Source): Record<string, number> {
  return Object.fromEntries(
    Object.entries({ flex: "_flex", priority: "_priority", batch: "_batches" }).flatMap(([tier, suffix]) => {
      const ratios = [fields.inputPerMillion, fields.outputPerMillion].map(
        (field) => Number(model[`${field}${suffix}`]) / Number(model[field]),
      );
      const [ratio = Number.NaN, other] = ratios.map((each) => Number(each.toFixed(6)));
      return ratio === other && Number.isFinite(ratio) ? [[tier, ratio]] : [];
    }),
  );
}

/** Undefined if the source does not have both prices. */
function pricesOf(model: Source): Prices | undefined {
  const [first] = (Array.isArray(model.tiered_pricing) ? model.tiered_pricing : []) as Source[];
  const base = { ...(first && pricesWith(first, "")), ...pricesWith(model, "") };
  if (base.inputPerMillion === undefined) return undefined;
  if (base.outputPerMillion === undefined && model.mode !== "embedding") return undefined;
  const hour = perMillion(model[hourField]);
  const searches = Object.values(Object(model.search_context_cost_per_query) as Record<string, number>);
  const tiers = tiersOf(model);
  const serviceTiers = serviceTiersOf(model);
  return {
    outputPerMillion: 0,
    ...base,
    ...(hour !== undefined && { cacheWrite1hPerMillion: hour }),
    ...(searches.length > 0 && new Set(searches).size === 1 && { perWebSearch: searches[0] }),
    ...(tiers.length > 0 && { tiers }),
    ...(Object.keys(serviceTiers).length > 0 && { serviceTiers }),
  };
}

const capabilities: Record<string, string> = {
  supports_function_calling: "tools",
  supports_vision: "vision",
  supports_response_schema: "json",
  supports_reasoning: "reasoning",
};

const modes: Record<string, string[]> = {
  chat: ["text", "streaming"],
  responses: ["text", "streaming"],
  embedding: ["embedding"],
};

/** Windows of OpenAI's models, of which the source has the part for the input. */
const wholeWindows = [400_000, 1_050_000];

function windowOf({ litellm_provider: provider, max_input_tokens: input, max_output_tokens: output }: Source): number {
  const whole = Number(input) + Number(output);
  return provider === "openai" && wholeWindows.includes(whole) ? whole : Number(input);
}

function listedOf(model: Source): ListedModel | undefined {
  const basics = modes[String(model.mode)];
  if (basics === undefined) return undefined;
  const prices = pricesOf(model);
  const [window, output] = [windowOf(model), model.max_output_tokens];
  const further = Object.entries(capabilities).flatMap(([flag, name]) => (model[flag] === true ? [name] : []));
  return {
    ...(prices && { prices }),
    ...(window > 0 && { contextWindow: window }),
    ...(typeof output === "number" && output > 0 && model.mode !== "embedding" && { outputTokensMax: output }),
    capabilities: [...basics, ...further],
  };
}

function listFrom(data: Record<string, Source>, date: string): List {
  const vendors: List["vendors"] = {};
  for (const { vendor, hosts, page } of Object.values(sources)) vendors[vendor] = { source: page, hosts, models: {} };
  for (const [id, model] of Object.entries(data)) {
    const source = sources[String(model.litellm_provider)];
    if (source === undefined || !id.startsWith(source.prefix)) continue;
    const listed = listedOf(model);
    const name = id.slice(source.prefix.length);
    if (listed !== undefined && name !== "") (vendors[source.vendor] as List["vendors"][string]).models[name] = listed;
  }
  return { date, vendors };
}

/** Models and prices that the source no longer has stay. Prints every difference. */
function kept(list: List, before: List): List {
  for (const [vendor, { models }] of Object.entries(before.vendors))
    for (const [name, model] of Object.entries(models)) {
      const fresh = list.vendors[vendor]?.models;
      if (fresh === undefined) continue;
      const now = fresh[name];
      if (now === undefined) console.log(`${vendor} ${name}: no longer in the source; kept`);
      else if (JSON.stringify(now.prices) !== JSON.stringify(model.prices))
        console.log(`${vendor} ${name}: ${JSON.stringify(model.prices)} → ${JSON.stringify(now.prices)}`);
      fresh[name] =
        now === undefined
          ? model
          : { ...now, ...((now.prices ?? model.prices) && { prices: now.prices ?? model.prices }) };
    }
  return list;
}

const inOrder = (list: List): List => ({
  ...list,
  vendors: Object.fromEntries(
    Object.entries(list.vendors).map(([name, vendor]) => [
      name,
      {
        ...vendor,
        models: Object.fromEntries(Object.entries(vendor.models).sort(([a], [b]) => a.localeCompare(b, "en"))),
      },
    ]),
  ),
});

/** A line for each model, so that changes are easy to read. */
function textOf({ date, vendors }: List): string {
  const blocks = Object.entries(vendors).map(([name, { source, hosts, models }]) => {
    const lines = Object.entries(models).map(([id, model]) => `      ${JSON.stringify(id)}: ${JSON.stringify(model)}`);
    return `    ${JSON.stringify(name)}: { "source": ${JSON.stringify(source)}, "hosts": ${JSON.stringify(hosts)}, "models": {\n${lines.join(",\n")}\n    } }`;
  });
  return `{\n  "date": ${JSON.stringify(date)},\n  "vendors": {\n${blocks.join(",\n")}\n  }\n}\n`;
}

const { positionals } = parseArgs({ allowPositionals: true });
const [file, date = ""] = positionals;
if (file === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(date)) throw new Error("usage: npm run list-models -- FILE DATE");
const fresh = listFrom(JSON.parse(readFileSync(file, "utf8")) as Record<string, Source>, date);
const count = Object.values(fresh.vendors).reduce((sum, { models }) => sum + Object.keys(models).length, 0);
const before = existsSync(target) ? (JSON.parse(readFileSync(target, "utf8")) as List) : undefined;
const beforeCount = Object.values(before?.vendors ?? {}).reduce(
  (sum, { models }) => sum + Object.keys(models).length,
  0,
);
if (count < beforeCount * 0.9)
  throw new Error(`the source has ${count} models, and the list ${beforeCount}: a damaged file?`);
writeFileSync(target, textOf(inOrder(before === undefined ? fresh : kept(fresh, before))));
console.log(`${count} models of ${Object.keys(fresh.vendors).length} vendors`);
