/** Facts about models that several pages show: prices, capabilities and health. */
import { Badge, Group, Text } from "@mantine/core";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useMaybeMe } from "../app/session.ts";
import type { Catalogue, Model } from "./access.tsx";
import { useMoney } from "./facts.tsx";
import { useModelFactsTexts } from "./model-facts.texts.ts";

export function useCapabilityName(): (capability: string) => string {
  const { capabilityNames } = useModelFactsTexts();
  return (capability) => capabilityNames[capability] ?? capability;
}

export function Capabilities({ of }: { of: readonly string[] }) {
  const nameOf = useCapabilityName();
  if (of.length === 0) return "–";
  return (
    <Group gap={4}>
      {of.map((capability) => (
        <Badge key={capability} variant="default" size="sm" fw={400}>
          {nameOf(capability)}
        </Badge>
      ))}
    </Group>
  );
}

/** Sizes of models are written with K and M in every language. */
const sizes = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function TokenCount({ value }: { value: number | null }) {
  const t = useModelFactsTexts();
  const format = useFormats();
  if (value === null) return <>–</>;
  return <span title={t.tokens(format.count(value))}>{sizes.format(value)}</span>;
}

/** An exact amount; "–" for one that is not there. */
export const Price = ({ amount }: { amount: string | undefined }) => useMoney().exact(amount);

interface ImageLook {
  size?: string | undefined;
  quality?: string | undefined;
}

/** A look that the model chooses itself. */
const isOpen = (value: string | undefined) => value === undefined || value === "" || value === "auto";

/**
 * The prices that an image of such a look may have, the lowest first. Of the prices of the
 * catalogue the first that matches applies.
 */
export function imagePricesOf(images: readonly (ImageLook & { price: string })[], look: ImageLook = {}): string[] {
  const features = ["size", "quality"] as const;
  const possible = images.filter((image) =>
    features.every((name) => image[name] === undefined || isOpen(look[name]) || image[name] === look[name]),
  );
  const sure = possible.findIndex((image) =>
    features.every((name) => image[name] === undefined || image[name] === look[name]),
  );
  const amounts = possible.slice(0, sure < 0 ? undefined : sure + 1).map(({ price }) => price);
  return [...new Set(amounts)].sort((a, b) => Number(a) - Number(b));
}

interface ImagePriceProps {
  /** As `imagePricesOf` gives them. */
  amounts: readonly string[];
}

/** The price of an image; the lowest of several. */
export function ImagePrice({ amounts: [lowest, ...others] }: ImagePriceProps) {
  const t = useModelFactsTexts();
  const text = useMoney().exact(lowest);
  return others.length === 0 ? text : t.from(text);
}

interface OutputPriceProps {
  /** Per million tokens. */
  amount: string | undefined;
  images: readonly (ImageLook & { price: string })[];
}

/** The price of what a model makes: of each image, or of its tokens. */
export function OutputPrice({ amount, images }: OutputPriceProps) {
  const t = useModelFactsTexts();
  const amounts = imagePricesOf(images);
  if (amounts.length === 0) return <Price amount={amount} />;
  return (
    <>
      <ImagePrice amounts={amounts} /> {t.eachImage}
    </>
  );
}

export type GroupPrices = Model["prices"][number];
export const pricesFor = (model: Model, group: string | undefined): GroupPrices | undefined =>
  model.prices.find((prices) => prices.group === group);

/** The group that prices are shown for: what is chosen, or the default. */
export const groupAmong = (catalogue: Catalogue, chosen: string | undefined): string | undefined =>
  [chosen, "default", catalogue.publicGroup]
    .map((name) => catalogue.groups.find((group) => group.name === name)?.name)
    .find((name) => name !== undefined) ?? catalogue.groups[0]?.name;

export interface Health {
  requests: number;
  failed: number;
}

const stepMs = 1_800_000;
const stepsShown = 48;
/** Sums are kept by half hours. */
const dayAgo = () => new Date((Math.floor(Date.now() / stepMs) - stepsShown) * stepMs).toISOString();

/** Requests of the last day by model; undefined without sign-in and before the answer is there. */
export function useHealth(): ReadonlyMap<string, Health> | undefined {
  const me = useMaybeMe();
  const { data } = useRead(
    "sumUsage",
    { query: { from: dayAgo(), interval: "none", by: "model" } },
    { enabled: me !== null, everyMs: 30_000, keepsPrevious: true },
  );
  return data && new Map(data.rows.map(({ group, requests, failed }) => [group.model ?? "", { requests, failed }]));
}

const someShare = 0.01;
const manyShare = 0.05;

/** "–" before the answer is there. */
export function HealthText({ health, model }: { health: ReturnType<typeof useHealth>; model: string }) {
  const t = useModelFactsTexts();
  const format = useFormats();
  if (health === undefined) return "–";
  const of = health.get(model);
  if (of === undefined || of.requests === 0) return <Text c="dimmed">{t.noRequests}</Text>;
  const share = of.failed / of.requests;
  const word = share >= manyShare ? t.many : share >= someShare ? t.some : t.good;
  return (
    <Text
      title={t.failedOf(format.count(of.failed), format.count(of.requests))}
      {...(share >= manyShare && { fw: 600 })}
    >
      {t.share(word, format.percent(share))}
    </Text>
  );
}

/** The catalogue's name of a price in words; itself if it is new. */
export function priceName(names: ReturnType<typeof useModelFactsTexts>, name: string): string {
  const text = new Map<string, unknown>(Object.entries(names)).get(name);
  return typeof text === "string" ? text : name;
}
