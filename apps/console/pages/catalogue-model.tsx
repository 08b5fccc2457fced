/** A model of the catalogue, for operators: its route as cards, and its prices. */
import { Button, Group, MultiSelect, NumberInput, Paper, Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { ChangeDialog } from "../catalogue/change-view.tsx";
import { type Entries, type Entry, plainPricesOf, putEntry, routeOf, useEntries } from "../catalogue/entries.ts";
import { askToRemove, EntryDialog } from "../catalogue/entry-dialog.tsx";
import { RouteCards } from "../catalogue/route-cards.tsx";
import { isEditable, ReadOnlyNotice, SourceBadge } from "../catalogue/source-badge.tsx";
import { openDialog } from "../parts/dialogs.tsx";
import { useCurrency } from "../parts/facts.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { useModelFactsTexts } from "../parts/model-facts.texts.ts";
import { priceName } from "../parts/models.tsx";
import { Loaded, NotFound, Page, Section } from "../parts/page.tsx";
import { useCatalogueModelTexts } from "./catalogue-model.texts.ts";

const pageRoute = getRouteApi("/inside/catalogue/models/$model");
const strategies = ["weights", "leastBusy", "lowestLatency", "cheapest"] as const;
const priceNames = [
  "inputPerMillion",
  "outputPerMillion",
  "cachedInputPerMillion",
  "cacheWritePerMillion",
  "reasoningPerMillion",
  "perRequest",
];
const priceMax = 1_000_000;

export function CatalogueModel() {
  const { model: id } = pageRoute.useParams();
  return (
    <Loaded from={useEntries()}>
      {(entries) => {
        const model = entries.models.find(({ name }) => name === id);
        return model === undefined ? <NotFound /> : <ModelPage key={id} entries={entries} model={model} />;
      }}
    </Loaded>
  );
}

interface Edited {
  /** The entries that the person saw when they began. */
  entries: Entries;
  entry: Entry["entry"];
}

function ModelPage({ entries, model }: { entries: Entries; model: Entry }) {
  const t = useCatalogueModelTexts();
  const [edited, setEdited] = useState<Edited>();
  const entry = edited?.entry ?? model.entry;
  const edit = (change: Entry["entry"]) =>
    setEdited({ entries: edited?.entries ?? entries, entry: { ...entry, ...change } });
  const canEdit = isEditable(entries, model);
  return (
    <Page
      title={model.name}
      about={<SourceBadge source={model.source} />}
      actions={<Actions entries={entries} model={model} canEdit={canEdit} />}
    >
      <Stack gap="lg">
        <ReadOnlyNotice entries={entries} source={model.source} />
        <Section title={t.route}>
          <RouteCards
            entries={entries}
            route={routeOf({ entry })}
            isEditable={canEdit}
            onChange={(route) => edit({ route })}
          />
          <Choices entries={entries} model={{ ...model, entry }} canEdit={canEdit} onEdit={edit} />
        </Section>
        <Prices entry={entry} canEdit={canEdit} onEdit={edit} />
        {edited !== undefined && <SaveBar edited={edited} name={model.name} onDone={() => setEdited(undefined)} />}
      </Stack>
    </Page>
  );
}

function Actions({ entries, model, canEdit }: { entries: Entries; model: Entry; canEdit: boolean }) {
  const t = useCatalogueModelTexts();
  const { name, entry } = model;
  const remove = () => askToRemove(entries, { kind: "model", name, title: t.removeTitle(name), submit: t.remove });
  return (
    <>
      <ButtonLink to="/models/$model" params={{ model: name }} variant="default">
        {t.publicPage}
      </ButtonLink>
      {canEdit && (
        <>
          <Button
            variant="default"
            onClick={() => openDialog(<EntryDialog entries={entries} kind="model" name={name} entry={entry} />)}
          >
            {t.settings}
          </Button>
          <Button variant="light" color="red" onClick={remove}>
            {t.remove}
          </Button>
        </>
      )}
    </>
  );
}

interface EditProps {
  canEdit: boolean;
  onEdit(change: Entry["entry"]): void;
}

function Choices({ entries, model, canEdit, onEdit }: EditProps & { entries: Entries; model: Entry }) {
  const t = useCatalogueModelTexts();
  const { strategy, fallbacks } = model.entry;
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }}>
      <Select
        label={t.strategy}
        data={strategies.map((value) => ({ value, label: t.strategies[value] }))}
        value={typeof strategy === "string" ? strategy : "weights"}
        onChange={(next) => onEdit({ strategy: next })}
        allowDeselect={false}
        disabled={!canEdit}
      />
      <MultiSelect
        label={t.fallbacks}
        data={entries.models.map(({ name }) => name).filter((name) => name !== model.name)}
        value={Array.isArray(fallbacks) ? (fallbacks as string[]) : []}
        onChange={(next) => onEdit({ fallbacks: next })}
        searchable
        disabled={!canEdit}
      />
    </SimpleGrid>
  );
}

function Prices({ entry, canEdit, onEdit }: EditProps & { entry: Entry["entry"] }) {
  const t = useCatalogueModelTexts();
  const m = useModelFactsTexts();
  const currency = useCurrency();
  const plain = plainPricesOf(entry.prices);
  const all = (entry.prices ?? {}) as Record<string, unknown>;
  const names = [...new Set([...priceNames, ...Object.keys(plain)])];
  const set = (name: string, value: string | number) => {
    const { [name]: _, ...others } = all;
    onEdit({ prices: value === "" ? others : { ...others, [name]: Number(value) } });
  };
  return (
    <Section title={t.prices}>
      <Text c="dimmed">{t.pricesWhy(currency)}</Text>
      <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }}>
        {names.map((name) => (
          <NumberInput
            key={name}
            label={priceName(m, name)}
            placeholder={name.endsWith("PerMillion") ? t.unset : t.free}
            value={plain[name] ?? ""}
            min={0}
            max={priceMax}
            decimalScale={9}
            hideControls
            disabled={!canEdit}
            onChange={(value) => set(name, value)}
          />
        ))}
      </SimpleGrid>
      <Text c="dimmed" size="sm">
        {t.otherPrices}
      </Text>
    </Section>
  );
}

/** Stays in sight while there is something to save. */
function SaveBar({ edited, name, onDone }: { edited: Edited; name: string; onDone(): void }) {
  const t = useCatalogueModelTexts();
  const save = () =>
    openDialog(
      <ChangeDialog
        title={name}
        submit={t.apply}
        change={putEntry(edited.entries, { kind: "model", name }, edited.entry)}
        onDone={onDone}
      />,
    );
  return (
    <Paper withBorder shadow="sm" p="sm" pos="sticky" bottom={8} role="region" aria-label={t.unsaved}>
      <Group justify="space-between">
        <Text fw={600}>{t.unsaved}</Text>
        <Group>
          <Button variant="default" onClick={onDone}>
            {t.discard}
          </Button>
          <Button onClick={save}>{t.save}</Button>
        </Group>
      </Group>
    </Paper>
  );
}
