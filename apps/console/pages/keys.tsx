/** The keys of the person's accounts. */
import { Badge, Button, Group, TextInput } from "@mantine/core";
import { useDebouncedValue, useInputState } from "@mantine/hooks";
import { useEffect } from "react";
import { useFilters } from "../app/address.ts";
import { type Item, useList } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { useAccounts } from "../parts/accounts.ts";
import { precisionOf } from "../parts/amounts.ts";
import { Cut } from "../parts/facts.tsx";
import { FilterSelect } from "../parts/filters.tsx";
import { KeyForm, showNewKey } from "../parts/key-dialogs.tsx";
import { KeyLink } from "../parts/link.tsx";
import { Empty, Page } from "../parts/page.tsx";
import { ListTable, useColumns } from "../parts/table.tsx";
import { useKeysTexts } from "./keys.texts.ts";

type KeyRow = Item<"listKeys">;
const colours = { live: "teal", expired: "gray", revoked: "red", disabled: "gray" } as const;

type KeyStateProps = Pick<KeyRow, "state" | "limits" | "spend">;

/** Whether a budget of the key itself leaves nothing for today or for this month. */
const isOverBudget = ({ limits, spend }: KeyStateProps): boolean =>
  (
    [
      [limits?.budgetPerDay, spend.today],
      [limits?.budgetPerMonth, spend.month],
    ] as const
  ).some(([budget, spent]) => budget != null && Number(spent) >= Number(budget));

export function KeyState(key: KeyStateProps) {
  const t = useKeysTexts();
  const { state } = key;
  return state === "live" && isOverBudget(key) ? (
    <Badge color="red">{t.overBudget}</Badge>
  ) : (
    <Badge color={colours[state]}>{t[state]}</Badge>
  );
}

function useKeyColumns(hasAccounts: boolean) {
  const t = useKeysTexts();
  const c = useColumns<KeyRow>();
  const spend = (period: "today" | "month", title: string) =>
    c.money(period, title, ({ spend: { [period]: amount } }) => amount, {
      precisionOf: ({ spend }) => precisionOf({ isCostPartial: spend.isPartial }),
    });
  return [
    c.cell(
      "name",
      t.name,
      ({ id, name }) => (
        <KeyLink id={id} fw={500}>
          <Cut>{name}</Cut>
        </KeyLink>
      ),
      { sortBy: ({ name }) => name },
    ),
    c.cell("key", t.key, ({ hint }) => `…${hint}`),
    c.cell("state", t.state, KeyState, { sortBy: ({ state }) => state }),
    ...(hasAccounts ? [c.account(t.account)] : []),
    c.text("group", t.group),
    spend("today", t.spentToday),
    spend("month", t.spentMonth),
    c.ago("lastUsedAt", t.lastUsed, t.never),
    // A key without an end sorts as the last one to end.
    { ...c.day("expiresAt", t.expires, t.never), accessorFn: ({ expiresAt }: KeyRow) => expiresAt ?? "9999" },
  ];
}

export function Keys() {
  const t = useKeysTexts();
  const me = useMe();
  const { search: address, filter } = useFilters();
  const { search = "", state, account, create } = address;
  const [text, setText] = useInputState(search);
  const [settled] = useDebouncedValue(text, 250);
  // biome-ignore lint/correctness/useExhaustiveDependencies: follows the text only.
  useEffect(() => {
    if (settled !== search) filter({ search: settled || undefined });
  }, [settled]);
  const accounts = useAccounts("reader");
  const query = { search, state: state as "live" | undefined, account };
  const keys = useList("listKeys", { query }, { everyMs: 15_000 });
  const createButton = may(me, "member") && <Button onClick={() => filter({ create: "1" })}>{t.create}</Button>;
  return (
    <Page title={t.title} about={t.about} actions={createButton}>
      <Group>
        <TextInput placeholder={t.search} aria-label={t.search} value={text} onChange={setText} w={280} />
        <FilterSelect
          name="state"
          title={t.state}
          data={(["live", "expired", "revoked"] as const).map((value) => ({ value, label: t[value] }))}
          w={160}
        />
        {accounts.length > 1 && <FilterSelect name="account" title={t.account} data={accounts} searchable w={220} />}
      </Group>
      <ListTable
        from={keys}
        label={t.title}
        columns={useKeyColumns(accounts.length > 1)}
        minWidth={860}
        empty={
          search || state || account ? <Empty title={t.nothingFound} /> : <Empty title={t.none}>{t.noneWhy}</Empty>
        }
      />
      {create !== undefined && <KeyForm onClose={() => filter({ create: undefined })} onCreated={showNewKey} />}
    </Page>
  );
}
