/**
 * The models of the catalogue: to find one, and to compare some. Also without sign-in, if the
 * catalogue has a public group.
 */
import { Button, Checkbox, Group, Paper, Table, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { useFilters } from "../app/address.ts";
import { useFormats } from "../app/language.tsx";
import { useRead } from "../app/queries.ts";
import { useMaybeMe } from "../app/session.ts";
import type { Catalogue, Model } from "../parts/access.tsx";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { GroupTable } from "../parts/group-table.tsx";
import { ModelLink, PageLink } from "../parts/link.tsx";
import { useModelFactsTexts } from "../parts/model-facts.texts.ts";
import {
  Capabilities,
  groupAmong,
  HealthText,
  ImagePrice,
  imagePricesOf,
  OutputPrice,
  Price,
  priceName,
  pricesFor,
  TokenCount,
  useCapabilityName,
  useHealth,
} from "../parts/models.tsx";
import { FilterMultiSelect, valuesOf } from "../parts/multi-filter.tsx";
import { Empty, Loaded, Page } from "../parts/page.tsx";
import { type Column, DataTable, useColumns } from "../parts/table.tsx";
import { useModelsTexts } from "./models.texts.ts";

const comparedMax = 4;

export function Models() {
  const t = useModelsTexts();
  const catalogue = useRead("readCatalogue", {}, { everyMs: 30_000 });
  return (
    <Page title={t.models} about={t.about} isHeavy>
      <Loaded from={catalogue}>{(value) => <Content catalogue={value} />}</Loaded>
    </Page>
  );
}

/** The models that the address chooses, and what can be chosen among those of its group. */
function useChoice(catalogue: Catalogue) {
  const { search } = useFilters();
  const group = groupAmong(catalogue, search.group);
  const ofGroup = catalogue.models.filter((model) => pricesFor(model, group) !== undefined);
  const words = (search.search ?? "").toLowerCase().split(/\s+/);
  const can = valuesOf(search.can);
  const rows = ofGroup.filter(
    ({ id, name, description, ownedBy, capabilities }) =>
      words.every((word) => `${id} ${name} ${description ?? ""} ${ownedBy}`.toLowerCase().includes(word)) &&
      can.every((capability) => capabilities.includes(capability)) &&
      (search.vendor === undefined || ownedBy === search.vendor),
  );
  return {
    group,
    rows,
    vendors: [...new Set(ofGroup.map(({ ownedBy }) => ownedBy))].sort(),
    capabilities: [...new Set(ofGroup.flatMap((model) => model.capabilities))],
    compared: valuesOf(search.compare).flatMap((id) => ofGroup.filter((model) => model.id === id)),
  };
}
type Choice = ReturnType<typeof useChoice>;

function Content({ catalogue }: { catalogue: Catalogue }) {
  const t = useModelsTexts();
  const { search, filter } = useFilters();
  const choice = useChoice(catalogue);
  const columns = useModelColumns(choice);
  if (search.view === "compare" && choice.compared.length > 0)
    return <Comparison models={choice.compared} group={choice.group} />;
  if (search.view === "groups") return <GroupTable catalogue={catalogue} />;
  return (
    <>
      <Filters catalogue={catalogue} choice={choice} />
      <DataTable
        label={t.models}
        columns={columns}
        rows={choice.rows}
        minWidth={900}
        chooser="models"
        hiddenAtFirst={["outputTokensMax", "dialect"]}
        empty={
          catalogue.models.length === 0 ? (
            <Empty title={t.noModels}>{t.noneWhy}</Empty>
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

function Filters({ catalogue: { groups }, choice }: { catalogue: Catalogue; choice: Choice }) {
  const t = useModelsTexts();
  const nameOf = useCapabilityName();
  const { search, filter } = useFilters();
  const { compared } = choice;
  return (
    <Group>
      <TextInput
        aria-label={t.search}
        placeholder={t.search}
        value={search.search ?? ""}
        onChange={({ currentTarget }) => filter({ search: currentTarget.value || undefined })}
        w={220}
      />
      <FilterMultiSelect
        name="can"
        title={t.capability}
        data={choice.capabilities.map((value) => ({ value, label: nameOf(value) }))}
        w={240}
      />
      <FilterSelect name="vendor" title={t.vendor} data={choice.vendors} w={150} />
      {groups.length > 1 && (
        <FilterSelect
          name="group"
          title={t.group}
          data={groups.map(({ name }) => name)}
          value={choice.group ?? null}
          allowDeselect={false}
          w={150}
        />
      )}
      <Button
        variant="default"
        disabled={compared.length < 2}
        title={t.compareHelp}
        onClick={() => filter({ view: "compare" }, { isStep: true })}
      >
        {compared.length === 0 ? t.column : t.select(compared.length)}
      </Button>
      {groups.length > 1 && (
        <Button variant="default" onClick={() => filter({ view: "groups" }, { isStep: true })}>
          {t.groups}
        </Button>
      )}
    </Group>
  );
}

function useModelColumns({ group, compared }: Choice): Column<Model>[] {
  const t = useModelsTexts();
  const m = useModelFactsTexts();
  const me = useMaybeMe();
  const nameOf = useCapabilityName();
  const health = useHealth();
  const { search, filter } = useFilters();
  const c = useColumns<Model>();
  const ids = compared.map(({ id }) => id);
  const toggle = (id: string) =>
    filter({ compare: (ids.includes(id) ? ids.filter((each) => each !== id) : [...ids, id]).join(",") || undefined });
  const amountBy = (name: string) => ({
    isNumber: true,
    sortBy: (model: Model) => Number(pricesFor(model, group)?.prices[name] ?? 0),
  });
  const tokens = (name: "contextWindow" | "outputTokensMax", title: string) =>
    c.cell(name, title, (model) => <TokenCount value={model[name]} />, {
      isNumber: true,
      sortBy: (model) => model[name] ?? 0,
    });
  return [
    c.cell(
      "compare",
      t.column,
      ({ id }) => (
        <Checkbox
          size="xs"
          aria-label={t.select(id)}
          checked={ids.includes(id)}
          disabled={!ids.includes(id) && ids.length >= comparedMax}
          onChange={() => toggle(id)}
        />
      ),
      { width: 36 },
    ),
    c.cell(
      "model",
      m.model,
      ({ id, name }) => (
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
      { sortBy: ({ id }) => id },
    ),
    c.text("ownedBy", m.vendor),
    ...(me === null
      ? []
      : [
          c.cell("health", m.health, ({ id }) => <HealthText health={health} model={id} />, {
            sortBy: ({ id }) => {
              const { failed = 0, requests = 0 } = health?.get(id) ?? {};
              return requests === 0 ? -1 : failed / requests;
            },
          }),
        ]),
    tokens("contextWindow", m.context),
    tokens("outputTokensMax", m.output),
    c.cell(
      "input-price",
      t.input,
      (model) => <Price amount={pricesFor(model, group)?.prices.inputPerMillion} />,
      amountBy("inputPerMillion"),
    ),
    c.cell(
      "output-price",
      t.output,
      (model) => {
        const prices = pricesFor(model, group);
        return <OutputPrice amount={prices?.prices.outputPerMillion} images={prices?.images ?? []} />;
      },
      amountBy("outputPerMillion"),
    ),
    c.cell("capabilities", m.capabilities, ({ capabilities }) => capabilities.map(nameOf).join(", ") || "–"),
    c.cell("dialect", m.dialect, ({ recommendedDialect }) => recommendedDialect),
  ];
}

interface ComparisonProps {
  models: Model[];
  group: string | undefined;
}

type Line = readonly [name: string, cell: (model: Model) => ReactNode];

function useComparisonLines({ models, group }: ComparisonProps): Line[] {
  const m = useModelFactsTexts();
  const format = useFormats();
  const me = useMaybeMe();
  const health = useHealth();
  const prices = [...new Set(models.flatMap((model) => Object.keys(pricesFor(model, group)?.prices ?? {})))];
  const imageLine: Line = [
    m.perImage,
    (model) => <ImagePrice amounts={imagePricesOf(pricesFor(model, group)?.images ?? [])} />,
  ];
  const healthLine: Line = [m.health, ({ id }) => <HealthText health={health} model={id} />];
  return [
    [m.vendor, ({ ownedBy }) => ownedBy],
    [m.context, ({ contextWindow }) => <TokenCount value={contextWindow} />],
    [m.output, ({ outputTokensMax }) => <TokenCount value={outputTokensMax} />],
    ...prices.map(
      (name): Line => [priceName(m, name), (model) => <Price amount={pricesFor(model, group)?.prices[name]} />],
    ),
    ...(models.some((model) => pricesFor(model, group)?.images.length) ? [imageLine] : []),
    [m.capabilities, ({ capabilities }) => <Capabilities of={capabilities} />],
    [m.dialect, ({ recommendedDialect }) => recommendedDialect],
    [m.released, ({ created }) => format.date(created)],
    ...(me === null ? [] : [healthLine]),
  ];
}

function Comparison(props: ComparisonProps) {
  const t = useModelsTexts();
  const { filter } = useFilters();
  const lines = useComparisonLines(props);
  const { models } = props;
  return (
    <>
      <Group gap="md">
        <Button variant="default" onClick={() => filter({ view: undefined }, { isStep: true })}>
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
                    <ModelLink id={id} />
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
