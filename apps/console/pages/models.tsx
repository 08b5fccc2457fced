/**
 * The models of the catalogue: to find one, and to compare some. Also without sign-in, if the
 * catalogue has a public group.
 */
import { Button, Checkbox, Group, MultiSelect, Paper, Select, Table, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useMaybeMe } from "../app/session.ts";
import type { Catalogue, Model } from "../parts/access.tsx";
import { type Column, Cut, DataTable } from "../parts/data-table.tsx";
import { GroupTable } from "../parts/group-table.tsx";
import { PageLink } from "../parts/link.tsx";
import {
  Capabilities,
  type GroupPrices,
  groupAmong,
  HealthText,
  modelTexts,
  Price,
  pricesFor,
  TokenCount,
  useCapabilityName,
  useHealth,
} from "../parts/models.tsx";
import { Page } from "../parts/page.tsx";
import { Empty, Loaded } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Models",
    about: "Every client can call every model; the gateway translates between dialects.",
    search: "Search models",
    group: "Group",
    capability: "Can",
    vendor: "Vendor",
    input: "Input / M",
    output: "Output / M",
    compare: (count: string) => `Compare ${count}`.trim(),
    compareHelp: "Choose two to four models to compare.",
    select: (id: string) => `Compare ${id}`,
    back: "All models",
    none: "The catalogue has no models",
    noneWhy: "An operator adds models to catalogue.yaml; they appear here within a second.",
    nothingFound: "No model matches",
    clear: "Clear the filters",
    comparison: "Comparison",
    eachImage: "/ image",
    imagesFrom: "Per image, from",
    column: "Compare",
    groups: "Groups",
  },
  zh: {
    title: "模型",
    about: "任何客户端都能调用任何模型，网关负责协议转换。",
    search: "搜索模型",
    group: "分组",
    capability: "能力",
    vendor: "厂商",
    input: "输入 / 百万",
    output: "输出 / 百万",
    compare: (count: string) => (count === "" ? "比较" : `比较 ${count} 个`),
    compareHelp: "选择两到四个模型进行比较。",
    select: (id: string) => `比较 ${id}`,
    back: "全部模型",
    none: "目录中没有模型",
    noneWhy: "运维人员将模型加入 catalogue.yaml 后，一秒内会出现在这里。",
    nothingFound: "没有匹配的模型",
    clear: "清除筛选",
    comparison: "比较",
    eachImage: "/ 图",
    imagesFrom: "每张图像，起价",
    column: "比较",
    groups: "分组",
  },
});

const route = getRouteApi("/inside/models");
const comparedMax = 4;
const listOf = (text: string | undefined) => (text ?? "").split(",").filter((item) => item !== "");

export function Models() {
  const t = useTexts(texts);
  const catalogue = useRead("readCatalogue", {}, { everyMs: 30_000 });
  return (
    <Page title={t.title} about={t.about} isHeavy>
      <Loaded from={catalogue}>{(value) => <Content catalogue={value} />}</Loaded>
    </Page>
  );
}

