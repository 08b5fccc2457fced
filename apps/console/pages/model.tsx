/**
 * One model: what it can do, what it costs in each group, how to call it, and what it was used for.
 */
import { Group, Paper, Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useFilters } from "../app/address.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useMaybeMe } from "../app/session.ts";
import type { Catalogue, Model as CatalogueModel } from "../parts/access.tsx";
import { precisionOf } from "../parts/amounts.ts";
import { clientNames, clientsFor, dialectOf, kindOf, snippetsOf } from "../parts/client-code.ts";
import { CopyText } from "../parts/copy.tsx";
import { Facts, Figures, useMoney } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { ButtonLink, PageLink } from "../parts/link.tsx";
import { useModelFactsTexts } from "../parts/model-facts.texts.ts";
import { Capabilities, type GroupPrices, HealthText, priceName, TokenCount, useHealth } from "../parts/models.tsx";
import { Loaded, NotFound, Page, Section } from "../parts/page.tsx";
import { Snippets } from "../parts/snippets.tsx";
import { DataTable, useColumns } from "../parts/table.tsx";
import { knownDialect } from "../playground/dialects.ts";
import { useModelTexts } from "./model.texts.ts";

const route = getRouteApi("/inside/models/$model");

export function Model() {
  const { model: id } = route.useParams();
  const catalogue = useRead("readCatalogue", {}, { everyMs: 30_000 });
  return (
    <Loaded from={catalogue}>
      {(value) => {
        const model = value.models.find((each) => each.id === id);
        return model ? <Content model={model} catalogue={value} /> : <NotFound />;
      }}
    </Loaded>
  );
}

function Content({ model, catalogue }: { model: CatalogueModel; catalogue: Catalogue }) {
  const t = useModelTexts();
  const m = useModelFactsTexts();
  const format = useFormats();
  const me = useMaybeMe();
  const health = useHealth();
  const kind = kindOf(model.capabilities);
  return (
    <Page
      title={model.name}
      about={model.description ?? undefined}
      actions={
        me !== null &&
        (kind === "chat" || kind === "image") && (
          <ButtonLink to="/playground" search={{ model: model.id }} variant="default">
            {t.playground}
          </ButtonLink>
        )
      }
    >
      <Section title={t.facts}>
        <Facts
          facts={[
            [t.id, <CopyText key="id" value={model.id} />],
            [m.vendor, model.ownedBy],
            [m.context, <TokenCount key="context" value={model.contextWindow} />],
            [m.output, <TokenCount key="output" value={model.outputTokensMax} />],
            [m.capabilities, <Capabilities key="capabilities" of={model.capabilities} />],
            [m.dialect, model.recommendedDialect],
            [m.released, format.date(model.created)],
            [m.health, health && <HealthText key="health" health={health} model={model.id} />],
          ]}
        />
      </Section>
      <Prices model={model} />
      <Use model={model} catalogue={catalogue} />
      {me !== null && <Usage model={model.id} />}
    </Page>
  );
}

/** The time in which the prices of a period apply. */
const spanOf = ({ from, until, hours }: NonNullable<GroupPrices["periods"]>[number]): string =>
  [
    ...(from === undefined && until === undefined ? [] : [`${from ?? ""} – ${until ?? ""}`.trim()]),
    ...(hours === undefined ? [] : [`${hours} UTC`]),
  ].join(", ");

/** The texts of one price for each group. */
interface PriceLine {
  name: string;
  cells: string[];
}

