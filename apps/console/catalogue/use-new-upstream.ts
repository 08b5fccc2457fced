/** A new upstream while a person fills it in: its fields, its test, its models, its saving. */
import { useState } from "react";
import { useAction } from "../app/action.ts";
import { type Answer, call, type Input } from "../app/call.ts";
import { queryClient } from "../app/queries.ts";
import { useCurrency } from "../parts/facts.tsx";
import { basedOn, type Entries, type Entry, plainPricesOf } from "./entries.ts";

export type Vendor = Answer<"listVendors">["items"][number];
export type OfferedModel = Answer<"fetchModels">["items"][number];
type Trial = NonNullable<Input<"fetchModels">["body"]>;

interface Fields {
  name: string;
  /** By the names of the vendor's placeholders. */
  places: Record<string, string>;
  /** Undefined: that of the vendor. */
  baseUrl: string | undefined;
  credential: string;
  testModel: string;
}

const nameOf = (entries: Entries, wish: string): string => {
  const isTaken = (name: string) => entries.upstreams.some((upstream) => upstream.name === name);
  let name = wish;
  for (let number = 2; isTaken(name); number++) name = `${wish}-${number}`;
  return name;
};

const filled = (template: string, places: Record<string, string>): string =>
  template.replaceAll(/\{(\w+)\}/g, (whole, name: string) => places[name]?.trim() || whole);

/** The id of a model here: that of the vendor, unless another model has it. */
const modelIdOf = (entries: Entries, upstream: string, model: string): string =>
  entries.models.some(({ name }) => name === model) ? `${upstream}/${model}` : model;

const modelEntryOf = (
  upstream: string,
  { name, contextWindow, outputTokensMax, capabilities, prices }: OfferedModel,
) => ({
  ...(contextWindow !== null && { contextWindow }),
  ...(outputTokensMax !== null && { outputTokensMax }),
  ...(capabilities.length > 0 && { capabilities }),
  prices: prices ?? { inputPerMillion: 0, outputPerMillion: 0 },
  route: [{ upstream, model: name }],
});

/** The vendor's name of a model for a short test: of those that chat, the one that costs least. */
function cheapestOf(items: readonly OfferedModel[]): string | undefined {
  const chats = items.filter(({ state, capabilities }) => state !== "gone" && isChat(capabilities));
  const priceOf = ({ prices }: OfferedModel) => plainPricesOf(prices).outputPerMillion ?? Number.POSITIVE_INFINITY;
  return chats.toSorted((a, b) => priceOf(a) - priceOf(b))[0]?.name;
}

/** Without capabilities the list says nothing about the model. */
const isChat = (capabilities: readonly string[]) => capabilities.length === 0 || capabilities.includes("text");

export function useNewUpstream(entries: Entries, vendor: Vendor) {
  const currency = useCurrency();
  const [fields, setFields] = useState<Fields>({
    name: nameOf(entries, vendor.id),
    places: {},
    baseUrl: undefined,
    credential: "",
    testModel: "",
  });
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  const { name, places, credential, testModel } = fields;
  const baseUrl = fields.baseUrl ?? filled(String(vendor.upstream.baseUrl ?? ""), places);
  const hasCredential = credential !== "";
  const upstream: Entry["entry"] = {
    ...vendor.upstream,
    baseUrl,
    ...(hasCredential && { credential: `stored:${name}` }),
  };
  /** Asks for the models, then calls one of them. */
  const trial = useAction(async () => {
    const body: Trial = { upstream, ...(hasCredential && { value: credential }) };
    const offered = await call("fetchModels", { body });
    const model = testModel.trim() || cheapestOf(offered.items);
    const isRefused = offered.outcome !== "ok" && model === undefined;
    const test = isRefused ? undefined : await call("testUpstream", { body: { ...body, ...(model && { model }) } });
    // With the result of the test, so that the buttons below move once.
    setTicked(new Set(offered.items.filter(({ state }) => state === "new").map(({ name }) => name)));
    return { offered, test, model };
  });
  const save = useAction(async () => {
    if (hasCredential) await call("putCredential", { params: { credential: name }, body: { value: credential } });
    const models = (trial.result?.offered.items ?? []).filter((model) => ticked.has(model.name));
    const ids = models.map((model) => modelIdOf(entries, name, model.name));
    // One revision, so that it can be taken back as a whole. JSON is YAML.
    const text = JSON.stringify({
      currency,
      upstreams: { [name]: upstream },
      models: models.map((model, index) => ({ id: ids[index], ...modelEntryOf(name, model) })),
    });
    await call("importCatalogue", { query: {}, body: { text, mode: "merge" } }, basedOn(entries));
    await queryClient.invalidateQueries();
    return ids;
  });
  return {
    fields,
    baseUrl,
    change: (next: Partial<Fields>) => setFields({ ...fields, ...next }),
    isComplete:
      /^[a-z0-9][a-z0-9._-]{0,39}$/.test(name) &&
      !/\{\w+\}/.test(baseUrl) &&
      (hasCredential || vendor.credential !== "needed"),
    isTaken: save.result === undefined && entries.upstreams.some((each) => each.name === name),
    trial,
    ticked,
    setTicked,
    save,
  };
}

export type NewUpstream = ReturnType<typeof useNewUpstream>;
