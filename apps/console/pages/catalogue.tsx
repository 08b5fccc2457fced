/** The catalogue, for operators: its entries from the file and from the database, and the file. */
import { Alert, Button, Stack, Tabs, Text } from "@mantine/core";
import { useMemo } from "react";
import { useFilters } from "../app/address.ts";
import { AddUpstream } from "../catalogue/add-upstream.tsx";
import { CredentialsTab } from "../catalogue/credentials-tab.tsx";
import {
  type Entries,
  type Entry,
  type EntryKind,
  imagesOf,
  plainPricesOf,
  routeOf,
  textOf,
  useEntries,
} from "../catalogue/entries.ts";
import { askToRemove, EntryDialog } from "../catalogue/entry-dialog.tsx";
import { FileTab } from "../catalogue/file-tab.tsx";
import { PricesTab } from "../catalogue/prices-tab.tsx";
import { RevisionsTab } from "../catalogue/revisions-tab.tsx";
import { isEditable, SourceBadge } from "../catalogue/source-badge.tsx";
import { openDialog } from "../parts/dialogs.tsx";
import { Cut, useMoney } from "../parts/facts.tsx";
import { PageLink } from "../parts/link.tsx";
import { OutputPrice, TokenCount } from "../parts/models.tsx";
import { Empty, Loaded, Page } from "../parts/page.tsx";
import { RowMenu } from "../parts/row-menu.tsx";
import { DataTable, useColumns } from "../parts/table.tsx";
import { useCatalogueTexts } from "./catalogue.texts.ts";

const tabNames = ["models", "prices", "upstreams", "credentials", "groups", "queues", "revisions", "file"] as const;
type TabName = (typeof tabNames)[number];

