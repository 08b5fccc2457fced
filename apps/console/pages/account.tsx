/** One account: its members, invitations and alerts. */
import { Badge, Button, Group, MultiSelect, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { type Answer, call, type Input } from "../app/call.ts";
import { useFormats } from "../app/language.tsx";
import { change, type Item, useList, useRead, useVersioned } from "../app/queries.ts";
import { may, type Role, useMe } from "../app/session.ts";
import { CopyText } from "../parts/copy.tsx";
import { ConfirmDialog, FormDialog, openDialog, SecretDialog } from "../parts/dialogs.tsx";
import { Person } from "../parts/facts.tsx";
import { EmailField, NameField, SelectField, SwitchField, useField } from "../parts/form.tsx";
import { AccountLimits } from "../parts/key-limits.tsx";
import { PageLink } from "../parts/link.tsx";
import { Empty, Loaded, Page, Section } from "../parts/page.tsx";
import { DataTable, ListTable, RowButton, useColumns } from "../parts/table.tsx";
import { useAccountTexts } from "./account.texts.ts";
import { ContentStorage } from "./content-storage.tsx";

const route = getRouteApi("/inside/accounts/$account");
const roles = ["reader", "member", "owner"] as const satisfies Role[];

export function Account() {
  const t = useAccountTexts();
  const me = useMe();
  const params = route.useParams();
  const search = params;
  const isOwner = may(me, "owner", params.account);
  return (
    <Loaded from={useVersioned("getAccount", { params })}>
      {({ value: account, etag }) => (
        <Page
          title={account.name}
          about={account.disabledAt !== null ? t.disabled : account.id === account.name ? undefined : account.id}
          actions={me.isOperator && <Actions account={account} etag={etag} />}
        >
          <Text>
            {t.groupsAre(account.groups === null ? t.allGroups : account.groups.join(", ") || t.noGroups)}{" "}
            <PageLink to="/models" search={{ view: "groups" }} underline="always">
              {t.seeGroups}
            </PageLink>
          </Text>
          <Group gap="md">
            <PageLink to="/keys" search={search}>
              {t.keys}
            </PageLink>
            <PageLink to="/usage" search={search}>
              {t.usage}
            </PageLink>
            <PageLink to="/accounts/$account/statement" params={params}>
              {t.statement}
            </PageLink>
            {isOwner && (
              <PageLink to="/audit" search={search}>
                {t.audit}
              </PageLink>
            )}
          </Group>
          <AccountLimits account={params.account} />
          <Members account={params.account} canManage={isOwner} />
          {isOwner && <Invitations account={params.account} />}
          <ContentStorage account={account} etag={etag} canManage={isOwner} />
          <Alerts account={params.account} />
        </Page>
      )}
    </Loaded>
  );
}

interface ActionsProps {
  account: Answer<"getAccount">;
  etag: string | undefined;
}

function Actions({ account: { id, name, groups, disabledAt }, etag }: ActionsProps) {
  const t = useAccountTexts();
  const update = (body: NonNullable<Input<"updateAccount">["body"]>) =>
    call("updateAccount", { params: { account: id }, body }, { ifMatch: etag });
  const rename = () =>
    openDialog(
      <FormDialog title={t.rename} submit={t.save} initialValues={{ name }} onSubmit={update}>
        <NameField data-autofocus />
      </FormDialog>,
    );
  const chooseGroups = () =>
    openDialog(
      <FormDialog
        title={t.groupsTitle(name)}
        submit={t.save}
        initialValues={{ isAll: groups === null, groups: groups ?? [] }}
        onSubmit={({ isAll, groups: chosen }) => update({ groups: isAll ? null : chosen })}
      >
        {(values) => (
          <>
            <Text>{t.groupsHelp}</Text>
            <SwitchField name="isAll" label={t.allGroups} data-autofocus />
            <GroupsField {...values} />
          </>
        )}
      </FormDialog>,
    );
  const disable = () =>
    openDialog(
      <ConfirmDialog
        title={t.disableTitle(name)}
        submit={t.disable}
        consequence={t.disableWhy}
        onSubmit={() => update({ isDisabled: true })}
      />,
    );
  const enable = () => void change("updateAccount", { params: { account: id }, body: { isDisabled: false } });
  return (
    <>
      <Button variant="default" onClick={rename}>
        {t.rename}
      </Button>
      <Button variant="default" onClick={chooseGroups}>
        {t.groups}
      </Button>
      {disabledAt === null ? (
        <Button variant="light" color="red" onClick={disable}>
          {t.disable}
        </Button>
      ) : (
        <Button onClick={enable}>{t.enable}</Button>
      )}
    </>
  );
}

function GroupsField({ isAll, groups }: { isAll: boolean; groups: readonly string[] }) {
  const t = useAccountTexts();
  const catalogue = useRead("readCatalogue").data;
  const field = useField("groups", {});
  return (
    <MultiSelect
      {...field}
      label={t.groups}
      data={[...new Set([...(catalogue?.groups.map((group) => group.name) ?? []), ...groups])]}
      value={isAll ? [] : [...groups]}
      disabled={isAll}
      searchable
      clearable
      clearButtonProps={{ "aria-label": `${t.groups} ×` }}
    />
  );
}

type Member = Item<"listMembers">;

function useMemberColumns(account: string, canManage: boolean) {
  const t = useAccountTexts();
  const c = useColumns<Member>();
  const changeRole = ({ name, user, role }: Member) => (
    <FormDialog
      title={t.changeRole(name)}
      submit={t.save}
      initialValues={{ role }}
      onSubmit={(body) => call("updateMember", { params: { account, user }, body })}
    >
      {(values) => <RoleField {...values} />}
    </FormDialog>
  );
  const remove = ({ name, user }: Member) => (
    <ConfirmDialog
      title={t.removeTitle(name)}
      submit={t.remove}
      consequence={t.removeWhy}
      onSubmit={() => call("removeMember", { params: { account, user } })}
    />
  );
  return [
    c.cell("name", t.name, Person, { sortBy: ({ name }) => name }),
    c.cell("role", t.role, ({ role }) => t[role], { sortBy: ({ role }) => roles.indexOf(role) }),
    c.cell("factor", t.secondFactor, ({ hasSecondFactor }) => (hasSecondFactor ? t.on : t.off)),
    c.day("createdAt", t.since),
    ...(canManage
      ? [
          c.actions((member) => (
            <>
              <RowButton onClick={() => openDialog(changeRole(member))}>{t.role}</RowButton>
              <RowButton isDestructive onClick={() => openDialog(remove(member))}>
                {t.remove}
              </RowButton>
            </>
          )),
        ]
      : []),
  ];
}

function Members({ account, canManage }: { account: string; canManage: boolean }) {
  const t = useAccountTexts();
  return (
    <Section
      title={t.members}
      aside={
        canManage && (
          <Button size="xs" onClick={() => openDialog(<InviteForm account={account} />)}>
            {t.invite}
          </Button>
        )
      }
    >
      <ListTable
        from={useList("listMembers", { params: { account } })}
        waitingRows={3}
        label={t.members}
        columns={useMemberColumns(account, canManage)}
        rowId="user"
        empty={<Empty title={t.noMembers} />}
      />
    </Section>
  );
}

function RoleField({ role }: { role: Role }) {
  const t = useAccountTexts();
  return (
    <SelectField
      name="role"
      label={t.role}
      description={t[`${role}Help`]}
      data={roles.map((value) => ({ value, label: t[value] }))}
      allowDeselect={false}
    />
  );
}

function InviteForm({ account }: { account: string }) {
  const t = useAccountTexts();
  const format = useFormats();
  return (
    <FormDialog
      title={t.inviteTitle}
      submit={t.invite}
      initialValues={{ role: "member" as Role, email: "" }}
      onSubmit={async ({ role, email }) => {
        const body = { role, email: email || undefined };
        const { url, expiresAt } = await call("createInvitation", { params: { account }, body });
        openDialog(
          <SecretDialog title={url === null ? t.sentTitle : t.linkTitle} done={t.done}>
            <Text>{(url === null ? t.sent : t.linkWhy)(format.time(expiresAt))}</Text>
            {url !== null && <CopyText value={url} />}
          </SecretDialog>,
        );
      }}
    >
      {(values) => (
        <>
          <RoleField {...values} />
          <EmailField description={t.emailHelp} data-autofocus />
        </>
      )}
    </FormDialog>
  );
}

function Invitations({ account }: { account: string }) {
  const t = useAccountTexts();
  const c = useColumns<Item<"listInvitations">>();
  const invitations = useList("listInvitations", { params: { account } });
  const open = invitations.data?.filter(({ state }) => state === "open") ?? [];
  if (open.length === 0) return null;
  const columns = [
    c.text("email", t.email, t.anyone),
    c.cell("role", t.role, ({ role }) => t[role]),
    c.time("expiresAt", t.expires),
    c.actions(({ id: invitation }) => (
      <RowButton isDestructive onClick={() => void change("revokeInvitation", { params: { account, invitation } })}>
        {t.revoke}
      </RowButton>
    )),
  ];
  return (
    <Section title={t.invitations}>
      <DataTable label={t.invitations} columns={columns} rows={open} />
    </Section>
  );
}

function Alerts({ account }: { account: string }) {
  const t = useAccountTexts();
  const c = useColumns<Item<"listAlerts">>();
  const columns = [
    c.time("at", t.at),
    c.cell("kind", t.kind, ({ kind }) => (
      <Badge color={kind === "budget.spent" ? "red" : "yellow"}>{t.kinds[kind]}</Badge>
    )),
    c.cell(
      "subject",
      t.subject,
      ({ subject, detail }) => `${subject}${detail.name ? ` (${String(detail.name)})` : ""}`,
    ),
  ];
  return (
    <Section title={t.alerts}>
      <ListTable
        from={useList("listAlerts", { query: { account } })}
        waitingRows={2}
        label={t.alerts}
        columns={columns}
        empty={<Empty title={t.noAlerts}>{t.noAlertsWhy}</Empty>}
      />
    </Section>
  );
}
