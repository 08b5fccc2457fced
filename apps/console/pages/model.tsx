/**
 * One model: what it can do, what it costs in each group, how to call it, and what it was used for.
 */
import { Group, Paper, Select, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useMaybeMe } from "../app/session.ts";
import type { Catalogue, Model as CatalogueModel } from "../parts/access.tsx";
import { CopyText } from "../parts/copy.tsx";
import { ButtonLink, PageLink } from "../parts/link.tsx";
import { Capabilities, HealthText, modelTexts, Price, TokenCount, useHealth } from "../parts/models.tsx";
import { Page } from "../parts/page.tsx";
import { Snippets } from "../parts/snippets.tsx";
import { Loaded, NotFound } from "../parts/states.tsx";
import { knownDialect } from "../playground/dialects.ts";
import { priceName } from "./models.tsx";
import { type Client, clientNames, clientsFor, dialectOf, kindOf, snippetsOf } from "./snippets.ts";

const texts = translated({
  en: {
    playground: "Open in the playground",
    facts: "About",
    id: "Id",
    prices: "Prices",
    price: "Price",
    tiers: "Long prompts",
    tierAbove: (count: string) => `Above ${count} input tokens`,
    images: "Images",
    anySize: "any size",
    anyQuality: "any quality",
    serviceTiers: "Service tiers",
    serviceTier: (name: string) => `${name}: all prices times`,
    use: "How to call it",
    client: "Client",
    noAddress: "The base URL is unknown. An operator sets addresses.baseUrl in the catalogue, or GATEWAY_URL.",
    realtime: "Models of this kind are called over a WebSocket; see docs/realtime.md.",
    usage: "Usage of the last 30 days",
    seeUsage: "Usage of this model",
    seeRequests: "Requests of this model",
    requests: "Requests",
    tokens: "Tokens in, out",
    cost: "Cost",
    errors: "Failed",
    firstContent: "First token, mean",
  },
  zh: {
    playground: "在试验场中打开",
    facts: "概况",
    id: "ID",
    prices: "价格",
    price: "价格",
    tiers: "长提示词",
    tierAbove: (count: string) => `输入超过 ${count} 令牌`,
    images: "图像",
    anySize: "任意尺寸",
    anyQuality: "任意质量",
    serviceTiers: "服务等级",
    serviceTier: (name: string) => `${name}：所有价格乘以`,
    use: "如何调用",
    client: "客户端",
    noAddress: "Base URL 未知。运维人员可在目录中设置 addresses.baseUrl，或设置 GATEWAY_URL。",
    realtime: "此类模型通过 WebSocket 调用，见 docs/realtime.md。",
    usage: "最近 30 天的用量",
    seeUsage: "此模型的用量",
    seeRequests: "此模型的请求",
    requests: "请求",
    tokens: "输入、输出令牌",
    cost: "费用",
    errors: "失败",
    firstContent: "首个令牌，平均",
  },
});

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
  const t = useTexts(texts);
  const m = useTexts(modelTexts);
  const format = useFormats();
  const me = useMaybeMe();
  const health = useHealth();
  const kind = kindOf(model.capabilities);
  const facts: [string, ReactNode][] = [
    [t.id, <CopyText key="id" value={model.id} />],
    [m.vendor, model.ownedBy],
    [m.context, <TokenCount key="context" value={model.contextWindow} />],
    [m.output, <TokenCount key="output" value={model.outputTokensMax} />],
    [m.capabilities, <Capabilities key="capabilities" of={model.capabilities} />],
    [m.dialect, model.recommendedDialect],
    [m.released, format.day(model.created)],
    ...(me === null || health === undefined
      ? []
      : [[m.health, <HealthText key="health" of={health.get(model.id)} />] as [string, ReactNode]]),
  ];
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
      <Stack gap="xs">
        <Title order={2}>{t.facts}</Title>
        <Paper withBorder>
          <Table variant="vertical">
            <Table.Tbody>
              {facts.map(([name, value]) => (
                <Table.Tr key={name}>
                  <Table.Th w={180}>{name}</Table.Th>
                  <Table.Td>{value}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Paper>
      </Stack>
      <Prices model={model} currency={catalogue.currency} />
      <Use model={model} catalogue={catalogue} />
      {me !== null && <Usage model={model.id} currency={catalogue.currency} />}
    </Page>
  );
}

/** When the prices of a period apply. */
const spanOf = ({ from, until, hours }: NonNullable<CatalogueModel["prices"][number]["periods"]>[number]): string =>
  [
    ...(from === undefined && until === undefined ? [] : [`${from ?? ""} – ${until ?? ""}`.trim()]),
    ...(hours === undefined ? [] : [`${hours} UTC`]),
  ].join(", ");

/** A line for each price, a column for each group. */
function Prices({ model, currency }: { model: CatalogueModel; currency: string }) {
  const t = useTexts(texts);
  const m = useTexts(modelTexts);
  const format = useFormats();
  const lineOf = (name: string, amounts: (string | undefined)[]) => ({
    name,
    cells: amounts.map((amount, index) => (
      <Price key={model.prices[index]?.group} amount={amount} currency={currency} />
    )),
  });
  const factorLine = (name: string, of: (prices: CatalogueModel["prices"][number]) => number | undefined) => {
    const factors = model.prices.map((prices) => ({ group: prices.group, factor: of(prices) }));
    return {
      name: t.serviceTier(name),
      cells: factors.every(({ factor }) => factor === undefined)
        ? []
        : factors.map(({ group, factor }) => (
            <span key={group}>{factor === undefined ? "–" : `× ${format.count(factor)}`}</span>
          )),
    };
  };
  const union = (namesOf: (prices: CatalogueModel["prices"][number]) => string[]) => [
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
      const pricesOf = (prices: CatalogueModel["prices"][number]) =>
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
      const periodOf = ({ periods = [] }: CatalogueModel["prices"][number]) =>
        periods.find((period) => spanOf(period) === span);
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
  return (
    <Stack gap="xs">
      <Title order={2}>{t.prices}</Title>
      <Paper withBorder>
        <Table.ScrollContainer
          minWidth={220 + model.prices.length * 100}
          type="native"
          tabIndex={0}
          role="region"
          aria-label={t.prices}
        >
          <Table aria-label={t.prices}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t.price}</Table.Th>
                {model.prices.map(({ group }) => (
                  <Table.Th key={group} className="number">
                    {group}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {lines.map(({ name, cells }) => (
                <Table.Tr key={name}>
                  <Table.Th scope="row" fw={400}>
                    {name}
                  </Table.Th>
                  {cells.map((cell) => (
                    <Table.Td key={cell.key} className="number">
                      {cell}
                    </Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </Paper>
    </Stack>
  );
}

function Use({ model, catalogue }: { model: CatalogueModel; catalogue: Catalogue }) {
  const t = useTexts(texts);
  const { client: chosen } = route.useSearch();
  const navigate = route.useNavigate();
  const kind = kindOf(model.capabilities);
  const baseUrl = catalogue.baseUrl?.replace(/\/v1$/, "");
  const clients = kind === undefined ? [] : clientsFor(kind);
  const client = clients.find((each) => each === chosen) ?? clients[0];
  return (
    <Stack gap="xs">
      <Title order={2}>{t.use}</Title>
      {kind === undefined || client === undefined ? (
        <Text c="dimmed">{t.realtime}</Text>
      ) : baseUrl === undefined ? (
        <Text c="dimmed">{t.noAddress}</Text>
      ) : (
        <Paper withBorder p="sm">
          <Stack gap="sm">
            <Select
              label={t.client}
              data={clients.map((value) => ({ value, label: clientNames[value] }))}
              value={client}
              onChange={(value) =>
                void navigate({
                  search: (now) => ({ ...now, client: value ?? undefined }),
                  replace: true,
                  resetScroll: false,
                })
              }
              allowDeselect={false}
              searchable
              w={240}
            />
            <Snippets
              snippets={snippetsOf(client as Client, kind, {
                baseUrl,
                key: "YOUR_KEY",
                model: model.id,
                prompt: "Hello!",
                dialect: dialectOf(client as Client) ?? knownDialect(model.recommendedDialect),
              })}
            />
          </Stack>
        </Paper>
      )}
    </Stack>
  );
}

function Usage({ model, currency }: { model: string; currency: string }) {
  const t = useTexts(texts);
  const format = useFormats();
  const usage = useRead("sumUsage", { query: { model, interval: "none" } }, { everyMs: 30_000 });
  return (
    <Stack gap="xs">
      <Title order={2}>{t.usage}</Title>
      <Loaded from={usage} rows={2}>
        {({ total }) => {
          const figures: [string, string, string?][] = [
            [t.requests, format.count(total.requests)],
            [t.cost, format.money(total.cost, currency), format.exactMoney(total.cost, currency)],
            [t.tokens, `${format.short(total.inputTokens)}, ${format.short(total.outputTokens)}`],
            [t.errors, format.count(total.failed)],
            [t.firstContent, format.ms(total.firstContentMs)],
          ];
          return (
            <SimpleGrid cols={{ base: 2, sm: 5 }} spacing="sm">
              {figures.map(([name, value, exact]) => (
                <Paper key={name} withBorder p="sm">
                  <Text size="sm" c="dimmed">
                    {name}
                  </Text>
                  <Text size="lg" fw={600} title={exact}>
                    {value}
                  </Text>
                </Paper>
              ))}
            </SimpleGrid>
          );
        }}
      </Loaded>
      <Group gap="md">
        <PageLink to="/usage" search={{ model }}>
          {t.seeUsage}
        </PageLink>
        <PageLink to="/requests" search={{ model }}>
          {t.seeRequests}
        </PageLink>
      </Group>
    </Stack>
  );
}