export function Catalogue() {
  const t = useCatalogueTexts();
  const { search, filter } = useFilters();
  const tab = tabNames.find((name) => name === search.tab) ?? "models";
  const entries = useEntries();
  return (
    <Page title={t.catalogue} about={t.about}>
      <Tabs value={tab} onChange={(next) => filter({ tab: next ?? undefined })} keepMounted={false}>
        <Tabs.List>
          {tabNames.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {t.tabs[name]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value={tab} pt="md">
          {tab === "file" ? (
            <FileTab />
          ) : (
            <Loaded from={entries}>
              {(value) =>
                tab === "credentials" ? (
                  <CredentialsTab isReadOnly={value.isReadOnly} />
                ) : tab === "revisions" ? (
                  <RevisionsTab entries={value} />
                ) : tab === "prices" ? (
                  <PricesTab entries={value} />
                ) : (
                  <EntriesTab entries={value} tab={tab} />
                )
              }
            </Loaded>
          )}
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

const kinds = { models: "model", upstreams: "upstream", groups: "group", queues: "queue" } as const;
const firstEntries = {
  models: { prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: "", model: "" }] },
  groups: { models: ["*"] },
  queues: {},
};

function EntriesTab({
  entries,
  tab,
}: {
  entries: Entries;
  tab: Exclude<TabName, "file" | "credentials" | "revisions" | "prices">;
}) {
  const t = useCatalogueTexts();
  const add = { models: t.addModel, upstreams: t.addUpstream, groups: t.addGroup, queues: t.addQueue }[tab];
  const create = !entries.isReadOnly && (
    <Button
      style={{ alignSelf: "flex-start" }}
      onClick={() =>
        openDialog(
          tab === "upstreams" ? (
            <AddUpstream entries={entries} />
          ) : (
            <EntryDialog entries={entries} kind={kinds[tab]} entry={firstEntries[tab]} />
          ),
        )
      }
    >
      {add}
    </Button>
  );
  const none = {
    models: <Empty title={t.noneModels}>{t.noneModelsWhy}</Empty>,
    upstreams: <Empty title={t.noneUpstreams}>{t.noneUpstreamsWhy}</Empty>,
    groups: <Empty title={t.noneHere} />,
    queues: <Empty title={t.noneHere} />,
  };
  const columns = {
    models: useModelColumns(entries),
    upstreams: useUpstreamColumns(entries),
    groups: useGroupColumns(entries),
    queues: useQueueColumns(entries),
  };
  return (
    <Stack gap="md">
      {entries.fault !== null && (
        <Alert color="red" title={t.fault}>
          {entries.fault}
        </Alert>
      )}
      {create}
      <DataTable
        label={t.tabs[tab]}
        columns={columns[tab]}
        rows={entries[tab]}
        rowId="name"
        minWidth={820}
        empty={none[tab]}
      />
    </Stack>
  );
}

function useEntryColumns(entries: Entries, kind: EntryKind) {
  const t = useCatalogueTexts();
  const c = useColumns<Entry>();
  return useMemo(() => {
    const edit = ({ name, entry }: Entry) =>
      openDialog(<EntryDialog entries={entries} kind={kind} name={name} entry={entry} />);
    const remove = ({ name }: Entry) => askToRemove(entries, { kind, name, title: t.removeOf(name), submit: t.remove });
    return {
      c,
      t,
      source: c.cell("source", t.source, ({ source }) => <SourceBadge source={source} />, {
        sortBy: ({ source }) => source,
      }),
      actions: c.actions(
        (entry) =>
          isEditable(entries, entry) && (
            <RowMenu
              label={t.actionsOf(entry.name)}
              items={[
                { text: t.settings, onClick: () => edit(entry) },
                { text: t.remove, isDestructive: true, onClick: () => remove(entry) },
              ]}
            />
          ),
      ),
    };
  }, [t, c, entries, kind]);
}

function useModelColumns(entries: Entries) {
  const { c, t, source, actions } = useEntryColumns(entries, "model");
  const money = useMoney();
  return useMemo(() => {
    const price = (id: string, title: string) =>
      c.cell(
        id,
        title,
        ({ entry }) => {
          return money.exact(plainPricesOf(entry.prices)[id]);
        },
        { isNumber: true, sortBy: ({ entry }) => plainPricesOf(entry.prices)[id] ?? -1 },
      );
    return [
      c.cell(
        "name",
        t.model,
        ({ name }) => (
          <PageLink to="/catalogue/models/$model" params={{ model: name }} fw={500}>
            <Cut width={260}>{name}</Cut>
          </PageLink>
        ),
        { sortBy: ({ name }) => name },
      ),
      source,
      c.cell("targets", t.targets, (model) => (
        <Cut width={260}>
          {routeOf(model)
            .map(({ upstream }) => upstream)
            .join(" → ")}
        </Cut>
      )),
      price("inputPerMillion", t.inputPrice),
      c.cell(
        "outputPerMillion",
        t.outputPrice,
        ({ entry }) => (
          <OutputPrice
            amount={plainPricesOf(entry.prices).outputPerMillion?.toString()}
            images={imagesOf(entry.prices)}
          />
        ),
        { isNumber: true, sortBy: ({ entry }) => plainPricesOf(entry.prices).outputPerMillion ?? -1 },
      ),
      c.cell("context", t.context, ({ entry }) => <TokenCount value={Number(entry.contextWindow ?? 0) || null} />, {
        isNumber: true,
        sortBy: ({ entry }) => Number(entry.contextWindow ?? 0),
      }),
      actions,
    ];
  }, [c, t, source, actions, money]);
}

function useUpstreamColumns(entries: Entries) {
  const { c, t, source, actions } = useEntryColumns(entries, "upstream");
  return useMemo(() => {
    const usedBy = (name: string) =>
      entries.models.filter((model) => routeOf(model).some(({ upstream }) => upstream === name)).length;
    return [
      c.cell("name", t.upstreamName, ({ name }) => <Text fw={500}>{name}</Text>, { sortBy: ({ name }) => name }),
      source,
      c.cell("dialect", t.dialect, ({ entry }) => textOf(entry.dialect)),
      c.cell("baseUrl", t.baseUrl, ({ entry }) => <Cut width={320}>{textOf(entry.baseUrl)}</Cut>),
      c.cell("credential", t.credential, ({ entry }) => textOf(entry.credential) || t.noCredential),
      c.cell("models", t.usedBy, ({ name }) => c.format.count(usedBy(name)), {
        isNumber: true,
        sortBy: ({ name }) => usedBy(name),
      }),
      actions,
    ];
  }, [c, t, source, actions, entries]);
}

function useGroupColumns(entries: Entries) {
  const { c, t, source, actions } = useEntryColumns(entries, "group");
  return useMemo(
    () => [
      c.cell("name", t.group, ({ name }) => <Text fw={500}>{name}</Text>, { sortBy: ({ name }) => name }),
      source,
      c.cell("models", t.modelCount, ({ entry }) => (
        <Cut width={360}>{Array.isArray(entry.models) ? entry.models.join(", ") : "–"}</Cut>
      )),
      c.cell("priceRatio", t.priceRatio, ({ entry }) => `× ${c.format.count(Number(entry.priceRatio ?? 1))}`, {
        isNumber: true,
      }),
      c.cell("weight", t.weight, ({ entry }) => c.format.count(Number(entry.weight ?? 1)), { isNumber: true }),
      actions,
    ],
    [c, t, source, actions],
  );
}

function useQueueColumns(entries: Entries) {
  const { c, t, source, actions } = useEntryColumns(entries, "queue");
  return useMemo(
    () => [
      c.cell("name", t.queue, ({ name }) => <Text fw={500}>{name}</Text>, { sortBy: ({ name }) => name }),
      source,
      c.cell(
        "waitingMax",
        t.waitingMax,
        ({ entry }) => (entry.waitingMax === undefined ? "–" : c.format.count(Number(entry.waitingMax))),
        { isNumber: true },
      ),
      actions,
    ],
    [c, t, source, actions],
  );
}
