/** The accounts that the person belongs to; all for an operator. */
import { Badge, Button } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { call } from "../app/call.ts";
import { type Item, useList } from "../app/queries.ts";
import { useMe } from "../app/session.ts";
import { FormDialog, openDialog } from "../parts/dialogs.tsx";
import { NameField, TextField } from "../parts/form.tsx";
import { AccountLink } from "../parts/link.tsx";
import { Empty, Page } from "../parts/page.tsx";
import { ListTable, useColumns } from "../parts/table.tsx";
import { useAccountsTexts } from "./accounts.texts.ts";

export function Accounts() {
  const t = useAccountsTexts();
  const me = useMe();
  const c = useColumns<Item<"listAccounts">>();
  const columns = [
    c.cell(
      "name",
      t.name,
      ({ id, name }) => (
        <AccountLink id={id} fw={500}>
          {name}
        </AccountLink>
      ),
      { sortBy: ({ name }) => name },
    ),
    c.text("id", t.id),
    c.cell(
      "state",
      t.state,
      ({ disabledAt }) => (
        <Badge color={disabledAt === null ? "teal" : "red"}>{disabledAt === null ? t.active : t.disabled}</Badge>
      ),
      { sortBy: ({ disabledAt }) => disabledAt ?? "" },
    ),
    c.day("createdAt", t.created),
  ];
  return (
    <Page
      title={t.accounts}
      about={t.about}
      actions={me.isOperator && <Button onClick={() => openDialog(<CreateForm />)}>{t.create}</Button>}
    >
      <ListTable
        from={useList("listAccounts")}
        label={t.accounts}
        columns={columns}
        empty={<Empty title={t.none}>{t.noneWhy}</Empty>}
      />
    </Page>
  );
}

function CreateForm() {
  const t = useAccountsTexts();
  const navigate = useNavigate();
  return (
    <FormDialog
      title={t.create}
      submit={t.create}
      initialValues={{ name: "", id: "" }}
      onSubmit={async ({ name, id }) => {
        const account = await call("createAccount", { body: { name, id: id || undefined } });
        await navigate({ to: "/accounts/$account", params: { account: account.id } });
      }}
    >
      <NameField data-autofocus />
      <TextField name="id" label={t.id} description={t.idHelp} maxLength={40} />
    </FormDialog>
  );
}