/** A line for each price, a column for each group. */
function Prices({ model }: { model: CatalogueModel }) {
  const money = useMoney();
  const t = useModelTexts();
  const m = useModelFactsTexts();
  const format = useFormats();
  const lineOf = (name: string, amounts: (string | undefined)[]): PriceLine => ({
    name,
    cells: amounts.map((amount) => money.exact(amount)),
  });
  const factorLine = (name: string, of: (prices: GroupPrices) => number | undefined) => {
    const factors = model.prices.map(of);
    return {
      name: t.serviceTier(name),
      cells: factors.every((factor) => factor === undefined)
        ? []
        : factors.map((factor) => (factor === undefined ? "–" : `× ${format.count(factor)}`)),
    };
  };
  const union = (namesOf: (prices: GroupPrices) => string[]) => [
    ...new Set(model.prices.flatMap((prices) => namesOf(prices))),
  ];
  const tiers = [...new Set(model.prices.flatMap(({ tiers: each }) => each.map((tier) => tier.aboveInputTokens)))];
  const images = union(({ images: each }) => each.map(({ size, quality }) => JSON.stringify([size, quality])));
  const lines = [
    ...union(({ prices }) => Object.keys(prices)).map((name) =>
      lineOf(
        priceName(m, name),
        model.prices.map(({ prices }) => prices[name]),
      ),
    ),
    ...tiers.flatMap((above) => {
      const pricesOf = (prices: GroupPrices) =>
        prices.tiers.find(({ aboveInputTokens }) => aboveInputTokens === above)?.prices;
      return union((prices) => Object.keys(pricesOf(prices) ?? {})).map((name) =>
        lineOf(
          `${t.tierAbove(format.count(above))}: ${priceName(m, name)}`,
          model.prices.map((prices) => pricesOf(prices)?.[name]),
        ),
      );
    }),
    ...images.map((look) => {
      const [size, quality] = JSON.parse(look) as (string | null)[];
      return lineOf(
        `${m.perImage}: ${size ?? t.anySize}, ${quality ?? t.anyQuality}`,
        model.prices.map(
          (prices) => prices.images.find((image) => JSON.stringify([image.size, image.quality]) === look)?.price,
        ),
      );
    }),
    ...union(({ periods = [] }) => periods.map(spanOf)).flatMap((span) => {
      const periodOf = ({ periods = [] }: GroupPrices) => periods.find((period) => spanOf(period) === span);
      return [
        ...union((prices) => Object.keys(periodOf(prices)?.prices ?? {})).map((name) =>
          lineOf(
            `${span}: ${priceName(m, name)}`,
            model.prices.map((prices) => periodOf(prices)?.prices[name]),
          ),
        ),
        factorLine(span, (prices) => periodOf(prices)?.ratio),
      ].filter(({ cells }) => cells.length > 0);
    }),
    ...union(({ serviceTiers }) => Object.keys(serviceTiers)).map((name) =>
      factorLine(name, ({ serviceTiers }) => serviceTiers[name]),
    ),
  ];
  const c = useColumns<(typeof lines)[number]>();
  const columns = [
    c.cell("name", t.price, ({ name }) => name),
    ...model.prices.map(({ group }, index) => c.cell(group, group, ({ cells }) => cells[index], { isNumber: true })),
  ];
  return (
    <Section title={t.prices}>
      <DataTable
        label={t.prices}
        columns={columns}
        rows={lines}
        rowId="name"
        minWidth={220 + model.prices.length * 100}
      />
    </Section>
  );
}

function Use({ model, catalogue }: { model: CatalogueModel; catalogue: Catalogue }) {
  const t = useModelTexts();
  const { search } = useFilters();
  const kind = kindOf(model.capabilities);
  const baseUrl = catalogue.baseUrl?.replace(/\/v1$/, "");
  const clients = kind === undefined ? [] : clientsFor(kind);
  const client = clients.find((each) => each === search.client) ?? clients[0];
  return (
    <Section title={t.use}>
      {kind === undefined || client === undefined ? (
        <Text c="dimmed">{t.realtime}</Text>
      ) : baseUrl === undefined ? (
        <Text c="dimmed">{t.noAddress}</Text>
      ) : (
        <Paper withBorder p="sm">
          <Stack gap="sm">
            <FilterSelect
              name="client"
              label={t.client}
              data={clients.map((value) => ({ value, label: clientNames[value] }))}
              value={client}
              allowDeselect={false}
              searchable
              w={240}
            />
            <Snippets
              snippets={snippetsOf(client, kind, {
                baseUrl,
                key: "YOUR_KEY",
                model: model.id,
                prompt: "Hello!",
                dialect: dialectOf(client) ?? knownDialect(model.recommendedDialect),
              })}
            />
          </Stack>
        </Paper>
      )}
    </Section>
  );
}

function Usage({ model }: { model: string }) {
  const money = useMoney();
  const t = useModelTexts();
  const format = useFormats();
  const search = { model };
  const usage = useRead("sumUsage", { query: { model, interval: "none" } }, { everyMs: 30_000 });
  return (
    <Section title={t.usage}>
      <Loaded from={usage} rows={2}>
        {({ total }) => (
          <Figures
            cols={{ base: 2, sm: 5 }}
            figures={[
              { name: t.requests, value: format.count(total.requests) },
              {
                name: t.cost,
                value: money.rounded(total.cost, precisionOf(total)),
                exact: money.exact(total.cost, precisionOf(total)),
              },
              { name: t.tokens, value: `${format.short(total.inputTokens)}, ${format.short(total.outputTokens)}` },
              { name: t.failed, value: format.count(total.failed) },
              { name: t.firstContent, value: format.ms(total.firstContentMs) },
            ]}
          />
        )}
      </Loaded>
      <Group gap="md">
        <PageLink to="/usage" search={search}>
          {t.seeUsage}
        </PageLink>
        <PageLink to="/requests" search={search}>
          {t.seeRequests}
        </PageLink>
      </Group>
    </Section>
  );
}
