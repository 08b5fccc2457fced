/** The accounts that the person belongs to; all for an operator. */
import { Badge, Button, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../app/call.ts";
import { translated, useFormats, useTexts } from "../app/language.tsx";
import { type Item, useList } from "../app/pages.ts";
import { queryClient } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import type { Column } from "../parts/data-table.tsx";
import { FormDialog } from "../parts/dialogs.tsx";
import { NameField } from "../parts/fields.tsx";
import { Field } from "../parts/form.tsx";
import { PageLink } from "../parts/link.tsx";
import { ListTable } from "../parts/list-table.tsx";
import { Page } from "../parts/page.tsx";
import { Empty } from "../parts/states.tsx";

const texts = translated({
  en: {
    title: "Accounts",
    about: "Keys, people and usage belong to an account.",
    create: "Create account",
    name: "Name",
    id: "Id",
    idHelp: "In usage records and limits; it cannot be changed. Empty: a random one.",
    state: "State",
    active: "Active",
    disabled: "Disabled",
    created: "Created",
    none: "You belong to no account",
    noneWhy: "An owner or an operator can invite you with a link.",
  },
  zh: {
    title: "账户",
    about: "密钥、人员和用量都属于某个账户。",
    create: "创建账户",
    name: "名称",
    id: "ID",
    idHelp: "用于用量记录和限额，之后无法修改。留空则随机生成。",
    state: "状态",
    active: "正常",
    disabled: "已停用",
    created: "创建时间",
    none: "您不属于任何账户",
    noneWhy: "所有者或运维人员可以通过链接邀请您。",
  },
});

const route = getRouteApi("/inside/accounts");

export function Accounts() {
  const t = useTexts(texts);
  const format = useFormats();
  const me = useMe();
  const accounts = useList("listAccounts");
  const navigate = route.useNavigate();
  const [isCreating, setIsCreating] = useState(false);
  const [name, setName] = useState("");
  const [id, setId] = useState("");
  const columns: Column<Item<"listAccounts">>[] = [
    {
      id: "name",
      title: t.name,
      sortBy: (account) => account.name,
      cell: (account) => (
        <PageLink to="/accounts/$account" params={{ account: account.id }} fw={500}>
          {account.name}
        </PageLink>
      ),
    },
    { id: "id", title: t.id, sortBy: (account) => account.id, cell: (account) => account.id },
    {
      id: "state",
      title: t.state,
      sortBy: ({ disabledAt }) => disabledAt ?? "",
      cell: ({ disabledAt }) => (
        <Badge variant="light" radius="sm" tt="none" color={disabledAt === null ? "teal" : "red"}>
          {disabledAt === null ? t.active : t.disabled}
        </Badge>
      ),
    },
    {
      id: "created",
      title: t.created,
      sortBy: (account) => account.createdAt,
      cell: (account) => format.day(account.createdAt),
    },
  ];
  return (
    <Page
      title={t.title}
      about={t.about}
      actions={me.isOperator && <Button onClick={() => setIsCreating(true)}>{t.create}</Button>}
    >
      <ListTable
        from={accounts}
        label={t.title}
        columns={columns}
        rowId={(account) => account.id}
        empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
      />
      {isCreating && (
        <FormDialog
          title={t.create}
          submit={t.create}
          onClose={() => setIsCreating(false)}
          onSubmit={async () => {
            const account = await call("createAccount", { body: { name, ...(id !== "" && { id }) } });
            await queryClient.invalidateQueries();
            await navigate({ to: "/accounts/$account", params: { account: account.id } });
          }}
        >
          <NameField data-autofocus value={name} onChange={setName} />
          <Field name="id">
            <TextInput
              label={t.id}
              description={t.idHelp}
              maxLength={40}
              value={id}
              onChange={({ currentTarget }) => setId(currentTarget.value)}
            />
          </Field>
        </FormDialog>
      )}
    </Page>
  );
}