function Content({ catalogue }: { catalogue: Catalogue }) {
  const t = useTexts(texts);
  const m = useTexts(modelTexts);
  const me = useMaybeMe();
  const nameOf = useCapabilityName();
  const health = useHealth();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const filter = (change: Record<string, string | undefined>, replace = true) =>
    void navigate({ search: (now) => ({ ...now, ...change }), replace, resetScroll: false });
  const group = groupAmong(catalogue, search.group);
  const words = (search.search ?? "").toLowerCase().split(/\s+/);
  const can = listOf(search.can);
  const ofGroup = catalogue.models.filter((model) => pricesFor(model, group) !== undefined);
  const vendors = [...new Set(ofGroup.map(({ ownedBy }) => ownedBy))].sort();
  const capabilities = [...new Set(ofGroup.flatMap((model) => model.capabilities))];
  const rows = ofGroup.filter(
    ({ id, name, description, ownedBy, capabilities: has }) =>
      words.every((word) => `${id} ${name} ${description ?? ""} ${ownedBy}`.toLowerCase().includes(word)) &&
      can.every((capability) => has.includes(capability)) &&
      (search.vendor === undefined || ownedBy === search.vendor),
  );
  const compared = listOf(search.compare).filter((id) => ofGroup.some((model) => model.id === id));
  const toggle = (id: string) =>
    filter({
      compare:
        (compared.includes(id) ? compared.filter((each) => each !== id) : [...compared, id]).join(",") || undefined,
    });
  if (search.view === "compare" && compared.length > 0)
    return (
      <Comparison
        models={compared.flatMap((id) => ofGroup.filter((model) => model.id === id))}
        currency={catalogue.currency}
        group={group}
        back={() => filter({ view: undefined }, false)}
      />
    );
  if (search.view === "groups")
    return (
      <GroupTable
        catalogue={catalogue}
        search={search.search ?? ""}
        onSearch={(text) => filter({ search: text || undefined })}
        back={() => filter({ view: undefined }, false)}
      />
    );
  const amount = (model: Model, name: string) => Number(pricesFor(model, group)?.prices[name] ?? 0);
  const columns: Column<Model>[] = [
    {
      id: "compare",
      title: t.column,
      width: 36,
      cell: ({ id }) => (
        <Checkbox
          size="xs"
          aria-label={t.select(id)}
          checked={compared.includes(id)}
          disabled={!compared.includes(id) && compared.length >= comparedMax}
          onChange={() => toggle(id)}
        />
      ),
    },
    {
      id: "model",
      title: m.model,
      sortBy: ({ id }) => id,
      cell: ({ id, name }) => (
        <PageLink
          to="/models/$model"
          params={{ model: id }}
          search={search.group === undefined ? {} : { group: search.group }}
          fw={500}
          title={name}
        >
          <Cut>{id}</Cut>
        </PageLink>
      ),
    },
    { id: "vendor", title: m.vendor, sortBy: ({ ownedBy }) => ownedBy, cell: ({ ownedBy }) => ownedBy },
    ...(me === null
      ? []
      : [
          {
            id: "health",
            title: m.health,
            sortBy: ({ id }: Model) => {
              const { failed = 0, requests = 0 } = health?.get(id) ?? {};
              return requests === 0 ? -1 : failed / requests;
            },
            cell: ({ id }: Model) => (health === undefined ? "–" : <HealthText of={health.get(id)} />),
          },
        ]),
    {
      id: "context",
      title: m.context,
      isNumber: true,
      sortBy: ({ contextWindow }) => contextWindow ?? 0,
      cell: ({ contextWindow }) => <TokenCount value={contextWindow} />,
    },
    {
      id: "output",
      title: m.output,
      isNumber: true,
      sortBy: ({ outputTokensMax }) => outputTokensMax ?? 0,
      cell: ({ outputTokensMax }) => <TokenCount value={outputTokensMax} />,
    },
    {
      id: "input-price",
      title: t.input,
      isNumber: true,
      sortBy: (model) => amount(model, "inputPerMillion"),
      cell: (model) => <Price amount={pricesFor(model, group)?.prices.inputPerMillion} currency={catalogue.currency} />,
    },
    {
      id: "output-price",
      title: t.output,
      isNumber: true,
      sortBy: (model) => amount(model, "outputPerMillion"),
      cell: (model) => {
        const prices = pricesFor(model, group);
        const image = cheapestImage(prices);
        return image === undefined ? (
          <Price amount={prices?.prices.outputPerMillion} currency={catalogue.currency} />
        ) : (
          <>
            <Price amount={image} currency={catalogue.currency} /> {t.eachImage}
          </>
        );
      },
    },
    {
      id: "capabilities",
      title: m.capabilities,
      cell: ({ capabilities: has }) => (
        <span style={{ whiteSpace: "nowrap" }}>{has.map((capability) => nameOf(capability)).join(", ")}</span>
      ),
    },
    {
      id: "dialect",
      title: m.dialect,
      cell: ({ recommendedDialect }) => <span style={{ whiteSpace: "nowrap" }}>{recommendedDialect}</span>,
    },
  ];
  return (
    <>
      <Group gap="xs" align="flex-end">
        <TextInput
          label={t.search}
          value={search.search ?? ""}
          onChange={({ currentTarget }) => filter({ search: currentTarget.value || undefined })}
          w={220}
        />
        <MultiSelect
          label={t.capability}
          data={capabilities.map((value) => ({ value, label: nameOf(value) }))}
          value={can}
          onChange={(value) => filter({ can: value.join(",") || undefined })}
          clearable
          w={240}
        />
        <Select
          label={t.vendor}
          data={vendors}
          value={search.vendor ?? null}
          onChange={(value) => filter({ vendor: value ?? undefined })}
          clearable
          w={150}
        />
        {catalogue.groups.length > 1 && (
          <Select
            label={t.group}
            data={catalogue.groups.map(({ name }) => name)}
            value={group ?? null}
            onChange={(value) => filter({ group: value ?? undefined })}
            allowDeselect={false}
            w={150}
          />
        )}
        <Button
          variant="default"
          disabled={compared.length < 2}
          title={t.compareHelp}
          onClick={() => filter({ view: "compare" }, false)}
        >
          {t.compare(compared.length === 0 ? "" : String(compared.length))}
        </Button>
        {catalogue.groups.length > 1 && (
          <Button variant="default" onClick={() => filter({ view: "groups" }, false)}>
            {t.groups}
          </Button>
        )}
      </Group>
      <DataTable
        label={t.title}
        columns={columns}
        rows={rows}
        rowId={({ id }) => id}
        minWidth={1_180}
        empty={
          catalogue.models.length === 0 ? (
            <Empty title={t.none}>{t.noneWhy}</Empty>
          ) : (
            <Empty
              title={t.nothingFound}
              action={
                <Button
                  variant="default"
                  onClick={() => filter({ search: undefined, can: undefined, vendor: undefined })}
                >
                  {t.clear}
                </Button>
              }
            />
          )
        }
      />
    </>
  );
}

