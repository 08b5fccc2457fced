/** The keys of the person's accounts. */
import { Badge, Button, Group, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { useList } from "../app/pages.ts";
import { useRead } from "../app/queries.ts";
import { may, useMe } from "../app/session.ts";
import { useAccounts } from "../parts/accounts.ts";
import { type Column, Cut } from "../parts/data-table.tsx";
import { KeyForm, type KeyRow, type NewKey, NewKeyDialog } from "../parts/key-dialogs.tsx";
import { PageLink } from "../parts/link.tsx";
import { ListTable } from "../parts/list-table.tsx";
import { Page } from "../parts/page.tsx";
import { Empty } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Keys",
    about: "A key lets a program use the models of its group.",
    create: "Create key",
    search: "Search by name, id or last characters",
    state: "State",
    account: "Account",
    all: "All",
    name: "Name",
    key: "Key",
    group: "Group",
    spentToday: "Today",
    spentMonth: "This month",
    lastUsed: "Last used",
    never: "Never",
    expires: "Expires",
    live: "Live",
    expired: "Expired",
    revoked: "Revoked",
    disabled: "Account disabled",
    none: "No keys yet",
    noneWhy: "Create a key, then call the gateway with it.",
    nothingFound: "No key matches",
  },
  zh: {
    title: "密钥",
    about: "程序凭密钥使用其分组的模型。",
    create: "创建密钥",
    search: "按名称、ID 或末尾字符搜索",
    state: "状态",
    account: "账户",
    all: "全部",
    name: "名称",
    key: "密钥",
    group: "分组",
    spentToday: "今日",
    spentMonth: "本月",
    lastUsed: "最近使用",
    never: "从未",
    expires: "过期时间",
    live: "有效",
    expired: "已过期",
    revoked: "已吊销",
    disabled: "账户已停用",
    none: "还没有密钥",
    noneWhy: "创建密钥，然后用它调用网关。",
    nothingFound: "没有匹配的密钥",
  },
});

const colours = { live: "teal", expired: "gray", revoked: "red", disabled: "gray" } as const;

export function KeyState({ state }: { state: KeyRow["state"] }) {
  const t = useTexts(texts);
  return (
    <Badge variant="light" color={colours[state]} radius="sm" tt="none">
      {t[state]}
    </Badge>
  );
}

const route = getRouteApi("/inside/keys");

export function Keys() {
  const t = useTexts(texts);
  const format = useFormats();
  const me = useMe();
  const { search = "", state, account, create } = route.useSearch();
  const navigate = route.useNavigate();
  const filter = (change: Record<string, string | undefined>) =>
    void navigate({ search: (now) => ({ ...now, ...change }), replace: true });
  const [typed, setTyped] = useState(search);
  const [settled] = useDebouncedValue(typed, 250);
  // biome-ignore lint/correctness/useExhaustiveDependencies: follows what is typed only.
  useEffect(() => {
    if (settled !== search) filter({ search: settled || undefined });
  }, [settled]);
  const accounts = useAccounts("reader");
  const catalogue = useRead("readCatalogue");
  const keys = useList(
    "listKeys",
    {
      query: {
        ...(search !== "" && { search }),
        ...(state !== undefined && { state: state as "live" }),
        ...(account !== undefined && { account }),
      },
    },
    { everyMs: 15_000 },
  );
  const [created, setCreated] = useState<NewKey>();
  const currency = catalogue.data?.currency ?? "USD";
  const columns: Column<KeyRow>[] = [
    {
      id: "name",
      title: t.name,
      sortBy: ({ name }) => name,
      cell: ({ id, name }) => (
        <PageLink to="/keys/$key" params={{ key: id }} fw={500}>
          <Cut>{name}</Cut>
        </PageLink>
      ),
    },
    { id: "key", title: t.key, cell: ({ hint }) => `…${hint}` },
    { id: "state", title: t.state, sortBy: (key) => key.state, cell: (key) => <KeyState state={key.state} /> },
    ...(accounts.length > 1
      ? [{ id: "account", title: t.account, sortBy: (key: KeyRow) => key.account, cell: (key: KeyRow) => key.account }]
      : []),
    { id: "group", title: t.group, sortBy: ({ group }) => group, cell: ({ group }) => group },
    {
      id: "today",
      title: t.spentToday,
      isNumber: true,
      sortBy: ({ spend }) => Number(spend.today),
      cell: ({ spend }) => (
        <span title={format.exactMoney(spend.today, currency)}>{format.money(spend.today, currency)}</span>
      ),
    },
    {
      id: "month",
      title: t.spentMonth,
      isNumber: true,
      sortBy: ({ spend }) => Number(spend.month),
      cell: ({ spend }) => (
        <span title={format.exactMoney(spend.month, currency)}>{format.money(spend.month, currency)}</span>
      ),
    },
    {
      id: "used",
      title: t.lastUsed,
      sortBy: ({ lastUsedAt }) => lastUsedAt ?? "",
      cell: ({ lastUsedAt }) =>
        lastUsedAt === null ? t.never : <span title={format.time(lastUsedAt)}>{format.ago(lastUsedAt)}</span>,
    },
    {
      id: "expires",
      title: t.expires,
      sortBy: ({ expiresAt }) => expiresAt ?? "9999",
      cell: ({ expiresAt }) => (expiresAt === null ? t.never : format.day(expiresAt)),
    },
  ];
  const isFiltered = search !== "" || state !== undefined || account !== undefined;
  const createButton = may(me, "member") && <Button onClick={() => filter({ create: "1" })}>{t.create}</Button>;
  return (
    <Page title={t.title} about={t.about} actions={createButton}>
      <Group gap="xs">
        <TextInput
          placeholder={t.search}
          aria-label={t.search}
          value={typed}
          onChange={({ currentTarget }) => setTyped(currentTarget.value)}
          w={280}
        />
        <Select
          aria-label={t.state}
          placeholder={`${t.state}: ${t.all}`}
          data={(["live", "expired", "revoked"] as const).map((value) => ({ value, label: t[value] }))}
          value={state ?? null}
          onChange={(value) => filter({ state: value ?? undefined })}
          clearable
          w={160}
        />
        {accounts.length > 1 && (
          <Select
            aria-label={t.account}
            placeholder={`${t.account}: ${t.all}`}
            data={accounts}
            value={account ?? null}
            onChange={(value) => filter({ account: value ?? undefined })}
            clearable
            searchable
            w={220}
          />
        )}
      </Group>
      <ListTable
        from={keys}
        label={t.title}
        columns={columns}
        rowId={({ id }) => id}
        minWidth={860}
        empty={
          isFiltered ? (
            <Empty title={t.nothingFound} />
          ) : (
            <Empty title={t.none} action={createButton}>
              {t.noneWhy}
            </Empty>
          )
        }
      />
      {create !== undefined && <KeyForm onClose={() => filter({ create: undefined })} onCreated={setCreated} />}
      {created && <NewKeyDialog created={created} onClose={() => setCreated(undefined)} />}
    </Page>
  );
}
