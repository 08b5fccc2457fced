/** The audit log: who changed what, and from where. */
import { Code, Group, Modal, Select, SimpleGrid, Stack, Text, TextInput, UnstyledButton } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { type Item, useList } from "../app/pages.ts";
import { useAccounts } from "../parts/accounts.ts";
import { type Column, Cut } from "../parts/data-table.tsx";
import { ListTable } from "../parts/list-table.tsx";
import { Page } from "../parts/page.tsx";
import { Empty } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Audit log",
    about: "Every change: who, what, before and after, from where.",
    account: "Account",
    all: "All",
    action: "Action",
    time: "Time",
    actor: "Who",
    address: "From",
    subject: "What",
    details: "Before and after",
    before: "Before",
    after: "After",
    nothing: "Nothing",
    none: "No entry matches",
    close: "Close",
  },
  zh: {
    title: "审计日志",
    about: "记录每次变更：谁、做了什么、变更前后的状态、来自何处。",
    account: "账户",
    all: "全部",
    action: "操作",
    time: "时间",
    actor: "操作者",
    address: "来源",
    subject: "对象",
    details: "变更前后",
    before: "变更前",
    after: "变更后",
    nothing: "无",
    none: "没有匹配的记录",
    close: "关闭",
  },
});

type Entry = Item<"listAudit">;
const route = getRouteApi("/inside/audit");
const pageRows = 100;

export function Audit() {
  const t = useTexts(texts);
  const format = useFormats();
  const { account, action = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const filter = (change: Record<string, string | undefined>) =>
    void navigate({ search: (now) => ({ ...now, ...change }), replace: true });
  const accounts = useAccounts("owner");
  const entries = useList(
    "listAudit",
    { query: { limit: pageRows, ...(account && { account }), ...(action && { action }) } },
    { isKept: true },
  );
  const [shown, setShown] = useState<Entry>();
  const [typed, setTyped] = useState(action);
  const columns: Column<Entry>[] = [
    { id: "at", title: t.time, cell: ({ at }) => format.time(at) },
    { id: "actor", title: t.actor, cell: ({ actor }) => <Cut>{actor.name || actor.kind}</Cut> },
    {
      id: "action",
      title: t.action,
      cell: (entry) => (
        <UnstyledButton c="var(--mantine-color-anchor)" fz="inherit" onClick={() => setShown(entry)}>
          {entry.action}
        </UnstyledButton>
      ),
    },
    { id: "subject", title: t.subject, cell: ({ subject }) => <Cut width={320}>{subject}</Cut> },
    { id: "account", title: t.account, cell: (entry) => entry.account ?? "–" },
    { id: "address", title: t.address, cell: ({ address }) => address || "–" },
  ];
  return (
    <Page title={t.title} about={t.about}>
      <Group gap="xs">
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
        <form
          onSubmit={(event) => {
            event.preventDefault();
            filter({ action: typed || undefined });
          }}
        >
          <TextInput
            aria-label={t.action}
            placeholder={`${t.action} (revokeKey, signIn, …)`}
            value={typed}
            onChange={({ currentTarget }) => setTyped(currentTarget.value)}
            onBlur={() => filter({ action: typed || undefined })}
            w={240}
          />
        </form>
      </Group>
      <ListTable
        from={entries}
        label={t.title}
        columns={columns}
        rowId={({ id }) => id}
        isEndless
        minWidth={860}
        empty={<Empty title={t.none} />}
      />
      {shown && (
        <Modal
          opened
          onClose={() => setShown(undefined)}
          title={`${t.details}: ${shown.action}`}
          size="xl"
          closeButtonProps={{ "aria-label": t.close }}
        >
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            {(["before", "after"] as const).map((side) => (
              <Stack gap={4} key={side}>
                <Text fw={600}>{t[side]}</Text>
                <Code block>{shown[side] == null ? t.nothing : JSON.stringify(shown[side], null, 2)}</Code>
              </Stack>
            ))}
          </SimpleGrid>
        </Modal>
      )}
    </Page>
  );
}
