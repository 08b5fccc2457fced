/** The prices of targets beside their vendors' list prices, to tick and to apply. */
import { Alert, Badge, Button, Checkbox, Group, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useMemo, useState } from "react";
import { useFilters } from "../app/address.ts";
import { type Answer, call } from "../app/call.ts";
import { useRead } from "../app/queries.ts";
import { openDialog } from "../parts/dialogs.tsx";
import { Cut, useMoney } from "../parts/facts.tsx";
import { PageLink } from "../parts/link.tsx";
import { useModelFactsTexts } from "../parts/model-facts.texts.ts";
import { priceName } from "../parts/models.tsx";
import { Empty, Loaded } from "../parts/page.tsx";
import { DataTable, StateCell, useColumns } from "../parts/table.tsx";
import { ChangeDialog } from "./change-view.tsx";
import { CostEstimates } from "./cost-estimates.tsx";
import { basedOn, type Entries } from "./entries.ts";
import { usePricesTabTexts } from "./prices-tab.texts.ts";
import { isEditable, SourceBadge } from "./source-badge.tsx";

type Prices = Answer<"listPriceDifferences">;
type PricedTarget = Prices["items"][number];

const states = ["different", "unknown", "equal"] as const;
const stateColors = { different: "yellow", unknown: "gray", equal: "teal" } as const;

export function PricesTab({ entries }: { entries: Entries }) {
  const prices = useRead("listPriceDifferences", {}, { everyMs: 30_000 });
  return <Loaded from={prices}>{(value) => <Differences entries={entries} {...value} />}</Loaded>;
}

const idOf = ({ model, upstream, target }: PricedTarget) => `${model} ${upstream} ${target}`;
/** Names the prices that list prices replace. Targets without own prices share the model's. */
const pricesIdOf = (item: PricedTarget) => (item.of === "model" ? item.model : idOf(item));

function Differences({ entries, date, currency, items }: Prices & { entries: Entries }) {
  const t = usePricesTabTexts();
  const { search, filter } = useFilters();
  const [ticked, setTicked] = useState<ReadonlyMap<string, PricedTarget>>(new Map());
  const state = states.find((name) => name === search.state) ?? "different";
  const tick = (item: PricedTarget, isTicked: boolean) =>
    setTicked((now) => {
      const others = [...now].filter(([id]) => id !== pricesIdOf(item));
      return new Map(isTicked ? [...others, [pricesIdOf(item), item]] : others);
    });
  const rows = items
    .filter((item) => item.state === state)
    .map((item) => {
      const row = ticked.get(pricesIdOf(item));
      return { ...item, isTicked: row !== undefined && idOf(row) === idOf(item) };
    });
  const columns = usePriceColumns({ entries, onTick: tick });
  if (currency !== listCurrency) return <Alert color="gray">{t.otherCurrency(currency)}</Alert>;
  const countOf = (name: PricedTarget["state"]) => items.filter((item) => item.state === name).length;
  return (
    <Stack gap="md">
      <Text c="dimmed">{t.about(date)}</Text>
      <Group gap="md">
        <SegmentedControl
          aria-label={t.state}
          value={state}
          onChange={(next) => filter({ state: next })}
          data={states.map((value) => ({ value, label: `${t.states[value]} (${countOf(value)})` }))}
        />
        {ticked.size > 0 && (
          <ApplyForm entries={entries} items={[...ticked.values()]} onDone={() => setTicked(new Map())} />
        )}
      </Group>
      <DataTable
        label={t.label}
        columns={columns}
        rows={rows}
        rowId={idOf}
        minWidth={900}
        empty={<Empty title={t.noneOf[state]} />}
      />
    </Stack>
  );
}

const listCurrency = "USD";

interface PriceColumnOptions {
  entries: Entries;
  onTick(item: PricedTarget, isTicked: boolean): void;
}

function usePriceColumns({ entries, onTick }: PriceColumnOptions) {
  const t = usePricesTabTexts();
  const m = useModelFactsTexts();
  const c = useColumns<PricedTarget & { isTicked: boolean }>();
  const money = useMoney();
  // biome-ignore lint/correctness/useExhaustiveDependencies: a tick is a function of the former ones.
  return useMemo(() => {
    const textOf = ({ price, aboveInputTokens, catalogue, list, difference }: PricedTarget["differences"][number]) => {
      const name = aboveInputTokens === 0 ? priceName(m, price) : t.above(priceName(m, price), aboveInputTokens);
      return difference === "missing"
        ? t.missing(name, money.exact(list))
        : t.differs(name, money.exact(catalogue), money.exact(list), t[difference]);
    };
    return [
      c.cell("tick", t.take, (item) =>
        item.state !== "different" ? null : (
          <Checkbox
            aria-label={t.takeOf(`${item.upstream} / ${item.target}`, item.model)}
            title={isEditable(entries, item) ? undefined : t.readOnly}
            disabled={!isEditable(entries, item)}
            checked={item.isTicked}
            onChange={({ currentTarget }) => onTick(item, currentTarget.checked)}
          />
        ),
      ),
      c.cell(
        "model",
        t.model,
        ({ model }) => (
          <PageLink to="/catalogue/models/$model" params={{ model }} fw={500}>
            <Cut width={220}>{model}</Cut>
          </PageLink>
        ),
        { sortBy: ({ model }) => model },
      ),
      c.cell("source", t.source, ({ source }) => <SourceBadge source={source} />),
      c.cell("target", t.target, ({ upstream, target, of }) => (
        <Group gap={6} wrap="nowrap">
          <Cut width={240}>{`${upstream} / ${target}`}</Cut>
          {of === "target" && <Badge variant="default">{t.ofTarget}</Badge>}
        </Group>
      )),
      c.cell("state", t.state, ({ state }) => <StateCell color={stateColors[state]}>{t.states[state]}</StateCell>),
      c.cell("differences", t.differences, ({ differences }) => (
        <Cut width={430}>{differences.map(textOf).join(" · ")}</Cut>
      )),
    ];
  }, [t, m, c, entries, money]);
}

interface ApplyFormProps {
  entries: Entries;
  items: readonly PricedTarget[];
  onDone(): void;
}

function ApplyForm({ entries, items, onDone }: ApplyFormProps) {
  const t = usePricesTabTexts();
  const [from, setFrom] = useState("");
  const targets = items.map(({ model, upstream, target }) => ({ model, upstream, target, ...(from && { from }) }));
  const apply = () =>
    openDialog(
      <ChangeDialog
        title={t.applyTitle(items.length)}
        submit={t.apply}
        change={(query) => call("applyListPrices", { query, body: { items: targets } }, basedOn(entries))}
        onDone={onDone}
      >
        <CostEstimates
          proposals={items.flatMap(({ of, model, listPrices }) =>
            listPrices === null || of === "target" ? [] : [{ model, prices: listPrices }],
          )}
        />
      </ChangeDialog>,
    );
  return (
    <Group gap="sm">
      <TextInput
        type="date"
        aria-label={t.from}
        title={t.fromHelp}
        value={from}
        onChange={({ currentTarget: { value } }) => setFrom(value)}
      />
      <Button onClick={apply}>{from === "" ? t.applyNow(items.length) : t.applyFrom(items.length)}</Button>
    </Group>
  );
}