interface ComparisonProps {
  models: Model[];
  currency: string;
  group: string | undefined;
  back(): void;
}

function Comparison({ models, currency, group, back }: ComparisonProps) {
  const t = useTexts(texts);
  const m = useTexts(modelTexts);
  const format = useFormats();
  const me = useMaybeMe();
  const health = useHealth();
  const prices = [...new Set(models.flatMap((model) => Object.keys(pricesFor(model, group)?.prices ?? {})))];
  const lines: [string, (model: Model) => ReactNode][] = [
    [m.vendor, ({ ownedBy }) => ownedBy],
    [m.context, ({ contextWindow }) => <TokenCount value={contextWindow} />],
    [m.output, ({ outputTokensMax }) => <TokenCount value={outputTokensMax} />],
    ...prices.map((name): [string, (model: Model) => ReactNode] => [
      priceName(m, name),
      (model) => <Price amount={pricesFor(model, group)?.prices[name]} currency={currency} />,
    ]),
    ...(models.some((model) => cheapestImage(pricesFor(model, group)) !== undefined)
      ? [
          [t.imagesFrom, (model) => <Price amount={cheapestImage(pricesFor(model, group))} currency={currency} />] as [
            string,
            (model: Model) => ReactNode,
          ],
        ]
      : []),
    [m.capabilities, ({ capabilities }) => <Capabilities of={capabilities} />],
    [m.dialect, ({ recommendedDialect }) => recommendedDialect],
    [m.released, ({ created }) => format.day(created)],
    ...(me === null
      ? []
      : [
          [m.health, ({ id }) => (health === undefined ? "–" : <HealthText of={health.get(id)} />)] as [
            string,
            (model: Model) => ReactNode,
          ],
        ]),
  ];
  return (
    <>
      <Group>
        <Button variant="default" onClick={back}>
          {t.back}
        </Button>
      </Group>
      <Paper withBorder>
        <Table.ScrollContainer
          minWidth={180 + models.length * 180}
          type="native"
          tabIndex={0}
          role="region"
          aria-label={t.comparison}
        >
          <Table aria-label={t.comparison} layout="fixed">
            <Table.Thead>
              <Table.Tr>
                <Table.Td w={220} />
                {models.map(({ id }) => (
                  <Table.Th key={id} scope="col">
                    <PageLink to="/models/$model" params={{ model: id }} search={{}}>
                      {id}
                    </PageLink>
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {lines.map(([name, cell]) => (
                <Table.Tr key={name}>
                  <Table.Th scope="row">{name}</Table.Th>
                  {models.map((model) => (
                    <Table.Td key={model.id}>{cell(model)}</Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      </Paper>
    </>
  );
}

/** The lowest of the prices of an image; undefined for models that are not paid by image. */
const cheapestImage = (prices: GroupPrices | undefined): string | undefined =>
  prices?.images.map(({ price }) => price).sort((a, b) => Number(a) - Number(b))[0];

/** The catalogue's name of a price in words; itself if it is new. */
export function priceName(names: (typeof modelTexts)["en"], name: string): string {
  const text = (names as unknown as Record<string, unknown>)[name];
  return typeof text === "string" ? text : name;
}
