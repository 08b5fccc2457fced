/** A model of the catalogue, for operators: its route as cards, and its prices. */
import { Badge, Button, Group, MultiSelect, NumberInput, Paper, Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { ChangeDialog } from "../catalogue/change-view.tsx";
import { CostEstimates } from "../catalogue/cost-estimates.tsx";
import {
  type Entries,
  type Entry,
  type PricePeriod,
  periodsOf,
  plainPricesOf,
  pricesOnceInForce,
  putEntry,
  routeOf,
  useEntries,
} from "../catalogue/entries.ts";
import { askToRemove, EntryDialog } from "../catalogue/entry-dialog.tsx";
import { RouteCards } from "../catalogue/route-cards.tsx";
import { isEditable, ReadOnlyNotice, SourceBadge } from "../catalogue/source-badge.tsx";
import { Trial } from "../catalogue/trial.tsx";
import { FormDialog, openDialog } from "../parts/dialogs.tsx";
import { useCurrency, useMoney } from "../parts/facts.tsx";
import { NumberField, TextField } from "../parts/form.tsx";
import { ButtonLink } from "../parts/link.tsx";
import { useModelFactsTexts } from "../parts/model-facts.texts.ts";
import { priceName } from "../parts/models.tsx";
import { Loaded, NotFound, Page, Section } from "../parts/page.tsx";
import { RowButton } from "../parts/table.tsx";
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
const priceBounds = { min: 0, max: 1_000_000, decimalScale: 9, hideControls: true };

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
        <Section title={t.trial}>
          <Trial key={model.name} model={model} />
        </Section>
        <Prices entry={entry} canEdit={canEdit} onEdit={edit} />
        {edited !== undefined && <SaveBar edited={edited} model={model} onDone={() => setEdited(undefined)} />}
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
            {...priceBounds}
            disabled={!canEdit}
            onChange={(value) => set(name, value)}
          />
        ))}
      </SimpleGrid>
      <Periods prices={all} canEdit={canEdit} onEdit={onEdit} />
      <Text c="dimmed" size="sm">
        {t.otherPrices}
      </Text>
    </Section>
  );
}

/** Prices that begin on a day, end, or apply at some hours. One that begins is planned here. */
function Periods({ prices, canEdit, onEdit }: EditProps & { prices: Record<string, unknown> }) {
  const t = useCatalogueModelTexts();
  const m = useModelFactsTexts();
  const money = useMoney();
  const periods = periodsOf(prices);
  const change = (next: readonly PricePeriod[]) => {
    const { periods: _, ...others } = prices;
    onEdit({ prices: next.length === 0 ? others : { ...others, periods: next } });
  };
  const whenOf = ({ from, until, hours }: PricePeriod) =>
    [from && t.from(from), until && t.until(until), hours && t.hours(hours)].filter(Boolean).join(" · ");
  return (
    <>
      {periods.map((period, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: periods have no names.
        <Group key={place} gap="sm">
          <Badge variant="default">{whenOf(period) || t.always}</Badge>
          <Text style={{ flex: "0 1 auto" }}>
            {[
              ...Object.entries(plainPricesOf(period))
                .filter(([name]) => name !== "ratio")
                .map(([name, value]) => `${priceName(m, name)}: ${money.exact(value)}`),
              ...(period.ratio === undefined ? [] : [t.ratio(period.ratio)]),
            ].join(" · ")}
          </Text>
          {canEdit && (
            <RowButton
              isDestructive
              label={t.removeTitle(whenOf(period))}
              onClick={() => change(periods.toSpliced(place, 1))}
            >
              {t.remove}
            </RowButton>
          )}
        </Group>
      ))}
      {canEdit && (
        <Button
          variant="default"
          style={{ alignSelf: "flex-start" }}
          onClick={() =>
            openDialog(<PlanForm prices={plainPricesOf(prices)} onPlan={(period) => change([...periods, period])} />)
          }
        >
          {t.plan}
        </Button>
      )}
    </>
  );
}

interface PlanFormProps {
  prices: Record<string, number>;
  onPlan(period: PricePeriod): void;
}

/** Only the prices that become others are in the period. */
function PlanForm({ prices, onPlan }: PlanFormProps) {
  const t = useCatalogueModelTexts();
  const m = useModelFactsTexts();
  const initialValues = {
    from: "",
    ...Object.fromEntries(priceNames.map((name) => [name, prices[name] ?? ""])),
  } as Record<string, string | number> & { from: string };
  return (
    <FormDialog
      title={t.plan}
      submit={t.planIt}
      initialValues={initialValues}
      onSubmit={async ({ from, ...values }) => {
        const changed = Object.entries(values).filter(([name, value]) => value !== "" && value !== prices[name]);
        onPlan({ from, ...Object.fromEntries(changed.map(([name, value]) => [name, Number(value)])) });
      }}
    >
      <TextField name="from" type="date" label={t.firstDay} description={t.firstDayHelp} required />
      {priceNames.map((name) => (
        <NumberField key={name} name={name} label={priceName(m, name)} {...priceBounds} />
      ))}
    </FormDialog>
  );
}

/** Stays in sight while there is something to save. */
function SaveBar({ edited, model, onDone }: { edited: Edited; model: Entry; onDone(): void }) {
  const t = useCatalogueModelTexts();
  const { name } = model;
  const hasOtherPrices = JSON.stringify(edited.entry.prices) !== JSON.stringify(model.entry.prices);
  const save = () =>
    openDialog(
      <ChangeDialog
        title={name}
        submit={t.apply}
        change={putEntry(edited.entries, { kind: "model", name }, edited.entry)}
        onDone={onDone}
      >
        {hasOtherPrices && <CostEstimates proposals={[{ model: name, prices: pricesOnceInForce(edited.entry) }]} />}
      </ChangeDialog>,
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
